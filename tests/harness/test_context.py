"""What a tool knows of its time."""

from dataclasses import dataclass
from pathlib import Path

from tenter.harness.context import ToolContext
from tenter.harness.workspace import Workspace


@dataclass
class StoppedClock:
    time: float

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def test_the_remaining_time_is_told_by_the_clock_that_was_handed_over(tmp_path: Path) -> None:
    clock = StoppedClock(100.0)
    context = ToolContext(workspace=Workspace.at(tmp_path), clock=clock, deadline=103.0)
    assert (context.remaining(), context.expired()) == (3.0, False)
    clock.time = 103.0
    assert (context.remaining(), context.expired()) == (0.0, True)


def test_without_a_deadline_there_is_always_time(tmp_path: Path) -> None:
    context = ToolContext(workspace=Workspace.at(tmp_path))
    assert (context.remaining(), context.expired()) == (None, False)


def test_a_tool_is_given_no_environment_unless_somebody_hands_one_over(tmp_path: Path) -> None:
    assert ToolContext(workspace=Workspace.at(tmp_path)).environment == {}


def test_secrets_are_no_part_of_how_a_context_is_shown(tmp_path: Path) -> None:
    given = {"KEY": "correct-horse"}
    context = ToolContext(workspace=Workspace.at(tmp_path), environment=given, secrets=given)
    assert context.secrets == given
    assert "correct-horse" not in repr(context)
