"""Failures, and what is tried again: how often, how soon, how late, and who may change that."""

import msgspec
import pytest
from tests.agent.playbook import (
    ASKED,
    BROKEN,
    BUSY,
    DUE,
    HANDED_OVER,
    LATE,
    LEAVES,
    NOTHING,
    PLAN,
    REFUSED,
    SIDE_BY_SIDE,
    START,
    STOPPED,
    Playbook,
    calling,
    error_of,
    plainly,
    told,
    until,
)

from tenter.agent.plan import Ended, Plan, status_of
from tenter.catalogue import Budgets, ErrorInfo, Limits, RetryPolicy, Status
from tenter.kernel import Blocked, Escalated, Failed, Retry, Unknown

WAITS = (0.5, 1, 2, 4, 8, 16, 30, 30)
"""Seconds between attempts where chance gives 0: half of 1 s, doubling, at most half of a minute."""

MODEL = "1.llm.invoked.0"
TOOL = "1.tool.invoked.0"


def nth(path: str, number: int) -> str:
    return path if number == 1 else f"{path}#{number}"


def failing(playbook: Playbook, times: int, *, failed: Failed = BUSY, index: int = 0) -> Playbook:
    """The operation that was asked for last fails so often, and is asked for once more."""
    path = playbook.script[-1][0]
    for number in range(1, times + 1):
        playbook = playbook << failed >> nth(f"1.activity.failed.{index}", number)
        playbook = playbook >> nth(f"1.activity.retried.{index}", number) >> f"wait {WAITS[number - 1]:g}"
        playbook = playbook >> nth(path, number + 1)
    return playbook


def limited(deadline: float | None = None, wall_seconds: float | None = None, *, side_by_side: bool = False) -> Plan:
    """With a deadline and a budget of time, in seconds from the start."""
    limits = Limits(deadline=None if deadline is None else START + deadline, budgets=Budgets(wall_seconds=wall_seconds))
    return msgspec.structs.replace(PLAN, limits=limits, parallel_tools=side_by_side)


# What is told of a failure


@pytest.mark.parametrize("leaf", LEAVES[:-1])
def test_a_failure_is_told_of_once_and_ends_the_run_as_hooks_classified_it(leaf: str) -> None:
    classified = ErrorInfo(code="internal", message="the provider is down")
    playbook = until(leaf) << BROKEN >> f"{leaf[0]}.activity.failed.0" << {"error": classified}
    assert error_of(playbook.ending(int(leaf[0]), "failed").play()) == classified
    event = playbook.event(f"{leaf[0]}.activity.failed.0")
    assert (event.operation, event.step, event.attempt) == (leaf[2:-2], int(leaf[0]), 1)
    assert event.error == ErrorInfo(
        code="provider_permanent",
        message="it broke",
        details={"operation": leaf[2:-2], "exception": "ProviderError"},
    )


def test_each_failed_call_is_told_of_once_and_the_run_goes_on() -> None:
    playbook = calling("shell", "shell")
    playbook = playbook >> "1.tool.invoked.0" << Failed(message="no disk", code="tool") >> "1.activity.failed.0"
    playbook = playbook >> "1.tool.invoked.1" << Failed(message="raw", hook="guard") >> "1.activity.failed.1"
    playbook = playbook >> "2.llm.invoked.0" << REFUSED
    standing = playbook.ending(2, "blocked").play()
    assert told(standing) == ["The call failed: no disk", "The hook 'guard' failed, so this call has no result."]


@pytest.mark.parametrize("ending", [BROKEN, REFUSED, Unknown(reason="gone")])
def test_what_fails_at_a_failure_is_not_told_of_again(ending: Failed | Blocked | Unknown) -> None:
    playbook = until("1.llm.invoked.0") << BROKEN >> "1.activity.failed.0" << ending
    assert error_of(playbook.ending(1, "failed").play()).message == "it broke"


