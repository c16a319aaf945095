"""What a pass used, for the account of its run: the same whether it was done here or is on record (D§11)."""

from typing import NamedTuple, cast

from tenter.agent import stand_in
from tenter.catalogue import DUPLICATE, SubtaskResult, SubtaskSpawnedEvent, ToolCallEvent, ToolResultEvent
from tenter.controls import Account, Used, call_digest, result_digest, used_by
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


def count(account: Account, turn: Pass, worked: Worked, *, begun: bool) -> None:
    """Settles what the pass used, and looks whether its call is one that was made before.

    `begun` says whether its work was.
    """
    ending, result, given = worked
    used, cost_known = used_by(turn.operation.name, result, begun)
    account.settle(turn.op.id, used, cost_known=cost_known)
    match ending:
        case Done(event=ToolResultEvent() as event):
            account.called(call_digest(event.call), result_digest(event.result))
        case Failed() if isinstance(given, ToolCallEvent):
            account.called(call_digest(given.call), result_digest(stand_in(ending)))
        case Blocked(hook=hook) if hook == DUPLICATE and result is None:
            account.refused()
        case Blocked() if isinstance(given, ToolCallEvent):
            account.called(call_digest(given.call), result_digest(stand_in(ending)))
        case _:
            pass


def count_recalled(account: Account, turn: Pass, ending: Ending) -> None:
    """Settles what a sub-run used that is on record with its end: it is not gone through again."""
    if turn.phase == "in" and isinstance(ending, Done):
        used, cost_known = used_of(cast("SubtaskSpawnedEvent", ending.event).result)
        account.settle(turn.op.id, used, cost_known=cost_known)


def used_of(result: SubtaskResult) -> tuple[Used, bool]:
    """What a sub-run used, and whether its cost is known, for the account of the run around it."""
    tokens = result.usage.input_tokens + result.usage.output_tokens
    used = Used(
        tokens=tokens,
        cost_usd=result.cost_usd or 0.0,
        model_calls=result.model_calls,
        tool_calls=result.tool_calls,
    )
    return used, result.cost_usd is not None
