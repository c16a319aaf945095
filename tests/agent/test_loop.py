from collections.abc import Coroutine
from typing import TypeVar

import msgspec
import pytest
from tests.agent.playbook import (
    BROKEN,
    NOTHING,
    PLAN,
    REFUSED,
    START,
    Outcome,
    Playbook,
    begun,
    calls,
    error_of,
    finished,
    plainly,
    said,
)

from tenter.agent.loop import AgentLoop
from tenter.agent.plan import Ended
from tenter.catalogue import (
    ErrorInfo,
    Limits,
    Message,
    ModelResponse,
    SubtaskResult,
    TaskRef,
    ToolCall,
    ToolInfo,
    ToolSpec,
    Usage,
)
from tenter.kernel import Blocked, Retry

T = TypeVar("T")

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


def test_a_request_names_the_model_and_the_tools_of_the_task() -> None:
    tool = ToolInfo(name="lookup", description="looks up", parameters={"type": "object"}, idempotent=True)
    playbook = plainly()
    playbook.play(msgspec.structs.replace(PLAN, model_alias="fast", model="m-1", tools=(tool,), instructions=""))
    request = playbook.event("1.llm.invoked.0").request
    assert (request.alias, request.model, [message.role for message in request.messages]) == ("fast", "m-1", ["user"])
    assert request.tools == (ToolSpec(name="lookup", description="looks up", parameters={"type": "object"}),)


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


# Asked again


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


EMPTY = said(" \n")


def test_a_model_that_says_nothing_is_told_so_and_asked_for_its_next_step() -> None:
    playbook = begun() >> "1.llm.invoked.0" << EMPTY >> "1.tool_calls.extracted.0"
    playbook = playbook >> "2.llm.invoked.0, 2.tool_calls.extracted.0, 2.task.complete.0"
    playbook.ending(2, "completed").play()
    assert [message.content for message in playbook.event("2.llm.invoked.0").request.messages[2:]] == [
        " \n",
        "Your answer was empty. Answer with text, or call a tool.",
    ]


def test_a_model_that_goes_on_saying_nothing_fails_the_run_once_its_repairs_are_used_up() -> None:
    playbook = begun() >> "1.llm.invoked.0" << Retry("no") >> "1.llm.invoked.0#2" << EMPTY
    playbook = playbook >> "1.tool_calls.extracted.0, 2.llm.invoked.0" << EMPTY >> "2.tool_calls.extracted.0"
    error = error_of((playbook >> "2.activity.failed.0").ending(2, "failed").play())
    assert (error.code, error.message) == (
        "validation",
        "the model answered 3 times with neither text nor a tool call",
    )


def test_an_output_without_text_is_no_empty_answer() -> None:
    playbook = begun() >> "1.llm.invoked.0" << said("", output={"answer": 0}) >> "1.tool_calls.extracted.0"
    standing = (playbook >> "1.task.complete.0").ending(1, "completed").play()
    assert isinstance(standing, Ended)
    assert standing.output == {"answer": 0}


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


def cancelled(loop: AgentLoop) -> Ended:
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
    ended = cancelled(loop)
    assert (ended.status, ended.output) == ("completed", "done")


CUT = ErrorInfo(code="internal", message="the journal is full")


KNOWN = ErrorInfo(code="internal", message="the disk is full")


@pytest.mark.parametrize(
    ("heard", "error"),
    [
        (NOTHING, CUT),
        ({"error": KNOWN}, KNOWN),
        (REFUSED, CUT),
        (Blocked(reason="stop", code="x", hook="h", stop=True), CUT),
    ],
)
def test_a_run_that_fails_is_told_of_from_where_it_stood_and_has_that_end(heard: Outcome, error: ErrorInfo) -> None:
    playbook = plainly()
    playbook.script[-1] = ("close completed", OSError("disk full"))
    loop = AgentLoop(playbook, PLAN)
    with pytest.raises(OSError, match="disk full"):
        finished(loop.run())
    playbook = playbook >> "1.activity.failed.0" << heard
    playbook = playbook >> "1.task.state_changed.2 completed->failed" >> "close failed"
    ended = playbook.drive(loop.fail(CUT, awaited))
    assert (ended.status, ended.error, ended.progress) == ("failed", error, loop.progress)
    assert loop.ended is ended
    playbook = playbook >> "close failed"
    assert playbook.drive(loop.settle(Ended(status="cancelled"))) is ended


@pytest.mark.parametrize("lost", range(3))
def test_what_cannot_be_told_of_a_run_that_fails_keeps_the_rest_from_nobody(lost: int) -> None:
    playbook = Playbook() >> "0.activity.failed.0" >> "0.task.state_changed.0 pending->failed" >> "close failed"
    playbook.script[lost] = (playbook.script[lost][0], OSError("disk full"))
    ended = playbook.drive(AgentLoop(playbook, PLAN).fail(CUT, awaited))
    assert (ended.status, ended.error) == ("failed", CUT)


async def awaited(telling: Coroutine[object, object, T]) -> T | None:
    try:
        return await telling
    except OSError:
        return None


@pytest.mark.parametrize("ends", ["settled", "failed"])
def test_what_sub_runs_used_that_end_with_the_run_is_told_of_it(ends: str) -> None:
    used = Usage(input_tokens=60, output_tokens=40)
    left = [SubtaskResult(run_id="r/1", task="part", status="cancelled", usage=used, cost_usd=0.5)]
    playbook = Playbook() >> "0.task.state_changed.0 pending->cancelled" >> "close cancelled"
    if ends == "failed":
        playbook = Playbook() >> "0.activity.failed.0" >> "0.task.state_changed.0 pending->failed" >> "close failed"
    playbook.left = left
    loop = AgentLoop(playbook, PLAN)
    ended = cancelled(loop) if ends == "settled" else finished(loop.fail(CUT, awaited))
    told = playbook.event(f"close {ended.status}")
    assert (ended.progress.usage, ended.progress.cost_usd) == (used, 0.5)
    assert (told.usage, told.cost_usd) == (used, 0.5)
