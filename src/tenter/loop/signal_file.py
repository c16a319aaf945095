"""How a loop is told something by another process: a file in its workspace, for one use (seed 001, "Idempotency").

A signal appears whole and is claimed by a rename, so that of two who claim it one gets it. What was meant for another
suspension, or is no signal at all, is set aside and does nothing. Nobody waits here.
"""

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, Literal, TypeVar, assert_never

import msgspec

from tenter.kernel import TenterError
from tenter.loop.document import Unreadable, decode_document, encode_document
from tenter.loop.place import Place, SignalKind
from tenter.loop.reason import ReleaseHow
from tenter.loop.release import By
from tenter.loop.suspension import StateUnreadable, read_state
from tenter.loop.whole_file import private_name, put, put_new, read_regular

SIGNAL_VERSION: Final = 1
TRIES: Final = 10
"""How often a signal is written where others come and go at the same moment."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to a loop. A `resume` is meant for one suspension; `stop` and `restart` for the loop as it is."""

    schema_version: Literal[1] = SIGNAL_VERSION
    kind: ReleaseHow
    loop_id: str
    suspension_id: str | None
    at: str
    """When, as `2026-02-28T15:31:00Z`."""
    by: By


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's answer to one question of a loop."""

    schema_version: Literal[1] = SIGNAL_VERSION
    kind: Literal["answer"] = "answer"
    loop_id: str
    question_id: str
    text: str
    at: str
    by: By


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """What stood where a signal is looked for and does nothing.

    The file is kept beside its place; what may hold a person's answer is removed.
    """

    kind: SignalKind
    why: str
    path: str | None
    """Where it is kept; None where it was removed."""

    @property
    def text(self) -> str:
        """The whole of it, for people."""
        if self.path is None:
            return f"an {self.kind} was set aside and removed: {self.why}"
        return f"a {self.kind} signal was set aside, as {self.path!r}: {self.why}"


Written = Literal["written", "already", "stale", "occupied"]
"""`already`: one that means the same was there; `stale`: one for the present suspension was there, and ours is not;
`occupied`: one for another loop was there, which lives and has not heard it yet."""

T = TypeVar("T", bound=msgspec.Struct)


def nobody_else(_: str) -> bool:
    """That no other loop lives in the workspace."""
    return False


def write_signal(place: Place, signal: Signal | Answer, *, lives: Callable[[str], bool] = nobody_else) -> Written:
    """Puts a signal into the workspace; it is on disk on return. Of answers to one question the first counts.

    What is left there of another suspension, or of another loop (its id) that does not live, is replaced. Raises
    TenterError, naming the file, where it cannot be written, and for a signal that is meant for another loop than the
    place's.
    """
    if signal.loop_id != place.loop_id:
        raise TenterError(
            f"a signal for the loop {signal.loop_id!r} is not put where {place.loop_id!r} looks for its own"
        )
    path = place.signal(signal.kind)
    try:
        for _ in range(TRIES):
            with _trying(place):
                if put_new(path, encode_document(signal)):
                    return "written"
                if (written := _beside(place, path, signal, lives)) is not None:
                    return written
    except OSError as error:
        raise TenterError(
            f"the signal {str(path)!r} cannot be written ({error.strerror}); check that the loop's workspace is there, "
            "what is in the file's place, and the room on its disk"
        ) from error
    raise TenterError(f"the signal {str(path)!r} comes and goes all the time; see who writes it, and try again")


def take_signal(place: Place, kind: ReleaseHow, *, loop_id: str, suspension_id: str | None) -> Signal | SetAside | None:
    """Claims what is there: the signal, where it is meant for this loop (a resume: for this suspension); None for none.

    Once claimed it is gone, whoever else looks. Raises TenterError, naming the file, where it cannot be claimed.
    """

    def misses(found: Signal) -> str | None:
        if found.kind != kind:
            return f"it is a {found.kind}"
        if found.loop_id != loop_id:
            return f"it is meant for the loop {found.loop_id!r}"
        if kind == "resume" and found.suspension_id != suspension_id:
            return f"it is meant for the suspension {found.suspension_id!r}, and not for {suspension_id!r}"
        return None

    return _claim(place, kind, Signal, misses)


