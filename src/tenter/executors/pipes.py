"""The three pipes to a child, moved by the event loop: stdin written without waiting, both outputs read to their end.

Knows no exit and no deadline: it tells whoever made it that something changed, and is told when to stop.
"""

import asyncio
import os
from collections.abc import Callable

from tenter.executors.capture import Capture
from tenter.executors.spawn import Spawned

STDERR_TAIL = 4096
"""Bytes of the end of stderr that are kept besides its beginning."""
CHUNK, CHUNKS = 65_536, 8
"""Bytes of one read, and reads of one stream before the loop has its turn."""


class Pipes:
    """Our ends of the pipes of one child; `changed` is called when both outputs ended, and when the answer overflowed."""

    __slots__ = ("_answer", "_changed", "_loop", "_outputs", "_stdin", "_unwritten", "stderr", "stdout")

    def __init__(self, spawned: Spawned, *, limit: int, stdout_is_answer: bool, changed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer = stdout_is_answer
        self._changed = changed
        self._stdin: int | None = spawned.stdin
        self._unwritten = spawned.unwritten
        self.stdout = Capture(limit)
        self.stderr = Capture(limit, tail_bytes=STDERR_TAIL)
        self._outputs = {spawned.stdout: self.stdout, spawned.stderr: self.stderr}

    @property
    def drained(self) -> bool:
        """Both outputs came to their end: nobody can write any more."""
        return not self._outputs

    @property
    def overflowed(self) -> bool:
        """The answer is longer than the limit."""
        return self._answer and self.stdout.truncated

    def watch(self) -> None:
        """Let the event loop move them from now on."""
        for descriptor in self._outputs:
            self._loop.add_reader(descriptor, self._read, descriptor)
        if not self._unwritten:
            self._close_stdin()
        elif self._stdin is not None:
            self._loop.add_writer(self._stdin, self._write)

    def drain(self) -> None:
        """Read what is there, without waiting for more."""
        for descriptor in tuple(self._outputs):
            self._read(descriptor)

    def close(self) -> None:
        """Close all that is open. Harmless twice."""
        self._close_stdin()
        for descriptor in tuple(self._outputs):
            self._close_output(descriptor)

    def _read(self, descriptor: int) -> None:
        capture = self._outputs[descriptor]
        for _ in range(CHUNKS):
            try:
                chunk = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._close_output(descriptor)
                break
            capture.feed(chunk)
            if self.overflowed and capture is self.stdout:
                self._close_output(descriptor)
                self._changed()
                return
        if self.drained:
            self._changed()

    def _write(self) -> None:
        if self._stdin is None:
            return
        try:
            self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # A child need not read its stdin to the end, or at all.
            self._unwritten = self._unwritten[:0]
        if not self._unwritten:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            if not self._loop.is_closed():
                self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = None

    def _close_output(self, descriptor: int) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)
        del self._outputs[descriptor]
