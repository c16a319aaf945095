"""What a hook's answer is called on a screen."""

from typing import get_args

import pytest

from tenter.cli.words import phrase
from tenter.kernel import Detail, Disposition, FrozenDict, Policy, TraceEvent


def outcome(code: str = "", **details: Detail) -> TraceEvent:
    return TraceEvent(sequence=1, time=0, kind="outcome", source="guard", code=code, details=FrozenDict(details))


def failure(code: str, **details: Detail) -> TraceEvent:
    return TraceEvent(sequence=1, time=0, kind="failure", source="guard", code=code, details=FrozenDict(details))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (outcome("policy_denied", disposition="block"), "blocked it"),
        (outcome(disposition="pass", modified=True), "rewrote it"),
        (outcome("allow", disposition="pass"), "answered allow"),
        (outcome("policy_denied", disposition="block", shadow=True), "blocked it [shadow: not applied]"),
        (outcome("policy_denied", disposition="block", recheck=True), "blocked it [judged again]"),
        (failure("timeout", disposition="warn"), "failed (timeout), which was let pass"),
        (failure("crashed", disposition="block"), "failed (crashed), which blocks"),
        (failure("cancelled", disposition="pass"), "was cancelled"),
        (outcome(disposition="suspend"), "asked for a person"),
        (outcome(disposition="suspend", lifted="waived", lifted_by="ok"), "wanted a person: waived by ok"),
        (outcome(disposition="suspend", lifted="overruled", lifted_by="no"), "wanted a person: overruled by no"),
        (outcome(disposition="suspend", lifted="approved"), "wanted a person: approved"),
        (
            outcome(disposition="suspend", lifted="approved", recheck=True),
            "wanted a person: approved [judged again]",
        ),
        (
            failure("crashed", disposition="suspend", lifted="waived", lifted_by="ok"),
            "failed (crashed), which wanted a person: waived by ok",
        ),
    ],
)
def test_an_answer_and_a_failure_are_told_in_words(entry: TraceEvent, words: str) -> None:
    assert phrase(entry) == words


def test_of_an_approval_it_is_told_whose_it_is() -> None:
    assert phrase(outcome(disposition="suspend", lifted="approved"), "root") == "wanted a person: approved by root"
    assert phrase(outcome(disposition="suspend"), "root") == "asked for a person"
    waived = outcome(disposition="suspend", lifted="waived", lifted_by="ok")
    assert phrase(waived, "root") == "wanted a person: waived by ok"


@pytest.mark.parametrize("policy", get_args(Policy))
def test_every_failure_policy_has_words(policy: Policy) -> None:
    assert "which" in phrase(failure("crashed", disposition=policy))


@pytest.mark.parametrize("disposition", sorted({*get_args(Disposition)} - {"pass", "warn"}))
def test_every_way_to_stop_an_operation_has_words(disposition: Disposition) -> None:
    assert not phrase(outcome(disposition=disposition)).startswith("answered")
