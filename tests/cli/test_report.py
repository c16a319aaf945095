"""What is told at the end of a run."""

import pytest

from tenter.catalogue import (
    CATALOGUE,
    REQUEST_RECEIVED,
    ApprovalReason,
    ApprovalRequest,
    ErrorInfo,
    InputEvent,
    OutputEvent,
    Usage,
)
from tenter.cli.report import MOST_OF_A_CALL, how_to_answer, request_text, status_line, summary, told, verdict
from tenter.cli.words import Said, phrase
from tenter.harness import RunResult
from tenter.kernel import Block, FrozenDict, Runtime, Trace, hook
from tenter.testing import sample_event

PROJECT = "tenter.yaml"
FORGERY = "no\nrun 1: completed\x1b[31m\u2028\u202e"


def result(**fields: object) -> RunResult:
    plain: dict[str, object] = {
        "run_id": "abc",
        "task": "job",
        "task_version": 1,
        "status": "completed",
        "started_at": 10.0,
        "ended_at": 10.25,
    }
    return RunResult(**{**plain, **fields})  # pyright: ignore[reportArgumentType]  # the fields of a RunResult


def redacting(text: str) -> str:
    return text.replace("opensesame", "[redacted]")


def plain(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"cost_usd": 0.0096, "usage": Usage(input_tokens=3, output_tokens=4)}, "3 + 4 tokens, $0.0096"),
        ({"cost_usd": 0.5, "cost_known": False}, "0 + 0 tokens, at least $0.5000"),
        ({"cost_usd": 0.0, "cost_known": False}, "0 + 0 tokens"),
        ({"cost_known": False, "journal_head": "sha256:" + "0" * 64}, f"0 + 0 tokens, journal head sha256:{'0' * 64}"),
    ],
)
def test_the_status_line_names_the_run_its_end_and_its_use(fields: dict[str, object], line: str) -> None:
    assert status_line(result(**fields)) == f"run abc: completed in 250 ms, {line}"


@pytest.mark.parametrize(
    ("status", "details", "said"),
    [
        ("blocked", {"hook": "guard", "code": "policy_denied"}, "blocked by the hook 'guard': why"),
        ("blocked", {"hook": "budget", "code": "budget_exceeded"}, "blocked by tenter's own check 'budget': why"),
        ("escalated", {"hook": "guard", "queue": "ops"}, "escalated to 'ops' by the hook 'guard': why"),
        ("failed", {"operation": "llm.invoked"}, "failed: why"),
    ],
)
def test_the_verdict_names_who_and_why(status: str, details: dict[str, object], said: str) -> None:
    error = ErrorInfo(code="policy", message="why", details=FrozenDict(details))
    assert verdict(result(status=status, error=error), plain, config=PROJECT) == said


@pytest.mark.promise(4)
def test_a_reason_is_masked() -> None:
    error = ErrorInfo(code="policy", message="it said opensesame")
    said = verdict(
        result(status="blocked", error=error), lambda text: text.replace("opensesame", "[redacted]"), config=PROJECT
    )
    assert said == "blocked: it said [redacted]"


@pytest.mark.fault(43)
def test_a_reason_of_many_lines_is_whole_and_none_is_ours() -> None:
    said = told("blocked", FORGERY).splitlines()
    assert said[0] == "blocked:"
    assert said[1:] == ["  | no", "  | run 1: completed\\x1b[31m\\u2028\\u202e"]


