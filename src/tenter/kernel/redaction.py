"""The redaction walker: masks what `TextMask` finds anywhere in a value (D§3.4, D§8).

What was redacted before is remembered by identity, so that a run is linear in its conversation: a value that is frozen
all the way down is looked through once. Patterns and secrets are given; no agent word is known here.
"""

import asyncio
import dataclasses
import threading
import traceback
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import attrgetter
from pathlib import PurePath
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec

from tenter.kernel.frozen import MAX_DEPTH, FrozenDict, is_atom, rebuilt
from tenter.kernel.masking import MASK, FuzzyPair, KeyPattern, TextMask, is_ignored

T = TypeVar("T")
Note = Callable[[str], object]

INLINE_CHARS: Final = 256 * 1024
"""As much new text is looked through where the caller stands (about 0.5 ms); more goes to a thread of its own."""
INLINE_VALUES: Final = 10_000
"""As many new values."""
REMEMBERED: Final = 16 << 20
"""Bytes of remembered values, roughly, in each of two generations."""
_WORTH_REMEMBERING: Final = 1024  # characters of a text that is remembered by itself
_CONTAINER_BYTES: Final = 100
_SEPARATOR: Final = "\0"  # no rule matches across it but one that names it, and that is then found out


class Redactor:
    """Masks told secrets and published keys in values; with `fuzzy=True` also what looks like a secret by its name.

    Fuzzy is for what people and other processes see (D§3.4), never for journal operation entries, nor for what a tool
    writes. It walks text, bytes, paths, tuples, lists, sets, mappings (keys too), structs and dataclasses. A struct
    class may name fields in `__opaque__: ClassVar[tuple[str, ...]]`: mappings whose entries are never edited, but
    dropped whole, with a note, when something in them would be masked.
    """

    def __init__(
        self,
        *,
        secrets: Iterable[str | bytes] = (),
        patterns: Iterable[KeyPattern] = (),
        fuzzy: Iterable[FuzzyPair] = (),
    ) -> None:
        """Raises ValueError for a pattern that RE2 refuses or a secret too long to be looked for."""
        values, patterns, fuzzy = tuple(secrets), tuple(patterns), tuple(fuzzy)
        self.ignored: Final = tuple(n for n, value in enumerate(values) if is_ignored(value))
        """Positions of the secrets that are not looked for: under 4 characters, blank, or a part of the mask."""
        self._strict: Final = _Walker(TextMask(values, patterns=patterns), ())
        self._fuzzy: Final = _Walker(TextMask(values, patterns=patterns, fuzzy=fuzzy), fuzzy)

    def known_clean(self, value: object) -> bool:
        """Whether this very value is known to hold nothing to mask: a lookup, for hot paths. False is no verdict."""
        return self._strict.knows(value)

    def redact(self, value: T, *, fuzzy: bool = False, note: Note | None = None) -> T:
        """`value` with everything masked, the same object when nothing was; it is remembered when it is frozen.

        `note` is told of each entry dropped from an opaque field. Raises TypeError for an object that cannot be looked
        into, and ValueError where something must be masked more than 200 levels deep. Runs where it is called: about
        2 ms for 1 MB of clean text.
        """
        redacted, notes = self._walker(fuzzy).redact(value)
        _tell(note, notes)
        return redacted

    async def apply(self, value: T, *, fuzzy: bool = False, note: Note | None = None) -> T:
        """As `redact`, but a value with much new in it is walked in a thread: the event loop goes on."""
        walker = self._walker(fuzzy)
        if (done := walker.redact_little(value)) is None:
            done = await _in_thread(lambda: walker.redact(value))
        redacted, notes = done
        _tell(note, notes)
        return cast(T, redacted)

    def mask_text(self, text: str) -> str:
        """`text` with told secrets and published keys masked."""
        return self._strict.mask.mask(text)

    def mask_fuzzy(self, text: str) -> str:
        """`text` with what looks like a secret masked as well."""
        return self._fuzzy.mask.mask(text)

    def mask_cut(self, text: str, *, start: bool = False, end: bool = True) -> str:
        """As `mask_fuzzy`, for a text that was cut at its start or end: half a secret there is masked, too."""
        return self._fuzzy.mask.mask_cut(text, start=start, end=end)

    def mask_exception_text(self, error: BaseException, *, stack: bool = False) -> str:
        """Type, message, notes, cause and group of an exception as text, fuzzily masked; with its stack if asked."""
        told = traceback.TracebackException.from_exception(error)
        if not stack:
            _without_stack(told)
        return self.mask_fuzzy("".join(told.format()).strip())

    def _walker(self, fuzzy: bool) -> "_Walker":
        return self._fuzzy if fuzzy else self._strict
