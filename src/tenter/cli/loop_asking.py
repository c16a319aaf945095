"""Puts a loop's question on the terminal it was started from, and reads the answer there."""

import asyncio
import os
import sys
import termios
from typing import TYPE_CHECKING, Final

import click

from tenter.cli.streams import IN

if TYPE_CHECKING:
    from tenter.loop import Asked

MOST: Final = 65536
"""Bytes of an answer; a terminal gives fewer in a line."""


def asks_here() -> bool:
    """Whether there is somebody to ask: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask(asked: "Asked") -> str:
    """The line that is typed to a question that is shown already. What was typed before is no answer to it.

    Whoever closes the input (Ctrl-D) leaves the question to others: then this waits until it is cancelled.
    """
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        try:
            data = os.read(IN, MOST)
        except OSError:  # the terminal went away
            data = b""
        if not data:
            loop.remove_reader(IN)
        elif data.strip() and not typed.done():
            typed.set_result(data)

    termios.tcflush(IN, termios.TCIFLUSH)
    click.echo("> ", err=True, nl=False)
    loop.add_reader(IN, read)
    try:
        return (await typed).decode(errors="replace").strip()
    except asyncio.CancelledError:
        click.echo(err=True)  # what comes next begins a line
        raise
    finally:
        loop.remove_reader(IN)
