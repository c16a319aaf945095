"""Who a run is and which call an event belongs to (D§4.1). Built by an engine, pinned, never changed by a hook."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tenter.kernel import FrozenDict, FrozenStruct

EMPTY: Mapping[str, object] = FrozenDict()


class TaskRef(FrozenStruct, frozen=True, kw_only=True):
    """One execution's task: `id` is this task's own, `name` and `version` are of the configuration."""

    id: str
    name: str
    version: int = 1


class Participant(FrozenStruct, frozen=True, kw_only=True):
    id: str
    kind: Literal["human", "agent"]
    role: str = ""


class Envelope(FrozenStruct, frozen=True, kw_only=True):
    """Who this run is. The same value stands in every event of the run."""

    run_id: str
    task: TaskRef
    correlation_id: str
    session_id: str | None = None
    principal: str | None = None
    participants: tuple[Participant, ...] = ()
    entities: tuple[str, ...] = ()
    """References to what the run is about, such as `ticket:4711`."""
    metadata: Mapping[str, object] = EMPTY
    parent_run_id: str | None = None


class LoopFacts(FrozenStruct, frozen=True, kw_only=True):
    """The loop around a run, as its payload shows it (D§9); None for a run on its own."""

    loop: Mapping[str, object] = EMPTY
    iteration: Mapping[str, object] = EMPTY
    context: Mapping[str, object] = EMPTY
    accumulated: Mapping[str, object] = EMPTY


class Approval(FrozenStruct, frozen=True, kw_only=True):
    """A person's decision that a call carries on its next pass: for which hooks, and for exactly which call.

    `asked` names what each of them asked for (`Requirement.name`): a hook of that name at another point, or one that
    asks for something else now, is not answered by it.
    """

    id: str
    hooks: tuple[str, ...]
    asked: tuple[str, ...] = ()
    digest: str
    by: str = ""


class Op(FrozenStruct, frozen=True, kw_only=True):
    """Which call this is. A hook pairs `pre` and `post` by `id`.

    `path` is `step.operation.index`; `pass_` counts dispatches of it, `attempt` executions of the body. `deadline` is
    in seconds since the epoch.
    """

    id: str
    path: str = ""
    pass_: int = msgspec.field(default=1, name="pass")
    attempt: int = 1
    parent: str | None = None
    deadline: float | None = None
    approval: Approval | None = None
    loop: LoopFacts | None = None
