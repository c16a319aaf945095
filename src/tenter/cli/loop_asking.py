"""Puts a loop's question on the terminal it was started from, and reads the answer there.

A question that is not answered here waits for an answer from elsewhere.
"""

import asyncio
from typing import TYPE_CHECKING

from tenter.cli.terminal import Show, typed_line

if TYPE_CHECKING:
    from tenter.loop import Asked, Asking


def asker(show: Show) -> "Asking":
    """Asks on the terminal, on which `show` writes."""

    async def ask(asked: "Asked") -> str:
        """The line that is typed to a question that is shown already.

        Whoever closes the input (Ctrl-D) leaves the question to others: then this waits until it is cancelled.
        """
        line = await typed_line(show)
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never if line is None else line

    return ask
