import msgspec
import pytest
from tests.agent.playbook import (
    ASKED,
    DUE,
    LEAVES,
    NOTHING,
    PLAN,
    START,
    Playbook,
    begun,
    calls,
    error_of,
    finished,
    plainly,
    said,
    told,
    until,
)

from tenter.agent.loop import AgentLoop
from tenter.agent.plan import Ended, Standing, Waiting, status_of
from tenter.catalogue import (
    ErrorInfo,
    Limits,
    Message,
    ModelResponse,
    Status,
    TaskRef,
    ToolCall,
    ToolInfo,
    ToolResult,
    ToolSpec,
    Usage,
)
from tenter.kernel import Blocked, Escalated, Failed, Retry, Unknown

REFUSED = Blocked(reason="not today", code="policy_denied", hook="guard")
BROKEN = Failed(message="it broke", code="provider_permanent", exception="ProviderError")
LATE = Failed(message="too late", code="timeout")
HANDED_OVER = Escalated(reason="too hot", queue="oncall", hook="guard")

# What fires, and in which order


def test_a_run_with_one_tool_call_fires_in_the_order_of_the_design() -> None:
    playbook = (
        Playbook()
        >> "open"
        >> "0.task.state_changed.0 pending->running"
        >> "0.task.created.0"
        >> "0.request.received.0"
        >> "1.llm.invoked.0"
        << calls("shell")
        >> "1.tool_calls.extracted.0"
        >> "1.tool.invoked.0"
        >> "2.llm.invoked.0"
        << said("all green")
        >> "2.tool_calls.extracted.0"
        >> "2.task.complete.0"
        >> "2.task.state_changed.1 running->completed"
        >> "close completed"
    )
    standing = playbook.play()
    assert isinstance(standing, Ended)
    assert (standing.status, standing.output, standing.error) == ("completed", "all green", None)
    assert standing.progress.messages == (
        Message(role="system", content="You fix tests."),
        Message(role="user", content="make it green"),
        Message(role="assistant", content="let me see", tool_calls=(ToolCall(id="c0", name="shell"),)),
        Message(role="tool", content="shell ran", tool_call_id="c0", name="shell"),
        Message(role="assistant", content="all green"),
    )


def test_several_calls_are_made_one_by_one_in_their_order() -> None:
    playbook = begun() >> "1.llm.invoked.0" << calls("shell", "shell", "shell")
    playbook = playbook >> "1.tool_calls.extracted.0, 1.tool.invoked.0, 1.tool.invoked.1"
    playbook = playbook << {"result": ToolResult(output="it said no", is_error=True)} >> "1.tool.invoked.2"
    playbook = playbook >> "2.llm.invoked.0, 2.tool_calls.extracted.0, 2.task.complete.0"
    playbook = playbook.ending(2, "completed")
    playbook.play()
    request = playbook.event("2.llm.invoked.0").request
    assert [(m.tool_call_id, m.content, m.is_error) for m in request.messages if m.role == "tool"] == [
        ("c0", "shell ran", False),
        ("c1", "it said no", True),
        ("c2", "shell ran", False),
    ]


def test_a_request_names_the_model_and_the_tools_of_the_task() -> None:
    tool = ToolInfo(name="lookup", description="looks up", parameters={"type": "object"}, idempotent=True)
    playbook = plainly()
    playbook.play(msgspec.structs.replace(PLAN, model_alias="fast", model="m-1", tools=(tool,), instructions=""))
    request = playbook.event("1.llm.invoked.0").request
    assert (request.alias, request.model, [message.role for message in request.messages]) == ("fast", "m-1", ["user"])
    assert request.tools == (ToolSpec(name="lookup", description="looks up", parameters={"type": "object"}),)


def test_a_call_carries_its_tool_and_an_unknown_one_none() -> None:
    playbook = until("1.tool_calls.extracted.0") << {
        "calls": (ToolCall(id="c0", name="shell"), ToolCall(id="c1", name="nope"))
    }
    playbook = playbook >> "1.tool.invoked.0" >> "1.tool.invoked.1" << REFUSED >> "2.llm.invoked.0" << ASKED
    playbook.suspending("2.llm.invoked.0").play()
    assert playbook.event("1.tool.invoked.0").tool == ToolInfo(name="shell")
    assert playbook.event("1.tool.invoked.1").tool is None


