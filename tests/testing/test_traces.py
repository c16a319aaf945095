from dataclasses import dataclass

import pytest

from tenter.kernel import Detail, FrozenDict, TraceEvent
from tenter.testing import assert_trace, render_trace

DETAILS: FrozenDict[str, Detail] = FrozenDict({"band": "app", "a": 1})

TRACE = (
    TraceEvent(sequence=1, time=0.0, kind="hook", source="tool.before", code="policy_denied", op="1.tool.invoked.0"),
    TraceEvent(sequence=2, time=0.0, kind="outcome", source="guard", code="policy_denied", details=DETAILS),
    TraceEvent(sequence=3, time=0.0, kind="hook", source="tool.after"),
    TraceEvent(sequence=14, time=0.0, kind="note", source="journal", code="full"),
)


@dataclass(frozen=True)
class Result:
    trace: tuple[TraceEvent, ...] = TRACE


@pytest.mark.parametrize("traced", [TRACE, list(TRACE), Result()])
def test_a_trace_is_rendered_one_entry_a_line(traced: tuple[TraceEvent, ...] | Result) -> None:
    assert render_trace(traced).splitlines() == [
        "   1 hook tool.before policy_denied",
        "   2 outcome guard policy_denied a=1 band=app",
        "   3 hook tool.after",
        "  14 note journal full",
    ]


@pytest.mark.parametrize(
    "expected",
    [
        [],
        ["hook"],
        ["outcome guard", "note"],
        ["hook tool.before policy_denied", "hook tool.after", "note journal full"],
        ["hook", "hook"],
    ],
)
def test_entries_in_their_order_are_found_with_others_between(expected: list[str]) -> None:
    assert_trace(Result(), expected)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (["outcome guard ok"], "expectation 1, 'outcome guard ok', is not in the trace:"),
        (["note", "hook"], "expectation 2, 'hook', is not in the trace after 'note':"),
        (["hook tool"], "expectation 1, 'hook tool', is not in the trace:"),
        (["hook", "hook", "hook"], "expectation 3, 'hook', is not in the trace after 'hook':"),
        (["hook tool.after  extra"], "expectation 1, 'hook tool.after  extra', is not in the trace:"),
        (["note journal full more"], "expectation 1, 'note journal full more', is not in the trace:"),
    ],
)
def test_what_is_missing_is_named_and_the_trace_is_shown(expected: list[str], message: str) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_trace(TRACE, expected)
    assert str(raised.value) == f"{message}\n{render_trace(TRACE)}"


def test_an_expectation_that_everything_would_meet_is_refused() -> None:
    with pytest.raises(ValueError, match="expectation 1, ' ', has no word"):
        assert_trace(TRACE, [" "])


def test_a_text_in_place_of_the_expectations_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the expectations are a list; write assert_trace\(…, \['hook tool'\]\)"):
        assert_trace(TRACE, "hook tool")
