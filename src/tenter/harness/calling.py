"""Calls a tool and contains it: whatever it does, a result for the model comes back, in time and of bounded size.

An async tool runs in a task of its own; any other in a daemon thread of its own, since a thread that hangs must keep
neither the event loop nor the process. Only the caller's own cancellation passes, and the user's KeyboardInterrupt.
Judging arguments and firing points are done above.
"""

import asyncio
import contextvars
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, cast

import msgspec

from tenter.catalogue import ToolResult
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool
from tenter.harness.errors import ToolError
from tenter.harness.invocation import invoke, told, tool_result
from tenter.harness.shortened import Masking, shortened

MOST_OUTPUT = 64 * 1024
"""Bytes of a result, unless the caller says otherwise."""
MOST_ERROR = 4 * 1024
SETTLE_SECONDS = 0.05
"""How long a cancelled tool is waited for at least."""


class ToolFailure(ToolResult, frozen=True, kw_only=True):
    """What comes of a tool that broke: it raised what is no ToolError, or did not answer in time."""

    code: Literal["tool", "timeout"]


_followed: set[asyncio.Future[ToolResult]] = set()
"""Tasks that outlived their call, kept until they end."""


async def call_tool(
    tool: Tool, arguments: Mapping[str, object], context: ToolContext, *, max_output_bytes: int = MOST_OUTPUT
) -> ToolResult:
    """What came of the call; a `ToolFailure` where the tool broke. Raises nothing but the caller's cancellation.

    The call has until the tool's deadline or the context's, whichever is sooner, and at that moment control comes back
    with an error result; a thread that hangs is left behind. Output beyond `max_output_bytes` is cut on a whole
    character, ends in a line that says so, and is marked `truncated`.
    """
    context = _timed(tool, context)
    remaining = context.remaining()
    if remaining is not None and remaining <= 0:
        return broken(f"the tool {tool.name!r} was not called: the run's deadline has passed", "timeout", context.mask)
    work = _start(tool, arguments, context)
    try:
        limit = None if remaining is None else remaining + tool.grace_seconds
        done, _ = await asyncio.wait({work}, timeout=limit)
    except asyncio.CancelledError:
        await _give_up(work, tool.grace_seconds)
        raise
    if done and not work.cancelled():
        return bounded(work.result(), max_output_bytes, context.mask)
    await _give_up(work, 0)
    still = "" if tool.awaits else "; it may still be at work"
    return broken(
        f"the tool {tool.name!r} did not end within {max(round(remaining or 0, 1), 0.1):g} s and was given up{still}",
        "timeout",
        context.mask,
    )


def bounded(result: ToolResult, limit: int, mask: Masking) -> ToolResult:
    """`result` with at most `limit` bytes of output as UTF-8; lone surrogates are escaped.

    Output that is cut is masked before, or half a secret could be left of it.
    """
    text = result.output
    raw = text[: limit + 1].encode("utf-8", "backslashreplace")
    if len(raw) <= limit and len(text) <= limit:
        kept = raw.decode()
        return result if kept == text else msgspec.structs.replace(result, output=kept)
    note = f"\n[cut here: the whole output has {len(text)} characters]"
    room = limit - len(note) if limit > 4 * len(note) else limit
    raw = shortened(text, limit, mask).encode("utf-8", "backslashreplace")
    kept = raw[:room].decode("utf-8", "ignore") + (note if room < limit else "")
    return msgspec.structs.replace(result, output=kept, truncated=True)


def _timed(tool: Tool, context: ToolContext) -> ToolContext:
    if tool.timeout_seconds is None:
        return context
    own = context.clock.now() + tool.timeout_seconds
    return replace(context, deadline=own if context.deadline is None else min(own, context.deadline))


def _start(tool: Tool, arguments: Mapping[str, object], context: ToolContext) -> asyncio.Future[ToolResult]:
    if tool.awaits:
        return asyncio.ensure_future(_in_loop(tool, arguments, context))
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ToolResult] = loop.create_future()
    surrounding = contextvars.copy_context()

    def work() -> None:
        result = surrounding.run(_contained, tool, arguments, context)
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, future, result)

    try:
        threading.Thread(target=work, name=f"tenter-tool-{tool.name}", daemon=True).start()
    except RuntimeError as error:  # no thread is to be had
        future.set_result(_raised(tool, error, context.mask))
    return future


def _settle(future: asyncio.Future[ToolResult], result: ToolResult) -> None:
    if not future.done():
        future.set_result(result)


async def _give_up(work: asyncio.Future[ToolResult], grace: float) -> None:
    """Cancel `work`, wait a moment for it to come down, and follow what does not."""
    _followed.add(work)
    work.add_done_callback(_followed.discard)
    work.cancel()
    try:
        await asyncio.wait({work}, timeout=max(grace, SETTLE_SECONDS))
    except asyncio.CancelledError:
        work.cancel()
        raise


def _contained(tool: Tool, arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
    try:
        return tool_result(tool, invoke(tool, arguments, context))
    except BaseException as error:  # in a thread not even SystemExit and KeyboardInterrupt are anybody else's
        return _raised(tool, error, context.mask)


async def _in_loop(tool: Tool, arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
    try:
        return tool_result(tool, await cast("Any", invoke(tool, arguments, context)))
    except KeyboardInterrupt:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _raised(tool, error, context.mask)
    except BaseException as error:  # SystemExit would leave the event loop
        return _raised(tool, error, context.mask)


def _raised(tool: Tool, error: BaseException, mask: Masking) -> ToolResult:
    text = told(tool, error)
    if isinstance(error, ToolError):
        return refused(text, mask)
    return broken(text, "tool", mask)


def refused(text: str, mask: Masking) -> ToolResult:
    """What comes of a ToolError with this text."""
    return bounded(ToolResult(output=text, is_error=True), MOST_ERROR, mask)


def broken(text: str, code: Literal["tool", "timeout"], mask: Masking) -> ToolResult:
    """What comes of a tool that broke, and why it did."""
    return bounded(ToolFailure(output=text, is_error=True, code=code), MOST_ERROR, mask)
