import pytest
from tests.kernel.workshop import CATALOGUE

from tenter.kernel import Event, Hook, RegistrationError, declarations


def refused(one: object) -> str:
    with pytest.raises(RegistrationError) as caught:
        declarations(one, CATALOGUE)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("observ", True, "observe"),
        ("priorty", 3, "priority"),
        ("timout", 4, "timeout"),
        ("bnd", "control", "band"),
        ("onerror", "warn", "on_error"),
        ("macth", {"tool": "a"}, "match"),
        ("moed", "shadow", "mode"),
        ("nmae", "mine", "name"),
    ],
)
def test_a_misspelt_setting_of_a_plugin_is_refused_with_the_nearest(name: str, value: object, meant: str) -> None:
    base = type("Base", (Hook,), {name: value})
    said = refused(type("Audit", (base,), {}))
    assert said == f"Base.{name} is no setting of a hook; did you mean {meant!r}? Begin a name of your own with '_'"


def test_state_of_a_plugin_may_be_named_like_a_setting() -> None:
    class Audit(Hook):
        model = "small"
        names = ("a", "b")
        matches = 0
        timeouts = 0
        observed: tuple[str, ...] = ()
        _observ = True

        def observes(self) -> bool:
            return True

        def on_work_before(self, event: Event) -> None: ...

    assert [one.point for one in declarations(Audit, CATALOGUE)] == ["work.done.pre"]


def test_a_misspelt_on_error_is_told_as_the_setting() -> None:
    class Audit(Hook):
        on_eror = "warn"

        def on_work_before(self, event: Event) -> None: ...

    assert refused(Audit).endswith("Audit.on_eror is the method of no point; did you mean the setting 'on_error'?")
