"""The tools of a configuration: their settings, their sandbox, and the secrets that each is given alone."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.harness.boxed import at
from tests.harness.world import project

from tenter.config import ConfigError, Pins, load
from tenter.harness.calling import call_tool
from tenter.harness.sandbox import Machine, this_machine
from tenter.harness.toolbox import Toolbox
from tenter.harness.tools import BUILTIN_TOOLS
from tenter.kernel import FrozenDict, Redactor

SOURCE = """
from tenter.harness import ToolContext

def own(context: ToolContext) -> str:
    return context.secrets.get("MY_KEY", "none")
"""


def toolbox(
    folder: Path,
    tools: Mapping[str, Mapping[str, object]],
    *,
    machine: Machine | None = None,
    told: Mapping[str, str] | None = None,
    pins: Pins | None = None,
) -> Toolbox:
    (folder / "own_tools.py").write_text(SOURCE)
    path = project(folder, tools=list(tools), settings={"tools": tools, "secrets": ["MY_KEY", "OTHER_KEY"]})
    return Toolbox(
        spec=load(path, builtin_tools=BUILTIN_TOOLS),
        project=os.path.realpath(folder),
        machine=machine or this_machine(),
        redactor=Redactor(),
        told=told or {},
        pins=pins,
    )


def test_tools_take_the_settings_of_the_file(tmp_path: Path) -> None:
    settings = {"risk": "high", "sandbox": "process", "principals": ["ops-*"], "timeout_seconds": 3}
    tools = toolbox(tmp_path, {"shell": settings, "own": {"python": "./own_tools.py:own", "risk": "low"}}).tools()
    info = tools["shell"].info
    assert (info.risk, info.sandbox, info.principals, info.timeout_seconds) == ("high", "process", ("ops-*",), 3)
    assert (tools["own"].info.risk, tools["own"].info.sandbox, tools["own"].info.principals) == ("low", "none", ())


def test_a_sandbox_that_the_machine_lacks_is_a_mistake_at_the_place_of_the_tool(tmp_path: Path) -> None:
    bare = Machine(python="", sessions=True, limits=frozenset())
    with pytest.raises(ConfigError) as caught:
        toolbox(tmp_path, {"shell": {"sandbox": "process"}, "edit": {"sandbox": "process"}}, machine=bare).tools()
    texts = sorted(problem.message for problem in caught.value.problems)
    assert len(texts) == 2
    assert texts[0].startswith("the tool 'edit' is to be executed in the sandbox 'process', for which this machine has")
    assert {problem.path for problem in caught.value.problems} == {("tools", "edit"), ("tools", "shell")}


def test_a_tool_is_given_the_secrets_that_are_named_for_it_and_set(tmp_path: Path) -> None:
    box = toolbox(
        tmp_path,
        {"own": {"python": "./own_tools.py:own", "secrets": ["MY_KEY", "OTHER_KEY"]}, "shell": {"risk": "low"}},
        told={"MY_KEY": "correct-horse", "MINE": "of the user's file"},
    )
    tools = box.tools()
    assert tools["own"].secrets == ("MY_KEY", "OTHER_KEY")
    assert box.secrets(tools["own"]) == {"MY_KEY": "correct-horse"}
    assert box.secrets(tools["shell"]) == {}
    assert "correct-horse" not in repr(box)


async def test_the_users_own_tool_and_its_neighbours_are_loaded_in_the_process_as_well(tmp_path: Path) -> None:
    (tmp_path / "toolbox_beside.py").write_text("said = 'from beside'")
    (tmp_path / "toolbox_own.py").write_text("import toolbox_beside\ndef own() -> str: return toolbox_beside.said")
    tools = toolbox(tmp_path, {"own": {"python": "toolbox_own:own", "sandbox": "process"}}).tools()
    assert (await call_tool(tools["own"], {}, at(tmp_path))).output == "from beside"
    (tmp_path / "toolbox_beside.py").write_text("said = 'changed'")
    assert "changed since it was trusted" in (await call_tool(tools["own"], {}, at(tmp_path))).output


@pytest.mark.promise(14)
async def test_the_process_is_held_to_the_pins(tmp_path: Path) -> None:
    pins = Pins(
        file="tenter.yaml", config_digest="", root=os.path.realpath(tmp_path), files=FrozenDict(), commands=FrozenDict()
    )
    tools = toolbox(tmp_path, {"own": {"python": "./own_tools.py:own", "sandbox": "process"}}, pins=pins).tools()
    assert "is not among the files that were trusted" in (await call_tool(tools["own"], {}, at(tmp_path))).output


@pytest.mark.promise(4)
async def test_a_built_in_tool_masks_all_secrets_in_its_process_and_the_users_own_only_its_own(tmp_path: Path) -> None:
    (tmp_path / "own_masks.py").write_text(
        "from tenter.harness import ToolContext\n"
        "def masks(context: ToolContext, text: str) -> str: return context.mask(text)"
    )
    told = {"MY_KEY": "line one\nline two", "OTHER_KEY": "correct-horse"}
    box = toolbox(
        tmp_path,
        {
            "read_file": {"sandbox": "process"},
            "masks": {"python": "./own_masks.py:masks", "sandbox": "process", "secrets": ["OTHER_KEY"]},
        },
        told=told,
    )
    (tmp_path / "a").write_text("before\nline one\nline two\n")
    tools = box.tools()
    part = await call_tool(tools["read_file"], {"path": "a", "first_line": 2, "lines": 1}, at(tmp_path))
    assert part.output == "[redacted]\n"
    shown = await call_tool(tools["masks"], {"text": "correct-horse, line one\nline two"}, at(tmp_path))
    assert shown.output == "[redacted], line one\nline two"
