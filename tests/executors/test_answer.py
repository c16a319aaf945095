"""What the end of a command hook says, without a process."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.executors.workshop import REDACTOR, SECRET, settings, tool_call

from tenter.executors import ProcessResult
from tenter.executors.answer import disposition_of, holds, interpret, redacted, result_of, suspends
from tenter.executors.capture import Captured
from tenter.kernel import Allow, Block, Escalate, HookFailure, Outcome, Policy, Retry, Suspend
from tenter.wire import Verdict

ENDINGS = ("crashed", "signal", "timeout", "spawn_failed", "output_capped", "unknown", "cancelled")


@pytest.mark.promise(6)
@given(
    ending=st.sampled_from(ENDINGS),
    stdout=st.sampled_from([b"", b'{"decision": "pass"}', b'{"decision": "allow"}']),
    said=st.text(max_size=20),
    verdict=st.booleans(),
)
def test_whatever_did_not_end_well_is_a_failure_with_a_reason(
    ending: Any, stdout: bytes, said: str, verdict: bool
) -> None:
    result = ProcessResult(
        result=ending,
        exit_code=1 if ending == "crashed" else None,
        stdout=Captured(stdout.decode(), stdout, total_bytes=len(stdout)),
        stderr=Captured(tail=said),
        duration_seconds=0.1,
        error="ENOENT",
    )
    failure = interpret(result, settings("true", verdict=verdict), event=tool_call())
    assert isinstance(failure, HookFailure)
    assert (failure.result, bool(failure.reason.strip())) == (ending, True)


@pytest.mark.promise(6)
@given(stdout=st.binary(max_size=60), verdict=st.booleans(), mutate=st.booleans())
def test_a_good_end_with_any_output_passes_denies_or_is_bad_output(stdout: bytes, verdict: bool, mutate: bool) -> None:
    result = ProcessResult(result="ok", exit_code=0, stdout=Captured(raw=stdout), duration_seconds=0.1)
    said = interpret(result, settings("true", verdict=verdict, mutate=mutate), event=tool_call())
    if isinstance(said, HookFailure):
        assert said.result == "bad_output"
    else:
        assert said.answer is None
        assert not verdict


def test_a_denial_is_told_with_its_words() -> None:
    stdout = b'{"decision": "block", "reason": "no", "code": "mine", "stop": true}'
    result = ProcessResult(result="ok", exit_code=0, stdout=Captured(raw=stdout), duration_seconds=0.1)
    said = interpret(result, settings("true", verdict=True), event=tool_call())
    assert said == Verdict(Block("no", code="mine", stop=True))


def test_an_answer_that_is_no_json_is_quoted_as_it_begins_without_secrets() -> None:
    raw = f"warning: {SECRET}\n  {'x' * 90}".encode()
    result = ProcessResult(
        result="ok", exit_code=0, stdout=Captured(raw.decode(), raw, total_bytes=len(raw)), duration_seconds=0
    )
    said = interpret(redacted(result, REDACTOR), settings("true", verdict=True), event=tool_call())
    assert isinstance(said, HookFailure)
    head, _, printed = said.reason.partition("; it printed ")
    assert "must be exactly one JSON object" in head
    assert printed.startswith("'warning: ")
    assert printed.endswith("x'…")
    assert len(printed) == 63
    assert SECRET not in said.reason
    assert "\n" not in said.reason


HELD = [(Block("no"), "block"), (Suspend("why"), "suspend"), (Escalate("why"), "escalate"), (Retry("why"), "retry")]
FREE = [Allow("fine"), None, tool_call()]


@pytest.mark.parametrize(("answer", "word"), HELD)
def test_an_answer_that_holds_the_operation_up_is_its_disposition(answer: Outcome, word: str) -> None:
    assert (holds(answer), disposition_of(Verdict(answer), settings("true"))) == (word, word)


@pytest.mark.parametrize("answer", FREE)
def test_an_answer_that_lets_the_operation_go_on_passes(answer: Any) -> None:
    assert (holds(answer), disposition_of(Verdict(answer), settings("true"))) == (None, "pass")


@pytest.mark.promise(6)
@pytest.mark.parametrize("policy", ["warn", "block", "suspend", "fail"])
def test_a_failure_is_disposed_of_by_its_policy_and_a_cancelled_hook_by_nobody(policy: Policy) -> None:
    hook = settings("true", on_error=policy)
    assert disposition_of(HookFailure("crashed", "x"), hook) == policy
    assert disposition_of(HookFailure("cancelled", "x"), hook) == "pass"


@pytest.mark.parametrize(
    ("said", "more", "waits"),
    [
        (HookFailure("crashed", "x"), {"on_error": "suspend"}, True),
        (HookFailure("spawn_failed", "x"), {"on_error": "suspend"}, True),
        (HookFailure("untrusted", "x"), {"on_error": "suspend"}, False),
        (HookFailure("cancelled", "x"), {"on_error": "suspend"}, False),
        (HookFailure("crashed", "x"), {"on_error": "suspend", "mode": "shadow"}, False),
        (HookFailure("crashed", "x"), {"on_error": "block"}, False),
        (Verdict(Suspend("why")), {"on_error": "warn"}, True),
        (Verdict(Suspend("why")), {"mode": "shadow"}, False),
        (Verdict(Escalate("why")), {"on_error": "suspend"}, False),
        (Verdict(), {"on_error": "suspend"}, False),
    ],
)
def test_an_operation_waits_for_a_suspend_and_for_a_failure_with_that_policy(
    said: Verdict | HookFailure, more: dict[str, Any], waits: bool
) -> None:
    assert suspends(said, settings("true", **more)) is waits


def test_output_that_holds_no_metadata_is_quoted_as_it_begins() -> None:
    raw = b"risk: high\n"
    result = ProcessResult(
        result="ok", exit_code=0, stdout=Captured(raw.decode(), raw, total_bytes=len(raw)), duration_seconds=0
    )
    said = interpret(result, settings("true", mutate=True), event=tool_call())
    assert isinstance(said, HookFailure)
    assert said.reason.startswith("the hook 'guard': invalid mutation output: ")
    assert said.reason.endswith("; it printed 'risk: high'")


def test_only_a_block_is_a_denial() -> None:
    assert [result_of(Verdict(answer)) for answer, _ in HELD] == ["denied", "ok", "ok", "ok"]
    assert [result_of(Verdict(answer)) for answer in FREE] == ["ok", "ok", "ok"]
    assert result_of(HookFailure("timeout", "x")) == "timeout"


def test_texts_are_redacted_and_the_raw_answer_is_not() -> None:
    raw = f"{SECRET} and".encode()
    said = Captured(raw.decode(), raw, total_bytes=len(raw), tail=raw.decode())
    shown = redacted(ProcessResult(result="ok", stdout=said, stderr=said, duration_seconds=0.1), REDACTOR)
    assert (shown.stdout.text, shown.stderr.text, shown.stderr.tail) == ("[redacted] and",) * 3
    assert shown.stdout.raw == raw


def test_half_a_secret_is_redacted_where_the_output_was_cut_and_only_there() -> None:
    half = SECRET[:10]

    def shown(*, truncated: bool) -> str:
        said = Captured(half, half.encode(), truncated, total_bytes=99)
        return redacted(ProcessResult(result="ok", stdout=said, duration_seconds=0.1), REDACTOR).stdout.text

    assert (shown(truncated=True), shown(truncated=False)) == ("[redacted]", half)


def test_a_process_that_said_nothing_is_as_it_was() -> None:
    silent = ProcessResult(result="ok", exit_code=0, duration_seconds=0.1)
    assert redacted(silent, REDACTOR) is silent