@pytest.mark.parametrize(
    ("ending", "status"),
    [(HANDED_OVER, "escalated"), (STOPPED, "blocked")],
)
def test_a_failed_call_can_end_the_run_where_a_hook_says_so(ending: Escalated | Blocked, status: Status) -> None:
    playbook = until("1.tool.invoked.0") << BROKEN >> "1.activity.failed.0" << ending
    assert status_of(playbook.ending(1, status).play()) == status


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_passed_deadline_ends_the_run_before_the_next_operation(leaf: str) -> None:
    step = 2 if leaf == LEAVES[-1] else int(leaf[0]) if leaf != LEAVES[1] else 1
    playbook = until(leaf).taking(60)
    playbook = playbook >> f"{step}.activity.failed.0"
    playbook = playbook.ending(step, "failed")
    error = error_of(playbook.play(DUE))
    assert (error.code, error.message) == ("timeout", "the run's deadline has passed")
    failed = playbook.event(f"{step}.activity.failed.0")
    assert (failed.operation, failed.attempt) == (None, None)


def test_a_deadline_that_passed_before_the_start_lets_nothing_begin() -> None:
    playbook = Playbook() >> "open" >> "0.task.state_changed.0 pending->running" >> "0.activity.failed.0"
    late = msgspec.structs.replace(PLAN, limits=Limits(deadline=START))
    assert error_of(playbook.ending(0, "failed").play(late)).code == "timeout"


def test_a_deadline_that_passes_before_a_retry_ends_the_run() -> None:
    playbook = (until("1.llm.invoked.0") << Retry("no")).taking(60) >> "1.activity.failed.0"
    assert error_of(playbook.ending(1, "failed").play(DUE)).code == "timeout"


def test_a_call_that_the_deadline_ended_is_one_failure_and_ends_the_run() -> None:
    playbook = (until("1.tool.invoked.0") << LATE).taking(60) >> "1.activity.failed.0"
    error = error_of(playbook.ending(1, "failed").play(DUE))
    assert (error.code, error.message) == ("timeout", LATE.message)


def test_a_call_that_came_too_late_by_itself_lets_the_run_go_on() -> None:
    playbook = until("1.tool.invoked.0") << LATE >> "1.activity.failed.0, 2.llm.invoked.0" << REFUSED
    assert told(playbook.ending(2, "blocked").play(DUE)) == ["The call failed: too late"]


def test_a_call_that_failed_otherwise_is_a_failure_beside_the_passed_deadline() -> None:
    playbook = (until("1.tool.invoked.0") << BROKEN).taking(60) >> "1.activity.failed.0, 2.activity.failed.0"
    assert error_of(playbook.ending(2, "failed").play(DUE)).code == "timeout"


def test_an_output_in_time_completes_the_run_whatever_follows() -> None:
    playbook = plainly()
    playbook.lasts[6] = 60
    assert isinstance(playbook.play(DUE), Ended)


# Tried again


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_what_may_be_gone_the_next_time_is_tried_again_after_ever_longer_waits(times: int) -> None:
    playbook = failing(until(MODEL), times) >> "1.tool_calls.extracted.0, 1.task.complete.0"
    playbook.ending(1, "completed").play()
    for number in range(1, times + 1):
        assert playbook.event(nth("1.activity.failed.0", number)).attempt == number
        retried = playbook.event(nth("1.activity.retried.0", number))
        assert (retried.operation, retried.attempt) == ("llm.invoked", number)


def test_the_fifth_failure_is_the_last() -> None:
    playbook = failing(until(MODEL), 4) << BUSY >> "1.activity.failed.0#5"
    assert error_of(playbook.ending(1, "failed").play()).message == "come back later"


