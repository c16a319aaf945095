"""Reads what a person types on the terminal that this process was started from.

Only while the process has the terminal: one in the background (`&`) would be stopped for touching it, and hear nothing
any more. Its question waits until it is in the foreground (`fg`).
"""

import asyncio
import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Generator
from typing import Final

from tenter.cli.streams import IN

MOST: Final = 65536
"""Bytes of an answer; a terminal gives fewer in a line."""
CLOSE: Final = b"\x04"
"""Ctrl-D, as it is read from a terminal that does not make an end of input of it."""
STEP_SECONDS: Final = 0.2
"""How often a process in the background looks whether it has the terminal."""

Show = Callable[[str], None]
"""Writes to the terminal, without a line end."""


def asks_here() -> bool:
    """Whether there is a terminal to ask on: standard input and standard error are one."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def has_terminal() -> bool:
    """Whether this process may use its terminal now: it is in the foreground, or nobody controls jobs on it."""
    try:
        return os.tcgetpgrp(IN) == os.getpgrp()
    except OSError:  # it is not the terminal of this session, or it went away: nobody is stopped for reading it
        return True


async def typed_line(show: Show, *, blank: bool = False) -> str | None:
    """The line that is typed to a question that is shown already, without the spaces around it.

    What was typed before is no answer to it, and a blank line only where `blank`. None where whoever is asked closed
    the input (Ctrl-D).
    """
    while True:
        while not has_terminal():  # noqa: ASYNC110  # nothing tells when a terminal is given
            await asyncio.sleep(STEP_SECONDS)
        if (typed := await _typed(show, blank)) is not None:
            return typed.decode(errors="replace").strip() if typed else None


async def _typed(show: Show, blank: bool) -> bytes | None:
    """A line, nothing where the input was closed; None where the terminal was taken from us before one was typed."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes | None] = loop.create_future()

    def read() -> None:
        with _not_stopped():
            try:
                data = os.read(IN, MOST)
            except OSError:  # the terminal went away, or is not ours to read from
                data = b""
        if CLOSE in data:
            data = b""
        if not data:
            loop.remove_reader(IN)
        if (blank or data.strip() or not data) and not typed.done():
            typed.set_result(None if not data and not has_terminal() else data)

    with _not_stopped(), contextlib.suppress(termios.error):  # a terminal that went away has nothing to forget
        termios.tcflush(IN, termios.TCIFLUSH)
    show("> ")
    loop.add_reader(IN, read)
    try:
        line = await typed
    except asyncio.CancelledError:
        show("\n")  # what comes next begins a line
        raise
    finally:
        loop.remove_reader(IN)
    if line == b"":
        show("\n")
    return line


@contextlib.contextmanager
def _not_stopped() -> Generator[None]:
    """Within it, whoever was put into the background a moment ago gets an error, and is not stopped."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTIN, signal.SIGTTOU))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