@pytest.mark.parametrize("kept", [(2, 0), (1,), ()])
def test_the_conversation_holds_exactly_the_calls_that_are_made(kept: tuple[int, ...]) -> None:
    asked = tuple(ToolCall(id=f"c{number}", name="shell") for number in range(3))
    made = tuple(asked[number] for number in kept)
    playbook = begun() >> "1.llm.invoked.0" << calls("shell", "shell", "shell")
    playbook = playbook >> "1.tool_calls.extracted.0" << {"calls": made}
    for index in range(len(made)):
        playbook = playbook >> f"1.tool.invoked.{index}"
    playbook = playbook >> ("2.llm.invoked.0" if made else "1.task.complete.0") << REFUSED
    playbook = playbook.ending(2 if made else 1, "blocked")
    messages = playbook.play().progress.messages
    assert messages[2].tool_calls == made
    assert tuple(message.tool_call_id for message in messages[3:]) == tuple(call.id for call in made)


# What the operations of a run's start may change


def test_what_the_first_hooks_replace_is_what_the_run_goes_on_with() -> None:
    renamed, recorded = TaskRef(id="run-1", name="fix", version=2), TaskRef(id="run-1", name="fix", version=3)
    playbook = (
        Playbook()
        >> "open"
        << {"input": "cleaned", "task": renamed, "idempotency_key": "k-1"}
        >> "0.task.state_changed.0 pending->running"
        >> "0.task.created.0"
        << {"task": recorded}
        >> "0.request.received.0"
        << {"input": "cleaned twice"}
        >> "1.llm.invoked.0"
        << REFUSED
    ).ending(1, "blocked")
    standing = playbook.play(msgspec.structs.replace(PLAN, sender="ann"))
    assert playbook.event("0.task.created.0").task == renamed
    received = playbook.event("0.request.received.0")
    assert (received.input, received.sender) == ("cleaned", "ann")
    assert standing.progress.messages[-1] == Message(role="user", content="cleaned twice")
    end = playbook.event("close blocked")
    assert (end.input, end.task, end.idempotency_key, end.envelope) == ("cleaned", recorded, "k-1", PLAN.envelope)


def test_a_run_that_is_refused_at_its_start_ends_blocked_and_is_closed() -> None:
    playbook = Playbook() >> "open" << REFUSED >> "0.task.state_changed.0 pending->blocked" >> "close blocked"
    standing = playbook.play()
    assert error_of(standing) == ErrorInfo(
        code="policy", message="not today", details={"code": "policy_denied", "hook": "guard"}
    )
    assert playbook.event("0.task.state_changed.0 pending->blocked").reason == "policy_denied"


def test_a_start_that_fails_is_told_of_once() -> None:
    playbook = Playbook() >> "open" << BROKEN >> "0.activity.failed.0"
    playbook = playbook >> "0.task.state_changed.0 pending->failed" >> "close failed"
    assert error_of(playbook.play()).details["operation"] == "run"


@pytest.mark.parametrize(
    ("asked", "in_force"),
    [
        (Limits(deadline=1_500.0, max_steps=3), Limits(deadline=1_500.0, max_steps=3)),
        (Limits(deadline=9_999.0, max_steps=99), Limits(deadline=2_000.0, max_steps=10)),
        (Limits(deadline=None, max_steps=10), Limits(deadline=2_000.0, max_steps=10)),
    ],
)
def test_a_start_tightens_limits_and_never_loosens_them(asked: Limits, in_force: Limits) -> None:
    playbook = until("0.task.created.0")
    playbook.script[0] = ("open", {"limits": asked})
    playbook = (playbook << REFUSED).ending(0, "blocked")
    playbook.play(msgspec.structs.replace(PLAN, limits=Limits(deadline=2_000.0, max_steps=10)))
    assert playbook.event("close blocked").limits == in_force


# Refused, asked for, handed over, failed


