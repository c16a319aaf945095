"""The exceptions that somebody catches, and the closed set of what can come of a hook's execution (FAULTS G2).

A refusal by a hook is not an exception: see `outcome`.
"""

from typing import Literal, get_args

from tenter.kernel.outcome import check_code

ExecutionResult = Literal[
    "ok",
    "denied",
    "crashed",
    "signal",
    "timeout",
    "spawn_failed",
    "bad_output",
    "output_capped",
    "remote_error",
    "tls_error",
    "cancelled",
    "recursion",
    "untrusted",
    "expired",
    "unknown",
]
"""What came of one execution of a hook."""

RESULTS: tuple[ExecutionResult, ...] = get_args(ExecutionResult)


class TenterError(Exception):
    """A mistake of the person who configures or calls tenter; its text says what is wrong, where, and what to do."""


class RegistrationError(TenterError):
    """A hook cannot be attached as declared. The text names the hook, what was expected and what to do."""


class HookFailure(Exception):
    """Raised by an executor when an execution failed in a way it can name.

    `result` is one of the closed set, neither `ok` nor `denied`; `reason` is for records and people, never for a model.
    Raises ValueError for a `result` or a `code` that is none: both stand in traces.
    """

    def __init__(self, result: ExecutionResult, reason: str, *, code: str = "hook_failed") -> None:
        if result not in RESULTS or result in ("ok", "denied"):
            raise ValueError(f"{result!r} is not what comes of an execution that failed; see RESULTS")
        check_code(code, "HookFailure")
        super().__init__(reason)
        self.result: ExecutionResult = result
        self.reason = reason
        self.code = code


class OperationFailed(Exception):
    """Raised by a body that failed in a way it can name: `code` is of the error taxonomy (`timeout`, `tool`, …).

    Raises ValueError for a `code` that is no word.
    """

    def __init__(self, message: str, *, code: str = "internal", retryable: bool = False) -> None:
        check_code(code, "OperationFailed")
        super().__init__(message)
        self.code = code
        self.retryable = retryable
