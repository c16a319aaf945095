"""How a model asks for a sub-run: one tool that names the task and what it is given (D§4.3). Pure."""

import hashlib
from collections.abc import Mapping
from typing import Final, cast

from tenter.agent.plan import DEEPEST, Plan, Subtask
from tenter.catalogue import ToolCall, ToolSpec
from tenter.kernel import FrozenDict

SPAWN: Final = "spawn_subtask"
"""The name of the tool. A task that spawns nothing may have one of its own that is called so."""


def offered(plan: Plan) -> tuple[ToolSpec, ...]:
    """The tool, where the task may spawn anything."""
    if not plan.subtasks:
        return ()
    names = [subtask.name for subtask in plan.subtasks]
    listed = "; ".join(f"{one.name}: {one.description}" if one.description else one.name for one in plan.subtasks)
    properties = {"task": {"type": "string", "enum": names}, "input": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    text = f"Give a part of the work to another task, which answers when it is done. Tasks: {listed}"
    return (ToolSpec(name=SPAWN, description=text, parameters=schema),)


def is_spawn(plan: Plan, call: ToolCall) -> bool:
    """Whether the call asks for a sub-run."""
    return bool(plan.subtasks) and call.name == SPAWN


def wanted(plan: Plan, call: ToolCall) -> tuple[Subtask, str] | str:
    """The task that is to be spawned and its input; why there is none, for the model, where it cannot be."""
    arguments = cast("object", call.arguments)
    given = cast("Mapping[str, object]", arguments) if isinstance(arguments, Mapping) else FrozenDict[str, object]()
    named, text = given.get("task"), given.get("input")
    subtask = next((one for one in plan.subtasks if one.name == named), None)
    if subtask is None or not isinstance(text, str) or len(given) != 2:
        names = ", ".join(repr(one.name) for one in plan.subtasks)
        return f"{SPAWN} takes 'task', one of {names}, and 'input', a text, and nothing else."
    if plan.depth >= DEEPEST:
        return f"No further task can be spawned: {DEEPEST} runs stand inside one another already."
    return subtask, text


def child_run_id(run_id: str, path: str) -> str:
    """The id of the sub-run that is spawned at `path`: the same whenever the run is replayed."""
    return hashlib.sha256(f"{run_id}/{path}".encode()).hexdigest()[:16]
