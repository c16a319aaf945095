"""No task spawns itself, by however many others, and each circle is told once with all that stand on it."""

import pytest
from hypothesis import given, strategies as st

from tenter.config.problem import Position
from tenter.config.spec import Spec, TaskSpec
from tenter.config.subtasks import subtask_problems
from tenter.kernel import FrozenDict


def spec_of(tasks: dict[str, tuple[str, ...]], **tools: tuple[str, ...]) -> Spec:
    made = {
        name: TaskSpec(version=1, model="m", instructions="x", subtasks=subtasks, tools=tools.get(name, ()))
        for name, subtasks in tasks.items()
    }
    places = {("tasks", name, "subtasks", 0): Position("f", line) for line, name in enumerate(tasks, 1)}
    return Spec(file="f", digest="", version=1, tasks=FrozenDict(made), positions=FrozenDict(places))


def told(tasks: dict[str, tuple[str, ...]], **tools: tuple[str, ...]) -> list[str]:
    return [f"{one.path[1]}[{one.path[-1]}] {one.message}" for one in subtask_problems(spec_of(tasks, **tools))]


def test_tasks_that_share_a_subtask_are_no_circle() -> None:
    assert told({"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}) == []


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ({"a": ("a",)}, "a[0] the task 'a' would spawn itself: a -> a"),
        ({"a": ("b",), "b": ("a",)}, "b[0] the task 'a' would spawn itself: a -> b -> a"),
        ({"a": ("x",), "x": ("y",), "y": ("z", "x"), "z": ()}, "y[1] the task 'x' would spawn itself: x -> y -> x"),
    ],
)
def test_a_circle_is_told_where_it_closes_with_all_that_stand_on_it(
    tasks: dict[str, tuple[str, ...]], expected: str
) -> None:
    assert told(tasks) == [expected]


def test_every_circle_is_told_once() -> None:
    found = told({"a": ("b", "a"), "b": ("a",), "c": ("d",), "d": ("c", "a")})
    assert [one.split(": ")[1] for one in found] == ["a -> b -> a", "a -> a", "c -> d -> c"]
    assert len(told({"a": ("b",), "b": ("b",)})) == 1


def test_a_circle_is_told_at_its_place_in_the_file_with_what_to_do() -> None:
    (found,) = subtask_problems(spec_of({"a": ("b",), "b": ("a",)}))
    assert str(found) == (
        "f:2:0: at tasks.b.subtasks[0]: the task 'a' would spawn itself: a -> b -> a; "
        "take one of them out of the 'subtasks' that it stands in"
    )


def test_a_long_way_is_walked_and_shown_by_its_ends() -> None:
    tasks = {f"t{n}": (f"t{(n + 1) % 5_000}",) for n in range(5_000)}
    (found,) = told(tasks)
    assert found.endswith(": t0 -> t1 -> t2 -> t3 -> … -> t4997 -> t4998 -> t4999 -> t0")


def test_a_subtask_that_is_no_task_is_left_to_the_schema() -> None:
    assert told({"a": ("gone",)}) == []


def test_a_task_with_subtasks_has_no_tool_with_the_name_of_the_one_that_spawns() -> None:
    tasks: dict[str, tuple[str, ...]] = {"a": ("b",), "b": ()}
    assert told(tasks, a=("b", "spawn_subtask"), b=("spawn_subtask",)) == [
        "a[1] a task with subtasks has a tool 'spawn_subtask' by itself"
    ]


@given(st.lists(st.lists(st.integers(0, 7), unique=True, max_size=4), min_size=8, max_size=8))
def test_there_is_a_problem_exactly_where_some_task_reaches_itself(edges: list[list[int]]) -> None:
    tasks = {f"t{n}": tuple(f"t{other}" for other in others) for n, others in enumerate(edges)}
    spec = spec_of(tasks)
    reaches_itself = [
        name for name in tasks if any(name in spec.reached(subtask) for subtask in spec.tasks[name].subtasks)
    ]
    assert bool(told(tasks)) == bool(reaches_itself)
