"""Sub-runs: what a model is offered, what it may ask for, and what it is told of what came of them."""

from typing import Any, cast

import msgspec
import pytest
from tests.agent.playbook import (
    ASKED,
    BROKEN,
    ENVELOPE,
    HANDED_OVER,
    PLAN,
    REFUSED,
    STOPPED,
    Outcome,
    Playbook,
    asks,
    begun,
    error_of,
    told,
)
from tests.agent.playbook_work import approve, expire, nobody, reject

from tenter.agent.approval import Halted, request_for
from tenter.agent.plan import DEEPEST, Plan, Subtask, Waiting, status_of
from tenter.agent.subtasks import SPAWN, child_run_id, is_spawn, offered, wanted
from tenter.catalogue import ErrorInfo, Status, SubtaskResult, TaskRef, ToolCall, ToolSpec, Usage
from tenter.kernel import Blocked, Escalated, FrozenDict

LOOK = Subtask(name="look", version=3, description="looks things up")
WRITE = Subtask(name="write")
PARENT = msgspec.structs.replace(PLAN, subtasks=(LOOK, WRITE))
TOGETHER = msgspec.structs.replace(PARENT, parallel_tools=True)
SPAWNED = "1.subtask.spawned.0"


def call(number: int = 0, **arguments: object) -> ToolCall:
    return ToolCall(id=f"c{number}", name=SPAWN, arguments=arguments)


def spawning(*made: ToolCall) -> Playbook:
    """A run whose model just made these calls; one for the task `look` where none are named."""
    made = made or (call(task="look", input="where is it?"),)
    return begun() >> "1.llm.invoked.0" << asks(made) >> "1.tool_calls.extracted.0"


FOUND = SubtaskResult(run_id="run-2", task="look", status="completed", cost_usd=0.0)


def result(status: Status = "completed", **fields: object) -> SubtaskResult:
    return msgspec.structs.replace(FOUND, status=status, **fields)


def waiting(path: str = "1.tool.invoked.0", run_id: str = "run-2") -> Waiting:
    """A sub-run that waits for a person."""
    inner = msgspec.structs.replace(
        PLAN, envelope=msgspec.structs.replace(ENVELOPE, run_id=run_id), root_run_id="run-1"
    )
    halted = Halted(operation="tool.invoked", path=path, index=0, event=ASKED.event, ending=ASKED)
    return Waiting(requests=(request_for(halted, inner, 0.0),))


def refused_then(playbook: Playbook, plan: Plan = PARENT) -> list[str]:
    """What the model hears in its next turn."""
    return told((playbook >> "2.llm.invoked.0" << REFUSED).ending(2, "blocked").play(plan))


# Offered and asked for


def test_a_task_without_subtasks_is_offered_no_tool_for_them() -> None:
    assert offered(PLAN) == ()
    assert not is_spawn(PLAN, call(task="look"))


def test_a_model_is_offered_one_tool_that_names_the_tasks() -> None:
    playbook = begun() >> "1.llm.invoked.0" << REFUSED
    playbook.ending(1, "blocked").play(PARENT)
    tools: tuple[ToolSpec, ...] = playbook.event("1.llm.invoked.0").request.tools
    assert [tool.name for tool in tools] == ["shell", "lookup", SPAWN]
    assert tools[-1].description.endswith("Tasks: look: looks things up; write")
    schema = cast("dict[str, Any]", tools[-1].parameters)
    assert schema["properties"]["task"]["enum"] == ("look", "write")
    assert set(schema["required"]) == {"task", "input"}


def test_a_subtask_is_spawned_with_its_task_its_input_and_an_id_that_replay_finds_again() -> None:
    playbook = spawning() >> SPAWNED << {"result": result(output="there")}
    assert refused_then(playbook) == ["there"]
    event = playbook.event(SPAWNED)
    assert event.parent == ENVELOPE.task
    assert event.task == TaskRef(id=child_run_id("run-1", SPAWNED), name="look", version=3)
    assert event.input == "where is it?"


def test_every_sub_run_has_an_id_of_its_own() -> None:
    paths = [f"{step}.subtask.spawned.{index}" for step in (1, 2) for index in (0, 1)]
    ids = {child_run_id(run_id, path) for run_id in ("run-1", "run-2") for path in paths}
    assert len(ids) == 8
    assert child_run_id("run-1", SPAWNED) in ids


