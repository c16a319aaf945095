"""The checks before a tool acts or a model is asked (D§5, D§14): hooks of the innermost band, so that they judge what
will really happen, also after an `in` hook handed on another call.

What a check says is decided without I/O (`checks`, `policy`, `budget`); here each is given what it asks for, and leaves
one note in the run's trace: what it came to, without content. Which tools there are, what a run has used, and where
notes go is told from outside (`Desk`). A refused tool call is an error result for the model, like every Block at this
point; a refusal for the sake of a budget ends the run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tenter.catalogue import DUPLICATE, ModelRequestEvent, ToolCallEvent, ToolInfo
from tenter.controls.account import Account, Used
from tenter.controls.budget import MODEL_CALL, TOOL_CALL, model_call, shortage
from tenter.controls.checks import (
    check_again,
    check_call,
    check_offered,
    check_principal,
    check_repeated,
    check_risk,
    unknown_tool,
)
from tenter.controls.policy import Judged, Rule, ToolRules
from tenter.controls.prices import Prices
from tenter.kernel import Block, Declaration, Detail, Escalate, FrozenDict, Suspend

Call = ToolCallEvent | ModelRequestEvent

Said = ToolCallEvent | Block | Suspend | Escalate | None


class Desk(Protocol):
    """Whom the checks ask, and who takes their notes."""

    def known(self) -> Mapping[str, ToolInfo]:
        """Every tool of the configuration, by name."""
        ...

    def offered(self, event: ToolCallEvent, /) -> Mapping[str, ToolInfo]:
        """The tools that the task of the call offers, by name."""
        ...

    def account(self, event: Call, /) -> Account | None:
        """The account of the call's run; None where nothing is counted."""
        ...

    def prices(self, event: ModelRequestEvent, /) -> Prices | None:
        """What the model of the request costs, where that is known."""
        ...

    def note(self, event: Call, code: str, /, **details: Detail) -> None:
        """Writes into the trace of the call's run, with its op. `code` is the check."""
        ...


class Unattended:
    """A desk with nobody at it: no tool is known, nothing is counted, no note is kept."""

    def known(self) -> Mapping[str, ToolInfo]:
        return FrozenDict()

    def offered(self, event: ToolCallEvent, /) -> Mapping[str, ToolInfo]:
        return FrozenDict()

    def account(self, event: Call, /) -> Account | None:
        return None

    def prices(self, event: ModelRequestEvent, /) -> Prices | None:
        return None

    def note(self, event: Call, code: str, /, **details: Detail) -> None:
        """Keeps nothing."""


def gates(desk: Desk, rules: Sequence[Rule] = ()) -> tuple[Declaration, ...]:
    """The checks, in the order in which they are asked. Of `rules`, those at `tool.before` are judged here.

    Raises RegistrationError for a rule that cannot stand where it says.
    """
    checks: dict[str, Sequence[tuple[str, Callable[..., Said]]]] = {
        "tool.invoked.pre": _of_tools(desk, ToolRules(rules)),
        "llm.invoked.pre": [("budget", _of_models(desk))],
    }
    return tuple(
        Declaration(name=name, point=point, call=call, kind="governor", band="gate", priority=priority)
        for point, calls in checks.items()
        for priority, (name, call) in enumerate(calls, 1)
    )


def _of_tools(desk: Desk, rules: ToolRules) -> Sequence[tuple[str, Callable[[ToolCallEvent], Said]]]:
    """The checks of a tool call. Once the first found its tool, the name is one of the project's own, and noted."""

    def resolve(event: ToolCallEvent) -> Said:
        if event.call.name in desk.known():
            return _noted(desk, event, "resolve", None)
        desk.note(event, "resolve", result="blocked")  # without the name, which is the model's own text
        return unknown_tool(event, desk.offered(event))

    def offered(event: ToolCallEvent) -> Said:
        return _noted(desk, event, "offered", check_offered(event, desk.offered(event)))

    def arguments(event: ToolCallEvent) -> Said:
        return _noted(desk, event, "arguments", check_call(event))

    def principal(event: ToolCallEvent) -> Said:
        return _noted(desk, event, "principal", check_principal(event))

    def policy(event: ToolCallEvent) -> Said:
        judged = rules.judge(event)
        return _noted(desk, event, "policy", judged.outcome, **_of_rule(judged))

    def budget(event: ToolCallEvent) -> Said:
        return _budgeted(desk, event, TOOL_CALL, tool=event.call.name)

    def duplicate(event: ToolCallEvent) -> Said:
        return _noted(desk, event, DUPLICATE, check_repeated(event, desk.account(event)) or check_again(event))

    def risk(event: ToolCallEvent) -> Said:
        return _noted(desk, event, "risk", check_risk(event))

    checks = (resolve, offered, arguments, principal, policy, budget, duplicate, risk)
    return [(check.__name__, check) for check in checks]


def _of_models(desk: Desk) -> Callable[[ModelRequestEvent], Block | None]:
    def budget(event: ModelRequestEvent) -> Block | None:
        account = desk.account(event)
        sized = account is not None and account.counts_tokens
        return _budgeted(desk, event, model_call(event.request, desk.prices(event)) if sized else MODEL_CALL)

    return budget


def _budgeted(desk: Desk, event: Call, want: Used, **details: Detail) -> Block | None:
    """What the call needs is there, and is held for it until it has ended."""
    account = desk.account(event)
    budget = None if account is None else account.reserve(event.op.id, want)
    if account is None or budget is None:
        desk.note(event, "budget", result="ok", **details)
        return None
    desk.note(event, "budget", result="blocked", budget=budget, **details)
    return Block(shortage(account, budget, want), code="budget_exceeded", stop=True)


def _noted(desk: Desk, event: ToolCallEvent, check: str, said: Said, **details: Detail) -> Said:
    if said is None:
        desk.note(event, check, tool=event.call.name, result="ok", **details)
        return None
    if event.approval is not None and isinstance(said, Suspend):
        details["approval"] = event.approval.id
    desk.note(event, check, tool=event.call.name, result=_word(said), **details)
    return said


def _word(said: ToolCallEvent | Block | Suspend | Escalate) -> str:
    match said:
        case Block():
            return "blocked"
        case Suspend():
            return "suspended"
        case Escalate():
            return "escalated"
        case ToolCallEvent():
            return "ok"


def _of_rule(judged: Judged) -> Mapping[str, Detail]:
    return {"rule": judged.rule} if judged.rule else FrozenDict()


GATES = gates(Unattended())
"""The checks as listings show them: what they are called and where they hang."""
