"""A spec is frozen, says what the file leaves out, and knows where everything stands."""

import msgspec
import pytest

from tenter.config.problem import Position
from tenter.config.spec import HookDefaults, HookSpec, Spec
from tenter.kernel import FrozenDict


def test_what_a_hook_leaves_out_is_as_the_design_says() -> None:
    hook = HookSpec(where=Position("f", 1, 1), path=(), name="a", python="m:f")
    assert (hook.priority, hook.mode, hook.observe, hook.match) == (None, None, None, None)
    assert (hook.grace_seconds, hook.verdict, hook.mutate.enabled) == (1.0, None, False)
    assert (hook.on_error, hook.timeout_seconds, hook.max_output_bytes) == (None, None, None)
    assert hook.suspend_mode is None
    assert HookDefaults() == HookDefaults(timeout_seconds=30.0, max_output_bytes=8192, suspend_mode="wait_for_resume")


@pytest.mark.parametrize("kind", ["command", "script", "python"])
def test_a_hook_knows_its_kind(kind: str) -> None:
    value = ("x",) if kind == "command" else "x"
    assert msgspec.convert({"where": Position("f"), "path": (), "name": "a", kind: value}, HookSpec).kind == kind


def test_a_spec_cannot_be_changed() -> None:
    spec = Spec(file="f", digest="", version=1)
    with pytest.raises(AttributeError):
        spec.file = "g"  # type: ignore[misc]  # what the test is about


def test_the_place_of_what_is_missing_is_that_of_what_is_around_it() -> None:
    around = Position("f", 2, 1)
    spec = Spec(file="f", digest="", version=1, positions=FrozenDict({(): Position("f", 1, 1), ("hooks",): around}))
    assert spec.where("hooks") == around
    assert spec.where("hooks", "events", "tool.before", 0) == around
    assert spec.where("tasks", "x") == Position("f", 1, 1)