@pytest.mark.parametrize("leaf", LEAVES[:-1])
def test_a_refused_operation_ends_the_run_blocked(leaf: str) -> None:
    playbook = (until(leaf) << REFUSED).ending(int(leaf[0]), "blocked")
    assert error_of(playbook.play()).message == "not today"


def test_a_refused_output_ends_the_run_blocked() -> None:
    playbook = plainly(REFUSED).ending(1, "blocked")
    assert error_of(playbook.play()).code == "policy"


def test_a_refused_call_gets_a_stand_in_and_the_run_goes_on() -> None:
    playbook = until("1.tool.invoked.0") << REFUSED >> "2.llm.invoked.0" << REFUSED
    standing = playbook.ending(2, "blocked").play()
    assert told(standing) == ["Refused by the hook 'guard': not today"]
    assert standing.progress.messages[-1].is_error


def test_a_refusal_with_stop_ends_the_run_at_the_call() -> None:
    playbook = until("1.tool.invoked.0") << Blocked(reason="enough", code="policy_denied", hook="guard", stop=True)
    assert error_of(playbook.ending(1, "blocked").play()).message == "enough"


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_suspension_is_durable_before_anybody_is_told_and_closes_nothing(leaf: str) -> None:
    playbook = (until(leaf) << ASKED).suspending(leaf)
    standing = playbook.play()
    assert standing == Waiting(operation=leaf[2:-2], path=leaf, suspended=ASKED, progress=standing.progress)
    change = playbook.event(f"{leaf[0]}.task.state_changed.1 running->awaiting_approval")
    assert change.reason == "approval_required"


def test_an_output_can_wait_for_a_person() -> None:
    assert isinstance(plainly(ASKED).suspending("1.task.complete.0").play(), Waiting)


@pytest.mark.parametrize("leaf", LEAVES)
def test_an_escalation_ends_the_run_in_the_hands_of_its_queue(leaf: str) -> None:
    playbook = until(leaf) << HANDED_OVER
    playbook = playbook.ending(int(leaf[0]), "escalated")
    error = error_of(playbook.play())
    assert error.message == "too hot"
    assert error.details == {"code": "escalated", "queue": "oncall", "hook": "guard"}


@pytest.mark.parametrize("leaf", LEAVES[:-1])
def test_a_failure_is_told_of_once_and_ends_the_run_as_hooks_classified_it(leaf: str) -> None:
    classified = ErrorInfo(code="provider_transient", message="the provider is down")
    playbook = until(leaf) << BROKEN >> f"{leaf[0]}.activity.failed.0" << {"error": classified}
    assert error_of(playbook.ending(int(leaf[0]), "failed").play()) == classified
    event = playbook.event(f"{leaf[0]}.activity.failed.0")
    assert (event.operation, event.step, event.attempt) == (leaf[2:-2], int(leaf[0]), 1)
    assert event.error == ErrorInfo(
        code="provider_permanent",
        message="it broke",
        details={"operation": leaf[2:-2], "exception": "ProviderError"},
    )


def test_each_failed_call_is_told_of_once_and_the_run_goes_on() -> None:
    playbook = begun() >> "1.llm.invoked.0" << calls("shell", "shell") >> "1.tool_calls.extracted.0"
    playbook = playbook >> "1.tool.invoked.0" << Failed(message="no disk", code="tool") >> "1.activity.failed.0"
    playbook = playbook >> "1.tool.invoked.1" << Failed(message="raw", hook="guard") >> "1.activity.failed.1"
    playbook = playbook >> "2.llm.invoked.0" << REFUSED
    standing = playbook.ending(2, "blocked").play()
    assert told(standing) == ["The call failed: no disk", "The hook 'guard' failed, so this call has no result."]


@pytest.mark.parametrize("ending", [BROKEN, REFUSED, Unknown(reason="gone")])
def test_what_fails_at_a_failure_is_not_told_of_again(ending: Failed | Blocked | Unknown) -> None:
    playbook = until("1.llm.invoked.0") << BROKEN >> "1.activity.failed.0" << ending
    assert error_of(playbook.ending(1, "failed").play()).message == "it broke"


