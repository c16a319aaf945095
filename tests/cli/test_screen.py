"""The steps of a run, as a person sees them while they happen."""

import sys
from typing import Any, cast

import msgspec
import pytest

from tenter.agent import Waiting
from tenter.catalogue import (
    Approval,
    Message,
    ModelRequest,
    ModelResponse,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    TaskRef,
    ToolCall,
    ToolResult,
)
from tenter.cli.screen import Screen
from tenter.cli.words import Said
from tenter.harness import RunResult, Step
from tenter.kernel import (
    AfterEvent,
    Blocked,
    Detail,
    Done,
    Ending,
    Escalated,
    Failed,
    FrozenDict,
    Requirement,
    Retry,
    Suspended,
    TraceEvent,
    Unknown,
)
from tenter.testing import sample_event

HOSTILE = "red\x1b[31m\x9b2J\u202e\u2028end"
SHOWN = "red\\x1b[31m\\x9b2J\\u202e\\u2028end"


@pytest.fixture(autouse=True)
def a_terminal_of_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def unmasked(text: str) -> str:
    return text


def shell(**arguments: object) -> ToolCall:
    return ToolCall(id="1", name="shell", arguments=FrozenDict(arguments))


def step(point: str, ending: Ending | None = None, *, trace: tuple[TraceEvent, ...] = (), **fields: object) -> Step:
    event: Any = sample_event(point, **fields)
    wider: Any = ending  # what the engine tells of is typed by the event that it keeps, and Done takes no other
    return Step(operation=point.rpartition(".")[0], op=event.op, event=event, ending=wider, trace=trace)


def done(point: str, **fields: object) -> Done[AfterEvent]:
    return Done(cast(AfterEvent, sample_event(point, **fields)))


def said(source: str, *, kind: str = "outcome", code: str = "", **details: Detail) -> TraceEvent:
    return TraceEvent(
        sequence=1,
        time=0,
        kind="failure" if kind == "failure" else "outcome",
        source=source,
        code=code,
        details=FrozenDict(details),
    )


def lines(capsys: pytest.CaptureFixture[str], *steps: Step) -> list[str]:
    """What the steps print, after the line that names the run."""
    screen = Screen(unmasked)
    for one in steps:
        screen.show(one)
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *rest = shown.err.splitlines()
    assert first == "run      run-1 of the task 'task'"
    return rest


def test_a_call_and_what_came_of_it_are_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    call = shell(command="ls", times=2)
    before = step("tool.invoked.pre", call=call)
    after = step(
        "tool.invoked.pre",
        done("tool.invoked.post", call=call, result=ToolResult(output="exit code 0\na\nb")),
        call=call,
    )
    assert lines(capsys, before, after) == [
        'tool     shell(command="ls", times=2)',
        "  ok     exit code 0 … b (3 lines)",
    ]


def test_a_call_that_was_rewritten_is_shown_as_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    after = step(
        "tool.invoked.pre",
        done("tool.invoked.post", call=shell(command="ls -l"), result=ToolResult(output="no", is_error=True)),
        trace=(said("rewriter", disposition="pass", modified=True),),
        call=shell(command="ls"),
    )
    assert lines(capsys, after) == [
        "  hook   rewriter rewrote it",
        '  as     shell(command="ls -l")',
        "  failed no",
    ]


def test_a_sub_run_is_told_of_when_it_begins_and_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    around: Any = sample_event("tool.invoked.pre")
    task = TaskRef(id="run-2", name="look")
    who: Any = {"envelope": around.envelope, "op": around.op, "parent": around.envelope.task, "task": task}
    event = SubtaskSpawnEvent(**who, input=f"look {HOSTILE}")
    came = SubtaskResult(run_id="run-2", task="look", status="completed", output="found")
    ended: Any = Done(SubtaskSpawnedEvent(**who, input=event.input, result=came))
    before, waits, after = (
        Step(operation="subtask.spawned", op=around.op, event=event, ending=ending)
        for ending in (None, Waiting(requests=()), ended)
    )
    assert lines(capsys, before, waits, after) == [
        "spawn    run-2 of the task 'look': look red\\x1b[31m\\x9b2J\\u202e end",
        "  ended  run-2: completed",
    ]


