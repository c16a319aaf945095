"""Tools of a file, executed in a process of their own."""

import os
from collections.abc import Mapping
from pathlib import Path

from tenter.executors import load_target
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool, tool
from tenter.harness.sandbox import Origin, confined, loaded_digests, this_machine
from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK

HEAD = """
import asyncio, ctypes, json, os, resource, signal, subprocess, sys, threading
from typing import Annotated
import msgspec
from tenter.catalogue import ToolResult
from tenter.harness import ToolContext, ToolError, tool
"""


def function(folder: Path, source: str, name: str = "work") -> Tool:
    """The tool `name` of a file in `folder` with this source."""
    (folder / "my_tools.py").write_text(HEAD + source)
    found = load_target(f"./my_tools.py:{name}", str(folder))
    assert callable(found)
    return found if isinstance(found, Tool) else tool(found)


def boxed(folder: Path, source: str, name: str = "work", *, masked: tuple[str, ...] = ()) -> Tool:
    """The same in the sandbox `process`."""
    made = function(folder, source, name).configured(sandbox="process")
    project = os.path.realpath(folder)
    target = f"./my_tools.py:{name}"
    origin = Origin(target=target, project=project, digests=loaded_digests(project), masked=masked)
    return confined(made, origin, this_machine())


def at(
    folder: Path, *, seconds: float | None = 20.0, secrets: Mapping[str, str] | None = None, **environment: str
) -> ToolContext:
    """What a call is handed that works in `folder` and has `seconds`."""
    given = secrets or {}
    return ToolContext(
        workspace=Workspace.at(folder),
        environment={"PATH": os.environ["PATH"], **environment, **given},
        deadline=None if seconds is None else SYSTEM_CLOCK.now() + seconds,
        secrets=given,
        key="run-1/1.tool.invoked.0",
    )
