"""What is recalled of a pass is what the loop was given when it was made: the law that replay rests on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.harness.world import ENVELOPE, OP, calls, only_run, project

from tenter.agent import Waiting
from tenter.catalogue import (
    ACTIVITY_RETRIED,
    HELP_DECIDED,
    LLM_INVOKED,
    RUN,
    SUBTASK_SPAWNED,
    TASK_COMPLETE,
    TASK_STATE_CHANGED,
    TOOL_CALLS_EXTRACTED,
    TOOL_INVOKED,
    ActivityRetryEvent,
    Approval,
    ApprovalDecision,
    ApprovalReason,
    ApprovalRequest,
    ApprovalResolvedEvent,
    HelpDecidedEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    OutputEvent,
    RetryPolicy,
    RunStartEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    TaskCompletedEvent,
    TaskRef,
    TaskStateChangedEvent,
    ToolCall,
    ToolCallEvent,
    ToolCallsEvent,
    ToolCallsExtractedEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
    ToolSpec,
    Usage,
)
from tenter.harness import Harness, Step
from tenter.harness.recalled import acted_event, acting_event, ending_of
from tenter.harness.record import Ending, Pass, Recorder
from tenter.harness.recording import RecordedPass, Recording
from tenter.journal import Entry, JournalError, MemoryStore, Stream
from tenter.kernel import (
    Block,
    Blocked,
    Done,
    Escalated,
    Event,
    Failed,
    FrozenDict,
    Operation,
    Phase,
    Requirement,
    Retry,
    Suspend,
    Suspended,
    Unknown,
    hook,
)

STREAM = Stream("run", "run-1")
SHELL = ToolInfo(name="shell", description="runs", parameters={"type": "object"})
REQUEST = ApprovalRequest(
    id="a1",
    run_id="run-1",
    operation="tool.invoked",
    path="1.tool.invoked.0",
    call={"call": {"name": "shell"}},
    digest="sha256:1",
    reasons=(ApprovalReason(hook="guard", reason="sure?", code="approval_required", editable=("call",)),),
    requested_at=1.5,
)
DECISION = ApprovalDecision(request_id="a1", run_id="run-1", decision="edit", by="me", edits={"n": 1}, decided_at=2.5)

texts = st.text(max_size=20)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(texts, plain, max_size=3) | texts
tool_calls = st.builds(ToolCall, id=texts, name=st.sampled_from(["shell", "other"]), arguments=cast("Any", arguments))
messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "tool"]),
        content=texts,
        tool_calls=st.lists(tool_calls, max_size=2).map(tuple),
        extensions=st.dictionaries(texts, plain, max_size=2),
    ),
    max_size=4,
).map(tuple)
responses = st.builds(
    ModelResponse,
    model=texts,
    text=texts,
    tool_calls=st.lists(tool_calls, max_size=2).map(tuple),
    output=plain,
    usage=st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
    cost_usd=st.none() | st.floats(0, 9),
    extensions=st.dictionaries(texts, plain, max_size=2),
)
results = st.builds(ToolResult, output=texts, is_error=st.booleans(), untrusted=st.booleans())
approvals = st.none() | st.builds(Approval, id=texts, hooks=st.lists(texts, max_size=2).map(tuple), digest=texts)


def call_event(call: ToolCall, tool: ToolInfo | None = SHELL, approval: Approval | None = None) -> ToolCallEvent:
    return ToolCallEvent(envelope=ENVELOPE, op=OP, call=call, tool=tool, approval=approval)


def asking(asked: tuple[Message, ...], **changes: Any) -> ModelRequestEvent:
    request = ModelRequest(alias="default", model="m", messages=asked, tools=(ToolSpec(name="shell"),), **changes)
    return ModelRequestEvent(envelope=ENVELOPE, op=OP, request=request)


CALL = call_event(ToolCall(id="c", name="shell", arguments={"command": "ls"}))
AFTER = ToolResultEvent(envelope=ENVELOPE, op=OP, call=CALL.call, tool=SHELL, result=ToolResult(output="a"))


async def recorded(
    turn: Pass, event: Event, ending: Ending | None, *, before: Event | None = None, worked: Event | None = None
) -> RecordedPass:
    """The pass as it is read back from a journal, by a recorder that follows it."""
    recorder, store = Recorder(), MemoryStore()
    entries = [Entry(kind="run", time=0, content={}), recorder.started(turn, event, 1.0)]
    if before is not None:
        entries.append(recorder.acting(turn, before, 2.0))
    if worked is not None:
        entries.append(recorder.acted(turn, worked, 3.0))
    if ending is not None:
        entries.append(recorder.finished(turn, ending, 4.0, known=worked, trace=3))
    await store.append(STREAM, entries)
    found = await (await Recording.begin(store, STREAM)).next(turn.op.path, turn.op.pass_, turn.phase)
    assert found is not None
    follower = Recorder()
    assert follower.input_digest(event) == found.input
    return follower.follow(turn, event, found)


@given(tool_calls, tool_calls, results, results, approvals, st.booleans())
async def test_a_tool_call_comes_back_as_it_was_made(  # what hypothesis draws
    own: ToolCall, made: ToolCall, worked: ToolResult, told: ToolResult, approval: Approval | None, offered: bool
) -> None:
    turn, event = Pass(TOOL_INVOKED, OP), call_event(own, SHELL if offered else None, approval)
    before = event.replace(call=made)
    acted = ToolResultEvent(
        envelope=ENVELOPE, op=OP, call=made, tool=event.tool, approval=event.approval, result=worked
    )
    ended = acted if told == worked else acted.replace(result=told)
    found = await recorded(turn, event, Done(ended), before=before, worked=acted)
    assert acting_event(event, found) == before
    assert acted_event(turn, event, found) == acted
    assert ending_of(turn, event, found) == Done(ended)


@given(messages, messages, responses, responses, st.none() | st.floats(0, 2))
async def test_a_request_and_its_response_come_back_as_they_were(
    own: tuple[Message, ...],
    sent: tuple[Message, ...],
    worked: ModelResponse,
    told: ModelResponse,
    temperature: float | None,
) -> None:
    turn, event = Pass(LLM_INVOKED, OP), asking(own)
    before = asking(sent, temperature=temperature)
    acted = ModelResponseEvent(envelope=ENVELOPE, op=OP, request=before.request, response=worked)
    found = await recorded(turn, event, Done(acted.replace(response=told)), before=before, worked=acted)
    assert acting_event(event, found) == before
    assert acted_event(turn, event, found) == acted
    assert ending_of(turn, event, found) == Done(acted.replace(response=told))


@given(responses, st.lists(tool_calls, max_size=3).map(tuple))
async def test_the_calls_of_a_response_come_back(response: ModelResponse, made: tuple[ToolCall, ...]) -> None:
    turn, event = Pass(TOOL_CALLS_EXTRACTED, OP), ToolCallsEvent(envelope=ENVELOPE, op=OP, response=response)
    acted = ToolCallsExtractedEvent(envelope=ENVELOPE, op=OP, response=response, calls=made)
    found = await recorded(turn, event, Done(acted), before=event, worked=acted)
    assert ending_of(turn, event, found) == Done(acted)


@given(plain, plain)
async def test_an_output_of_any_shape_comes_back(own: object, judged: object) -> None:
    turn, event = Pass(TASK_COMPLETE, OP), OutputEvent(envelope=ENVELOPE, op=OP, output=own, attempt=1)
    acted = TaskCompletedEvent(envelope=ENVELOPE, op=OP, verdict="fail", output=judged, reason="no", attempt=1)
    found = await recorded(turn, event, Done(acted), before=event, worked=acted)
    assert ending_of(turn, event, found) == Done(acted)


ENDINGS: Sequence[Ending] = (
    Blocked(reason="no", code="policy", hook="guard", stop=True),
    Blocked(reason="broke", code="hook_failed", hook="guard", failed=True),
    Escalated(reason="look", queue="ops", hook="guard"),
    Retry("again", feedback="shorter"),
    Retry("again"),
    Failed(message="broke", code="tool", exception="OSError", retryable=True),
    Failed(message="broke", hook="guard"),
    Unknown(reason="it died"),
    Unknown(reason="it died", event=CALL.with_arguments(command="rm"), digest="sha256:2"),
    Suspended(
        requirements=(
            Requirement(hook="a", reason="sure?", editable=("call",), expires_in=2.5, on_timeout="escalate"),
            Requirement(hook="b", reason="really?", code="risk"),
        ),
        event=CALL.with_arguments(command="rm -r"),
        digest="sha256:1",
    ),
    Waiting(requests=(REQUEST, msgspec.structs.replace(REQUEST, id="a2", root_run_id="run-0"))),
)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("began", [True, False])
async def test_every_ending_comes_back(ending: Ending, began: bool) -> None:
    turn = Pass(TOOL_INVOKED, OP)
    found = await recorded(turn, CALL, ending, before=CALL if began else None)
    assert same(ending_of(turn, CALL, found), ending)


def same(one: Ending, other: Ending) -> bool:
    """Outcomes are exceptions, and those compare as objects."""
    return str(one) == str(other) if isinstance(one, Retry) else one == other


async def test_a_request_that_waits_for_a_person_comes_back_as_hooks_left_it() -> None:
    own, sent = (Message(role="user", content="a"),), (Message(role="user", content="b"),)
    for before in (None, asking(own), asking((*sent, *own))):
        ending = Suspended(
            requirements=(Requirement(hook="a", reason="?"),), event=asking((*own, *sent)), digest="sha256:1"
        )
        found = await recorded(Pass(LLM_INVOKED, OP), asking(own), ending, before=before)
        assert ending_of(Pass(LLM_INVOKED, OP), asking(own), found) == ending


async def test_a_fact_and_the_ends_of_spans_come_back() -> None:
    task = TaskRef(id="t", name="other")
    start = RunStartEvent(envelope=ENVELOPE, op=OP, task=ENVELOPE.task, input="a")
    fact = TaskStateChangedEvent(envelope=ENVELOPE, op=OP, before="pending", after="running")
    spawn = SubtaskSpawnEvent(envelope=ENVELOPE, op=OP, parent=ENVELOPE.task, task=task, input="go")
    result = SubtaskResult(
        run_id="t", task="other", status="completed", output=("done", 1), usage=Usage(input_tokens=1)
    )
    spawned = SubtaskSpawnedEvent(envelope=ENVELOPE, op=OP, parent=ENVELOPE.task, task=task, input="go", result=result)
    whole: Sequence[tuple[Operation[Any, Any], Phase | None, Event, Event, Event | None]] = (
        (TASK_STATE_CHANGED, None, fact, fact, None),
        (RUN, "pre", start, start, start),
        (RUN, "pre", start, start.replace(input="b"), start),
        (SUBTASK_SPAWNED, "pre", spawn, spawn.replace(input="b"), spawn),
        (SUBTASK_SPAWNED, "post", spawn, spawned, None),
    )
    for operation, phase, event, ended, known in whole:
        turn, recorder, store = Pass(operation, OP, phase), Recorder(), MemoryStore()
        entries = [
            Entry(kind="run", time=0, content={}),
            recorder.started(turn, event, 1.0),
            recorder.finished(turn, Done(ended), 2.0, known=known),
        ]
        await store.append(STREAM, entries)
        found = await (await Recording.begin(store, STREAM)).next(OP.path, 1, phase)
        assert found is not None
        assert ending_of(turn, event, found) == Done(ended)


async def test_what_a_person_decided_comes_back() -> None:
    event = ApprovalResolvedEvent(envelope=ENVELOPE, op=OP, request=REQUEST, decision=DECISION)
    other = msgspec.structs.replace(DECISION, edits={"n": True, "of": {"x": (1.5, None)}})
    acted = HelpDecidedEvent(envelope=ENVELOPE, op=OP, request=REQUEST, decision=other)
    turn = Pass(HELP_DECIDED, OP)
    found = await recorded(turn, event, Done(acted), before=event, worked=acted)
    ending = ending_of(turn, event, found)
    assert ending == Done(acted)
    assert "True" in str(ending)


async def test_a_result_of_a_type_of_its_own_comes_back_as_it_was_said() -> None:
    odd = ToolResult(output=cast("Any", 7), is_error=cast("Any", "yes"))
    acted = AFTER.replace(result=odd)
    found = await recorded(Pass(TOOL_INVOKED, OP), CALL, Done(acted), before=CALL, worked=acted)
    assert ending_of(Pass(TOOL_INVOKED, OP), CALL, found) == Done(acted)


async def test_a_tool_that_a_hook_named_is_looked_up_where_it_is_known() -> None:
    other = ToolInfo(name="other", description="another")
    turn, before = Pass(TOOL_INVOKED, OP), CALL.replace(tool=other)
    found = await recorded(turn, CALL, None, before=before)
    assert acting_event(CALL, found, tools={"other": other}) == before
    assert acting_event(CALL, found) == CALL.replace(tool=ToolInfo(name="other"))
    none = await recorded(turn, CALL, None, before=CALL.replace(tool=None))
    assert acting_event(CALL, none) == CALL.replace(tool=None)


async def test_a_retry_policy_that_was_recorded_as_a_mapping_comes_back_as_one() -> None:
    policy = RetryPolicy(jitter=0.25)
    turn = Pass(ACTIVITY_RETRIED, OP)
    event = ActivityRetryEvent(envelope=ENVELOPE, op=OP, operation="llm.invoked", attempt=1, policy=policy)
    then = event.replace(policy=FrozenDict(msgspec.structs.asdict(policy)))
    changed = then.replace(policy=FrozenDict({"first_seconds": 8, "attempts": 3}))
    found = await recorded(turn, then, None, before=changed)
    assert Recorder().input_digest(event) == found.input
    assert acting_event(event, found) == event.replace(policy=RetryPolicy(first_seconds=8.0, attempts=3))
    as_told = await recorded(turn, then, None, before=then)
    assert acting_event(event, as_told) == event


async def test_what_the_pre_chain_left_alone_is_the_event_of_the_loop_itself() -> None:
    found = await recorded(Pass(TOOL_INVOKED, OP), CALL, Done(AFTER), before=CALL, worked=AFTER)
    assert acting_event(CALL, found) is CALL
    never = await recorded(Pass(TOOL_INVOKED, OP), CALL, ENDINGS[0])
    assert acting_event(CALL, never) is CALL


@pytest.mark.parametrize("content", [{"outcome": "of the future"}, {"outcome": "suspended"}, {}])
async def test_a_record_that_is_not_to_be_understood_is_damage(content: Mapping[str, object]) -> None:
    found = await recorded(Pass(TOOL_INVOKED, OP), CALL, None)
    with pytest.raises(JournalError, match="not to be understood") as caught:
        ending_of(Pass(TOOL_INVOKED, OP), CALL, msgspec.structs.replace(found, finished=content))
    assert caught.value.trouble == "damaged"


@hook("model.before")
def brief(event: ModelRequestEvent) -> ModelRequestEvent:
    """Edits the history at each step."""
    request = event.request
    return event.replace(
        request=msgspec.structs.replace(
            request, messages=(Message(role="system", content="Be brief."), *request.messages[-3:]), temperature=0.5
        )
    )


@hook("tool.before")
def renamed(event: ToolCallEvent) -> ToolCallEvent | Block | None:
    if event.call.arguments.get("path") == "secret":
        return Block("not that")
    return event.with_arguments(path="b.txt") if event.call.arguments.get("path") == "a.txt" else None


@hook("tool.after")
def cut(event: ToolResultEvent) -> ToolResultEvent:
    return event.replace(result=msgspec.structs.replace(event.result, output=event.result.output[:5]))


@hook("output.before")
def wanting(event: OutputEvent) -> Retry | None:
    return Retry("longer", feedback="Say more.") if event.attempt == 0 else None


@hook("output.before")
def asked(event: OutputEvent) -> Suspend | None:
    return Suspend("publish?", expires_in=60) if event.attempt == 1 else None


def read(*paths: str) -> dict[str, object]:
    return calls(*(("read_file", {"path": path}) for path in paths))


@pytest.mark.promise(4)
@pytest.mark.parametrize("settings", [{}, {"parallel_tools": True}])
@pytest.mark.parametrize("hooks", [(), (brief,), (renamed, cut), (brief, renamed, cut, wanting), (wanting, asked)])
async def test_all_that_happened_in_a_run_is_recalled_as_it_was(
    tmp_path: Path, hooks: Sequence[object], settings: Mapping[str, object]
) -> None:
    (tmp_path / "a.txt").write_text("The content of a.")
    (tmp_path / "b.txt").write_text("Another.")
    turns = read("a.txt", "b.txt"), read("missing", "secret"), calls(("unknown", {})), "Done.", "Done, at last."
    task = {"version": 3, "model": "default", "instructions": "Do it.", "tools": ["read_file"], **settings}
    path = project(tmp_path, *turns, settings={"tasks": {"work": task}})
    store, happened = MemoryStore(), list[Step]()
    async with Harness.from_file(path, hooks=hooks, store=store) as harness:
        await harness.run("work", "go", watcher=happened.append)
        recording = await Recording.begin(store, Stream("run", await only_run(store)))
        recorder, events, recalled = Recorder(), dict[tuple[object, ...], Event](), 0
        operations = harness.runtime.catalogue.operations
        for step in happened:
            place = (step.op.path, step.op.pass_, step.operation == "run" and step.event.__class__.__name__)
            if step.ending is None:
                events[place] = step.event
                continue
            phase: Phase | None = None
            if operations[step.operation].shape == "span":
                phase = "pre" if isinstance(step.event, operations[step.operation].before) else "post"
            turn, event = Pass(operations[step.operation], step.op, phase), events[place]
            found = await recording.next(step.op.path, step.op.pass_, phase)
            assert found is not None
            assert recorder.input_digest(event) == found.input
            found = recorder.follow(turn, event, found)
            assert same(ending_of(turn, event, found), step.ending), step.op.path
            recalled += 1
        assert await recording.rest() == ()
    assert recalled > 12
