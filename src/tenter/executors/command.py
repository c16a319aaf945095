"""Command hooks: a program or inline script that is told an event and answers by its exit and its output (D§7, D§9).

Exit 0 passes, whatever else is a failure; with `verdict: json` the answer stands on stdout. What an answer means is
said by `interpret`, which awaits nothing; around it `CommandCall` runs the process and keeps the records. It knows no
configuration file (paths are resolved when it gets them) and no journal (records go to the sink).
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar, assert_never

import msgspec
from msgspec import UNSET

from tenter.executors.capture import Captured
from tenter.executors.kind import HookEnded, HookStarted, Surroundings
from tenter.executors.pipes import TAIL_BYTES
from tenter.executors.process import ProcessResult, ProcessSpec, run_process
from tenter.kernel import (
    Band,
    Block,
    Declaration,
    Disposition,
    Escalate,
    Event,
    ExecutionResult,
    Frame,
    FrozenDict,
    HookFailure,
    Mode,
    Outcome,
    Point,
    Policy,
    Redactor,
    Retry,
    Suspend,
    current_frame,
)
from tenter.wire.payload import Ended, Execution, environment, execution_key, payload
from tenter.wire.verdict import Verdict, decode_verdict, has_decision

T = TypeVar("T")

INHERITED: Final = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR")
"""What a hook gets of the parent's environment, where set, besides `LC_*` and what its `pass_env` names."""
COOKIE: Final = "TENTER_HOOK_ID"
"""The variable with the id of the execution: hooks may log it, and what they leave running is found by it."""
OUTPUT_BYTES, ANSWER_BYTES = 8192, 1 << 20
"""What is kept of each output unless the hook says otherwise: without, and with a verdict."""
UNRECORDED: Final = "journal_failed"
"""The code of the failure of a hook whose start or end could not be recorded."""
AT_ONCE: Final = 64 * 1024
"""So many bytes of output are read as an answer, and redacted, where the event loop stands; more in a thread."""

NOT_RUN: Final = ProcessResult(result="crashed", duration_seconds=0.0)
"""Stands for the end of a process that never was."""