def request(request_id: str = "r1", *, editable: tuple[str, ...] = (), **fields: object) -> ApprovalRequest:
    reasons = (
        ApprovalReason(hook="risk", reason="it removes", code="risk", editable=editable),
        ApprovalReason(hook="late", reason="soon", code="risk", editable=("*",), expires_at=9.0, on_timeout="escalate"),
        ApprovalReason(hook="cost", reason=FORGERY, code="risk", editable=("*",)),
    )
    plain: dict[str, object] = {
        "id": request_id,
        "run_id": "abc",
        "operation": "tool.invoked",
        "path": "1.tool.invoked.0",
        "call": FrozenDict({"call": {"name": "shell", "arguments": {"command": "rm x"}}, "tool": None}),
        "digest": "sha256:0",
        "reasons": reasons,
        "requested_at": 1.0,
    }
    return ApprovalRequest(**{**plain, **fields})  # pyright: ignore[reportArgumentType]  # the fields of a request


def waiting(*requests: ApprovalRequest) -> RunResult:
    return result(status="awaiting_approval", approvals=requests)


def test_a_request_shows_the_call_every_reason_and_how_to_answer() -> None:
    said = verdict(waiting(request(editable=("command",))), plain, config=PROJECT)
    assert said.startswith("waiting for a person to decide on tool.invoked, request r1:\n")
    assert '"command":"rm x"' in said
    assert "asked by 'risk': it removes" in said
    assert "asked by 'late' until 1970-01-01T00:00:09Z (then: escalate): soon" in said
    assert "\n  may be edited: command\n" in said
    assert "\n  digest sha256:0\n" in said
    assert "  | run 1: completed\\x1b" in said
    last = said.splitlines()[-1]
    assert last == "'tenter approvals approve abc r1' (or reject, edit) decides; 'tenter resume abc' goes on then"


def test_what_may_not_be_edited_is_not_offered() -> None:
    assert "may be edited" not in request_text(request(), plain, config=PROJECT)


def test_an_edit_is_offered_where_one_of_the_requests_takes_it() -> None:
    some = how_to_answer([request(), request("r2", editable=("command",))], config=PROJECT)
    assert "(or reject, edit) decides on each" in some
    assert "(or reject) decides;" in how_to_answer([request()], config=PROJECT)


def test_commands_name_the_project_where_it_is_not_the_one_of_the_folder() -> None:
    said = verdict(waiting(request()), plain, config="u/it's.yaml").splitlines()[-1]
    assert said == (
        """`tenter approvals approve abc r1 -c 'u/it'"'"'s.yaml'` (or reject) decides; """
        """`tenter resume abc -c 'u/it'"'"'s.yaml'` goes on then"""
    )
    huge = {"name": "shell", "arguments": {"command": "x" * 20_000}}
    whole = request_text(request(call=FrozenDict({"call": huge})), plain, config="u/x.yaml")
    assert "'tenter approvals show abc r1 --json -c u/x.yaml' has the whole call" in whole


def test_of_a_call_that_may_have_been_made_it_is_said_that_approve_makes_it_again() -> None:
    again = ApprovalReason(hook="duplicate", reason="its process ended while it acted", code="unknown")
    said = verdict(waiting(request(reasons=(again,))), plain, config=PROJECT)
    assert "\n  approve makes the call AGAIN: look first whether it was done; reject ends the run without it\n" in said
    assert "edit" not in said
    assert "AGAIN" not in request_text(request(), plain, config=PROJECT)


def test_all_that_a_run_waits_for_is_told_and_the_run_to_resume_is_the_outermost() -> None:
    said = verdict(waiting(request(), request("r2", run_id="child", root_run_id="abc")), plain, config=PROJECT)
    assert "decide on tool.invoked, request r1:\n" in said
    assert "decide on tool.invoked of its sub-run child, request r2:\n" in said
    last = said.splitlines()[-1]
    assert last.startswith("'tenter approvals approve abc ID' (or reject) decides on each; 'tenter resume abc'")


@pytest.mark.fault(43)
def test_a_call_is_shown_whole_and_escaped() -> None:
    call = {"name": "shell", "arguments": {"command": "x" * 5000 + FORGERY + "the end"}}
    said = request_text(request(call=FrozenDict({"call": call})), plain, config=PROJECT)
    (line,) = [one for one in said.splitlines() if "xxx" in one]
    assert "x" * 5000 in line
    assert line.endswith('no\\nrun 1: completed\\u001b[31m\\u2028\\u202ethe end"}}')