def take_answer(place: Place, *, loop_id: str, question_id: str) -> Answer | SetAside | None:
    """As `take_signal`, for the answer to this question."""

    def misses(found: Answer) -> str | None:
        if (found.loop_id, found.question_id) == (loop_id, question_id):
            return None
        return f"it answers the question {found.question_id!r} of the loop {found.loop_id!r}"

    return _claim(place, "answer", Answer, misses)


@contextlib.contextmanager
def _trying(place: Place) -> Generator[None]:
    """Tries again where a loop that ends just now takes away what lies beside its signals."""
    try:
        yield
    except FileNotFoundError:
        if not place.signals.is_dir():
            raise


def _beside(place: Place, path: Path, signal: Signal | Answer, lives: Callable[[str], bool]) -> Written | None:
    """What becomes of a signal where something is in its place; None to try again, as that went meanwhile."""
    try:
        data = read_regular(path)
        if data is None:
            return None
        compared = _compared(place, signal, data, lives)
    except (OSError, Unreadable):
        compared = None  # what is there is no signal; `put` says where it is a folder
    if compared is None:
        put(path, encode_document(signal))
    return compared or "written"


def _compared(
    place: Place, signal: Signal | Answer, data: bytes, lives: Callable[[str], bool]
) -> Literal["already", "stale", "occupied"] | None:
    """What the one that is there makes of ours; None where it means nothing any more."""
    found = decode_document(data, type(signal), version=SIGNAL_VERSION)
    if found.loop_id != signal.loop_id:
        return "occupied" if lives(found.loop_id) else None
    match signal:
        case Answer():
            is_same = isinstance(found, Answer) and found.question_id == signal.question_id
            return "already" if is_same else None
        case Signal():
            if not isinstance(found, Signal) or found.kind != signal.kind:
                return None
            if signal.kind != "resume" or found.suspension_id == signal.suspension_id:
                return "already"
            return "stale" if found.suspension_id == _present(place) else None
        case _:
            assert_never(signal)


def _present(place: Place) -> str | None:
    """The suspension that the loop is in; None where it is in none, or that cannot be read."""
    try:
        state = read_state(place)
    except StateUnreadable:
        return None
    return None if state is None else state.suspension_id


def _claim(place: Place, kind: SignalKind, wanted: type[T], misses: Callable[[T], str | None]) -> T | SetAside | None:
    path = place.signal(kind)
    claimed = private_name(path)
    try:
        path.rename(claimed)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TenterError(
            f"the signal {str(path)!r} cannot be claimed ({error.strerror}); check what is there and its permissions"
        ) from error
    try:
        found = _read(claimed, wanted)
        if found is None or (why := misses(found)) is None:
            with contextlib.suppress(OSError):  # it is claimed all the same: nobody looks at that name
                claimed.unlink()
            return found
    except OSError as error:
        why = error.strerror or str(error)
    except Unreadable as error:
        why = str(error)
    kept = _set_aside(path, claimed, is_kept=kind != "answer")
    return SetAside(kind=kind, why=why, path=None if kept is None else str(kept))


def set_aside_of(path: Path) -> Path:
    """Where what was set aside of a signal is kept: the last one, so that such files do not pile up."""
    return path.with_name(f"{path.name}.set-aside")


def _set_aside(path: Path, claimed: Path, *, is_kept: bool) -> Path | None:
    """Where it is kept now; None where it is gone. A folder is kept in any case."""
    try:
        if is_kept:
            return claimed.replace(set_aside_of(path))
        claimed.unlink()
    except OSError:  # a folder, or something beside one
        return claimed
    return None


def _read(path: Path, kind: type[T]) -> T | None:
    data = read_regular(path)
    return None if data is None else decode_document(data, kind, version=SIGNAL_VERSION)
