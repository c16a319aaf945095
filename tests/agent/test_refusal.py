import pytest
from tests.agent.playbook import ASKED

from tenter.agent.plan import Progress
from tenter.agent.refusal import LONGEST_TOLD, error_of, run_ends, stand_in
from tenter.catalogue import ErrorInfo
from tenter.kernel import Blocked, Failed, Retry


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        (
            Failed(message="gone", code="provider_transient", exception="ConnectError", retryable=True),
            ErrorInfo(
                code="provider_transient",
                message="gone",
                details={"operation": "llm.invoked", "exception": "ConnectError"},
            ),
        ),
        (
            Failed(message="exit 1", code="hook_failed", hook="guard"),
            ErrorInfo(
                code="internal",
                message="exit 1",
                details={"operation": "llm.invoked", "code": "hook_failed", "hook": "guard"},
            ),
        ),
        (
            Failed(message="?", code="cancelled"),
            ErrorInfo(code="internal", message="?", details={"operation": "llm.invoked", "code": "cancelled"}),
        ),
    ],
)
def test_a_failure_keeps_a_code_of_the_taxonomy_and_any_other_is_internal(failed: Failed, error: ErrorInfo) -> None:
    assert error_of(failed, "llm.invoked") == error


@pytest.mark.parametrize(
    "stopped",
    [
        Blocked(reason="SECRET", code="hook_failed", hook="guard", failed=True),
        Failed(message="SECRET", code="hook_failed", hook="guard"),
    ],
)
def test_the_output_of_a_hook_that_failed_never_reaches_the_model(stopped: Blocked | Failed) -> None:
    result = stand_in(stopped)
    assert result.is_error
    assert result.output == "The hook 'guard' failed, so this call has no result."


def test_a_refusal_tells_the_model_which_hook_and_why() -> None:
    result = stand_in(Blocked(reason="no force pushes", code="policy_denied", hook="guard"))
    assert (result.output, result.is_error) == ("Refused by the hook 'guard': no force pushes", True)


def test_what_a_failed_tool_says_is_told_within_bounds() -> None:
    output = stand_in(Failed(message="x" * 1_000_000, code="tool")).output
    assert output.startswith("The call failed: xxx")
    assert len(output) == LONGEST_TOLD


def test_a_retry_where_none_can_be_answered_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match=r"tool\.invoked takes no Retry"):
        run_ends(Retry("again"), Progress(), operation="tool.invoked", path="1.tool.invoked.0", event=ASKED.event)