_DISPOSITIONS: Final[Mapping[type[Outcome], Disposition]] = {
    Block: "block",
    Suspend: "suspend",
    Escalate: "escalate",
    Retry: "retry",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """A command hook as configured: exactly one of `argv` and `script` is given. Seconds and bytes are as in D§12."""

    name: str
    point: Point
    argv: tuple[str, ...] | None = None
    """The program, resolved already, and its arguments."""
    script: str | None = None
    """Text for `/bin/sh -c`; its `$0` is the hook's name."""
    cwd: str | None = None
    """A relative one starts at the workspace, which is also the default."""
    env: Mapping[str, str] = field(default_factory=FrozenDict[str, str])
    pass_env: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    grace_seconds: float = 1.0
    max_output_bytes: int | None = None
    """None: 8192, or 1 MiB with a verdict."""
    verdict: bool = False
    """Whether stdout is the verdict document."""
    mutate: bool = False
    """Whether the metadata of the verdict count."""
    on_error: Policy | None = None
    observe: bool = False
    match: Mapping[str, object] = field(default_factory=FrozenDict[str, object])
    mode: Mode = "active"
    priority: int = 500
    band: Band = "app"
    source: str = ""

    def __post_init__(self) -> None:
        if (self.script is None) == (not self.argv):
            raise ValueError(f"the command hook {self.name!r} needs either argv or script")

    @property
    def output_limit(self) -> int:
        """Bytes that are kept of each output."""
        if self.max_output_bytes is not None:
            return self.max_output_bytes
        return ANSWER_BYTES if self.verdict else OUTPUT_BYTES

    @property
    def policy(self) -> Policy:
        """The failure policy in force (D§7)."""
        if self.mode == "shadow":
            return "warn"
        return self.on_error or ("warn" if self.observe else self.point.default_policy)


def command_hook(settings: CommandHook, surroundings: Surroundings) -> Declaration:
    """`settings` as a declaration, whose call runs the program once for each event."""
    return Declaration(
        name=settings.name,
        point=settings.point.name,
        call=CommandCall(settings, surroundings),
        kind="command",
        band=settings.band,
        priority=settings.priority,
        on_error=settings.on_error,
        timeout=settings.timeout_seconds,
        match=settings.match,
        observe=settings.observe,
        mode=settings.mode,
        self_timed=True,
        source=settings.source,
    )


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
    if not hook.verdict:
        return _unasked(hook) if _decides(result.stdout) else Verdict()
    try:
        verdict = decode_verdict(result.stdout.raw, hook.point, event=event, mutate=hook.mutate)
    except HookFailure as failure:
        return HookFailure(failure.result, f"the hook {hook.name!r}: {failure.reason}", code=failure.code)
    return _not_taken(verdict.answer, hook) or verdict


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


@dataclass(frozen=True, slots=True)
class _Finished:
    """An execution after its process: what it says, and its end with redacted texts."""

    said: Verdict | HookFailure
    result: ProcessResult
    metadata: Mapping[str, object] | None = None


class CommandCall:
    """Runs one command hook, for one event after another; keeps nothing between two."""

    __slots__ = ("_argv", "_cwd", "_env", "_hook", "_surroundings")

    def __init__(self, hook: CommandHook, surroundings: Surroundings) -> None:
        self._hook = hook
        self._surroundings = surroundings
        # `--`, because a script may begin with a dash.
        self._argv = hook.argv or ("/bin/sh", "-c", "--", hook.script or "", hook.name)
        self._cwd = str(Path(surroundings.workspace, hook.cwd or ""))
        self._env = {**_inherited(surroundings.environment, hook.pass_env), **hook.env}

    async def __call__(self, event: Event, /) -> object:  # not what kind of answer: that is seen when it comes
        """The hook's answer to `event`. Raises HookFailure where the execution failed.

        A start that cannot be recorded is the hook's failure, and the program is not run; so is an end, except that an
        answer which holds the operation up stands. That the run stops then is its own matter: its sink raised.
        """
        frame = current_frame()
        started = self._started(event, frame)
        ends = [NOT_RUN]
        try:
            await self._record(self._surroundings.sink.started(event, started))
            finished = await self._execute(event, started, frame, ends.append)
        except asyncio.CancelledError:
            finished = await self._read(replace(ends[-1], result="cancelled"), event)
            # Who cancels hears of that, and of nothing else; the sink's owner knows what it raised.
            with contextlib.suppress(HookFailure):
                await self._record(self._surroundings.sink.ended(event, self._ended(started, finished)))
            raise
        return await self._answer(event, started, finished)

    async def _answer(self, event: Event, started: HookStarted, finished: _Finished) -> Outcome | Event | None:
        said = finished.said
        try:
            await self._record(self._surroundings.sink.ended(event, self._ended(started, finished)))
        except HookFailure:
            if isinstance(said, Verdict) and not _holds(said.answer):
                raise
        if isinstance(said, HookFailure):
            raise said
        return said.answer

    async def _execute(
        self, event: Event, started: HookStarted, frame: Frame | None, over: Callable[[ProcessResult], None]
    ) -> _Finished:
        """Runs the program; `over` is told how it ended before that is read, also when we are cancelled."""
        try:
            execution = self._execution(event, started, frame)
            result = await run_process(self._spec(execution), lambda: self._payload(execution), on_cancelled=over)
            over(result)
            return await self._read(result, event)
        except Exception as error:  # whatever it was, there is an end record, and the failure policy decides
            return _Finished(self._crash(error), NOT_RUN)

    def _execution(self, event: Event, started: HookStarted, frame: Frame | None) -> Execution:
        surroundings = self._surroundings
        return Execution(
            id=started.id,
            point=self._hook.point,
            event=event,
            hook=self._hook.name,
            at=started.at,
            recheck=frame is not None and frame.recheck,
            ended=_ended(frame, surroundings.redactor) if self._hook.observe else UNSET,
            workspace=surroundings.workspace,
            project_dir=surroundings.project_dir,
        )

    async def _payload(self, execution: Execution) -> bytes:
        """What the hook is told; all of it leaves the process, and is redacted for that."""
        redactor, accumulated = self._surroundings.redactor, self._surroundings.sink.accumulated(execution.event)
        shown = await redactor.apply(execution.event, fuzzy=True)
        facts = await redactor.apply(accumulated, fuzzy=True) if accumulated else None
        return payload(msgspec.structs.replace(execution, event=shown, accumulated=facts))

    def _spec(self, execution: Execution) -> ProcessSpec:
        hook = self._hook
        return ProcessSpec(
            argv=self._argv,
            cwd=self._cwd,
            env={**self._env, **environment(execution)},
            timeout_seconds=hook.timeout_seconds,
            grace_seconds=hook.grace_seconds,
            max_output_bytes=hook.output_limit,
            stdout_is_answer=hook.verdict,
            cookie_name=COOKIE,
            cookie=execution.id,
        )

    async def _read(self, result: ProcessResult, event: Event) -> _Finished:
        if len(result.stdout.raw) + len(result.stderr.raw) > AT_ONCE:
            return await _in_thread(lambda: self._read_here(result, event))
        return self._read_here(result, event)

    def _read_here(self, result: ProcessResult, event: Event) -> _Finished:
        redactor = self._surroundings.redactor
        shown = _redacted(result, redactor)
        said = interpret(shown, self._hook, event=event)
        metadata = said.metadata if isinstance(said, Verdict) else None
        return _Finished(said, shown, metadata and redactor.redact(metadata, fuzzy=True))

    def _crash(self, error: Exception) -> HookFailure:
        if isinstance(error, HookFailure):
            return error
        text = self._surroundings.redactor.mask_exception_text(error)
        return HookFailure("crashed", f"the hook {self._hook.name!r} could not be run: {text}")

    async def _record(self, writing: Coroutine[object, object, None]) -> None:
        """What the sink raises is the hook's failure."""
        try:
            await writing
        except Exception as error:
            text = self._surroundings.redactor.mask_exception_text(error)
            reason = f"the hook {self._hook.name!r} could not be put on record: {text}"
            raise HookFailure("crashed", reason, code=UNRECORDED) from error

    def _started(self, event: Event, frame: Frame | None) -> HookStarted:
        hook, surroundings = self._hook, self._surroundings
        return HookStarted(
            id=f"{surroundings.random.getrandbits(128):032x}",
            key=execution_key(event, hook.point, hook=hook.name, recheck=frame is not None and frame.recheck),
            hook=hook.name,
            point=hook.point.name,
            at=surroundings.clock.now(),
        )

    def _ended(self, started: HookStarted, finished: _Finished) -> HookEnded:
        said, result = finished.said, finished.result
        failure = said if isinstance(said, HookFailure) else None
        return HookEnded(
            id=started.id,
            key=started.key,
            hook=started.hook,
            point=started.point,
            started_at=started.at,
            ended_at=self._surroundings.clock.now(),
            duration_ms=result.duration_seconds * 1000,
            result=_result(said),
            disposition=_disposition(said, self._hook),
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            stdout=result.stdout.text,
            stderr=result.stderr.text,
            stdout_truncated=result.stdout.truncated,
            stderr_truncated=result.stderr.truncated,
            stdout_bytes=result.stdout.total_bytes,
            stderr_bytes=result.stderr.total_bytes,
            stderr_tail=result.stderr.tail,
            ended_descendants=result.ended_descendants,
            error=self._surroundings.redactor.mask_fuzzy(failure.reason) if failure else "",
            metadata=finished.metadata,
        )


def _result(said: Verdict | HookFailure) -> ExecutionResult:
    if isinstance(said, HookFailure):
        return said.result
    return "denied" if isinstance(said.answer, Block) else "ok"


def _disposition(said: Verdict | HookFailure, hook: CommandHook) -> Disposition:
    """What the kernel makes of it, in the words of telemetry (seed 001)."""
    match said:
        case HookFailure(result="cancelled"):
            return "pass"
        case HookFailure():
            return hook.policy
        case Verdict():
            return _holds(said.answer) or "pass"


def _holds(answer: Outcome | Event | None) -> Disposition | None:
    """How the answer holds the operation up, if it does."""
    return _DISPOSITIONS.get(type(answer)) if isinstance(answer, Outcome) else None


def _ended(frame: Frame | None, redactor: Redactor) -> Ended | None:
    """How the chain ended that is observed; None where nobody answered."""
    if frame is None or (outcome := frame.ended) is None:
        return None
    answers = frame.fold.answers if frame.fold is not None else ()
    by = next((answer.hook for answer in answers if answer.outcome is outcome), "")
    ended = Ended.by(outcome, by)
    return msgspec.structs.replace(ended, reason=redactor.mask_fuzzy(ended.reason))


def _redacted(result: ProcessResult, redactor: Redactor) -> ProcessResult:
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


def _inherited(environment: Mapping[str, str], named: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in INHERITED or name.startswith("LC_") or name in named
    }


async def _in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, done in a thread of its own: the pool of the loop may be full of somebody's hung work."""
    pool = ThreadPoolExecutor(1, "tenter-hook-answer")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
    finally:
        pool.shutdown(wait=False)
