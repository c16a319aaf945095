"""Redaction: no secret that was told, and no unmistakable key, goes on from here (D§3.4, D§8).

One `Redactor` serves a whole runtime. Patterns and secrets are given to it; it knows no agent word.
"""

import asyncio
import contextlib
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar, cast

from tenter.kernel.masking import FuzzyPair, KeyPattern, TextMask, is_ignored
from tenter.kernel.walker import Redacted, Walker

T = TypeVar("T")
Note = Callable[[str], object]

CHARACTERS_AT_ONCE: Final = 256 * 1024
"""As much new text is looked through where the caller stands (about 1 ms); more goes to a thread of its own."""
VALUES_AT_ONCE: Final = 2_000
"""As many new values (about 6 ms)."""
LONGEST_EXCEPTION: Final = 16_384
"""Characters of an exception's text that are kept: an author may put megabytes into one."""
LONGEST_NAME: Final = 256
"""Characters of the name of an exception's class."""
MOST_TOLD: Final = 20
"""So many exceptions of one chain and group are told, so many notes of one, and so many calls of its stack."""
_UNTOLD: Final = "… (more exceptions)\n"


class Redactor:
    """Masks told secrets and published keys in values; with `fuzzy=True` also what looks like a secret by its name.

    Fuzzy is for what people and other processes see (D§3.4), never for journal operation entries, nor for what a tool
    writes. It walks text, bytes, paths, tuples, lists, sets, mappings (keys too), structs and dataclasses. A struct
    class may name fields in `__opaque__: ClassVar[tuple[str, ...]]`: mappings whose entries are never edited, but
    dropped whole, with a note, when something in them would be masked.

    A number, UUID or enum member becomes the text of the mask when what is written for it holds a told value; one under
    8 characters must be all of a number, and a field of a struct or dataclass may be just that number. Of a told value
    with several lines, each of 16 characters or more is masked by itself, but no `-----` line.
    """

    def __init__(
        self,
        *,
        secrets: Iterable[str | bytes] = (),
        patterns: Iterable[KeyPattern] = (),
        fuzzy: Iterable[FuzzyPair] = (),
    ) -> None:
        """Raises ValueError for a pattern that RE2 refuses, naming it."""
        values, patterns, fuzzy = tuple(secrets), tuple(patterns), tuple(fuzzy)
        self.ignored: Final = tuple(n for n, value in enumerate(values) if is_ignored(value))
        """Positions of the secrets that are not looked for: under 4 characters, blank, or a part of the mask."""
        self._strict: Final = Walker(TextMask(values, patterns=patterns))
        self.has_rules: Final = bool(self._strict.mask)
        """Whether `redact` looks for anything when it is not fuzzy."""
        self.known_clean: Final[Callable[[object], bool]] = self._strict.knows
        """Whether this very value is known to hold nothing to mask, and to be frozen all the way down.

        A lookup, for hot paths; False is no verdict. What `redact` gave back is known unless something in it can change
        (or so much came since that it was forgotten).
        """
        self._fuzzy: Final = Walker(TextMask(values, patterns=patterns, fuzzy=fuzzy))

    def redact(self, value: T, *, fuzzy: bool = False, note: Note | None = None) -> T:
        """`value` with everything masked, the same object when nothing was; it is remembered when it is frozen.

        `note` is told of each entry dropped from an opaque field. Raises TypeError for an object that cannot be looked
        into, and ValueError where something must be masked more than 200 levels deep. Runs where it is called: about
        2 ms for 1 MB of clean text.
        """
        return cast(T, _told(self._walker(fuzzy).redact(value), note))

    async def apply(self, value: T, *, fuzzy: bool = False, note: Note | None = None) -> T:
        """As `redact`, but a value with much new in it is walked in a thread: the event loop goes on."""
        walker = self._walker(fuzzy)
        done = walker.redact_little(value, characters=CHARACTERS_AT_ONCE, values=VALUES_AT_ONCE)
        return cast(T, _told(done or await _in_thread(lambda: walker.redact(value)), note))

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
        """Type, message, notes, causes and group of an exception, each on its lines, fuzzily masked; with its stack if
        asked.

        What it costs is bounded, but for what the exception itself does to tell its text.
        """
        text = ""
        for line in _lines(error, stack=stack):
            text += line
            if len(text) > LONGEST_EXCEPTION:
                break
        else:
            return self.mask_fuzzy(text.strip())
        return self.mask_cut(text[:LONGEST_EXCEPTION]) + "… (cut)"

    def mask_exception_name(self, error: BaseException) -> str:
        """The name of an exception's class, masked: a class can be made with any name."""
        name = str.__str__(type.__dict__["__name__"].__get__(type(error)))  # as Python itself knows it
        return self.mask_text(name) if len(name) <= LONGEST_NAME else self.mask_cut(name[:LONGEST_NAME]) + "… (cut)"

    def _walker(self, fuzzy: bool) -> Walker:
        return self._fuzzy if fuzzy else self._strict


