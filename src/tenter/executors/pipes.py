"""The three pipes to a child, moved by the event loop: stdin written without waiting, both outputs read to their end.

Knows no exit and no deadline: it tells whoever made it that something changed, and is told when to stop.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Literal

from tenter.executors.capture import Capture
from tenter.executors.spawn import Spawned

Output = Literal["stdout", "stderr"]

TAIL_BYTES = 4096
"""Bytes of the end of each output that are kept besides its beginning."""
CHUNK = 65_536
"""Bytes of one read, after which the loop has its turn: as many as a pipe holds; 10 ms if all of it must be escaped."""


QUIET_SECONDS = 0.002
"""How long the outputs are left alone at first. A child that is gone by then is read once, at its exit: to be woken by
each of its closing pipes would take the core from the very child that is dying (15 % of the time of `/bin/true`)."""


class Pipes:
    """Our ends of a child's pipes; `changed` is called when both outputs have ended and when the answer overflows."""

    __slots__ = (
        "_answer",
        "_changed",
        "_loop",
        "_outputs",
        "_quiet",
        "_stdin",
        "_unwritten",
        "heard",
        "stderr",
        "stdout",
    )

    def __init__(self, spawned: Spawned, *, limit: int, stdout_is_answer: bool, changed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer = stdout_is_answer
        self._changed = changed
        self._stdin = spawned.stdin
        self._unwritten = spawned.unwritten
        self.stdout = Capture(limit, tail_bytes=TAIL_BYTES)
        self.stderr = Capture(limit, tail_bytes=TAIL_BYTES)
        self._outputs = {spawned.stdout: self.stdout, spawned.stderr: self.stderr}
        self._quiet: asyncio.TimerHandle | None = None
        """Until the outputs are watched."""
        self.heard: Callable[[Output, bytes], None] | None = None
        """Called with each piece of an output as it comes, of at most CHUNK bytes; it must not raise."""

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
        self._quiet = self._loop.call_later(QUIET_SECONDS, self._watch_outputs)
        if self._stdin is not None:
            self._loop.add_writer(self._stdin, self._write)

    def feed(self, stdin: bytes) -> None:
        """What a child that was started without stdin gets on it."""
        self._unwritten = memoryview(stdin)
        self._write()

    def drain(self) -> None:
        """Read the pipeful that is there, and the end if it comes after that, without waiting for more."""
        for descriptor in tuple(self._outputs):
            if self._read(descriptor):
                self._read(descriptor)

    def close(self) -> None:
        """Close all that is open. Harmless twice."""
        self._close_stdin()
        for descriptor in tuple(self._outputs):
            self._close_output(descriptor)
        if self._quiet is not None:
            self._quiet.cancel()

    def _watch_outputs(self) -> None:
        self._quiet = None
        for descriptor in self._outputs:
            self._loop.add_reader(descriptor, self._read, descriptor)

    def _read(self, descriptor: int) -> bool:
        """Read once; whether the stream goes on."""
        capture = self._outputs[descriptor]
        try:
            chunk = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            capture.feed(chunk)
            if self.heard is not None:
                self.heard("stdout" if capture is self.stdout else "stderr", chunk)
            if not (self.overflowed and capture is self.stdout):
                return True
        self._close_output(descriptor)
        if self.overflowed or self.drained:
            self._changed()
        return False

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
        if self._quiet is None and not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)
        del self._outputs[descriptor]
