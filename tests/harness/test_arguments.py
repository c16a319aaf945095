"""What a run is started with is checked, and no value is told back but a number."""

import asyncio
from typing import Any, cast

import pytest

from tenter.catalogue import LoopFacts, Participant, TaskRef
from tenter.harness.arguments import RunArguments, check_arguments, envelope_of, limits_of
from tenter.kernel import FrozenDict, TenterError

ANN = Participant(id="ann", kind="human")
TASK = TaskRef(id="r1", name="work", version=1)


def given(**arguments: Any) -> RunArguments:
    return cast("RunArguments", arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"entities": 5}, "the argument 'entities' of a run must be a tuple of texts, not 5"),
        ({"entities": "abc"}, "'entities' of a run must be a tuple of texts, not str"),
        ({"entities": ("a", b"b")}, "'entities' of a run must be a tuple of texts, not tuple with bytes, str"),
        ({"participants": (1,)}, "'participants' of a run must be a tuple of Participant values, not tuple with int"),
        ({"principal": 5}, "'principal' of a run must be a text or None, not 5"),
        ({"session_id": b"x"}, "'session_id' of a run must be a text or None, not bytes"),
        ({"correlation_id": 1.5}, "'correlation_id' of a run must be a text or None, not 1.5"),
        ({"metadata": 5}, "'metadata' of a run must be a mapping, not 5"),
        ({"loop": "x"}, "'loop' of a run must be LoopFacts or None, not str"),
        ({"watcher": asyncio.sleep}, "'watcher' of a run must be a function that is not async, or None, not function"),
        ({"watcher": "x"}, "'watcher' of a run must be a function that is not async, or None, not str"),
        ({"environment": [("A", "b")]}, "'environment' of a run must be a mapping of names to texts, as programs"),
        ({"environment": {"A": 1}}, "'environment' of a run must be a mapping of names to texts, as programs"),
        ({"environment": {"A=B": "c"}}, "'environment' of a run must be a mapping of names to texts, as programs"),
        ({"environment": {"A": "\0"}}, "'environment' of a run must be a mapping of names to texts, as programs"),
    ],
)
def test_an_argument_of_another_kind_is_named_with_what_was_expected(arguments: Any, says: str) -> None:
    with pytest.raises(TenterError, match=says):
        check_arguments("work", "input", given(**arguments))


@pytest.mark.parametrize(("task", "input", "name"), [(5, "x", "task"), ("t", None, "input"), ("t", b"x", "input")])
def test_task_and_input_are_texts(task: object, input: object, name: str) -> None:
    with pytest.raises(TenterError, match=f"the argument '{name}' of a run must be a text, not"):
        check_arguments(task, input, given())


def test_arguments_that_fit_are_the_envelope() -> None:
    fitting = given(
        principal="p", session_id="s", participants=[ANN], entities=("e",), metadata={"a": [1]}, loop=LoopFacts()
    )
    check_arguments("work", "", fitting)
    made = envelope_of(TASK, fitting)
    assert (made.run_id, made.correlation_id, made.principal, made.session_id) == ("r1", "r1", "p", "s")
    assert (made.participants, made.entities, made.metadata) == ((ANN,), ("e",), FrozenDict({"a": (1,)}))
    assert envelope_of(TASK, given(correlation_id="c")).correlation_id == "c"


def test_metadata_that_is_no_data_is_refused() -> None:
    with pytest.raises(TenterError, match="the metadata of a run must be data"):
        envelope_of(TASK, given(metadata={"a": object()}))


@pytest.mark.parametrize("deadline", [10**400, float("nan"), float("inf"), -float("inf"), "soon", True])
def test_a_deadline_that_is_no_moment_is_refused(deadline: object) -> None:
    with pytest.raises(TenterError, match="the deadline of a run must be in seconds since the epoch, not"):
        limits_of(deadline, 1)


@pytest.mark.parametrize("steps", [0, -1, 2**53, 10**30, 1.5, "3", True, None])
def test_steps_that_are_no_count_are_refused(steps: object) -> None:
    with pytest.raises(TenterError, match="max_steps must be a number from 1 to 2"):
        limits_of(None, steps)


def test_limits_are_as_given() -> None:
    assert (limits_of(5, 3).deadline, limits_of(5, 3).max_steps, limits_of(None, 1).deadline) == (5.0, 3, None)
