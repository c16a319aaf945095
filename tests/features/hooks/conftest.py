"""The steps that the acceptance scenarios of loops have in common. Each drives the real command line.

Nothing here calls into the package or reads its source: what is checked is what a user sees, and what scripts wrote.
"""

import json
import re
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, then, when
from tests.features.hooks.world import PROMPT, World, new_world, rows

TRACED = re.compile(r"(AC|LS)-\d\d")
"""The tags that stand in the table of docs/acceptance.md; they select no tests."""


def pytest_bdd_apply_tag(tag: str, function: Callable[..., object]) -> bool | None:
    """Makes no marker of an id: markers are declared one by one."""
    return True if TRACED.fullmatch(tag) else None


# -- given: a project, its agent, its hooks ----------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Generator[World]:
    with new_world(tmp_path) as made:
        yield made


@given("a project in a git repository")
def project(world: World) -> None:
    world.git("init", "--quiet")


@given("an agent that in its iterations:")
def agent(world: World, datatable: list[list[str]]) -> None:
    world.plan.clear()
    for row in rows(datatable):
        act: dict[str, object] = {"does": row["does"], "what": row["what"]}
        act["more"] = [row["more"], "--json"] if row["more"] else []
        world.plan.setdefault(row["iteration"], []).append(act)


@given(parsers.parse('in iteration {number} the agent asks "{question}"'))
def asks(world: World, number: str, question: str) -> None:
    payload = json.dumps({"question": question, "options": ["y"]})
    act: dict[str, object] = {"does": "publishes", "what": "human.interact", "more": [payload, "--json"]}
    world.plan.setdefault(number, []).append(act)


@given(parsers.parse('the hook script "{name}":'))
def script(world: World, name: str, docstring: str) -> None:
    world.script(name, docstring)


@given("the hooks:")
def hooks(world: World, docstring: str) -> None:
    world.hooks = docstring


@given(parsers.parse('a hook "{name}" with the command "{command}" at both phases of every event'))
def everywhere(world: World, name: str, command: str) -> None:
    events = ("loop.start", "iteration.start", "plan.created", "human.interact", "loop.complete", "loop.error")
    hook = f"  - {{name: {name}, command: [{command}], on_error: warn}}"
    world.hooks = "\n".join(f"{phase}.{event}:\n{hook}" for event in events for phase in ("pre", "post"))


@given("the loop's settings:")
def settings(world: World, docstring: str) -> None:
    world.settings = docstring


@given("the configuration is written")
def written(world: World) -> None:
    world.agent()
    world.configure()


@given("the owner commits the project")
def committed(world: World) -> None:
    world.agent()
    world.configure()
    world.commit()


@given("the owner commits and trusts the project")
def trusted(world: World) -> None:
    committed(world)
    trusts(world)


@when("the owner trusts the project again")
def trusts(world: World) -> None:
    done = world.tenter("hooks", "trust", "--yes")
    assert done.code == 0, done


# -- when: a loop runs, and people do something ------------------------------------------------------------------------


@when("the loop runs")
def runs(world: World) -> None:
    world.run()


@when(parsers.parse('the loop runs with "{options}"'))
def runs_with(world: World, options: str) -> None:
    world.run(*options.split())


@when("the loop is started")
def starts(world: World) -> None:
    world.start("loop", "run", "--prompt", PROMPT)


@when("it is suspended")
@when("it is suspended again")
def suspends(world: World) -> None:
    state = world.suspended(world.loop)
    assert state["loop_id"] == world.loop.id


@when("the operator resumes it")
def resumes(world: World) -> None:
    world.answers.append(world.tenter("loop", "resume", world.loop.id, "--json"))


@when(parsers.parse("the user runs: tenter {arguments}"))
def commands(world: World, arguments: str) -> None:
    world.answers.append(world.tenter(*arguments.split()))


# -- then: how it ended, what ran, what is on record -------------------------------------------------------------------


@then(parsers.re(r"(?:it|the loop) ended with exit code (?P<code>\d+)$"))
def ended(world: World, code: str) -> None:
    done = world.loop.end()
    assert done.code == int(code), done.err


@then(parsers.re(r'it ended with exit code (?P<code>\d+) because of "(?P<reason>\w+)"'))
def ended_because(world: World, code: str, reason: str) -> None:
    ended(world, code)
    assert world.summary["reason"] == reason
    assert any(f"loop {world.loop.id}: {reason} {when} " in world.loop.err for when in ("after", "at", "before"))


@then(parsers.parse('its message has "{text}"'))
def message(world: World, text: str) -> None:
    assert text.replace("{id}", world.loop.id) in str(world.summary["message"])


@then(parsers.parse('standard error has "{text}"'))
def told(world: World, text: str) -> None:
    assert text in world.loop.end().err


@then(parsers.parse("the command ended with exit code {code:d}"))
def command_ended(world: World, code: int) -> None:
    assert world.answers[-1].code == code, world.answers[-1]


@then("the timeline is:")
def timeline(world: World, docstring: str) -> None:
    assert world.timeline == docstring.splitlines()


@then("the timeline ends with:")
def timeline_ends(world: World, docstring: str) -> None:
    expected = docstring.splitlines()
    assert world.timeline[-len(expected) :] == expected


@then("nothing ran")
def nothing_ran(world: World) -> None:
    assert world.timeline == []


@then(parsers.re(r"the agent ran (?P<times>\d+) times?"))
def agent_ran(world: World, times: str) -> None:
    ran = [line for line in world.timeline if line.startswith("agent ")]
    assert ran == [f"agent {number}" for number in range(1, int(times) + 1)]


@then(parsers.parse('the telemetry of "{hook}" is:'))
def telemetry(world: World, hook: str, datatable: list[list[str]]) -> None:
    expected = [{key: json.loads(value) for key, value in row.items()} for row in rows(datatable)]
    records = world.telemetry(hook)
    assert [{key: record[key] for key in expected[0]} for record in records] == expected


@then("the accumulated metadata were:")
def accumulated(world: World, datatable: list[list[str]]) -> None:
    for row in rows(datatable):
        metadata = world.kept(row["seen at"])["metadata"]
        assert metadata == {"accumulated": json.loads(row["accumulated"])}, row["seen at"]


@then(parsers.parse('the list of loops shows it as "{status}" because of "{reason}"'))
def listed(world: World, status: str, reason: str) -> None:
    row = world.listed(world.loop)
    assert (row["status"], row["reason"], row["message"]) == (status, reason, world.summary["message"])


@then(parsers.parse('before and after the work of "{event}" the context\'s "{key}" is:'))
def context(world: World, event: str, key: str, datatable: list[list[str]]) -> None:
    (row,) = rows(datatable)
    seen = [world.kept(f"{phase}.{event}")["context"] for phase in ("pre", "post")]
    assert [one[key] for one in seen if isinstance(one, dict)] == [json.loads(row["before"]), json.loads(row["after"])]


@then("no state file and no signal is left")
def cleared(world: World) -> None:
    folder = world.loop.workspace / ".tenter"
    left = [path.name for path in folder.iterdir() if path.name.endswith("-requested")]
    left += [path.name for path in (folder / "suspend-state.json", folder / "answer-given") if path.exists()]
    assert left == []