def _told(redacted: Redacted, note: Note | None) -> object:
    value, notes = redacted
    if note is not None:
        for text in notes:
            note(text)
    return value


def _lines(error: BaseException, *, stack: bool) -> Iterator[str]:
    """The text of `error` and what belongs to it. `traceback` would build it all, of a group of any size."""
    pending, seen = [("", error)], {id(error)}
    for _ in range(MOST_TOLD):
        if not pending:
            return
        why, one = pending.pop()
        yield why
        if stack and one.__traceback__ is not None:
            yield "Traceback (most recent call last):\n"
            yield from traceback.format_tb(one.__traceback__, limit=-MOST_TOLD)
        yield from _told_alone(one)
        cause = one.__context__ if one.__cause__ is None and not one.__suppress_context__ else one.__cause__
        more = [("because of ", cause)] if cause is not None else []
        if isinstance(one, BaseExceptionGroup):
            inner = cast("BaseExceptionGroup[BaseException]", one).exceptions
            more += [("", each) for each in reversed(inner[: MOST_TOLD + 1])]
        pending += [(why, each) for why, each in more if id(each) not in seen]
        seen.update(id(each) for _, each in more)
    if pending:
        yield _UNTOLD


def _told_alone(error: BaseException) -> Iterator[str]:
    """Type, message and notes, as `traceback` has it."""
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"
    text = _text_of(error)
    line = f"{name[:LONGEST_EXCEPTION]}: {text}\n" if text else f"{name[:LONGEST_EXCEPTION]}\n"
    if isinstance(error, SyntaxError):
        with contextlib.suppress(Exception):  # its place can be anything; then only its text is told
            place = SyntaxError(*error.args)  # without what `traceback` would follow
            line = "".join(traceback.TracebackException(cls, place, None).format_exception_only())
    yield line
    notes: object = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        yield from (f"{_text_of(note)}\n" for note in cast("list[object]", notes)[:MOST_TOLD])


def _text_of(told: object) -> str:
    try:
        text = str(told)
    except BaseException:  # whatever an author's `__str__` raises: what is told of is another failure
        return f"<{'exception' if isinstance(told, BaseException) else 'note'} str() failed>"
    return str.__str__(text)[: LONGEST_EXCEPTION + 1]


async def _in_thread(work: Callable[[], Redacted]) -> Redacted:
    """The result of `work`, done in a daemon thread of its own: a pool may be full of somebody's hung work."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Redacted] = loop.create_future()

    def settle(result: Redacted | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(Redacted, result))

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as failed:  # a value may run its author's code, and nobody hears of a thread that ends
            told = isinstance(failed, Exception) and not isinstance(failed, StopIteration)
            error = failed if told else RuntimeError(f"looking through a value raised {type(failed).__name__}")
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="tenter-redaction", daemon=True).start()
    return await future
