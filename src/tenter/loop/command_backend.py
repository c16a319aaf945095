"""Does an iteration with a program, such as any agent CLI: it is given the prompt, and answers by its exit.

What it publishes is read elsewhere. How a program is started, followed and ended is the executors'; the output goes to
the loop's log as it comes and is not kept.
"""

import math
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from tenter.config import CommandBackendSpec
from tenter.executors import PinnedFile, ProcessResult, ProcessSpec, run_process, within
from tenter.kernel import HookFailure, TenterError
from tenter.loop.output_log import Said
from tenter.loop.work import Equipment, Work, Worked

GRACE_SECONDS: Final = 2.0
"""Between TERM and KILL."""
LONGEST_ARGUMENT: Final = 100_000
"""Bytes of a prompt that is an argument; Linux takes 131,071 at most. A longer one goes into a file."""
COOKIE: Final = "TENTER_BACKEND_CALL"


class CommandBackend:
    """Runs the program once for each iteration, in a process group of its own."""

    def __init__(self, spec: CommandBackendSpec, equipment: Equipment, pinned: tuple[PinnedFile, ...] = ()) -> None:
        """The program of `spec.command` is resolved already; `pinned` are the files of it that were trusted."""
        self._spec = spec
        self._equipment = equipment
        self._pinned = pinned

    async def run(self, work: Work, /) -> Worked:
        """The program has until the work's deadline, and must print something now and then.

        A prompt that is an argument comes last. One that cannot be an argument (too long, or with a NUL) is put into a
        file of the user's alone, which the argument names, for as long as the program runs. One that begins with a dash
        gets a line end in front, or the program would take it for an option. Raises TenterError, and runs nothing,
        where a file of the program is not what was trusted (D§3.14).
        """
        equipment = self._equipment
        for file in self._pinned:
            _check(file, equipment.workspace)
        left = math.inf if work.deadline is None else work.deadline - equipment.clock.now()
        if left <= 0:
            return Worked(status="failed", error="the time of the loop was up before the work began")
        prompt = work.prompt.encode("utf-8", "backslashreplace")
        try:
            if self._spec.prompt == "stdin":
                result = await self._ended(work, (), prompt, left)
            else:
                with _argument(prompt) as argument:
                    result = await self._ended(work, (argument,), b"", left)
        except OSError as error:
            return Worked(status="failed", error=f"the prompt could not be put into a file: {error.strerror}")
        finally:
            said = equipment.log.finish()
        if result.ended_descendants:
            equipment.log.note(f"ended what the backend left running: {result.ended_descendants} processes")
        if result.result == "ok":
            return Worked(status="ok", last_line=said.last_line)
        return Worked(status="failed", last_line=said.last_line, error=equipment.mask(self._error(result, said)))

    async def _ended(self, work: Work, arguments: tuple[str, ...], stdin: bytes, left: float) -> ProcessResult:
        equipment = self._equipment
        outer = equipment.environment.get(COOKIE)
        spec = ProcessSpec(
            argv=(*self._spec.command, *arguments),
            cwd=equipment.workspace,
            # PWD, because some programs believe it, and it names the folder that tenter was started in.
            env={**equipment.environment, "PWD": equipment.workspace, **work.environment},
            timeout_seconds=left,
            silence_seconds=self._spec.inactivity_timeout_seconds,
            grace_seconds=GRACE_SECONDS,
            max_output_bytes=0,
            cookie_name=COOKIE,
            cookie=within(outer, os.urandom(16).hex()),
        )
        return await run_process(spec, stdin, on_output=equipment.log.feed)

    def _error(self, result: ProcessResult, said: Said) -> str:
        program = repr(self._spec.command[0])
        words = f"; its last words: {said.last_words}" if said.last_words else "; it said nothing"
        match result.result:
            case "signal":
                return f"{program} was killed by {result.signal}{words}"
            case "timeout" if result.was_silent:
                seconds = self._spec.inactivity_timeout_seconds
                return f"{program} printed nothing for {seconds:g} s (inactivity_timeout_seconds) and was ended{words}"
            case "timeout":
                return f"{program} was ended because the time of the loop was up (max_runtime_seconds){words}"
            case "spawn_failed":
                return f"{program} could not be started: {result.error}"
            case "unknown":
                return f"{program} ended, nobody knows how: {result.error}"
            case _:
                return f"{program} exited with {result.exit_code}{words}"


def _check(file: PinnedFile, workspace: str) -> None:
    try:
        file.check(workspace)
    except HookFailure as failure:
        raise TenterError(f"the backend is not run: {failure.reason}") from failure


@contextmanager
def _argument(prompt: bytes) -> Generator[str]:
    """The prompt as an argument, or a sentence that names the file it is in meanwhile."""
    if len(prompt) <= LONGEST_ARGUMENT and b"\0" not in prompt:
        text = prompt.decode()
        yield f"\n{text}" if text.startswith("-") else text
        return
    descriptor, path = tempfile.mkstemp(prefix="tenter-prompt-", suffix=".md")  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(prompt)
        yield f"Read the file {path} and do what it says: it is your whole task."
    finally:
        with suppress(FileNotFoundError):  # the program may have taken it away
            os.unlink(path)  # noqa: PTH108  # a text all the way