def test_of_a_huge_call_it_is_said_that_this_is_not_all_and_where_all_is() -> None:
    call = {"name": "shell", "arguments": {"command": "x" * 20_000}}
    said = request_text(request(call=FrozenDict({"call": call})), plain, config=PROJECT).splitlines()
    assert len(said[1]) < 11_000
    assert said[2].startswith("  NOT ALL OF IT: 10")
    assert said[2].endswith("characters more; 'tenter approvals show abc r1 --json' has the whole call")


@pytest.mark.promise(4)
def test_a_call_is_masked_before_it_is_cut() -> None:
    shown = len('{"name":"shell","arguments":{"command":"')
    call = {"name": "shell", "arguments": {"command": "x" * (MOST_OF_A_CALL - shown - 5) + "opensesame"}}
    said = request_text(request(call=FrozenDict({"call": call})), redacting, config=PROJECT)
    assert "opens" not in said
    assert "x[reda" in said


async def test_the_summary_tells_of_each_hook_once_for_each_of_its_points() -> None:
    @hook("input.before", name="guard")
    def guard(event: InputEvent) -> Block | None:
        return Block("no") if event.input == "bad" else None

    @hook("input.before", name="rewriter")
    def rewriter(event: InputEvent) -> InputEvent:
        return event.replace(input="better")

    @hook("input.before", name="broken", on_error="warn")
    def broken(event: InputEvent) -> None:
        raise ValueError("opensesame")

    @hook("input.before", name="watcher", observe=True)
    def watcher(event: InputEvent) -> None:
        pass

    @hook("output.before", name="idle")
    def idle(event: OutputEvent) -> None:
        pass

    runtime, trace = Runtime(CATALOGUE, hooks=[guard, rewriter, broken, watcher, idle]), Trace()
    event = sample_event(REQUEST_RECEIVED.point("pre"))
    assert isinstance(event, InputEvent)
    for text in ("good", "bad"):
        await runtime.dispatch("input.before", event.replace(input=text), trace=trace)
    said = [
        Said(hook=one.source, point=str(one.details["point"]), phrase=phrase(one))
        for one in trace.events()
        if one.kind in ("outcome", "failure")
    ]
    lines = summary(runtime.links(), said, config="tenter.yaml").splitlines()
    assert lines[0] == "what the hooks did:"
    told_of = {line.split()[1]: line.partition("  (")[0].split(None, 2)[2].strip() for line in lines[1:]}
    assert told_of == {
        "guard": "blocked it 1x, passed 1x",
        "rewriter": "rewrote it 1x",
        "broken": "failed (crashed), which was let pass 1x",
        "watcher": "watched 2x",
        "idle": "was not called",
    }
    assert all(line.split()[0] in ("input.before", "output.before") for line in lines[1:])


async def test_the_summary_tells_each_reason_of_a_failure_once_and_not_without_end() -> None:
    @hook("input.before", name="broken", on_error="warn")
    def broken(event: InputEvent) -> None:
        raise ValueError

    runtime = Runtime(CATALOGUE, hooks=[broken])
    event = sample_event(REQUEST_RECEIVED.point("pre"))
    for _ in range(6):
        await runtime.dispatch("input.before", event)
    said = [Said(hook="broken", point="input.before", phrase="failed", reason=f"for {reason}") for reason in "aabcde"]
    lines = summary(runtime.links(), said, config="tenter.yaml").splitlines()
    assert lines[1].strip().startswith("input.before  broken  failed 6x  (")
    assert lines[2:] == ["    for a", "    for b", "    for c", "    and 2 other reasons"]


def test_a_runtime_without_hooks_says_so() -> None:
    assert summary(Runtime(CATALOGUE).links(), (), config="tenter.yaml") == "no hooks"