@pytest.mark.parametrize("failing", ["1.llm.invoked.0", "1.tool.invoked.0"])
def test_a_person_can_be_asked_about_a_failure(failing: str) -> None:
    playbook = until(failing) << BROKEN >> "1.activity.failed.0" << ASKED
    assert isinstance(playbook.suspending("1.activity.failed.0").play(), Waiting)


@pytest.mark.parametrize(
    ("ending", "status"),
    [(HANDED_OVER, "escalated"), (Blocked(reason="enough", code="blocked", hook="guard", stop=True), "blocked")],
)
def test_a_failed_call_can_end_the_run_where_a_hook_says_so(ending: Escalated | Blocked, status: Status) -> None:
    playbook = until("1.tool.invoked.0") << BROKEN >> "1.activity.failed.0" << ending
    assert status_of(playbook.ending(1, status).play()) == status


@pytest.mark.promise(9)
def test_a_call_that_may_have_acted_is_a_persons_to_judge() -> None:
    playbook = (until("1.tool.invoked.0") << Unknown(reason="its process died")).suspending("1.tool.invoked.0")
    standing = playbook.play()
    assert isinstance(standing, Waiting)
    assert [(asked.code, asked.reason) for asked in standing.suspended.requirements] == [
        ("unknown", "its process died")
    ]
    assert standing.suspended.event == playbook.event("1.tool.invoked.0")
    assert standing.suspended.digest == ""


def test_a_retried_response_is_asked_for_again_with_the_feedback() -> None:
    playbook = begun() >> "1.llm.invoked.0" << Retry("not so", feedback="in French, please") >> "1.llm.invoked.0#2"
    playbook = (playbook << said("oui", tokens=(0, 7), cost=0.25)).having_used("1.llm.invoked.0", 0.25)
    (playbook >> "1.tool_calls.extracted.0, 1.task.complete.0").ending(1, "completed").play()
    assert playbook.event("1.llm.invoked.0#2").request.messages[-1] == Message(role="user", content="in French, please")
    assert playbook.event("1.task.complete.0").attempt == 0
    end = playbook.event("close completed")
    assert (end.usage, end.cost_usd) == (Usage(output_tokens=14), 0.5)


def test_a_retried_output_goes_back_to_the_model_and_is_the_next_attempt() -> None:
    playbook = begun() >> "1.llm.invoked.0" << said("draft") >> "1.tool_calls.extracted.0, 1.task.complete.0"
    playbook = playbook << Retry("too short", feedback="longer, please") >> "2.llm.invoked.0" << said("a longer draft")
    playbook = playbook >> "2.tool_calls.extracted.0, 2.task.complete.0" << Retry("still too short")
    playbook = playbook >> "3.llm.invoked.0, 3.tool_calls.extracted.0, 3.task.complete.0"
    playbook = playbook.ending(3, "completed")
    standing = playbook.play()
    assert [playbook.event(f"{step}.task.complete.0").attempt for step in (1, 2, 3)] == [0, 1, 2]
    said_then = [message.content for message in standing.progress.messages[2:]]
    assert said_then == ["draft", "longer, please", "a longer draft", "done"]


@pytest.mark.parametrize("last", ["2.llm.invoked.0", "2.task.complete.0"])
def test_more_retries_than_a_run_may_have_block_it(last: str) -> None:
    playbook = begun() >> "1.llm.invoked.0" << Retry("no") >> "1.llm.invoked.0#2"
    playbook = playbook >> "1.tool_calls.extracted.0" >> "1.task.complete.0" << Retry("no")
    if last == "2.task.complete.0":
        playbook = playbook >> "2.llm.invoked.0" >> "2.tool_calls.extracted.0"
    playbook = (playbook >> last << Retry("never")).ending(2, "blocked")
    error = error_of(playbook.play())
    assert error.details == {"code": "repairs_exhausted"}
    assert error.message == "asked to try again more than 2 times, last: never"


