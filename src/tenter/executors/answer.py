"""What the end of a command hook says: an answer that its point takes, or why the execution failed (D§7, D§9).

Pure: it is given a process that has ended. Exit 0 passes, whatever else is a failure; with `verdict: json` the answer
stands on stdout, with `mutate` alone nothing but metadata. It starts nothing and writes no record.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, assert_never

from tenter.executors.capture import Captured
from tenter.executors.command_settings import CommandHook
from tenter.executors.pipes import TAIL_BYTES
from tenter.executors.process import ProcessResult
from tenter.kernel import (
    Block,
    Disposition,
    Escalate,
    Event,
    ExecutionResult,
    HookFailure,
    Outcome,
    Redactor,
    Retry,
    Suspend,
)
from tenter.wire import Verdict, decode_metadata, decode_verdict, has_decision

SHOWN: Final = 60
"""Characters of an answer that are quoted where it is no verdict."""

_DISPOSITIONS: Final[Mapping[type[Outcome], Disposition]] = {
    Block: "block",
    Suspend: "suspend",
    Escalate: "escalate",
    Retry: "retry",
}


def interpret(result: ProcessResult, hook: CommandHook, *, event: Event) -> Verdict | HookFailure:
    """What the end of the process says to `event`: an answer that the point takes, or why the execution failed.

    Pure. The failure's reason is the end of stderr where the hook exited by itself, so hand over a `result` whose texts
    are redacted; its raw bytes are the answer and are not.
    """
    who = f"the hook {hook.name!r}"
    match result.result:
        case "ok":
            return _answer(result, hook, event)
        case "crashed":
            said = result.stderr.tail.strip()
            reason = said or f"{who} exited with {result.exit_code} and wrote nothing to stderr"
        case "signal":
            reason = f"{who} was killed by {result.signal}{_last_words(result)}"
        case "timeout":
            reason = f"{who} was not done within {hook.timeout_seconds:g} s and was ended{_last_words(result)}"
        case "output_capped":
            reason = f"{who} answered more than {hook.output_limit} bytes (max_output_bytes) and was ended"
        case "spawn_failed":
            reason = f"{who} could not be started: {result.error}"
        case "unknown":
            reason = f"{who} ended, nobody knows how: {result.error}"
        case "cancelled":
            reason = f"{who} was cancelled"
        case _:
            assert_never(result.result)
    return HookFailure(result.result, reason)


def _last_words(result: ProcessResult) -> str:
    said = result.stderr.tail.strip()
    return f"; it said: {said}" if said else ""


def _answer(result: ProcessResult, hook: CommandHook, event: Event) -> Verdict | HookFailure:
    if not hook.answers:
        return _unasked(hook) if _decides(result.stdout) else Verdict()
    raw = result.stdout.raw
    try:
        if hook.verdict:
            verdict = decode_verdict(raw, hook.point, event=event, mutate=hook.mutate)
        else:
            verdict = Verdict(metadata=decode_metadata(raw))
    except HookFailure as failure:
        reason = f"the hook {hook.name!r}: {failure.reason}{_printed(result.stdout)}"
        return HookFailure(failure.result, reason, code=failure.code)
    return _not_taken(verdict.answer, hook) or verdict


def _printed(stdout: Captured) -> str:
    """How an answer begins that cannot be one of our documents, on one line."""
    said = " ".join(stdout.text.split())
    if not said or said.startswith("{"):
        return ""
    return f"; it printed {said[:SHOWN]!r}{'…' if len(said) > SHOWN else ''}"


def _decides(stdout: Captured) -> bool:
    """Whether a decision stands in what is known of stdout: a deny must be impossible to lose (D§12)."""
    if not stdout.raw:
        return False
    return has_decision(stdout.raw) or (stdout.truncated and has_decision(stdout.tail.encode()))


def _unasked(hook: CommandHook) -> HookFailure:
    remedy = (
        "an observer decides nothing; print none, or drop 'observe' and set 'verdict: json'"
        if hook.observe
        else "set 'verdict: json', so that it counts, or print none"
    )
    return HookFailure("bad_output", f"the hook {hook.name!r} printed a decision, which nobody asked for: {remedy}")


def _not_taken(answer: Outcome | Event | None, hook: CommandHook) -> HookFailure | None:
    """Why the kernel will not take the answer; said here, too, so that the record of the process says it."""
    point = hook.point
    if answer is None:
        return None
    what = "a replacement" if isinstance(answer, Event) else type(answer).__name__
    if hook.observe:
        return HookFailure("bad_output", f"the observer {hook.name!r} answered {what}; an observer says nothing")
    if point.rule.replaces if isinstance(answer, Event) else point.takes(type(answer)):
        return None
    return HookFailure("bad_output", f"the hook {hook.name!r} answered {what}, which {point.label!r} does not take")


def result_of(said: Verdict | HookFailure) -> ExecutionResult:
    """Its word of the closed set; a Block is `denied`."""
    if isinstance(said, HookFailure):
        return said.result
    return "denied" if isinstance(said.answer, Block) else "ok"


def suspends(said: Verdict | HookFailure, hook: CommandHook) -> bool:
    """Whether the operation waits because of it, and another try might spare that.

    Nothing of a shadow hook is applied; what is not trusted is for a person to look at.
    """
    if isinstance(said, HookFailure):
        return hook.policy == "suspend" and said.result not in ("cancelled", "untrusted")
    return hook.mode == "active" and isinstance(said.answer, Suspend)


def disposition_of(said: Verdict | HookFailure, hook: CommandHook) -> Disposition:
    """What the kernel makes of it, in the words of telemetry (seed 001)."""
    match said:
        case HookFailure(result="cancelled"):
            return "pass"
        case HookFailure():
            return hook.policy
        case Verdict():
            return holds(said.answer) or "pass"


def holds(answer: Outcome | Event | None) -> Disposition | None:
    """How the answer holds the operation up, if it does."""
    return _DISPOSITIONS.get(type(answer)) if isinstance(answer, Outcome) else None


def redacted(result: ProcessResult, redactor: Redactor) -> ProcessResult:
    """`result` with its outputs as people may see them. Half a secret at a cut is masked as well."""
    stdout, stderr = result.stdout, result.stderr
    if not stdout.total_bytes and not stderr.total_bytes:
        return result
    if stdout.total_bytes:
        stdout = replace(stdout, text=redactor.mask_cut(stdout.text, end=stdout.truncated))
    if stderr.total_bytes:
        stderr = replace(
            stderr,
            text=redactor.mask_cut(stderr.text, end=stderr.truncated),
            tail=redactor.mask_cut(stderr.tail, start=stderr.total_bytes > TAIL_BYTES, end=False),
        )
    return replace(result, stdout=stdout, stderr=stderr)
