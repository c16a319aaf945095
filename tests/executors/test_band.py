"""A hook stands in the band of its file, and is refused where it asks for another."""

import pytest

from tenter.executors.band import in_band
from tenter.kernel import Band, Declaration, RegistrationError


def declared(band: Band) -> Declaration:
    return Declaration(name="audit", point="tool.before", call=print, band=band)


@pytest.mark.parametrize(
    ("asked", "file"), [("app", "app"), ("app", "baseline"), ("baseline", "baseline"), ("app", "control")]
)
def test_a_hook_that_names_no_other_band_stands_in_that_of_its_file(asked: Band, file: Band) -> None:
    assert in_band(declared(asked), file).band == file


@pytest.mark.parametrize("asked", ["baseline", "control", "gate"])
def test_a_project_s_hook_that_asks_for_another_band_is_refused(asked: Band) -> None:
    with pytest.raises(RegistrationError) as caught:
        in_band(declared(asked), "app")
    assert str(caught.value) == (
        f"the hook 'audit' asks for the band {asked!r}; a project's hooks stand in the band 'app': take its 'band' away"
    )


def test_a_users_hook_that_asks_for_another_band_is_refused() -> None:
    with pytest.raises(RegistrationError, match="the hooks of the user's file stand in the band 'baseline'"):
        in_band(declared("gate"), "baseline")
