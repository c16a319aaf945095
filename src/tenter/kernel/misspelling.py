"""What the author of a `Hook` class is likely to have meant by an attribute that is none of the mechanism's (D§16)."""

import difflib
from collections.abc import Callable, Mapping

from tenter.kernel.declaration import BANDS, MODES, Hook
from tenter.kernel.errors import RegistrationError
from tenter.kernel.point import POLICIES, Catalogue


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_MISSPELT = 0.75
"""How like a setting's name another must be, as `difflib` has it, to be held for a misspelling of it."""

_SETTINGS: Mapping[str, Callable[[object], bool]] = {
    "name": lambda value: isinstance(value, str),
    "band": lambda value: isinstance(value, str) and value in BANDS,
    "priority": lambda value: type(value) is int,
    "on_error": lambda value: isinstance(value, str) and value in POLICIES,
    "timeout": _is_number,
    "match": lambda value: isinstance(value, Mapping),
    "observe": lambda value: isinstance(value, bool),
    "mode": lambda value: isinstance(value, str) and value in MODES,
}
"""The settings of a `Hook` class, with what looks like a value of each."""


def refuse_misspelt(cls: type[Hook]) -> None:
    """A setting that is not the one its author meant leaves the default in force: raises RegistrationError.

    State of the class's own may have a name like a setting's, so that its value must be one that the setting takes.
    """
    for owner in cls.__mro__:
        if owner is Hook or not issubclass(owner, Hook):
            continue
        for name, value in vars(owner).items():
            if name in _SETTINGS or name.startswith(("_", "on_")):
                continue
            near = difflib.get_close_matches(name, _SETTINGS, n=1, cutoff=_MISSPELT)
            if near and _SETTINGS[near[0]](value):
                raise RegistrationError(
                    f"{owner.__qualname__}.{name} is no setting of a hook; did you mean {near[0]!r}? Begin a name of "
                    "your own with '_'"
                )


def meant(name: str, catalogue: Catalogue) -> str:
    """A clause that names what the author of the attribute `name` is likely to have meant."""
    if difflib.get_close_matches(name, ["on_error", *catalogue.methods], n=1) == ["on_error"]:
        return "; did you mean the setting 'on_error'?"
    return catalogue.nearest(name.removeprefix("on_").replace("_", "."))
