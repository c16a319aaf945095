import pytest
from hypothesis import given, strategies as st

from tenter.loop.document import well_formed
from tenter.loop.loop_row import COLUMNS, Kept, LoopRow, Question, column, has_ended, holds, row_of, status_of
from tenter.loop.reason import Standing
from tenter.loop.release import By, Release
from tenter.loop.state import Asked
from tenter.loop.suspension import Suspender, SuspendState

ROW = LoopRow(
    loop_id="loop-12ab-34cd",
    primary=True,
    project="/p",
    workspace="/p",
    config="/p/tenter.yaml",
    pid=7,
    started="boot/1",
    started_at=1.5,
)


@pytest.mark.parametrize(
    ("kept", "alive", "standing", "is_held"),
    [
        ("running", True, "running", True),
        ("running", False, "crashed", False),
        ("suspended", True, "suspended", True),
        ("suspended", False, "suspended", True),
        ("completed", True, "completed", False),
        ("completed", False, "completed", False),
        ("cancelled", True, "cancelled", False),
        ("failed", False, "failed", False),
    ],
)
def test_how_a_loop_is_listed_and_whether_it_holds_its_workspace(
    kept: Kept, alive: bool, standing: Standing, is_held: bool
) -> None:
    row = ROW.but(status=kept)
    assert status_of(row, alive) == standing
    assert holds(row, alive) == is_held
    assert has_ended(row) == (kept not in ("running", "suspended"))


def back(row: LoopRow) -> LoopRow:
    return row_of([column(getattr(row, name)) for name in COLUMNS])


@given(text=st.text(st.characters()), iteration=st.integers(0, 2**62), at=st.floats(0, 1e12), request=st.text())
def test_a_row_comes_back_as_it_was(text: str, iteration: int, at: float, request: str) -> None:
    text = well_formed(text)
    by = Suspender(hook_name=text, reason=text, code="c", suspend_mode="retry_backoff")
    row = ROW.but(
        primary=False,
        branch=text,
        prompt=text,
        message=text,
        iteration=iteration,
        taken_at=at,
        ended_at=at,
        status="failed",
        reason="blocked",
        request={"argv": [request, 1, None], "deep": {"a": [True]}},
        released=Release(how="stop", by=By(1, text), at=text, suspension_id=text),
        question=Question(text, Asked(question=text, options=(text, "b"), timeout_seconds=2.5)),
        suspension=SuspendState(
            loop_id=ROW.loop_id,
            phase_event="pre.loop.start",
            hook_name=text,
            reason=text,
            suspend_mode="wait_for_resume",
            suspended_at="2026-02-28T15:31:00Z",
            suspension_id="s1",
            suspensions=(by,),
        ),
    )
    assert back(row) == row


def test_half_a_surrogate_pair_is_escaped_but_in_the_request() -> None:
    row = back(ROW.but(prompt="\udc80", request={"text": "\udc80"}))
    assert row.prompt == r"\udc80"
    assert row.request == {"text": "\udc80"}


@pytest.mark.parametrize(
    ("name", "value"), [("request", "{"), ("suspension", "{}"), ("status", "asleep"), ("released", ""), ("pid", "x")]
)
def test_what_no_row_was_is_no_row(name: str, value: str) -> None:
    columns = [value if one == name else column(getattr(ROW, one)) for one in COLUMNS]
    with pytest.raises(ValueError):
        row_of(columns)
