import pytest

from tenter.catalogue import AGENT_OPERATIONS, CATALOGUE, LOOP_OPERATIONS
from tenter.kernel import PHASES, RegistrationError


def test_the_catalogue_is_the_points_of_agents_and_loops_in_this_order() -> None:
    assert tuple(CATALOGUE.operations.values()) == AGENT_OPERATIONS + LOOP_OPERATIONS
    assert list(CATALOGUE) == [
        one.point(phase) for one in AGENT_OPERATIONS + LOOP_OPERATIONS for phase in PHASES if phase in one.rules
    ]


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("pre.loop.strat", "pre.loop.start"),
        ("loop.completed.post", "loop.complete.post"),
        ("tool.befor", "tool.before"),
    ],
)
def test_a_point_that_does_not_exist_is_refused_with_the_nearest_of_both_kinds(wrong: str, near: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        CATALOGUE.resolve(wrong, "the test")
    assert str(caught.value) == f"the test names the point {wrong!r}, which does not exist; did you mean {near!r}?"
