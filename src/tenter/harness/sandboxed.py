"""Runs one Python tool in a process of its own: the child's side of the sandbox `process`.

It is told on stdin what to call, as one JSON document, which leaves stdin at its end, and answers with one on what was
its stdout. What the tool prints goes to stderr, so that a tool that prints cannot answer. Whatever the tool does, one
answer comes, or the process ends without any. It limits itself and confines nothing; `sandbox` starts it, ends it and
judges what it says.
"""

import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tenter.catalogue import ToolResult
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool, tool as make_tool
from tenter.harness.errors import ToolError
from tenter.harness.invocation import invoke, told, tool_result
from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK

if TYPE_CHECKING:
    from tenter.kernel import Redactor

MOST_TOLD: Final = 192 * 1024
"""Characters of a result that are handed over: what is shown, and as much as is looked at beyond that for secrets."""
BUILT_IN: Final = "tenter.harness."


def main(order: Mapping[str, Any]) -> None:
    """Carries out `order` and ends this process; the keys of it are those of `sandbox.order`."""
    answer, process = _stdout_apart(), os.getpid()
    for name, limit in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    said = json.dumps(_answer(order), ensure_ascii=False).encode()
    # A child that the tool forked, and that came back here with it, says nothing.
    if os.getpid() == process:
        with os.fdopen(answer, "wb") as file:
            file.write(said)
    # Neither threads that it left behind nor exit handlers may hold up the answer.
    os._exit(0)


def _stdout_apart() -> int:
    """Sends to stderr what is printed from now on; where the answer goes, which no program inherits."""
    answer = os.dup(1)
    os.dup2(2, 1)
    return answer


def _answer(order: Mapping[str, Any]) -> Mapping[str, object]:
    """What came of the call, as JSON has it; `kind` tells a result from what was raised."""
    name = order["name"]
    try:
        made = _loaded(order).configured(name=name)
    except BaseException as error:
        return _said("broken", ToolResult(output=f"the tool {name!r} cannot be loaded in its process: {error}"))
    try:
        return _said("result", _called(made, order["arguments"], _context(order)))
    except BaseException as error:  # as in `calling`: nobody else is concerned
        return _said("refused" if isinstance(error, ToolError) else "broken", ToolResult(output=told(made, error)))


def _said(kind: str, result: ToolResult) -> Mapping[str, object]:
    output = result.output
    return {
        "kind": kind,
        "output": output[:MOST_TOLD].encode("utf-8", "backslashreplace").decode(),
        "characters": len(output),
        "is_error": result.is_error,
        "untrusted": result.untrusted,
        "truncated": result.truncated,
    }


def _called(made: Tool, arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
    value = invoke(made, arguments, context)
    if made.awaits:
        import asyncio  # as slow to load as all the rest, and few tools need it

        value = asyncio.run(_awaited(value))
    return tool_result(made, value)


async def _awaited(value: Any) -> object:
    return await value


def _loaded(order: Mapping[str, Any]) -> Tool:
    module, _, attribute = order["target"].rpartition(":")
    if module.startswith(BUILT_IN):
        import importlib

        found: object = getattr(importlib.import_module(module), attribute)
    else:
        from tenter.executors import PinnedImports, load_target  # what loads a project's code; ours needs none of it

        PinnedImports(order["project"], order["digests"]).install()
        sys.path[:] = order["search"]
        found = load_target(order["target"], order["project"])
    if isinstance(found, Tool):
        return found
    if not callable(found):
        raise TypeError(f"{order['target']!r} is no function")
    return make_tool(found)


def _context(order: Mapping[str, Any]) -> ToolContext:
    remaining = order["remaining"]
    return ToolContext(
        workspace=Workspace(Path(order["workspace"]), Path(order["alias"])),
        environment=order["environment"],
        secrets=order["secrets"],
        key=order["key"],
        deadline=None if remaining is None else SYSTEM_CLOCK.now() + remaining,
        mask=_masking(order["masked"]),
    )


def _masking(secrets: list[str]) -> Callable[[str], str]:
    """Masks what is known as a secret."""

    def mask(text: str) -> str:
        return _redactor(tuple(secrets)).mask_text(text)

    return mask


@cache
def _redactor(secrets: tuple[str, ...]) -> "Redactor":
    from tenter.controls import PUBLISHED_KEYS  # made when a tool first asks: most never do
    from tenter.kernel import Redactor

    return Redactor(secrets=secrets, patterns=PUBLISHED_KEYS)
