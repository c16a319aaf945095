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
from tenter.cli.report import status_line, summary, told, verdict
from tenter.harness import RunResult
from tenter.kernel import Block, FrozenDict, Runtime, Trace, hook
from tenter.testing import sample_event

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


def plain(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"cost_usd": 0.0096, "usage": Usage(input_tokens=3, output_tokens=4)}, "3 + 4 tokens, $0.0096"),
        ({"cost_usd": 0.5, "cost_known": False}, "0 + 0 tokens, at least $0.5000"),
        ({"cost_usd": 0.0, "cost_known": False}, "0 + 0 tokens"),
    ],
)
def test_the_status_line_names_the_run_its_end_and_its_use(fields: dict[str, object], line: str) -> None:
    assert status_line(result(**fields)) == f"run abc: completed in 250 ms, {line}"


@pytest.mark.parametrize(
    ("status", "details", "said"),
    [
        ("blocked", {"hook": "guard", "code": "policy_denied"}, "blocked by the hook 'guard': why"),
        ("escalated", {"hook": "guard", "queue": "ops"}, "escalated to 'ops' by the hook 'guard': why"),
        ("failed", {"operation": "llm.invoked"}, "failed: why"),
    ],
)
def test_the_verdict_names_who_and_why(status: str, details: dict[str, object], said: str) -> None:
    error = ErrorInfo(code="policy", message="why", details=FrozenDict(details))
    assert verdict(result(status=status, error=error), plain) == said


@pytest.mark.promise(4)
def test_a_reason_is_masked() -> None:
    error = ErrorInfo(code="policy", message="it said opensesame")
    said = verdict(result(status="blocked", error=error), lambda text: text.replace("opensesame", "[redacted]"))
    assert said == "blocked: it said [redacted]"


@pytest.mark.fault(43)
def test_a_reason_of_many_lines_is_whole_and_none_is_ours() -> None:
    said = told("blocked", FORGERY).splitlines()
    assert said[0] == "blocked:"
    assert said[1:] == ["  | no", "  | run 1: completed\\x1b[31m\\u2028\\u202e"]


def test_a_request_shows_the_call_every_reason_and_that_answering_comes_later() -> None:
    request = ApprovalRequest(
        id="r1",
        run_id="abc",
        operation="tool.invoked",
        path="1.tool.invoked.0",
        call=FrozenDict({"call": {"name": "shell", "arguments": {"command": "rm x"}}, "tool": None}),
        digest="sha256:0",
        reasons=(
            ApprovalReason(hook="risk", reason="it removes", code="approval_required"),
            ApprovalReason(hook="late", reason="soon", code="approval_required", expires_at=9.0, on_timeout="escalate"),
            ApprovalReason(hook="cost", reason=FORGERY, code="approval_required"),
        ),
        requested_at=1.0,
    )
    said = verdict(result(status="awaiting_approval", approval=request), plain)
    assert said.startswith("waiting for a person to decide on tool.invoked, request r1:\n")
    assert '"command":"rm x"' in said
    assert "asked by 'risk': it removes" in said
    assert "asked by 'late' until 1970-01-01T00:00:09Z (then: escalate): soon" in said
    assert "\n  digest sha256:0\n" in said
    assert "  | run 1: completed\\x1b" in said
    assert said.endswith("answering it comes with a later version of tenter.")


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
    lines = summary(runtime.links(), trace.events()).splitlines()
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


def test_a_runtime_without_hooks_says_so() -> None:
    assert summary(Runtime(CATALOGUE).links(), ()) == "no hooks"
