from typing import Any, cast

import pytest

from tenter.kernel import RESULTS, HookFailure, OperationFailed


@pytest.mark.parametrize("result", [name for name in RESULTS if name not in ("ok", "denied")])
def test_a_failure_names_one_result_of_the_closed_set(result: Any) -> None:
    failure = HookFailure(result, "why", code="hook_failed")
    assert (failure.result, failure.reason, str(failure)) == (result, "why", "why")


@pytest.mark.parametrize("result", ["ok", "denied", "exploded", "", None])
def test_a_failure_with_any_other_result_is_refused(result: object) -> None:
    with pytest.raises(ValueError, match="execution that failed"):
        HookFailure(cast(Any, result), "why")


@pytest.mark.promise(12)
def test_the_code_of_a_failure_is_a_word_so_that_a_trace_may_hold_it() -> None:
    with pytest.raises(ValueError, match="HookFailure"):
        HookFailure("crashed", "why", code="the token was: abc")
    with pytest.raises(ValueError, match="OperationFailed"):
        OperationFailed("why", code="the token was: abc")