# Verdicts


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        ({"verdict": "fail", "reason": "tests are red"}, "tests are red"),
        ({"verdict": "fail"}, "the output was judged a failure"),
        ({"verdict": "wait"}, "the verdict 'wait' needs a session to wait in, which a run does not have yet"),
    ],
)
def test_a_verdict_against_the_output_fails_the_run(verdict: dict[str, object], message: str) -> None:
    playbook = (plainly(verdict) >> "1.activity.failed.0").ending(1, "failed")
    assert error_of(playbook.play()) == ErrorInfo(code="validation", message=message)
    assert playbook.event("1.activity.failed.0").operation == "task.complete"


def test_the_output_is_the_one_that_the_verdict_leaves() -> None:
    playbook = plainly({"output": {"answer": 42}})
    playbook = playbook.ending(1, "completed")
    standing = playbook.play()
    assert isinstance(standing, Ended)
    assert standing.output == {"answer": 42}


def test_a_models_structured_output_is_the_candidate_and_its_extensions_are_kept() -> None:
    playbook = plainly()
    response = ModelResponse(model="m", text="in words", output={"answer": 42}, extensions={"thinking": "opaque"})
    playbook.script[4] = ("1.llm.invoked.0", {"response": response})
    standing = playbook.play()
    assert playbook.event("1.task.complete.0").output == {"answer": 42}
    assert standing.progress.messages[-1].extensions == {"thinking": "opaque"}


# Limits


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_passed_deadline_ends_the_run_before_the_next_operation(leaf: str) -> None:
    step = 2 if leaf == LEAVES[-1] else int(leaf[0]) if leaf != LEAVES[1] else 1
    playbook = until(leaf).taking(60)
    playbook = playbook >> f"{step}.activity.failed.0"
    playbook = playbook.ending(step, "failed")
    error = error_of(playbook.play(DUE))
    assert (error.code, error.message) == ("timeout", "the run's deadline has passed")
    failed = playbook.event(f"{step}.activity.failed.0")
    assert (failed.operation, failed.attempt) == (None, None)


def test_a_deadline_that_passed_before_the_start_lets_nothing_begin() -> None:
    playbook = Playbook() >> "open" >> "0.task.state_changed.0 pending->running" >> "0.activity.failed.0"
    late = msgspec.structs.replace(PLAN, limits=Limits(deadline=START))
    assert error_of(playbook.ending(0, "failed").play(late)).code == "timeout"


def test_a_deadline_that_passes_before_a_retry_ends_the_run() -> None:
    playbook = (until("1.llm.invoked.0") << Retry("no")).taking(60) >> "1.activity.failed.0"
    assert error_of(playbook.ending(1, "failed").play(DUE)).code == "timeout"


def test_a_call_that_the_deadline_ended_is_one_failure_and_ends_the_run() -> None:
    playbook = (until("1.tool.invoked.0") << LATE).taking(60) >> "1.activity.failed.0"
    error = error_of(playbook.ending(1, "failed").play(DUE))
    assert (error.code, error.message) == ("timeout", LATE.message)


def test_a_call_that_came_too_late_by_itself_lets_the_run_go_on() -> None:
    playbook = until("1.tool.invoked.0") << LATE >> "1.activity.failed.0, 2.llm.invoked.0" << REFUSED
    assert told(playbook.ending(2, "blocked").play(DUE)) == ["The call failed: too late"]


def test_a_call_that_failed_otherwise_is_a_failure_beside_the_passed_deadline() -> None:
    playbook = (until("1.tool.invoked.0") << BROKEN).taking(60) >> "1.activity.failed.0, 2.activity.failed.1"
    assert error_of(playbook.ending(2, "failed").play(DUE)).code == "timeout"


def test_an_output_in_time_completes_the_run_whatever_follows() -> None:
    playbook = plainly()
    playbook.lasts[6] = 60
    assert isinstance(playbook.play(DUE), Ended)


def test_a_run_that_comes_to_no_end_fails_after_its_last_step() -> None:
    playbook = begun()
    for step in (1, 2):
        playbook = playbook >> f"{step}.llm.invoked.0" << calls("shell")
        playbook = playbook >> f"{step}.tool_calls.extracted.0" >> f"{step}.tool.invoked.0"
    playbook = (playbook >> "3.activity.failed.0").ending(3, "failed")
    error = error_of(playbook.play(msgspec.structs.replace(PLAN, limits=Limits(max_steps=2))))
    assert (error.code, error.details["code"]) == ("budget", "max_steps")
    assert error.message == "no end after 2 steps; allow more: max_steps, or 'run --max-steps'"


