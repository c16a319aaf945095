"""What operations do by themselves, and that a model cannot hold a run that is over."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from tests.harness.world import ENVELOPE, OP
from tests.outside import comes_true, one_of_three

from tenter.catalogue import (
    AGENT_OPERATIONS,
    ActivityFailedEvent,
    ActivityRetryEvent,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResolvedEvent,
    ErrorInfo,
    HelpRequestEvent,
    InputEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    Op,
    OutputEvent,
    RetryPolicy,
    TaskCreateEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResult,
    Usage,
)
from tenter.controls import Prices
from tenter.harness.bodies import SETTLE_SECONDS, Bodies, apart, nothing, within
from tenter.harness.context import ToolContext
from tenter.harness.definition import tool
from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK, OperationFailed
from tenter.testing import FakeClock, FakeModel


@tool
def echo(context: ToolContext, text: str) -> str:
    """Gives back what it is given, and how long it may take."""
    return f"{text} {context.deadline}"


def bodies(tmp_path: Path, *responses: ModelResponse) -> Bodies:
    return Bodies(FakeModel(responses), {"echo": echo}, ToolContext(workspace=Workspace.at(tmp_path)))


def test_every_operation_that_has_work_has_a_body(tmp_path: Path) -> None:
    leaves = {one.name for one in AGENT_OPERATIONS if one.shape == "leaf"}
    assert set(bodies(tmp_path).table()) == leaves


async def test_the_bodies_give_on_what_they_are_given(tmp_path: Path) -> None:
    one = bodies(tmp_path)
    task, error = TaskRef(id="t", name="work"), ErrorInfo(code="tool", message="broke")
    response = ModelResponse(model="m", tool_calls=(ToolCall(id="c", name="echo"),))
    assert await one.receive(InputEvent(envelope=ENVELOPE, op=OP, input="go")) == "go"
    assert await one.create(TaskCreateEvent(envelope=ENVELOPE, op=OP, task=task)) == task
    assert await one.extract(ToolCallsEvent(envelope=ENVELOPE, op=OP, response=response)) == response.tool_calls
    assert await one.classify(ActivityFailedEvent(envelope=ENVELOPE, op=OP, error=error, step=1)) == error
    completed = await one.complete(OutputEvent(envelope=ENVELOPE, op=OP, output={"a": 1}))
    assert completed == {"verdict": "complete", "output": {"a": 1}, "reason": ""}
    assert await nothing(OutputEvent(envelope=ENVELOPE, op=OP, output="")) is None


async def test_a_request_a_decision_and_a_delay_are_what_they_were_told_to_be(tmp_path: Path) -> None:
    one = bodies(tmp_path)
    request = ApprovalRequest(
        id="a", run_id="run-1", operation="tool.invoked", path="p", call={}, digest="d", reasons=(), requested_at=1.0
    )
    decision = ApprovalDecision(request_id="a", run_id="run-1", decision="approve", by="ann", decided_at=2.0)
    asked = HelpRequestEvent(envelope=ENVELOPE, op=OP, request=request)
    assert await one.request(asked) == request
    resolved = ApprovalResolvedEvent(envelope=ENVELOPE, op=OP, request=request, decision=decision)
    assert await one.decide(resolved) == decision
    policy = RetryPolicy(first_seconds=3.0)
    retry = ActivityRetryEvent(envelope=ENVELOPE, op=OP, operation="llm.invoked", attempt=2, policy=policy)
    assert await one.delay(retry) == 6.0


async def test_a_tool_is_called_with_the_deadline_of_its_call(tmp_path: Path) -> None:
    op = Op(id="o", deadline=SYSTEM_CLOCK.now() + 60)
    call = ToolCall(id="c", name="echo", arguments={"text": "hi"})
    result = await bodies(tmp_path).invoke(ToolCallEvent(envelope=ENVELOPE, op=op, call=call))
    assert result == ToolResult(output=f"hi {op.deadline}")


async def test_a_tool_is_told_which_call_of_the_run_it_is(tmp_path: Path) -> None:
    @tool
    def keyed(context: ToolContext) -> str:
        return context.key

    one = Bodies(FakeModel(()), {"keyed": keyed}, ToolContext(workspace=Workspace.at(tmp_path)))
    for number in (1, 2):
        op = Op(id=f"run-1/3.tool.invoked.1#{number}", path="3.tool.invoked.1", pass_=number)
        event = ToolCallEvent(envelope=ENVELOPE, op=op, call=ToolCall(id="c", name="keyed"))
        assert await one.invoke(event) == ToolResult(output="run-1/3.tool.invoked.1")


@pytest.mark.promise(4)
async def test_a_tool_is_given_its_own_secrets_and_no_others(tmp_path: Path) -> None:
    @tool
    def shows(context: ToolContext) -> list[dict[str, str]]:
        return [dict(context.secrets), dict(context.environment)]

    context = ToolContext(workspace=Workspace.at(tmp_path), environment={"PATH": "p"})
    tools = {name: shows.configured(name=name) for name in ("first", "second")}
    one = Bodies(FakeModel(()), tools, context, secrets={"first": {"KEY": "correct-horse"}})

    async def call(name: str) -> ToolResult:
        event = ToolCallEvent(envelope=ENVELOPE, op=OP, call=ToolCall(id="c", name=name))
        return cast("ToolResult", await one.invoke(event))

    given = '[{"KEY":"correct-horse"},{"PATH":"p","KEY":"correct-horse"}]'
    assert await call("first") == ToolResult(output=given)
    assert await call("second") == ToolResult(output='[{},{"PATH":"p"}]')
    assert "correct-horse" not in repr(one)


async def test_a_tool_that_the_task_does_not_offer_is_a_failure(tmp_path: Path) -> None:
    event = ToolCallEvent(envelope=ENVELOPE, op=OP, call=ToolCall(id="c", name="rm"))
    with pytest.raises(OperationFailed, match="the task offers no tool called 'rm'") as caught:
        await bodies(tmp_path).invoke(event)
    assert caught.value.code == "tool"


async def test_a_tool_that_breaks_fails_its_operation(tmp_path: Path) -> None:
    @tool
    def breaks() -> str:
        raise ValueError("wrong")

    one = Bodies(FakeModel([]), {"breaks": breaks}, ToolContext(workspace=Workspace.at(tmp_path)))
    event = ToolCallEvent(envelope=ENVELOPE, op=OP, call=ToolCall(id="c", name="breaks"))
    with pytest.raises(OperationFailed, match="wrong") as caught:
        await one.invoke(event)
    assert caught.value.code == "tool"


async def test_the_model_is_asked(tmp_path: Path) -> None:
    response = ModelResponse(model="m", text="hello")
    one = bodies(tmp_path, response)
    request = ModelRequest(alias="default", model="m", messages=(Message(role="user", content="hi"),))
    assert await one.ask(ModelRequestEvent(envelope=ENVELOPE, op=OP, request=request)) == response


async def test_a_response_that_does_not_tell_its_cost_is_priced(tmp_path: Path) -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
    responses = [ModelResponse(model="m", usage=usage), ModelResponse(model="m", usage=usage, cost_usd=0.5)]
    context = ToolContext(workspace=Workspace.at(tmp_path))
    one = Bodies(FakeModel(responses), {}, context, prices=Prices(input=2.0, output=6.0))
    request = ModelRequest(alias="default", model="m", messages=(Message(role="user", content="hi"),))
    event = ModelRequestEvent(envelope=ENVELOPE, op=OP, request=request)
    priced = [cast("ModelResponse", await one.ask(event)) for _ in responses]
    assert [response.cost_usd for response in priced] == [5.0, 0.5]


@pytest.mark.parametrize("error", [ValueError("wrong"), SystemExit(3), asyncio.CancelledError()])
async def test_what_work_apart_raises_is_raised_here_and_ends_no_event_loop(error: BaseException) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        await apart(work())


@pytest.mark.timed
async def test_work_that_swallows_cancellation_is_left_behind() -> None:
    begun, stop = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue

    async def attempt() -> None:
        begun.clear()
        stop.clear()
        task = asyncio.ensure_future(apart(stubborn()))
        await asyncio.wait_for(begun.wait(), 5)
        loop = asyncio.get_running_loop()
        asked = loop.time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        took = loop.time() - asked
        stop.set()
        assert took < SETTLE_SECONDS + 0.05

    await one_of_three(attempt)
    assert await comes_true(lambda: len(asyncio.all_tasks()) == 1)


async def test_work_that_ends_when_it_is_cancelled_is_waited_for() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def tidy() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(apart(tidy()))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert ended.is_set()


def waiting() -> Callable[[object], Awaitable[object]]:
    async def body(event: object) -> object:
        return await asyncio.Event().wait()

    return body


async def test_a_body_is_ended_at_the_deadline_as_a_timeout() -> None:
    clock = FakeClock()
    bounded = within(waiting(), Op(id="o", deadline=clock.now() + 0.01), clock, "llm.invoked")
    with pytest.raises(OperationFailed, match=r"deadline passed during llm\.invoked") as caught:
        await asyncio.wait_for(bounded(None), 5)
    assert caught.value.code == "timeout"


async def test_a_timeout_of_the_bodys_own_is_not_the_runs() -> None:
    async def body(event: object) -> object:
        raise TimeoutError("theirs")

    bounded = within(body, Op(id="o", deadline=SYSTEM_CLOCK.now() + 60), SYSTEM_CLOCK, "llm.invoked")
    with pytest.raises(TimeoutError, match="theirs"):
        await bounded(None)


def test_a_body_without_a_deadline_is_called_as_it_is() -> None:
    body = waiting()
    assert within(body, OP, SYSTEM_CLOCK, "llm.invoked") is body
