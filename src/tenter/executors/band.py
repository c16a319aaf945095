"""The band in which a Python hook of a file stands (D§5): the file's, whatever the hook's author would like."""

from dataclasses import replace
from typing import cast

from tenter.kernel import Band, Declaration, RegistrationError


def in_band(declared: Declaration, band: Band) -> Declaration:
    """`declared` in the band of its file. Raises RegistrationError where it asks for another (D§5)."""
    if declared.band in ("app", band):  # 'app' is what a hook that names no band has
        return replace(declared, band=band)
    whose = "a project's hooks" if band == "app" else "the hooks of the user's file"
    asked = str(cast(object, declared.band))[:100]
    raise RegistrationError(
        f"the hook {declared.name!r} asks for the band {asked!r}; {whose} stand in the band {band!r}: "
        "take its 'band' away"
    )
