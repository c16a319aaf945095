"""What a pass used, for the account of its run: the same whether it was done here or is on record (D§11)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from tenter.agent import stand_in
from tenter.catalogue import DUPLICATE, SubtaskResult, SubtaskSpawnedEvent, ToolCallEvent, ToolResultEvent
from tenter.controls import Account, Used, call_digest, counted, result_digest, used_by
from tenter.harness.record import Ending, Pass
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Suspended


class Worked(NamedTuple):
    """How a pass of a leaf ended, the result of its work (None where there is none), and what that was given."""

    ending: Ending
    result: Event | None
    given: Event

    @property
    def came_to_no_work(self) -> bool:
        """Whether a hook ended it before its body: at `pre`, or at `in`, of which `acting` is on record."""
        return self.result is None and isinstance(self.ending, Suspended | Blocked | Escalated)


def hold(account: Account, op_id: str, operation: str) -> None:
    """Holds what a pass needs whose work was begun on record: those beside it must not use that."""
    used, _ = used_by(operation, None, True)
    account.hold(op_id, used)


def count(account: Account, turn: Pass, worked: Worked, *, begun: bool) -> Callable[[], None] | None:
    """Settles what the pass used. `begun` says whether its work was.

    Gives what counts its call as one more of its kind, to be done in the order of the calls; None where it was none.
    """
    ending, result, given = worked
    used, cost_known = used_by(turn.operation.name, result, begun)
    account.settle(turn.op.id, used, cost_known=cost_known)
    match ending:
        case Done(event=ToolResultEvent() as event):
            return partial(account.called, call_digest(event.call), result_digest(event.result))
        case Blocked(hook=hook) if hook == DUPLICATE and result is None:
            return account.refused
        case Failed() | Blocked() if isinstance(given, ToolCallEvent):
            return partial(account.called, call_digest(given.call), result_digest(stand_in(ending)))
        case _:
            return None


def count_recalled(account: Account, turn: Pass, ending: Ending) -> None:
    """Settles what a sub-run used that is on record with its end: it is not gone through again."""
    if turn.phase == "in" and isinstance(ending, Done):
        used, cost_known = used_of(cast("SubtaskSpawnedEvent", ending.event).result)
        account.settle(turn.op.id, used, cost_known=cost_known)


def used_of(result: SubtaskResult) -> tuple[Used, bool]:
    """What a sub-run used, and whether its cost is known, for the account of the run around it."""
    return counted(result.usage, result.cost_usd, model_calls=result.model_calls, tool_calls=result.tool_calls)
