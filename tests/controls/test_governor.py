"""The governor's checks: what does not fit is refused for the model, and what is called is what is checked."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tenter.catalogue import CATALOGUE, Envelope, Op, TaskRef, ToolCall, ToolCallEvent, ToolInfo
from tenter.controls.governor import GATES, LONGEST_NAME, MOST_PROBLEMS, check_call, check_tool, gates
from tenter.kernel import Block, FrozenDict, Runtime, freeze, hook

PATH = freeze({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
READ = ToolInfo(name="read_file", parameters=PATH)
SHELL = ToolInfo(name="shell", parameters=freeze({"type": "object", "additionalProperties": False}))
OFFERED = {"read_file": READ, "shell": SHELL}
ENVELOPE = Envelope(run_id="r", task=TaskRef(id="r", name="work"), correlation_id="r")


def event(name: str, arguments: object = FrozenDict({"path": "a"}), tool: ToolInfo | None = READ) -> ToolCallEvent:
    # A model that gave no object is what text stands for.
    call = ToolCall(id="c", name=name, arguments=cast("Mapping[str, object]", arguments))
    return ToolCallEvent(envelope=ENVELOPE, op=Op(id="o"), call=call, tool=tool)


def test_a_call_that_fits_an_offered_tool_passes() -> None:
    assert check_tool(event("read_file"), OFFERED) is None
    assert check_call(event("read_file")) is None


@pytest.mark.parametrize(
    ("name", "hint"), [("read_fil", "did you mean 'read_file'?"), ("zzz", "it offers 'read_file', 'shell'")]
)
def test_an_unknown_tool_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    said = check_tool(event(name, tool=None), OFFERED)
    assert isinstance(said, Block)
    assert said.code == "unknown_tool"
    assert said.reason == f"the task offers no tool called {name!r}; {hint}"


def test_a_task_without_tools_says_so() -> None:
    said = check_tool(event("shell", tool=None), {})
    assert isinstance(said, Block)
    assert said.reason.endswith("it offers none")


def test_a_tool_that_a_hook_made_up_does_not_make_it_offered() -> None:
    invented = ToolInfo(name="rm")
    said = check_tool(event("rm", tool=invented), OFFERED)
    assert isinstance(said, Block)


def test_a_name_of_a_megabyte_is_cut_in_the_reason() -> None:
    said = check_tool(event("x" * 1_000_000, tool=None), OFFERED)
    assert isinstance(said, Block)
    assert len(said.reason) < LONGEST_NAME + 100


def test_a_renamed_call_is_judged_as_the_tool_that_it_names_now() -> None:
    renamed = event("shell", tool=READ)
    said = check_tool(renamed, OFFERED)
    assert said == renamed.replace(tool=SHELL)


def test_a_schema_that_a_hook_loosened_is_the_tools_own_again() -> None:
    said = check_tool(event("read_file", tool=ToolInfo(name="read_file")), OFFERED)
    assert isinstance(said, ToolCallEvent)
    assert said.tool == READ


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'path' is missing"),
        ({"path": 1}, "at path: expected text, got 1"),
        ("{broken", "expected an object with the arguments"),
        ({"path": "a", "n": 2**60}, "an integer past 2^53-1"),
        ({"path": "a", "n": float("nan")}, "nan is no JSON number"),
        ({"path": "a", "n": 1 + 2j}, "has no canonical form"),
    ],
)
def test_arguments_that_do_not_fit_or_cannot_be_recorded_are_refused(arguments: object, problem: str) -> None:
    said = check_call(event("read_file", freeze(arguments)))
    assert isinstance(said, Block)
    assert said.code == "invalid_arguments"
    assert said.reason.startswith("the arguments of 'read_file' do not fit: ")
    assert problem in said.reason


def test_only_the_first_problems_are_told_and_the_rest_is_counted() -> None:
    many: dict[str, Any] = {f"unknown_{number}": 1 for number in range(MOST_PROBLEMS + 2)}
    said = check_call(event("shell", freeze(many), SHELL))
    assert isinstance(said, Block)
    assert said.reason.count("is not expected") == MOST_PROBLEMS
    assert said.reason.endswith("(and 2 more)")


def test_the_gates_hang_innermost_and_know_the_tool_before_its_arguments() -> None:
    chain = Runtime(CATALOGUE, [rewrites], gates=GATES).chain("tool.before")
    assert [(link.name, link.hook.band) for link in chain.links] == [
        ("rewrites", "app"),
        ("known-tool", "gate"),
        ("valid-arguments", "gate"),
    ]


@hook("tool.before")
def rewrites(event: ToolCallEvent) -> ToolCallEvent:
    return event.replace(call=ToolCall(id="c", name="read_file", arguments={"path": 7}))


async def test_what_is_judged_is_what_a_hook_made_of_the_call() -> None:
    runtime = Runtime(CATALOGUE, [rewrites], gates=gates(lambda _: OFFERED))
    decision = await runtime.dispatch("tool.before", event("shell", freeze({}), SHELL))
    assert isinstance(decision.outcome, Block)
    assert decision.hook == "valid-arguments"
    assert "at path: expected text, got 7" in decision.outcome.reason