WRONG: tuple[dict[str, object], ...] = (
    {},
    {"task": "look"},
    {"input": "?"},
    {"task": "nope", "input": "?"},
    {"task": ["look"], "input": "?"},
    {"task": "look", "input": 7},
    {"task": "look", "input": "?", "more": 1},
)


@pytest.mark.parametrize("arguments", WRONG, ids=repr)
def test_a_call_that_names_no_subtask_is_told_what_there_is_and_spawns_nothing(arguments: dict[str, object]) -> None:
    (answer,) = refused_then(spawning(ToolCall(id="c0", name=SPAWN, arguments=arguments)))
    assert answer == f"{SPAWN} takes 'task', one of 'look', 'write', and 'input', a text, and nothing else."


def test_arguments_that_are_text_name_no_subtask() -> None:
    text = ToolCall(id="c0", name=SPAWN, arguments=cast("Any", '{"task": '))
    assert isinstance(wanted(PARENT, text), str)


@pytest.mark.parametrize("depth", [DEEPEST - 1, DEEPEST])
def test_runs_stand_inside_one_another_to_a_limit(depth: int) -> None:
    found = wanted(msgspec.structs.replace(PARENT, depth=depth), call(task="write", input="?"))
    assert (found == (WRITE, "?")) is (depth < DEEPEST)
    assert isinstance(found, str) is (depth == DEEPEST)


def test_a_run_that_stands_too_deep_is_told_so_and_goes_on() -> None:
    deep = msgspec.structs.replace(PARENT, depth=DEEPEST)
    assert refused_then(spawning(), deep) == [
        "No further task can be spawned: 8 runs stand inside one another already."
    ]


# What comes of it


@pytest.mark.parametrize(
    ("came", "text", "is_error"),
    [
        (result(output="found"), "found", False),
        (result(output=None), "", False),
        (result(output={"at": [1, 2]}), '{"at":[1,2]}', False),
        (
            result("failed", error=ErrorInfo(code="tool", message="no disk")),
            "The task 'look' ended failed: no disk",
            True,
        ),
        (result("blocked"), "The task 'look' ended blocked", True),
        (result("escalated", output="half"), "The task 'look' ended escalated", True),
        (result("cancelled"), "The task 'look' ended cancelled", True),
    ],
    ids=lambda value: value.status if isinstance(value, SubtaskResult) else "",
)
def test_a_model_is_told_what_came_of_its_subtask(came: SubtaskResult, text: str, is_error: bool) -> None:
    playbook = spawning() >> SPAWNED << {"result": came} >> "2.llm.invoked.0" << REFUSED
    message = playbook.ending(2, "blocked").play(PARENT).progress.messages[-1]
    assert (message.role, message.name, message.content, message.is_error) == ("tool", SPAWN, text, is_error)


def test_what_a_sub_run_used_is_used_by_its_run() -> None:
    came = result(usage=Usage(input_tokens=30, output_tokens=4), cost_usd=0.25)
    playbook = spawning() >> SPAWNED << {"result": came}
    refused_then(playbook)
    end = playbook.event("close blocked")
    assert (end.usage, end.cost_usd) == (Usage(input_tokens=30, output_tokens=4), 0.25)


def test_a_sub_run_of_unknown_cost_makes_the_runs_cost_unknown() -> None:
    playbook = spawning() >> SPAWNED << {"result": result(cost_usd=None)}
    refused_then(playbook)
    assert playbook.event("close blocked").cost_usd is None


def test_what_a_sub_run_used_counts_also_where_a_call_beside_it_ends_the_run() -> None:
    shell = ToolCall(id="c0", name="shell")
    playbook = spawning(shell, call(1, task="look", input="?")) >> "1.tool.invoked.0" << STOPPED
    playbook = playbook >> "1.subtask.spawned.1" << {"result": result(cost_usd=0.25)}
    assert playbook.ending(1, "blocked").play(TOGETHER).progress.cost_usd == 0.25


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (REFUSED, "Refused by the hook 'guard': not today"),
        (BROKEN, "The call failed: it broke"),
    ],
)
def test_a_subtask_that_is_not_spawned_is_told_to_the_model(ending: Outcome, text: str) -> None:
    playbook = spawning() >> SPAWNED << ending
    if ending is BROKEN:
        playbook = playbook >> "1.activity.failed.0"
    assert refused_then(playbook) == [text]


