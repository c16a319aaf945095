"""Runs command hooks: a program or inline script that is told an event and answers by its exit and output (D§7, D§9).

`CommandCall` hands the records to the sink, tells the program the event, follows it to its end and reads the answer;
what an answer means is said by `answer`. It knows no configuration file and no journal.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from tenter.executors.answer import disposition_of, holds, interpret, redacted, result_of
from tenter.executors.command_settings import CommandHook
from tenter.executors.descendants import COOKIES, within
from tenter.executors.kind import HookEnded, HookStarted, Surroundings
from tenter.executors.process import ProcessResult, ProcessSpec, run_process
from tenter.kernel import Declaration, Event, Frame, HookFailure, Outcome, Redactor, current_frame
from tenter.wire import Ended, Execution, Verdict, encode_payload, environment, execution_key

T = TypeVar("T")

COOKIE: Final = "TENTER_HOOK_ID"
"""The variable with the id of the execution: hooks may log it, and what they leave running is found by it.

In a hook of a tenter that a hook runs, the outer hook's value and a dot stand before it: it is a part of both.
"""
INHERITED: Final = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", *COOKIES)
"""What a hook gets of the parent's environment, where set, besides `LC_*` and what its `pass_env` names."""
UNRECORDED: Final = "journal_failed"
"""The code of the failure of a hook whose start or end could not be recorded."""
AT_ONCE: Final = 64 * 1024
"""So many bytes of output are read as an answer, and redacted, where the event loop stands; more in a thread."""

NOT_RUN: Final = ProcessResult(result="crashed", duration_seconds=0.0)
"""Stands for the end of a process that never was."""


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
            if isinstance(said, Verdict) and not holds(said.answer):
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
        return encode_payload(msgspec.structs.replace(execution, event=shown, accumulated=facts))

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
            cookie=within(self._surroundings.environment.get(COOKIE), execution.id),
        )

    async def _read(self, result: ProcessResult, event: Event) -> _Finished:
        if len(result.stdout.raw) + len(result.stderr.raw) > AT_ONCE:
            return await _in_thread(lambda: self._read_here(result, event))
        return self._read_here(result, event)

    def _read_here(self, result: ProcessResult, event: Event) -> _Finished:
        redactor = self._surroundings.redactor
        shown = redacted(result, redactor)
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
            result=result_of(said),
            disposition=disposition_of(said, self._hook),
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


def _ended(frame: Frame | None, redactor: Redactor) -> Ended | None:
    """How the chain ended that is observed; None where nobody answered."""
    if frame is None or (outcome := frame.ended) is None:
        return None
    answers = frame.fold.answers if frame.fold is not None else ()
    by = next((answer.hook for answer in answers if answer.outcome is outcome), "")
    ended = Ended.by(outcome, by)
    return msgspec.structs.replace(ended, reason=redactor.mask_fuzzy(ended.reason))


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