def test_a_wait_is_at_most_a_minute_and_chance_takes_up_to_half_of_it() -> None:
    patient = msgspec.structs.replace(PLAN, retries=RetryPolicy(attempts=9))
    playbook = failing(until(MODEL), 8) >> "1.tool_calls.extracted.0, 1.task.complete.0"
    playbook.ending(1, "completed").play(patient)
    playbook = until(MODEL) << BUSY >> "1.activity.failed.0, 1.activity.retried.0, wait 0.75, 1.llm.invoked.0#2"
    playbook.jitter = 0.5
    (playbook << REFUSED).ending(1, "blocked").play()
    assert playbook.drawn == ["1.llm.invoked.0/1"]
    assert playbook.event("1.activity.retried.0").policy.jitter == 0.5


@pytest.mark.parametrize("leaf", [*LEAVES[:4], "1.task.complete.0"])
def test_every_operation_without_an_effect_of_its_own_is_tried_again(leaf: str) -> None:
    playbook = until(leaf) if leaf in LEAVES else plainly(NOTHING)
    step = leaf[0]
    playbook = playbook << BUSY >> f"{step}.activity.failed.0, {step}.activity.retried.0, wait 0.5, {leaf}#2" << REFUSED
    assert error_of(playbook.ending(int(step), "blocked").play()).message == "not today"


@pytest.mark.parametrize(
    "failed",
    [BUSY, LATE, Failed(message="no disk", code="tool"), Failed(message="?", code="internal", retryable=True)],
)
def test_an_idempotent_tool_is_tried_again(failed: Failed) -> None:
    playbook = failing(until(TOOL, "lookup"), 1, failed=failed) >> "2.llm.invoked.0" << REFUSED
    assert told(playbook.ending(2, "blocked").play()) == ["lookup ran"]


def test_an_idempotent_tool_that_never_works_is_told_to_the_model_in_the_end() -> None:
    playbook = failing(until(TOOL, "lookup"), 4) << BUSY >> "1.activity.failed.0#5, 2.llm.invoked.0" << REFUSED
    assert told(playbook.ending(2, "blocked").play()) == ["The call failed: come back later"]


@pytest.mark.promise(9)
@pytest.mark.parametrize("tool", ["shell", "unknown"])
@pytest.mark.parametrize("failed", [BUSY, LATE, Failed(message="?", retryable=True)])
def test_a_tool_that_may_not_be_called_twice_is_called_once(tool: str, failed: Failed) -> None:
    playbook = until(TOOL, tool) << failed >> "1.activity.failed.0, 2.llm.invoked.0" << REFUSED
    assert told(playbook.ending(2, "blocked").play()) == [f"The call failed: {failed.message}"]
    assert playbook.event("1.activity.failed.0").policy is None


@pytest.mark.promise(9)
def test_a_hook_cannot_have_a_tool_called_twice_that_may_not_be() -> None:
    easy = {"error": ErrorInfo(code="provider_transient", message="try it again"), "policy": RetryPolicy()}
    playbook = until(TOOL) << BROKEN >> "1.activity.failed.0" << easy >> "2.llm.invoked.0" << REFUSED
    assert told(playbook.ending(2, "blocked").play()) == ["The call failed: it broke"]


@pytest.mark.promise(9)
@pytest.mark.parametrize("tool", ["shell", "lookup"])
def test_what_may_have_happened_is_never_tried_again_by_itself(tool: str) -> None:
    playbook = (until(TOOL, tool) << Unknown(reason="its process died")).suspending(TOOL)
    assert status_of(playbook.play()) == "awaiting_approval"


@pytest.mark.parametrize("failed", [BROKEN, Failed(message="?"), Failed(message="raw", code="hook_failed", hook="g")])
def test_what_will_be_the_same_the_next_time_is_not_tried_again(failed: Failed) -> None:
    playbook = (until(MODEL) << failed >> "1.activity.failed.0").ending(1, "failed")
    assert error_of(playbook.play()).message == failed.message


