"""That a loop is suspended, in a file of its workspace: seed 001's record, and with it every hook that asked for it.

It is written before the wait begins and is what a later process continues from. It decides nothing.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from tenter.executors import SuspendMode
from tenter.kernel import OnTimeout, TenterError
from tenter.loop.document import NewerVersion, Unreadable, decode_document, encode_document
from tenter.loop.place import Place
from tenter.loop.whole_file import put, read_regular, sync_folder

SUSPEND_VERSION: Final = 1


class Suspender(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hook that suspended, and why."""

    hook_name: str
    reason: str
    code: str
    suspend_mode: SuspendMode
    expires_at: float | None = None
    """When it is no more waited for, in seconds since the epoch; None: it is waited for without an end."""
    on_timeout: OnTimeout = "block"
    """What the loop does then."""


class SuspendState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The suspend state (seed 001 E). What it says of one hook is said of the first of `suspensions`."""

    schema_version: Literal[1] = SUSPEND_VERSION
    state: Literal["suspended"] = "suspended"
    loop_id: str
    phase_event: str
    """Where, as `pre.iteration.start`."""
    path: str = ""
    """Which call of that operation, as `<iteration>.<operation>.<index>`; empty where an earlier version wrote it."""
    hook_name: str
    reason: str
    suspend_mode: SuspendMode
    suspended_at: Annotated[str, msgspec.Meta(pattern=r"^\d{4,}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
    suspension_id: str
    """New for each suspension; a signal names it."""
    suspensions: tuple[Suspender, ...]


class StateUnreadable(TenterError):
    """There is a suspend state and nobody can tell what it says. The text names the file and what to do."""


def write_state(place: Place, state: SuspendState) -> None:
    """Puts the state into the workspace, whole or not at all; it is on disk on return.

    Raises TenterError, naming the file, where it cannot be written.
    """
    path = place.suspend_state
    try:
        put(path, encode_document(state))
    except OSError as error:
        raise TenterError(
            f"the suspend state {str(path)!r} cannot be written ({error.strerror}), and the loop does not wait without "
            "it; check the folder and the room on its disk"
        ) from error


def read_state(place: Place) -> SuspendState | None:
    """The state in the workspace; None where there is none.

    Raises StateUnreadable for anything that is no state of this version: damaged, of a newer version, no regular file,
    not ours to read.
    """
    path = place.suspend_state
    try:
        data = read_regular(path)
    except OSError as error:
        raise _unreadable(path, error.strerror, "check what is there and its permissions") from error
    if data is None:
        return None
    try:
        return decode_document(data, SuspendState, version=SUSPEND_VERSION)
    except NewerVersion as error:
        raise _unreadable(path, error, "upgrade tenter") from error
    except Unreadable as error:
        raise _unreadable(path, error, "put it right, or take it away to give the suspension up") from error


def clear_state(place: Place) -> None:
    """Takes the state away; that there is none is no error. Raises TenterError, naming the file, where it cannot."""
    path = place.suspend_state
    try:
        path.unlink()
        sync_folder(path.parent)
    except FileNotFoundError:
        return  # it, or the folder that it was in
    except OSError as error:
        raise TenterError(
            f"the suspend state {str(path)!r} cannot be taken away ({error.strerror}); take it away yourself, or the "
            "loop looks suspended"
        ) from error


def _unreadable(path: Path, detail: object, advice: str) -> StateUnreadable:
    return StateUnreadable(f"the suspend state {str(path)!r} cannot be read ({detail}); {advice}")
