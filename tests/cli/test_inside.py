"""What was started by a run, a hook, a tool or a loop is known by its environment, and decides nothing for a person."""

import click
import pytest

from tenter.cli.inside import INSIDE, inside_of, refuse_inside


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in INSIDE:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", INSIDE)
def test_each_of_the_variables_shows_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "one")
    assert inside_of() == name
    with pytest.raises(click.ClickException) as refused:
        refuse_inside("that is not for it; do it elsewhere")
    assert refused.value.exit_code == 1
    told = f"{name} is set: this was started by a run, a hook or a loop, and that is not for it; do it elsewhere"
    assert refused.value.message == told


def test_outside_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE[0], "")
    refuse_inside("never said")
    assert inside_of() is None