def test_arguments_that_are_no_object_are_shown_as_they_came(capsys: pytest.CaptureFixture[str]) -> None:
    call = ToolCall(id="1", name="shell", arguments="not json")  # pyright: ignore[reportArgumentType]  # a model may
    assert lines(capsys, step("tool.invoked.pre", call=call)) == ["tool     shell(not json)"]


@pytest.mark.parametrize(
    ("ending", "shown"),
    [
        (Blocked(reason="no", code="c", hook="guard"), ["  blocked by guard: no"]),
        (Blocked(reason="x\ny", code="c", hook="g", failed=True), ["  blocked by the failure of g:", "  | x", "  | y"]),
        (Escalated(reason="why", queue="ops", hook="guard"), ["  handed to ops by guard: why"]),
        (Failed(message="why"), ["  failed llm.invoked: why"]),
        (Failed(message="why", hook="guard"), ["  failed llm.invoked, the hook guard: why"]),
        (Retry("why"), ["  again  llm.invoked: why"]),
        (Unknown(reason="why"), ["  unknown llm.invoked: why"]),
        (
            Suspended(
                requirements=(Requirement(hook="a", reason="one"), Requirement(hook="b", reason="two")),
                event=sample_event("llm.invoked.pre"),
                digest="",
            ),
            ["  waits  for a person, asked by a: one", "  waits  for a person, asked by b: two"],
        ),
    ],
)
def test_whoever_stops_an_operation_is_named_with_the_whole_reason(
    ending: Ending, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(capsys, step("llm.invoked.pre", ending)) == shown


def test_the_hook_that_stopped_it_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    trace = (
        said("first", kind="failure", code="timeout", disposition="warn"),
        said("shadow", disposition="block", shadow=True),
        said("guard", code="policy_denied", disposition="block"),
    )
    ended = step("llm.invoked.pre", Blocked(reason="no", code="c", hook="guard"), trace=trace)
    assert lines(capsys, ended) == [
        "  hook   first failed (timeout), which was let pass",
        "  hook   shadow blocked it [shadow: not applied]",
        "  blocked by guard: no",
    ]


def test_of_a_hook_that_wanted_a_person_it_is_told_why_none_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = (
        said("policy", disposition="suspend", lifted="waived", lifted_by="nolook"),
        said("risk", disposition="suspend", lifted="approved"),
    )
    ended = step("tool.invoked.pre", done("tool.invoked.post", result=ToolResult(output="paid")), trace=wanted)
    approval = Approval(id="q1", hooks=(), digest="", by=HOSTILE)
    told = lines(capsys, msgspec.structs.replace(ended, op=msgspec.structs.replace(ended.op, approval=approval)))
    assert told[:2] == [
        "  hook   policy wanted a person: waived by nolook",
        f"  hook   risk wanted a person: approved by {SHOWN}".replace("\\u2028", " "),
    ]


def test_why_a_hook_failed_is_told_on_one_line_where_the_ending_does_not_tell_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = (
        said("first", kind="failure", code="crashed", disposition="warn"),
        msgspec.structs.replace(said("guard", kind="failure", code="crashed", disposition="block"), sequence=2),
    )
    ending = Blocked(reason="the hook 'guard' failed", code="hook_failed", hook="guard", failed=True)
    ended = step("llm.invoked.pre", ending, trace=trace)
    reasons = {1: f"KeyError: 'silver' {HOSTILE}", 2: "the hook 'guard' failed"}
    assert lines(capsys, msgspec.structs.replace(ended, reasons=reasons)) == [
        f"  hook   first failed (crashed), which was let pass: KeyError: 'silver' {SHOWN}".replace("\\u2028", " "),
        "  blocked by the failure of guard: the hook 'guard' failed",
    ]


def test_what_hooks_said_is_kept_for_the_summary_with_what_no_step_told(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = said("a", disposition="pass", modified=True, point="p"), said("b", disposition="block", point="q")
    second = msgspec.structs.replace(second, sequence=2)
    screen = Screen(unmasked, shown=False)
    failed = msgspec.structs.replace(step("llm.invoked.pre", Retry("x"), trace=(first,)), reasons={1: "because"})
    screen.show(failed)
    result = RunResult(
        run_id="run-1", task="t", task_version=1, status="failed", trace=(first, second), started_at=0, ended_at=1
    )
    assert screen.said(result) == (
        Said(hook="a", point="p", phrase="rewrote it", reason="because"),
        Said(hook="b", point="q", phrase="blocked it"),
    )
    assert capsys.readouterr().err == ""


@pytest.mark.fault(43)
def test_nothing_that_a_model_a_tool_or_a_hook_says_is_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    request = ModelRequest(alias="a", model="m", messages=(Message(role="user"),))
    answer = done("llm.invoked.post", request=request, response=ModelResponse(model="m", text=HOSTILE))
    call = shell(**{HOSTILE: HOSTILE})
    shown = lines(
        capsys,
        step("llm.invoked.pre", answer),
        step("tool.invoked.pre", call=call),
        step("tool.invoked.pre", done("tool.invoked.post", call=call, result=ToolResult(output=HOSTILE)), call=call),
        step("tool.invoked.pre", Blocked(reason=HOSTILE, code="c", hook="guard"), call=call),
    )
    assert shown == [
        f"model    {SHOWN}".replace("\\u2028", " "),
        shown[1],
        f"  ok     {SHOWN}".replace("\\u2028end", " … end (2 lines)"),
        f"  blocked by guard: {SHOWN}",
    ]
    assert all(line.isprintable() for line in shown)


@pytest.mark.fault(43)
def test_no_text_can_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "done\nrun      run-2 of the task 'other'\r\n  ok     all is well"
    request = ModelRequest(alias="a", model="m", messages=(Message(role="user"),))
    shown = lines(
        capsys,
        step(
            "llm.invoked.pre", done("llm.invoked.post", request=request, response=ModelResponse(model="m", text=forged))
        ),
        step("llm.invoked.pre", Blocked(reason=forged, code="c", hook="guard")),
    )
    assert [line[:4] for line in shown] == ["mode", "  bl", "  | ", "  | ", "  | "]


@pytest.mark.promise(4)
def test_what_looks_like_a_secret_is_masked_before_it_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    def mask(text: str) -> str:
        return text.replace("opensesame", "[redacted]")

    screen = Screen(mask)
    screen.show(step("tool.invoked.pre", call=shell(command=("x" * 62) + "opensesame")))
    screen.show(step("llm.invoked.pre", Blocked(reason="opensesame", code="c", hook="guard")))
    failed = said("broken", kind="failure", code="crashed", disposition="warn")
    ended = step("llm.invoked.pre", Retry("x"), trace=(failed,))
    screen.show(msgspec.structs.replace(ended, reasons={1: ("x" * 990) + "opensesame" + "x"}))
    shown = capsys.readouterr().err
    assert "opens" not in shown
    assert "blocked by guard: [redacted]" in shown


@pytest.mark.parametrize("width", ["40", "100"])
def test_a_line_fits_the_terminal(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    call = shell(command="x" * 500)
    result = ToolResult(output=("y" * 500) + "\n" + ("z" * 500))
    shown = lines(
        capsys,
        step("tool.invoked.pre", call=call),
        step("tool.invoked.pre", done("tool.invoked.post", call=call, result=result), call=call),
    )
    assert [len(line) <= int(width) for line in shown] == [True, True]
    assert len(shown[0]) == int(width)


def test_a_screen_that_shows_nothing_still_knows_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(unmasked, shown=False)
    screen.show(step("tool.invoked.pre", call=shell(command="ls")))
    assert screen.run_id == "run-1"
    assert capsys.readouterr() == ("", "")


def test_a_screen_that_cannot_be_written_to_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    screen = Screen(unmasked)
    screen.show(step("tool.invoked.pre", call=shell(command="ls")))
    screen.show(step("tool.invoked.pre", call=shell(command="ls")))
    assert screen.run_id == "run-1"
