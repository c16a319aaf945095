"""What a hook's failure, or its refusal, does to a loop: see policies.feature."""

from pytest_bdd import parsers, scenarios, then
from tests.features.hooks.world import World

scenarios("policies.feature")


@then(parsers.parse('the prompt of iteration {number:d} has "{text}"'))
def prompted(world: World, number: int, text: str) -> None:
    assert text in world.prompt(number)


@then(parsers.parse('the prompt of iteration {number:d} tells of the event "{told}" and not of "{refused}"'))
def told_of(world: World, number: int, told: str, refused: str) -> None:
    lines = world.prompt(number).splitlines()
    assert (f"- {told}" in lines, f"- {refused}" in lines) == (True, False), lines