def test_a_refusal_with_stop_ends_the_run_in_place_of_its_subtask() -> None:
    playbook = (spawning() >> SPAWNED << STOPPED).ending(1, "blocked")
    assert error_of(playbook.play(PARENT)).message == "enough"


@pytest.mark.parametrize(("ending", "status"), [(HANDED_OVER, "escalated"), (STOPPED, "blocked")])
def test_a_subtask_that_failed_can_end_the_run_where_a_hook_says_so(
    ending: Escalated | Blocked, status: Status
) -> None:
    playbook = spawning() >> SPAWNED << BROKEN >> "1.activity.failed.0" << ending
    assert status_of(playbook.ending(1, status).play(PARENT)) == status


# Waiting


def along(answer: Outcome) -> Playbook:
    playbook = spawning() >> SPAWNED << waiting() >> "suspend run-2:1.tool.invoked.0"
    return playbook.changing(1, "awaiting_approval") >> "decide" << answer


def test_a_run_waits_along_with_its_sub_run_and_asks_nobody_itself() -> None:
    playbook = along(nobody)
    standing = playbook.play(PARENT)
    assert isinstance(standing, Waiting)
    assert standing.requests == waiting().requests


@pytest.mark.parametrize("answer", [approve, reject, expire], ids=["approved", "rejected", "expired"])
def test_a_sub_run_goes_on_with_whatever_was_decided_and_the_model_is_told_what_came_of_it(answer: Outcome) -> None:
    playbook = along(answer).changing(1, "running") >> f"{SPAWNED}#2" << {"result": result("blocked")}
    assert refused_then(playbook) == ["The task 'look' ended blocked"]


def test_a_sub_run_may_wait_as_often_as_it_has_to() -> None:
    playbook = along(approve)
    for number in range(2, 7):
        playbook = playbook.changing(1, "running") >> f"{SPAWNED}#{number}" << waiting(f"{number}.tool.invoked.0")
        playbook = playbook >> f"suspend run-2:{number}.tool.invoked.0"
        playbook = playbook.changing(1, "awaiting_approval") >> "decide"
    playbook = playbook.changing(1, "running") >> f"{SPAWNED}#7" << {"result": result(output="found")}
    assert refused_then(playbook) == ["found"]


BESIDE = "suspend 1.tool.invoked.0 and run-2:1.tool.invoked.0"


def beside(answer: Outcome) -> Playbook:
    """A call that needs a person beside a sub-run that waits for one, and what is asked for both."""
    playbook = spawning(ToolCall(id="c0", name="shell"), call(1, task="look", input="?")) >> "1.tool.invoked.0" << ASKED
    playbook = playbook >> "1.subtask.spawned.1" << waiting() >> BESIDE >> "1.help.requested.0"
    return playbook.changing(1, "awaiting_approval") >> "decide" << answer


def test_requests_of_sub_runs_stand_among_the_runs_own_in_the_order_of_the_calls() -> None:
    playbook = (beside(approve) >> "1.help.decided.0").changing(1, "running")
    playbook = playbook >> "1.tool.invoked.0#2" >> "1.subtask.spawned.1#2" << {"result": result(output="found")}
    assert refused_then(playbook, TOGETHER) == ["shell ran", "found"]


def test_a_request_that_was_withdrawn_with_that_of_a_sub_run_is_made_anew() -> None:
    def rejecting(request: Any) -> Any:
        return reject(request) if request.run_id == "run-2" else None

    playbook = beside(rejecting).changing(1, "running") >> "1.tool.invoked.0#2" << ASKED
    playbook = playbook >> "1.subtask.spawned.1#2" << {"result": result("blocked")}
    playbook = playbook.approving("1.tool.invoked.0") >> "1.tool.invoked.0#3"
    assert refused_then(playbook, TOGETHER) == ["shell ran", "The task 'look' ended blocked"]
    assert playbook.event("1.tool.invoked.0#2").approval is None


def test_the_tool_is_one_of_the_tasks_own_where_it_spawns_nothing() -> None:
    playbook = begun() >> "1.llm.invoked.0" << asks([call(task="look", input="?")]) >> "1.tool_calls.extracted.0"
    assert refused_then(playbook >> "1.tool.invoked.0", PLAN) == [f"{SPAWN} ran"]
    assert playbook.event("1.tool.invoked.0").call.arguments == FrozenDict({"task": "look", "input": "?"})
