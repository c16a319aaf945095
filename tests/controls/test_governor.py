"""The governor's checks: what does not fit is refused, each check leaves a note, and no hook gets around them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tenter.catalogue import (
    CATALOGUE,
    LLM_INVOKED,
    TOOL_INVOKED,
    Approval,
    Budgets,
    Envelope,
    Message,
    ModelRequest,
    ModelRequestEvent,
    Op,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
    ToolResult,
)
from tenter.controls.account import Account, Used
from tenter.controls.budget import call_digest
from tenter.controls.governor import (
    GATES,
    Unattended,
    gates,
)
from tenter.controls.policy import Rule
from tenter.controls.prices import Prices
from tenter.kernel import (
    Allow,
    Block,
    Blocked,
    Decision,
    Detail,
    Done,
    Escalate,
    FrozenDict,
    RegistrationError,
    Result,
    Runtime,
    Suspend,
    freeze,
    hook,
)

PATH = freeze({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
READ = ToolInfo(name="read_file", parameters=PATH)
SHELL = ToolInfo(name="shell", parameters=freeze({"type": "object", "additionalProperties": False}))
RISKY = ToolInfo(name="deploy", risk="high")
OFFERED = {"read_file": READ, "shell": SHELL, "deploy": RISKY}
ENVELOPE = Envelope(run_id="r", task=TaskRef(id="r", name="work"), correlation_id="r")

CHECKS = ("resolve", "offered", "arguments", "principal", "policy", "budget", "duplicate", "risk")


def event(name: str, arguments: object = FrozenDict({"path": "a"}), tool: ToolInfo | None = READ) -> ToolCallEvent:
    # A model that gave no object is what text stands for.
    call = ToolCall(id="c", name=name, arguments=cast("Mapping[str, object]", arguments))
    return ToolCallEvent(envelope=ENVELOPE, op=Op(id="o"), call=call, tool=tool)


def asked(text: str, op_id: str = "o", max_tokens: int | None = None) -> ModelRequestEvent:
    messages = (Message(role="user", content=text),)
    request = ModelRequest(alias="default", model="m", messages=messages, max_tokens=max_tokens)
    return ModelRequestEvent(envelope=ENVELOPE, op=Op(id=op_id), request=request)


@dataclass
class Attended:
    """A desk that tells what it was given, and keeps its notes."""

    offers: Mapping[str, ToolInfo] = field(default_factory=lambda: OFFERED)
    more: Mapping[str, ToolInfo] = field(default_factory=dict[str, ToolInfo])
    counts: Account | None = None
    costs: Prices | None = None
    notes: list[tuple[str, dict[str, Detail]]] = field(default_factory=list[tuple[str, dict[str, Detail]]])

    def known(self) -> Mapping[str, ToolInfo]:
        return {**self.offers, **self.more}

    def offered(self, event: ToolCallEvent, /) -> Mapping[str, ToolInfo]:
        return self.offers

    def account(self, event: ToolCallEvent | ModelRequestEvent, /) -> Account | None:
        return self.counts

    def prices(self, event: ModelRequestEvent, /) -> Prices | None:
        return self.costs

    def note(self, event: ToolCallEvent | ModelRequestEvent, code: str, /, **details: Detail) -> None:
        self.notes.append((code, details))


async def judged(desk: Attended, event: ToolCallEvent, *rules: Rule, hooks: tuple[object, ...] = ()) -> Decision:
    return await Runtime(CATALOGUE, hooks, gates=gates(desk, rules)).dispatch("tool.before", event)


def test_the_checks_hang_innermost_in_their_order() -> None:
    runtime = Runtime(CATALOGUE, [rewrites], gates=GATES)
    assert [(link.name, link.hook.band) for link in runtime.chain("tool.before").links] == [
        ("rewrites", "app"),
        *((check, "gate") for check in CHECKS),
    ]
    assert [(link.name, link.hook.band) for link in runtime.chain("model.before").links] == [("budget", "gate")]


async def test_each_check_of_a_call_that_passes_leaves_one_note() -> None:
    desk = Attended(counts=Account(Budgets()))
    assert (await judged(desk, event("read_file"))).outcome is None
    assert desk.notes == [(check, {"tool": "read_file", "result": "ok"}) for check in CHECKS]
    assert desk.counts is not None
    assert desk.counts.reserved == Used(tool_calls=1)


NOBODY = ToolInfo(name="shell", principals=("nobody",))
SPENT = Account(Budgets(tool_calls=0))
DENY = Rule(name="deny", at="tool.before", then="block")
HAND_OVER = Rule(name="hand-over", at="tool.before", then="escalate", queue="ops")
ASK = Rule(name="ask", at="tool.before", then="suspend")


@pytest.mark.parametrize(
    ("desk", "call", "rule", "code", "note"),
    [
        (Attended(), event("rm", tool=None), None, "unknown_tool", ("resolve", {"result": "blocked"})),
        (
            Attended({"read_file": READ}, {"shell": SHELL}),
            event("shell", tool=None),
            None,
            "not_offered",
            ("offered", {"tool": "shell", "result": "blocked"}),
        ),
        (
            Attended(),
            event("shell", tool=SHELL),
            None,
            "invalid_arguments",
            ("arguments", {"tool": "shell", "result": "blocked"}),
        ),
        (
            Attended({"shell": NOBODY}),
            event("shell", tool=NOBODY),
            None,
            "not_authorised",
            ("principal", {"tool": "shell", "result": "blocked"}),
        ),
        (
            Attended(),
            event("read_file"),
            DENY,
            "policy_denied",
            ("policy", {"tool": "read_file", "result": "blocked", "rule": "deny"}),
        ),
        (
            Attended(counts=SPENT),
            event("read_file"),
            None,
            "budget_exceeded",
            ("budget", {"tool": "read_file", "result": "blocked", "budget": "tool_calls"}),
        ),
    ],
)
async def test_the_check_that_refuses_is_the_last_to_leave_a_note(
    desk: Attended, call: ToolCallEvent, rule: Rule | None, code: str, note: tuple[str, dict[str, Detail]]
) -> None:
    decision = await judged(desk, call, *([] if rule is None else [rule]))
    assert isinstance(decision.outcome, Block)
    assert (decision.hook, decision.outcome.code) == (note[0], code)
    assert decision.outcome.stop is (code == "budget_exceeded"), "all but a budget leave it to the model"
    assert desk.notes[-1] == note
    assert [check for check, _ in desk.notes] == list(CHECKS[: CHECKS.index(note[0]) + 1])


@pytest.mark.promise(12)
async def test_what_a_model_made_up_is_in_no_note() -> None:
    desk = Attended()
    await judged(desk, event("my-secret-name", freeze({"path": "my-secret-path"}), None))
    await judged(desk, event("read_file", freeze({"path": "my-secret-path"})))
    assert len(desk.notes) == 1 + len(CHECKS)
    assert "my-secret" not in repr(desk.notes)


async def test_a_repeated_call_is_refused_by_its_own_check() -> None:
    account, call = Account(Budgets()), event("read_file")
    for _ in range(5):
        account.called(call_digest(call.call), "same")
    desk = Attended(counts=account)
    decision = await judged(desk, call)
    assert (decision.hook, cast(Block, decision.outcome).code) == ("duplicate", "repeated_call")
    assert desk.notes[-1] == ("duplicate", {"tool": "read_file", "result": "blocked"})


async def test_a_rule_may_hand_a_call_over_or_ask_and_the_other_checks_are_asked_all_the_same() -> None:
    for rule, word in ((HAND_OVER, "escalated"), (ASK, "suspended")):
        desk = Attended()
        decision = await judged(desk, event("read_file"), rule)
        assert isinstance(decision.outcome, Escalate if word == "escalated" else Suspend)
        assert [check for check, _ in desk.notes] == list(CHECKS)
        assert desk.notes[4] == ("policy", {"tool": "read_file", "result": word, "rule": rule.name})


async def test_what_a_rule_and_a_risk_ask_for_is_one_request() -> None:
    decision = await judged(Attended(), event("deploy", tool=RISKY), ASK)
    assert [(one.hook, one.code, one.editable) for one in decision.requirements] == [
        ("policy", f"policy.{ASK.name}", ()),
        ("risk", "risk", ("*",)),
    ]


def with_approval(call: ToolCallEvent, digest: str, check: str, code: str | None = None) -> ToolCallEvent:
    asked = f"tool.invoked.pre/{check}#{check if code is None else code}"
    return call.replace(approval=Approval(id="a-1", hooks=(check,), asked=(asked,), digest=digest, by="ann"))


@pytest.mark.promise(10)
async def test_an_approval_that_names_the_risk_lets_exactly_that_call_pass() -> None:
    call, desk = event("deploy", freeze({"to": "prod"}), RISKY), Attended()
    digest = (await judged(desk, call)).digest
    assert digest
    assert desk.notes[-1] == ("risk", {"tool": "deploy", "result": "suspended"})
    approved = await judged(desk, with_approval(call, digest, "risk"))
    assert approved.outcome is None
    assert desk.notes[-1] == ("risk", {"tool": "deploy", "result": "suspended", "approval": "a-1"})
    other = event("deploy", freeze({"to": "prod2"}), RISKY)
    for refused in (with_approval(other, digest, "risk"), with_approval(call, digest, "guard")):
        assert isinstance((await judged(desk, refused)).outcome, Suspend)
    denied = await judged(desk, with_approval(call, digest, "risk"), DENY)
    assert isinstance(denied.outcome, Block), "a person's approval waives no rule"


@pytest.mark.parametrize("band", ["app", "control", "baseline"])
async def test_an_allow_further_out_waives_the_risk(band: Any) -> None:
    @hook("tool.before", band=band)
    def trusts(event: ToolCallEvent) -> Allow:
        return Allow("known to be harmless")

    call = event("deploy", tool=RISKY)
    assert isinstance((await judged(Attended(), call, hooks=(trusts,))).outcome, Allow)
    assert isinstance((await judged(Attended(), call, DENY, hooks=(trusts,))).outcome, Block)


@pytest.mark.promise(8)
@pytest.mark.parametrize("broken", ["known", "offered", "account", "note"])
async def test_a_check_that_fails_refuses_the_call(broken: str) -> None:
    def fails(*_: object, **__: object) -> object:
        raise OSError("the desk is on fire")

    desk = Attended()
    setattr(desk, broken, fails)
    decision = await judged(desk, event("read_file"))
    assert isinstance(decision.outcome, Block)
    assert decision.failed
    assert "the desk is on fire" in decision.outcome.reason


@pytest.mark.promise(8)
async def test_a_model_is_not_asked_where_the_check_fails() -> None:
    desk = Attended(counts=Account(Budgets(tokens=10)))
    setattr(desk, "prices", None)  # noqa: B010  # broken on purpose, which types do not allow
    decision = await Runtime(CATALOGUE, gates=gates(desk)).dispatch("model.before", asked("hi"))
    assert isinstance(decision.outcome, Block)
    assert decision.failed


@hook("tool.before")
def rewrites(event: ToolCallEvent) -> ToolCallEvent:
    return event.replace(call=ToolCall(id="c", name="read_file", arguments={"path": 7}))


@pytest.mark.promise(11)
async def test_what_is_judged_is_what_a_hook_made_of_the_call() -> None:
    decision = await judged(Attended(), event("shell", freeze({}), SHELL), hooks=(rewrites,))
    assert isinstance(decision.outcome, Block)
    assert decision.hook == "arguments"
    assert "at path: expected text, got 7" in decision.outcome.reason


def hands_on(**changes: object) -> Callable[[ToolCallEvent], ToolCallEvent]:
    @hook("tool.invoked.in", name="hands-on")
    def hands(event: ToolCallEvent) -> ToolCallEvent:
        return event.replace(**changes)

    return hands


@pytest.mark.promise(11)
@pytest.mark.parametrize(
    ("name", "arguments", "code", "check"),
    [
        ("rm", {}, "unknown_tool", "resolve"),
        ("other", {}, "not_offered", "offered"),
        ("read_file", {"path": 1}, "invalid_arguments", "arguments"),
        ("closed", {}, "not_authorised", "principal"),
        ("ruled", {}, "policy_denied", "policy"),
    ],
)
async def test_a_call_that_an_in_hook_hands_on_is_judged_like_any_other(
    name: str, arguments: dict[str, object], code: str, check: str
) -> None:
    ruled = ToolInfo(name="ruled")
    desk = Attended({"read_file": READ, "ruled": ruled, "closed": ToolInfo(name="closed", principals=("nobody",))})
    desk.more = {"other": ToolInfo(name="other")}
    rule = Rule(name="never", at="tool.before", match={"tool": "ruled"}, then="block")
    done: list[object] = []

    async def acts(event: ToolCallEvent) -> object:
        done.append(event)
        return ToolResult(output="done")

    hands = hands_on(call=ToolCall(id="c", name=name, arguments=arguments), tool=desk.known().get(name))
    runtime = Runtime(CATALOGUE, [hands], gates=gates(desk, [rule]))
    ending = await runtime.run(TOOL_INVOKED, event("read_file"), acts)
    assert isinstance(ending, Blocked)
    assert (ending.hook, ending.code, done) == (check, code, [])


@pytest.mark.promise(11)
async def test_an_in_hook_cannot_bring_a_tool_of_its_own_making() -> None:
    async def acts(event: ToolCallEvent) -> object:
        raise AssertionError("it acted")

    harmless = ToolInfo(name="deploy", risk="low")
    runtime = Runtime(
        CATALOGUE, [hands_on(call=ToolCall(id="c", name="deploy"), tool=harmless)], gates=gates(Attended())
    )
    ending = await runtime.run(TOOL_INVOKED, event("read_file"), acts)
    assert isinstance(ending, Blocked)
    assert (ending.hook, ending.code) == ("offered", "unstable_rewrite")


@pytest.mark.promise(11)
async def test_a_call_of_high_risk_that_an_in_hook_hands_on_is_not_made() -> None:
    async def acts(event: ToolCallEvent) -> object:
        raise AssertionError("it acted")

    hands = hands_on(call=ToolCall(id="c", name="deploy"), tool=RISKY)
    runtime = Runtime(CATALOGUE, [hands], gates=gates(Attended()))
    ending = await runtime.run(TOOL_INVOKED, event("read_file"), acts)
    assert not isinstance(ending, Done)
    assert "risk" in repr(ending)


@pytest.mark.promise(11)
async def test_an_in_hook_that_answers_is_not_asked_for_a_call_that_a_check_refused() -> None:
    answered: list[str] = []

    @hook("tool.invoked.in")
    def answers(event: ToolCallEvent) -> Result:
        answered.append(event.call.name)
        return event.result(ToolResult(output="from the cache"))

    async def acts(event: ToolCallEvent) -> object:
        raise AssertionError("it acted")

    runtime = Runtime(CATALOGUE, [answers], gates=gates(Attended()))
    for call, passes in ((event("rm", tool=None), False), (event("read_file"), True)):
        ending = await runtime.run(TOOL_INVOKED, call, acts)
        assert isinstance(ending, Done if passes else Blocked)
    assert answered == ["read_file"]


@pytest.mark.promise(11)
async def test_a_call_that_is_judged_twice_is_counted_once() -> None:
    desk = Attended(counts=Account(Budgets(tool_calls=1)))

    async def acts(event: ToolCallEvent) -> object:
        return ToolResult(output=str(event.call.arguments))

    hands = hands_on(call=ToolCall(id="c", name="read_file", arguments={"path": "b"}))
    runtime = Runtime(CATALOGUE, [hands], gates=gates(desk))
    ending = await runtime.run(TOOL_INVOKED, event("read_file"), acts)
    assert isinstance(ending, Done)
    assert [check for check, _ in desk.notes] == [*CHECKS, *CHECKS]
    assert desk.counts is not None
    assert desk.counts.reserved == Used(tool_calls=1)


async def test_a_hook_of_the_project_does_not_take_the_place_of_a_check() -> None:
    @hook("tool.before", name="risk")
    def risk(event: ToolCallEvent) -> None: ...

    with pytest.raises(RegistrationError, match="two hooks are called 'risk'"):
        await judged(Attended(), event("read_file"), hooks=(risk,))


async def requested(desk: Attended, *requests: ModelRequestEvent) -> list[object]:
    """What came of each request, of which only those that reached a model used anything."""
    runtime = Runtime(CATALOGUE, gates=gates(desk))

    async def answers(event: ModelRequestEvent) -> object:
        raise AssertionError("no model here")

    endings: list[object] = [await runtime.run(LLM_INVOKED, request, answers) for request in requests]
    return [(ending.code, ending.stop, ending.reason) if isinstance(ending, Blocked) else None for ending in endings]


async def test_a_model_call_holds_the_tokens_that_it_is_expected_to_need() -> None:
    desk = Attended(counts=Account(Budgets(tokens=120)))
    said = await requested(desk, asked("x" * 200, "1", 40), asked("x" * 40, "2", 21))
    told = "the run may use 120 tokens: 0 are used and 90 held for other calls, and this call needs 31 more"
    assert said == [None, ("budget_exceeded", True, told)]
    assert desk.notes == [("budget", {"result": "ok"}), ("budget", {"result": "blocked", "budget": "tokens"})]


async def test_a_model_call_holds_what_it_is_expected_to_cost() -> None:
    desk = Attended(counts=Account(Budgets(cost_usd=0.001)), costs=Prices(input=1.0, output=10.0))
    said = await requested(desk, asked("x" * 400, "1", 90), asked("hi", "2"))
    assert said[0] is None
    assert desk.counts is not None
    assert desk.counts.reserved == Used(tokens=190, cost_usd=0.001, model_calls=2)
    assert (await requested(desk, asked("xxxx", "3")))[0] == (
        "budget_exceeded",
        True,
        "the run may use 0.001 US dollars: 0 are used and 0.001 held for other calls, and this call needs 1e-06 more",
    )


async def test_the_next_model_call_is_refused_when_a_cost_is_not_known() -> None:
    desk = Attended(counts=Account(Budgets(cost_usd=100.0)))
    assert desk.counts is not None
    assert await requested(desk, asked("hi", "1")) == [None]
    desk.counts.settle("1", Used(tokens=3, model_calls=1), cost_known=False)
    ((code, stop, reason),) = cast("list[tuple[str, bool, str]]", await requested(desk, asked("hi", "2")))
    assert (code, stop) == ("budget_exceeded", True)
    assert "the cost of an earlier model call is not known" in reason
    assert (await judged(desk, event("read_file"))).outcome is None, "a tool call costs nothing"


async def test_where_nothing_is_counted_a_model_is_asked_without_more() -> None:
    for account in (None, Account(Budgets())):
        desk = Attended(counts=account)
        assert await requested(desk, asked("hi")) == [None]
        assert desk.notes == [("budget", {"result": "ok"})]


async def test_a_desk_with_nobody_at_it_knows_no_tool() -> None:
    runtime = Runtime(CATALOGUE, gates=gates(Unattended()))
    decision = await runtime.dispatch("tool.before", event("read_file"))
    assert (decision.hook, cast(Block, decision.outcome).code) == ("resolve", "unknown_tool")
    assert (await runtime.dispatch("model.before", asked("hi"))).outcome is None
