"""Where the governor asks: of each run that goes on what is its own, and of others nothing."""

from tests.harness.world import ENVELOPE, OP

from tenter.catalogue import (
    Budgets,
    Envelope,
    ModelRequest,
    ModelRequestEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
)
from tenter.controls import Account, Prices
from tenter.harness.desk import HarnessDesk, Offer
from tenter.kernel import FrozenDict, Trace

ACT, LOOK = ToolInfo(name="act"), ToolInfo(name="look")
PRICES = Prices(input=1, output=2)
CALL = ToolCallEvent(envelope=ENVELOPE, op=OP, call=ToolCall(id="c", name="act"))
OTHER = Envelope(run_id="run-2", task=TaskRef(id="run-2", name="other"), correlation_id="run-2")
ASKED = ModelRequestEvent(envelope=ENVELOPE, op=OP, request=ModelRequest(alias="a", model="m", messages=()))


def desk() -> HarnessDesk:
    offers = {
        "work": Offer(FrozenDict({"act": ACT}), PRICES),
        "other": Offer(FrozenDict({"look": LOOK})),
    }
    return HarnessDesk(offers, lambda: 7.0)


def test_every_tool_of_the_project_is_known_and_each_task_offers_its_own() -> None:
    assert dict(desk().known()) == {"act": ACT, "look": LOOK}
    assert dict(desk().offered(CALL)) == {"act": ACT}
    other = ToolCallEvent(envelope=OTHER, op=OP, call=CALL.call)
    assert dict(desk().offered(other)) == {"look": LOOK}
    assert desk().prices(ASKED) == PRICES
    assert desk().prices(ModelRequestEvent(envelope=OTHER, op=OP, request=ASKED.request)) is None


def test_a_task_that_there_is_not_offers_nothing() -> None:
    stranger = Envelope(run_id="run-3", task=TaskRef(id="run-3", name="strange"), correlation_id="run-3")
    assert dict(desk().offered(ToolCallEvent(envelope=stranger, op=OP, call=CALL.call))) == {}
    assert desk().prices(ModelRequestEvent(envelope=stranger, op=OP, request=ASKED.request)) is None


def test_a_run_is_known_while_it_goes_on_here() -> None:
    one, account, trace = desk(), Account(Budgets()), Trace()
    one.note(CALL, "resolve", tool="act", result="ok")
    assert one.account(CALL) is None
    one.attend("run-1", account, trace)
    one.attend("run-2", Account(Budgets()), Trace())
    assert one.account(CALL) is account
    one.note(CALL, "resolve", tool="act", result="ok")
    one.leave("run-1")
    one.leave("run-1")
    one.note(CALL, "resolve", tool="act", result="ok")
    assert one.account(CALL) is None
    (note,) = trace.events()
    assert (note.time, note.kind, note.source, note.code, note.op) == (7.0, "note", "governor", "resolve", OP.id)
    assert dict(note.details) == {"tool": "act", "result": "ok"}
