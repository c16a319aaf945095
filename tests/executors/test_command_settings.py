"""What a command hook's configuration means by itself."""

from typing import Any

import pytest
from tests.executors.workshop import settings

from tenter.catalogue import CATALOGUE


@pytest.mark.parametrize(("argv", "script"), [(None, None), ((), None), (("/bin/true",), "true")])
def test_a_hook_that_is_not_exactly_a_program_or_a_script_is_refused(
    argv: tuple[str, ...] | None, script: str | None
) -> None:
    with pytest.raises(ValueError, match="needs either argv or script"):
        settings(script, argv=argv)


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, 8192),
        ({"verdict": True}, 1 << 20),
        ({"mutate": True}, 8192),
        ({"verdict": True, "mutate": True}, 1 << 20),
        ({"max_output_bytes": 9}, 9),
        ({"max_output_bytes": 9, "verdict": True}, 9),
    ],
)
def test_more_of_an_output_is_kept_where_it_is_the_answer_unless_the_hook_sets_a_limit(
    given: dict[str, Any], limit: int
) -> None:
    assert settings("true", **given).output_limit == limit


@pytest.mark.parametrize(("verdict", "mutate"), [(False, False), (True, False), (False, True), (True, True)])
def test_stdout_is_an_answer_where_it_is_a_verdict_or_metadata(verdict: bool, mutate: bool) -> None:
    assert settings("true", verdict=verdict, mutate=mutate).answers is (verdict or mutate)


def test_a_hook_that_names_no_mode_waits_for_a_person_and_pins_nothing() -> None:
    assert (settings("true").suspend_mode, settings("true").pinned) == ("wait_for_resume", ())


@pytest.mark.promise(8)
@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, "block"),
        ({"observe": True}, "warn"),
        ({"point": CATALOGUE["run.end"]}, "warn"),
        ({"on_error": "fail"}, "fail"),
        ({"on_error": "block", "observe": True}, "block"),
        ({"on_error": "block", "mode": "shadow"}, "warn"),
    ],
)
def test_the_policy_is_that_of_the_hook_or_of_its_point_and_a_shadow_warns(given: dict[str, Any], policy: str) -> None:
    assert settings("true", **({"on_error": None} | given)).policy == policy