def test_calls_side_by_side_are_tried_again_each_by_itself_and_at_paths_of_their_own() -> None:
    playbook = calling("lookup", "lookup") >> "1.tool.invoked.1"
    playbook = failing(playbook, 1, index=1) >> TOOL
    playbook = failing(playbook, 2) >> "2.llm.invoked.0" << REFUSED
    playbook.order = (1, 0)
    assert told(playbook.ending(2, "blocked").play(SIDE_BY_SIDE)) == ["lookup ran", "lookup ran"]
    assert playbook.drawn == ["1.tool.invoked.1/1", "1.tool.invoked.0/1", "1.tool.invoked.0/2"]


def test_what_every_attempt_used_is_counted() -> None:
    playbook = failing(until(MODEL), 1) >> "1.tool_calls.extracted.0, 1.task.complete.0"
    playbook = playbook.ending(1, "completed").having_used("1.llm.invoked.0", 0.25)
    assert playbook.play().progress.cost_usd == 0.25


def test_what_the_attempt_used_is_counted_at_whose_failure_the_run_is_ended() -> None:
    playbook = (until(MODEL) << BUSY >> "1.activity.failed.0" << STOPPED).ending(1, "blocked")
    playbook.having_used("1.llm.invoked.0", 0.25).play()
    assert playbook.event("close blocked").cost_usd == 0.25


# Who may change that


def test_a_hook_that_classifies_a_failure_anew_decides_whether_it_is_tried_again() -> None:
    fleeting = {"error": ErrorInfo(code="provider_transient", message="it will pass")}
    playbook = until(MODEL) << BROKEN >> "1.activity.failed.0" << fleeting
    playbook = playbook >> "1.activity.retried.0, wait 0.5, 1.llm.invoked.0#2" << REFUSED
    playbook.ending(1, "blocked").play()
    lasting = {"error": ErrorInfo(code="provider_permanent", message="it will not")}
    playbook = until(MODEL) << BUSY >> "1.activity.failed.0" << lasting
    assert error_of(playbook.ending(1, "failed").play()).message == "it will not"


@pytest.mark.parametrize(
    ("policy", "wait"),
    [
        (RetryPolicy(first_seconds=10.0), "wait 5"),
        (RetryPolicy(cap_seconds=0.5), "wait 0.25"),
        (RetryPolicy(attempts=2), "wait 0.5"),
    ],
)
def test_a_policy_that_a_hook_changes_is_the_one_that_is_followed(policy: RetryPolicy, wait: str) -> None:
    playbook = until(MODEL) << BUSY >> "1.activity.failed.0" << {"policy": policy}
    playbook = playbook >> "1.activity.retried.0" >> wait >> "1.llm.invoked.0#2" << REFUSED
    playbook.ending(1, "blocked").play()
    assert playbook.event("1.activity.failed.0").policy == RetryPolicy()


@pytest.mark.parametrize("policy", [None, RetryPolicy(attempts=1)])
def test_a_policy_of_one_attempt_tries_nothing_again_and_so_does_none(policy: RetryPolicy | None) -> None:
    playbook = until(MODEL) << BUSY >> "1.activity.failed.0" << {"policy": policy}
    assert error_of(playbook.ending(1, "failed").play()).message == "come back later"


def test_a_hook_may_set_the_wait_itself() -> None:
    playbook = until(MODEL) << BUSY >> "1.activity.failed.0, 1.activity.retried.0" << {"delay": 7.0}
    playbook = playbook >> "wait 7, 1.llm.invoked.0#2" << REFUSED
    assert error_of(playbook.ending(1, "blocked").play()).message == "not today"


@pytest.mark.parametrize("ending", [REFUSED, BROKEN, Unknown(reason="gone"), ASKED])
@pytest.mark.parametrize("at", ["1.activity.failed.0", "1.activity.retried.0"])
def test_a_refusal_to_try_it_again_leaves_the_failure(at: str, ending: Blocked | Failed | Unknown) -> None:
    playbook = until(MODEL) << BUSY >> "1.activity.failed.0"
    playbook = (playbook if at == "1.activity.failed.0" else playbook >> at) << ending
    assert error_of(playbook.ending(1, "failed").play()).message == "come back later"