# The end


def test_the_end_holds_everything() -> None:
    playbook = begun() >> "1.llm.invoked.0" << said("draft", tokens=(10, 1), cost=0.25)
    playbook = playbook >> "1.tool_calls.extracted.0, 1.task.complete.0" << Retry("again")
    playbook = playbook >> "2.llm.invoked.0" << said("final", tokens=(20, 2), cost=0.5)
    playbook = (playbook >> "2.tool_calls.extracted.0, 2.task.complete.0").ending(2, "completed")
    limits = Limits(deadline=START + 1, max_steps=7)
    playbook.play(msgspec.structs.replace(PLAN, limits=limits, idempotency_key="k"))
    end = playbook.event("close completed")
    assert end.own_fields() == {
        "task": PLAN.envelope.task,
        "input": "make it green",
        "limits": limits,
        "idempotency_key": "k",
        "status": "completed",
        "output": "final",
        "error": None,
        "usage": Usage(input_tokens=30, output_tokens=3),
        "cost_usd": 0.75,
    }


def test_a_cost_that_one_model_call_did_not_tell_is_unknown() -> None:
    playbook = plainly()
    playbook.script[4] = ("1.llm.invoked.0", said("done", cost=None))
    assert not playbook.play().progress.cost_known
    assert playbook.event("close completed").cost_usd is None


def test_what_the_engine_cannot_record_stops_the_loop_there() -> None:
    playbook = plainly()
    playbook.script[-1] = ("close completed", OSError("disk full"))
    with pytest.raises(OSError, match="disk full"):
        playbook.play()
    assert [request for request, _ in playbook.asked].count("close completed") == 1


class Cancelled(BaseException):
    """Stands for asyncio's, which this layer does not know."""


def cancelled(loop: AgentLoop) -> Standing:
    error = ErrorInfo(code="cancelled", message="the run was cancelled")
    return finished(loop.settle(Ended(status="cancelled", progress=loop.progress, error=error)))


@pytest.mark.parametrize(
    ("at", "change"),
    [
        ("open", "0.task.state_changed.0 pending->cancelled"),
        ("0.task.state_changed.0 pending->running", "0.task.state_changed.1 running->cancelled"),
        ("1.llm.invoked.0", "1.task.state_changed.1 running->cancelled"),
    ],
)
def test_a_cancelled_run_is_settled_from_where_it_stood(at: str, change: str) -> None:
    playbook = plainly()
    cut = [request for request, _ in playbook.script].index(at)
    playbook.script[cut:] = [(at, Cancelled()), (change, NOTHING), ("close cancelled", NOTHING)]
    loop = AgentLoop(playbook, PLAN)
    with pytest.raises(Cancelled):
        finished(loop.run())
    cancelled(loop)
    assert playbook.event("close cancelled").error.code == "cancelled"


@pytest.mark.parametrize("at", ["1.task.state_changed.1 running->completed", "close completed"])
def test_a_run_that_is_cancelled_while_it_ends_comes_to_the_end_that_it_had(at: str) -> None:
    playbook = plainly()
    cut = [request for request, _ in playbook.script].index(at)
    playbook.script[cut:] = [(at, Cancelled()), ("close completed", NOTHING)]
    loop = AgentLoop(playbook, PLAN)
    with pytest.raises(Cancelled):
        finished(loop.run())
    standing = cancelled(loop)
    assert isinstance(standing, Ended)
    assert (standing.status, standing.output) == ("completed", "done")


def test_a_waiting_run_can_be_cancelled() -> None:
    playbook = until("1.tool.invoked.0") << ASKED >> "suspend 1.tool.invoked.0" << Cancelled()
    playbook = playbook.ending(1, "cancelled")
    loop = AgentLoop(playbook, PLAN)
    with pytest.raises(Cancelled):
        finished(loop.run())
    assert playbook.drive(loop.settle(Ended(status="cancelled", progress=loop.progress)))
