"""What the registry knows of a loop, as a value, and how a loop is listed. Pure: whether a process lives is told."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypedDict

import msgspec

from tenter.catalogue import EMPTY
from tenter.executors import ProcessId
from tenter.kernel import FrozenStruct
from tenter.loop.document import decode_document, encode_document, well_formed
from tenter.loop.reason import Reason, Standing
from tenter.loop.release import Release
from tenter.loop.state import Asked
from tenter.loop.suspension import SUSPEND_VERSION, SuspendState

Kept = Literal["running", "suspended", "completed", "cancelled", "failed"]
"""The standing as the loop itself last said it. That it crashed, others find out."""


class Question(FrozenStruct, frozen=True):
    """A question that a loop waits with; an answer names its id."""

    question_id: str
    asked: Asked


class LoopRow(FrozenStruct, frozen=True, kw_only=True):
    """One loop. Times are in seconds since the epoch; paths are absolute, links followed."""

    loop_id: str
    primary: bool
    """Whether it works in the project itself."""
    project: str
    workspace: str
    config: str
    """The configuration file."""
    branch: str | None = None
    """The branch of its git worktree, where it has one."""
    pid: int
    started: str
    """With `pid`, the process that runs it (`ProcessId`)."""
    taken_at: float = 0.0
    """Since when it is in the hands of that process; the registry says it."""
    status: Kept = "running"
    reason: Reason | None = None
    """Why it ended; None until then."""
    message: str = ""
    prompt: str = ""
    iteration: int = 0
    started_at: float
    ended_at: float | None = None
    suspension: SuspendState | None = None
    """The suspension that it is in."""
    released: Release | None = None
    """What ended its last suspension."""
    question: Question | None = None
    """What a person is asked."""
    backend: str = ""
    request: Mapping[str, object] = EMPTY
    """What another process needs to continue it: JSON, and opaque here."""

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.started)

    def but(self, **changes: object) -> "LoopRow":
        """The row with `changes`."""
        return msgspec.structs.replace(self, **changes)


class Changes(TypedDict, total=False):
    """What of a row changes while the loop runs."""

    status: Kept
    reason: Reason | None
    message: str
    iteration: int
    ended_at: float | None
    suspension: SuspendState | None
    question: Question | None
    request: Mapping[str, object]


def status_of(row: LoopRow, alive: bool) -> Standing:
    """How the loop is listed, where its process is alive or is not."""
    match row.status:
        case "running":
            return "running" if alive else "crashed"
        case _:
            return row.status


def has_ended(row: LoopRow) -> bool:
    """Whether the loop came to its end: nothing continues it."""
    return row.status not in ("running", "suspended")


def holds(row: LoopRow, alive: bool) -> bool:
    """Whether nobody else may work in its workspace: a suspended loop holds it even when its process is gone."""
    return status_of(row, alive) in ("running", "suspended")


COLUMNS: Final[Sequence[str]] = LoopRow.__struct_fields__
"""The columns of the registry's table, in order."""


def column(value: object) -> object:
    """A field as SQLite keeps it."""
    match value:
        case str():
            return well_formed(value)
        case msgspec.Struct():
            return encode_document(value).decode()
        case Mapping():
            return json.dumps(value)  # which keeps half surrogate pairs
        case _:
            return value


def row_of(columns: Sequence[object]) -> LoopRow:
    """The row that was kept so. Raises ValueError for what no row was."""
    found = dict(zip(COLUMNS, columns, strict=True))
    found["primary"] = bool(found["primary"])
    found["request"] = json.loads(str(found["request"]))
    for name, (kind, version) in _DOCUMENTS.items():
        if (data := found[name]) is not None:
            found[name] = decode_document(str(data).encode(), kind, version=version)
    return msgspec.convert(found, LoopRow)


_DOCUMENTS: Final[Mapping[str, tuple[type[msgspec.Struct], int]]] = {
    "suspension": (SuspendState, SUSPEND_VERSION),
    "released": (Release, 1),
    "question": (Question, 1),
}