@pytest.mark.parametrize(("ending", "status"), [(HANDED_OVER, "escalated"), (STOPPED, "blocked")])
def test_a_retry_can_end_the_run_where_a_hook_says_so(ending: Escalated | Blocked, status: Status) -> None:
    playbook = until(TOOL, "lookup") << BUSY >> "1.activity.failed.0, 1.activity.retried.0" << ending
    assert status_of(playbook.ending(1, status).play()) == status


# Time


@pytest.mark.parametrize("plan", [limited(deadline=1.4), limited(wall_seconds=1.4)], ids=["deadline", "budget"])
def test_nothing_is_tried_again_that_would_come_too_late(plan: Plan) -> None:
    playbook = failing(until(MODEL), 1) << BUSY >> "1.activity.failed.0#2, 1.activity.retried.0#2"
    assert error_of(playbook.ending(1, "failed").play(plan)).message == "come back later"


def test_a_budget_of_time_that_is_used_up_blocks_the_run_before_the_next_operation() -> None:
    playbook = until(TOOL).taking(60).ending(2, "blocked")
    error = error_of(playbook.play(limited(wall_seconds=60.0)))
    assert (error.code, error.details) == ("budget", {"code": "budget_exceeded"})
    assert error.message == "the budget of 60 s (wall_seconds) is used up"


def test_a_budget_of_time_that_is_not_used_up_stops_nothing() -> None:
    playbook = until(TOOL).taking(59) >> "2.llm.invoked.0" << REFUSED
    assert error_of(playbook.ending(2, "blocked").play(limited(wall_seconds=60.0))).message == "not today"


def test_a_call_that_the_budget_of_time_cut_is_one_failure_and_blocks_the_run() -> None:
    playbook = (until(TOOL) << LATE).taking(60) >> "1.activity.failed.0"
    error = error_of(playbook.ending(1, "blocked").play(limited(wall_seconds=60.0)))
    assert error.details == {"code": "budget_exceeded"}


@pytest.mark.parametrize(
    ("deadline", "wall_seconds", "first", "status"), [(50, 60, 50, "failed"), (60, 50, 50, "blocked")]
)
def test_of_deadline_and_budget_the_first_one_counts_and_the_work_is_told(
    deadline: float, wall_seconds: float, first: float, status: Status
) -> None:
    playbook = until(MODEL).taking(50)
    playbook = playbook >> "1.activity.failed.0" if status == "failed" else playbook
    playbook.ending(1, status).play(limited(deadline=deadline, wall_seconds=wall_seconds))
    assert playbook.event(MODEL).op.deadline == START + first


def test_side_by_side_only_its_own_time_makes_a_call_late() -> None:
    playbook = (calling("lookup", "shell") >> "1.tool.invoked.1").taking(60) >> TOOL >> "2.activity.failed.0"
    playbook.order = (1, 0)
    assert error_of(playbook.ending(2, "failed").play(limited(deadline=60.0, side_by_side=True))).code == "timeout"


@pytest.mark.parametrize("side_by_side", [True, False])
def test_a_deadline_that_passed_is_one_failure_however_many_calls_were_to_be_made(side_by_side: bool) -> None:
    playbook = calling("shell", "lookup", "shell").taking(60) >> "1.activity.failed.0"
    plan = limited(deadline=60.0, side_by_side=side_by_side)
    assert error_of(playbook.ending(1, "failed").play(plan)).code == "timeout"


class Rewriting(Playbook):
    """A hook makes every call one that may not be made twice."""

    def repeatable(self, path: str) -> bool:
        return False


@pytest.mark.promise(9)
def test_what_was_begun_last_says_whether_it_may_be_done_again_and_not_what_the_model_asked_for() -> None:
    playbook = Rewriting()
    playbook.script = (until(TOOL, "lookup") << BUSY >> "1.activity.failed.0, 2.llm.invoked.0" << REFUSED).script
    assert told(playbook.ending(2, "blocked").play()) == ["The call failed: come back later"]
