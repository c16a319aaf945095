import math

import pytest
from hypothesis import given, strategies as st

from tenter.agent.retry import delay, retryable
from tenter.catalogue import ErrorCode, ErrorInfo, RetryPolicy
from tenter.kernel import Failed

FAILED = Failed(message="it broke", code="internal")


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1_000_000, 60)])
def test_the_wait_is_a_second_doubling_up_to_a_minute(attempt: int, seconds: float) -> None:
    assert delay(RetryPolicy(), attempt) == seconds


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)])
def test_chance_takes_up_to_half_of_it(jitter: float, seconds: float) -> None:
    assert delay(RetryPolicy(jitter=jitter), 2) == seconds


SECONDS = st.floats(0, 31_536_000)


@given(SECONDS, st.floats(0, 1000), SECONDS, st.floats(0, 1), st.integers(-5, 10_000))
def test_whatever_hooks_make_of_a_policy_a_wait_is_between_nothing_and_the_cap(
    first: float, factor: float, cap: float, jitter: float, attempt: int
) -> None:
    policy = RetryPolicy(first_seconds=first, factor=factor, cap_seconds=cap, jitter=jitter)
    assert 0.0 <= delay(policy, attempt) <= cap


def error(code: ErrorCode) -> ErrorInfo:
    return ErrorInfo(code=code, message="?")


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("provider_transient", True),
        ("timeout", True),
        ("tool", True),
        ("provider_permanent", False),
        ("validation", False),
        ("policy", False),
        ("budget", False),
        ("approval", False),
        ("cancelled", False),
        ("internal", False),
    ],
)
def test_the_code_says_what_may_be_gone_the_next_time(code: ErrorCode, again: bool) -> None:
    assert retryable(FAILED, error(code), error(code), repeatable=True) is again
    assert not retryable(FAILED, error(code), error(code), repeatable=False)


def test_a_failure_that_says_so_may_be_gone_whatever_its_code() -> None:
    says_so = Failed(message="?", retryable=True)
    assert retryable(says_so, error("internal"), error("internal"), repeatable=True)
    assert not retryable(says_so, error("internal"), error("internal"), repeatable=False)


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        ("internal", "provider_transient", True),
        ("internal", "timeout", True),
        ("provider_transient", "tool", False),
        ("provider_transient", "internal", False),
    ],
)
def test_a_hook_that_gave_another_code_decided_by_that(before: ErrorCode, after: ErrorCode, again: bool) -> None:
    failed = Failed(message="?", retryable=not again)
    assert retryable(failed, error(before), error(after), repeatable=True) is again


def test_a_factor_without_bounds_waits_the_cap() -> None:
    assert delay(RetryPolicy(factor=1e300), 60) == 60.0
    assert not math.isinf(delay(RetryPolicy(factor=math.inf), 60))
