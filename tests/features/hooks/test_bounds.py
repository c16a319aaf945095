"""Hooks within bounds, and on record: see bounds.feature."""

from datetime import datetime, timedelta

from pytest_bdd import parsers, scenarios, then
from tests.features.hooks.world import World, gone

scenarios("bounds.feature")

ROUNDING = timedelta(seconds=1)
"""What times may be off, that are written to the second."""


@then(parsers.parse('every process of the file "{name}" is gone'))
def ended(world: World, name: str) -> None:
    processes = [int(pid) for pid in (world.records / name).read_text().split()]
    assert len(processes) == 2
    for pid in processes:
        gone(pid)


@then("each record of the hooks' log has exactly the keys:")
def keys(world: World, docstring: str) -> None:
    records: list[dict[str, object]] = world.asked("hooks", "log", "--loop", world.loop.id)
    assert len(records) == 3
    for record in records:
        assert sorted(record) == sorted(docstring.split())
        assert record["loop_id"] == world.loop.id
        assert record["attempt"] == 1


@then("the records' times are in order and their durations fit")
def times(world: World) -> None:
    for hook in ("passes", "fails", "hangs"):
        (record,) = world.telemetry(hook)
        began, over, made = (_moment(record[name]) for name in ("started_at", "ended_at", "timestamp"))
        duration = record["duration_ms"]
        assert isinstance(duration, int | float)
        assert began <= over <= made
        assert abs(over - began - timedelta(milliseconds=duration)) <= ROUNDING
        assert (duration >= 1000) == (hook == "hangs")


def _moment(text: object) -> datetime:
    assert isinstance(text, str)
    assert text.endswith("Z")
    return datetime.fromisoformat(text)
