"""What is checked before a loop runs, and whose word it takes to run a project's code: see checks.feature."""

import re

from pytest_bdd import given, parsers, scenarios, then
from tests.features.hooks.world import World, rows

scenarios("checks.feature")


@given(parsers.parse('the project\'s folder "{name}"'))
def folder(world: World, name: str) -> None:
    (world.project / name).mkdir()


@given(parsers.parse('the folder "{name}" is taken away'))
def taken_away(world: World, name: str) -> None:
    (world.project / name).rmdir()


@then("the report has these problems, each with file and line:")
def problems(world: World, datatable: list[list[str]]) -> None:
    *lines, count = [*world.answers[-1].out.splitlines(), world.answers[-1].err]
    expected = rows(datatable)
    assert count == f"{len(expected)} problems\n"
    for line, row in zip(lines, expected, strict=True):
        fits = rf"tenter\.yaml:\d+:\d+: at {re.escape(row['at'])}: .*{re.escape(row['told'])}.*"
        assert re.fullmatch(fits, line), line


@then(parsers.parse('the report has "{text}"'))
def report(world: World, text: str) -> None:
    assert text in world.answers[-1].out


@then("no loop is listed")
def none_listed(world: World) -> None:
    assert world.asked("loop", "list", "--all") == {"loops": []}
