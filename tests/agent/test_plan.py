import pytest
from hypothesis import given, strategies as st
from tests.agent.playbook import ASKED

from tenter.agent.plan import Ended, Progress, Standing, Waiting, reason_of, status_of, tightened
from tenter.catalogue import ErrorInfo, Limits, Message, Usage

LIMITS = st.builds(Limits, deadline=st.none() | st.floats(0, 1e10), max_steps=st.integers(0, 100))


def test_what_is_said_comes_last_and_leaves_what_was_there() -> None:
    first, second = Message(role="user", content="hello"), Message(role="assistant", content="hi")
    progress = Progress().said(first)
    assert progress.said(second).messages == (first, second)
    assert progress.messages == (first,)


def test_use_and_cost_are_summed_and_one_cost_that_is_not_told_makes_the_sum_unknown() -> None:
    progress = Progress().spent(Usage(input_tokens=3, output_tokens=1), 0.5)
    assert (progress.cost_usd, progress.cost_known) == (0.5, True)
    progress = progress.spent(Usage(input_tokens=4), None).spent(Usage(), 0.25)
    assert progress.usage == Usage(input_tokens=7, output_tokens=1)
    assert (progress.cost_usd, progress.cost_known) == (0.75, False)


@given(LIMITS, LIMITS)
def test_limits_are_never_loosened(own: Limits, asked: Limits) -> None:
    limits = tightened(own, asked)
    assert limits.max_steps == min(own.max_steps, asked.max_steps)
    assert limits.deadline in (own.deadline, asked.deadline)
    for other in (own.deadline, asked.deadline):
        assert other is None or (limits.deadline is not None and limits.deadline <= other)


@pytest.mark.parametrize(
    ("standing", "status", "reason"),
    [
        (Ended(status="completed", progress=Progress(), output="done"), "completed", ""),
        (
            Ended(status="failed", progress=Progress(), error=ErrorInfo(code="timeout", message="too late")),
            "failed",
            "timeout",
        ),
        (
            Ended(
                status="blocked",
                progress=Progress(),
                error=ErrorInfo(code="policy", message="no", details={"code": "policy_denied"}),
            ),
            "blocked",
            "policy_denied",
        ),
        (
            Waiting(operation="tool.invoked", path="1.tool.invoked.0", suspended=ASKED, progress=Progress()),
            "awaiting_approval",
            "approval_required",
        ),
    ],
)
def test_a_standing_has_its_status_and_a_word_for_its_reason(standing: Standing, status: str, reason: str) -> None:
    assert (status_of(standing), reason_of(standing)) == (status, reason)
