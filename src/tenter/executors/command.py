"""Runs command hooks: a program or inline script that is told an event and answers by its exit and output (D§7, D§9).

`CommandCall` hands the records to the sink, tells the program the event, follows it to its end, reads the answer, and
tries again where that is asked for. What an answer means is said by `answer`, what is put on record by
`command_record`. It knows no configuration file and no journal.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from tenter.executors.answer import holds, interpret, redacted, suspends
from tenter.executors.backoff import ATTEMPTS, delay
from tenter.executors.command_record import Finished, ended_record, started_record
from tenter.executors.command_settings import CommandHook
from tenter.executors.descendants import COOKIES, within
from tenter.executors.kind import HookStarted, Surroundings
from tenter.executors.process import ProcessResult, ProcessSpec, run_process
from tenter.executors.thread import in_thread
from tenter.kernel import Declaration, Event, Frame, HookFailure, Redactor, current_frame
from tenter.wire import Ended, Execution, Verdict, encode_payload, environment

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


class CommandCall:
    """Runs one command hook, for one event after another; keeps nothing between two."""

    __slots__ = ("_argv", "_attempts", "_cwd", "_env", "_hook", "_surroundings")

    def __init__(self, hook: CommandHook, surroundings: Surroundings) -> None:
        self._hook = hook
        self._surroundings = surroundings
        self._attempts = ATTEMPTS if hook.suspend_mode == "retry_backoff" else 1
        # `--`, because a script may begin with a dash.
        self._argv = hook.argv or ("/bin/sh", "-c", "--", hook.script or "", hook.name)
        self._cwd = str(Path(surroundings.workspace, hook.cwd or ""))
        self._env = {**_inherited(surroundings.environment, hook.pass_env), **hook.env}

    async def __call__(self, event: Event, /) -> object:  # not what kind of answer: that is seen when it comes
        """The hook's answer to `event`. Raises HookFailure where the execution failed.

        With `retry_backoff`, what would suspend the operation is tried again a few times first, each time as an
        execution of its own; the last one counts.

        A start that cannot be recorded is the hook's failure, and the program is not run; so is an end, except that an
        answer which holds the operation up stands. That the run stops then is its own matter: its sink raised.
        """
        number = 1
        said, again = await self._attempt(event, number)
        while again and await self._surroundings.pause(delay(number, self._surroundings.random)):
            number += 1
            said, again = await self._attempt(event, number)
        if isinstance(said, HookFailure):
            raise said
        return said.answer

    async def _attempt(self, event: Event, number: int) -> tuple[Verdict | HookFailure, bool]:
        """What the execution of this number says, and whether another is to follow; both its records are made."""
        hook, surroundings, frame = self._hook, self._surroundings, current_frame()
        recheck = frame is not None and frame.recheck
        started = started_record(hook, surroundings, event, recheck=recheck, attempt=number)
        ends = [NOT_RUN]
        try:
            await self._record(surroundings.sink.started(event, started))
            finished = await self._execute(event, started, frame, ends.append)
        except asyncio.CancelledError:
            finished = await self._read(replace(ends[-1], result="cancelled"), event)
            # Who cancels hears of that, and of nothing else; the sink's owner knows what it raised.
            with contextlib.suppress(HookFailure):
                await self._end(event, started, finished, again=False)
            raise
        said = finished.said
        again = number < self._attempts and suspends(said, hook)
        try:
            await self._end(event, started, finished, again=again)
        except HookFailure:
            if isinstance(said, Verdict) and not holds(said.answer):
                raise
            return said, False
        return said, again

    async def _end(self, event: Event, started: HookStarted, finished: Finished, *, again: bool) -> None:
        record = ended_record(started, finished, self._hook, surroundings=self._surroundings, again=again)
        await self._record(self._surroundings.sink.ended(event, record))

    async def _execute(
        self, event: Event, started: HookStarted, frame: Frame | None, over: Callable[[ProcessResult], None]
    ) -> Finished:
        """Runs the program; `over` is told how it ended before that is read, also when we are cancelled."""
        try:
            for pin in self._hook.pinned:
                pin.check(self._cwd)
            execution = self._execution(event, started, frame)
            result = await run_process(self._spec(execution), lambda: self._payload(execution), on_cancelled=over)
            over(result)
            return await self._read(result, event)
        except Exception as error:  # whatever it was, there is an end record, and the failure policy decides
            return Finished(self._crash(error), NOT_RUN)

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
            stdout_is_answer=hook.answers,
            cookie_name=COOKIE,
            cookie=within(self._surroundings.environment.get(COOKIE), execution.id),
        )

    async def _read(self, result: ProcessResult, event: Event) -> Finished:
        if len(result.stdout.raw) + len(result.stderr.raw) > AT_ONCE:
            return await in_thread(lambda: self._read_here(result, event))
        return self._read_here(result, event)

    def _read_here(self, result: ProcessResult, event: Event) -> Finished:
        redactor = self._surroundings.redactor
        shown = redacted(result, redactor)
        said = interpret(shown, self._hook, event=event)
        # Nothing of a shadow hook is applied.
        metadata = said.metadata if isinstance(said, Verdict) and self._hook.mode == "active" else None
        return Finished(said, shown, metadata and redactor.redact(metadata, fuzzy=True))

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
