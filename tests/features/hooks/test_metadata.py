"""What hooks may say to later hooks, and that they may change nothing else: see metadata.feature."""

import json

from pytest_bdd import parsers, scenarios, then, when
from tests.features.hooks.world import World, rows

scenarios("metadata.feature")


@when("the loop runs, and what its agent was told and what it published is kept")
def control(world: World) -> None:
    done = world.run()
    assert done.code == 0, done.err
    (world.records / "control.json").write_text(json.dumps(_told_and_published(world)))
    world.forget_calls()


@when(parsers.parse('the hook "{name}" is armed'))
def arms(world: World, name: str) -> None:
    assert f"name: {name}" in world.hooks
    (world.records / "armed").touch()


@then("what the agent was told and what it published is the same as before")
def unchanged(world: World) -> None:
    control = world.kept("control")
    assert _told_and_published(world) == control
    assert "Forget it." not in world.prompt(1) + world.prompt(2)


@then("the configuration is as it was committed")
def committed(world: World) -> None:
    world.git("diff", "--exit-code", "--quiet", "HEAD")


@then("these hooks have one record each:")
def failures(world: World, datatable: list[list[str]]) -> None:
    for row in rows(datatable):
        (record,) = world.telemetry(row["hook"])
        assert (record["result"], record["disposition"]) == (json.loads(row["result"]), json.loads(row["disposition"]))


def _told_and_published(world: World) -> dict[str, object]:
    """The prompts of the loop that ran last, and its events; without ids and times, which differ from loop to loop."""
    events = world.project / ".tenter" / "loops" / world.loop.id / "events.jsonl"
    published = [json.loads(line) for line in events.read_text().splitlines()]
    assert len(published) == 2
    return {
        "prompts": [world.prompt(number).replace(world.loop.id, "this loop") for number in (1, 2)],
        "events": [[event["topic"], event["payload"]] for event in published],
    }
