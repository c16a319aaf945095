"""Hooks at the boundaries of a loop: see boundaries.feature."""

import json

from jsonschema import Draft202012Validator
from pytest_bdd import given, parsers, scenarios, then, when
from tests.features.hooks.world import World, rows, wait_until

scenarios("boundaries.feature")

HANDED_ON = {"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "PWD", "SHLVL", "OLDPWD", "_"}
"""What a hook gets of the user's variables, and what a shell adds."""


@given(parsers.parse('the folder above the project has hooks that note "{text}"'))
def above(world: World, text: str) -> None:
    hook = {"name": "note", "script": f"echo '{text}' >> '{world.records}/timeline'", "on_error": "block"}
    (world.root / "tenter.yaml").write_text(json.dumps({"version": 1, "hooks": {"events": {"pre.loop.start": [hook]}}}))


@given("the user has no configuration")
def no_user_file(world: World) -> None:
    assert list(world.home.iterdir()) == []


@given("the whole configuration:")
def whole(world: World, docstring: str) -> None:
    world.whole = docstring


@given(parsers.parse('the project\'s file "{name}":'))
def file(world: World, name: str, docstring: str) -> None:
    (world.project / name).write_text(docstring)


@when(parsers.parse('the operator answers its question with "{text}"'))
def answers(world: World, text: str) -> None:
    wait_until(lambda: world.listed(world.loop)["question"] is not None, "the loop asks")
    world.note("the operator answers")
    done = world.tenter("loop", "answer", world.loop.id, text)
    assert done.code == 0, done


@when(parsers.parse('the loop runs with "{options}" and the variable "{name}" in its environment'))
def runs_with_variable(world: World, options: str, name: str) -> None:
    world.run(*options.split(), **{name: "something"})


@then("these payloads were kept:")
def payloads(world: World, datatable: list[list[str]]) -> None:
    for row in rows(datatable):
        document = world.kept(row["point"])
        phase, _, event = row["point"].partition(".")
        assert (document["phase"], document["event"], document["phase_event"]) == (phase, event, row["point"])
        own = document["payload"]
        assert isinstance(own, dict)
        expected: dict[str, object] = json.loads(row["payload"])
        assert {key: own[key] for key in expected} == expected


@then(parsers.parse('no payload was kept of "{point}"'))
def not_kept(world: World, point: str) -> None:
    assert not (world.records / f"{point}.json").exists()


@then(parsers.parse("the kept payload \"{name}\" is what 'tenter hooks schema payload' describes"))
def conforms(world: World, name: str) -> None:
    schema, document = world.asked("hooks", "schema", "payload"), world.kept(name)
    errors = Draft202012Validator(schema).iter_errors(document)  # pyright: ignore[reportUnknownMemberType, reportArgumentType]  # its stub
    assert [error.message for error in errors] == []


@then("it says, with the loop's own id, process and folders:")
def says(world: World, docstring: str) -> None:
    expected: dict[str, object] = json.loads(_filled(world, docstring))
    document = world.kept("payload")
    assert {key: document[key] for key in expected} == expected


@then("the hook's variables were:")
def variables(world: World, datatable: list[list[str]]) -> None:
    given = _variables(world)
    for row in rows(datatable):
        assert given[row["variable"]] == _filled(world, row["value"])


@then(parsers.parse('it had no variable "{name}"'))
def without(world: World, name: str) -> None:
    given = _variables(world)
    assert name not in given
    assert {one for one in given if not one.startswith(("TENTER_", "LC_"))} <= HANDED_ON


def _variables(world: World) -> dict[str, str]:
    lines = (world.records / "variables").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def _filled(world: World, text: str) -> str:
    """`text` with what differs from run to run."""
    known = {"id": world.loop.id, "project": str(world.project), "pid": str(world.loop.process.pid)}
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", value)
    return text
