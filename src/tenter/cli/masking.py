"""Takes secrets out of what is printed (D§3.4), where no harness is at hand that knows them."""

import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Final, cast

Masking = Callable[[str], str]
"""Takes secrets, and what looks like one, out of a text."""

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL", re.IGNORECASE)


def mask(environment: Mapping[str, str] = os.environ) -> Masking:
    """Masks published keys, what looks like a secret, and the values of variables that are called like secrets."""
    # Late, because building the patterns costs more than a verb that prints nothing foreign should pay.
    from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS
    from tenter.kernel import TextMask

    values = [value for name, value in environment.items() if _SECRET_NAME.search(name)]
    return TextMask(values, patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS).mask


def mask_of(config: str, environment: Mapping[str, str] = os.environ) -> Masking:
    """Masks what `mask` does, and the values that the file at `config` and the user's file name as `secrets`.

    The files are read when there is something to mask, once, as far as they can be.
    """
    told = told_mask_of(config, environment)

    @functools.cache
    def guessed() -> Masking:
        return mask(environment)

    return lambda text: guessed()(told(text))


def told_mask_of(config: str, environment: Mapping[str, str] = os.environ) -> Masking:
    """Masks what is certainly a secret, for what goes on record: told values, the journal's key and published keys.

    The files are read when there is something to mask, once, as far as they can be.
    """

    @functools.cache
    def told() -> Masking:
        from tenter.config import secret_names
        from tenter.controls import PUBLISHED_KEYS
        from tenter.journal import KEY_VARIABLE
        from tenter.kernel import TextMask

        names = {*secret_names(config, environment), KEY_VARIABLE}
        values = [environment[name] for name in sorted(names) if name in environment]
        return TextMask(values, patterns=PUBLISHED_KEYS).mask

    def masking(text: str) -> str:
        return told()(text)

    return masking


def masked(value: object, masking: Masking) -> object:
    """`value`, of JSON, with every text in it masked; its keys stay."""
    if isinstance(value, str):
        return masking(value)
    if isinstance(value, Mapping):
        return {name: masked(one, masking) for name, one in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [masked(one, masking) for one in cast("list[object]", value)]
    return value
