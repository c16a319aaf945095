"""What the hooks of a loop are told of it (D§9, seed 001): loop, iteration, context, and which call it is. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tenter.catalogue import EMPTY, LoopFacts, Op
from tenter.kernel import FrozenDict
from tenter.loop.state import Asked, LoopState

START_TOPIC: Final = "task.start"
"""What the body of `loop.start` publishes."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Which loop it is: the `loop` of the payload, and the last allowed iteration. Paths are absolute."""

    id: str
    is_primary: bool
    workspace: str
    repo_root: str
    pid: int
    max_iterations: int


def facts_of(identity: Identity, state: LoopState) -> LoopFacts:
    """What stands in `event.op.loop` at this moment. The five keys of the context are always there."""
    loop = {name: getattr(identity, name) for name in ("id", "is_primary", "workspace", "repo_root", "pid")}
    context = {
        "active_hat": state.active_hat,
        "selected_hat": state.selected_hat,
        "selected_task": state.selected_task,
        "termination_reason": state.reason,
        "human_interact": None if state.batch is None else _interact(state.batch.asked),
    }
    return LoopFacts(
        loop=loop,
        iteration={"current": state.iteration, "max": identity.max_iterations},
        context=context,
        accumulated=accumulated(state.metadata),
    )


def accumulated(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """The reserved namespace of what hooks said (seed 001 C)."""
    return FrozenDict({"hook_metadata": metadata}) if metadata else EMPTY


def op_of(identity: Identity, state: LoopState, operation: str, index: int = 0) -> Op:
    """Which call it is. `id` is the same at `pre` and `post`; `index` counts the calls of an iteration."""
    path = path_of(state, operation, index)
    return Op(id=f"{identity.id}/{path}", path=path, pass_=state.passes, loop=facts_of(identity, state))


def path_of(state: LoopState, operation: str, index: int = 0) -> str:
    """Which call it is, within its loop."""
    return f"{state.iteration}.{operation}.{index}"


def _interact(asked: Asked | None) -> Mapping[str, object] | None:
    if asked is None:
        return None
    return {"question": asked.question, "outcome": asked.outcome, "answer": asked.answer}
