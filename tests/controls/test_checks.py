"""What each check says to a call, by itself."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tenter.catalogue import Budgets, Envelope, Op, TaskRef, ToolCall, ToolCallEvent, ToolInfo
from tenter.controls.account import Account
from tenter.controls.budget import call_digest
from tenter.controls.checks import (
    LONGEST_NAME,
    MOST_PROBLEMS,
    check_call,
    check_offered,
    check_principal,
    check_repeated,
    check_risk,
    unknown_tool,
)
from tenter.kernel import Block, FrozenDict, Suspend, freeze

PATH = freeze({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
READ = ToolInfo(name="read_file", parameters=PATH)
SHELL = ToolInfo(name="shell", parameters=freeze({"type": "object", "additionalProperties": False}))
RISKY = ToolInfo(name="deploy", risk="high")
OFFERED = {"read_file": READ, "shell": SHELL, "deploy": RISKY}
ENVELOPE = Envelope(run_id="r", task=TaskRef(id="r", name="work"), correlation_id="r")


def event(name: str, arguments: object = FrozenDict({"path": "a"}), tool: ToolInfo | None = READ) -> ToolCallEvent:
    # A model that gave no object is what text stands for.
    call = ToolCall(id="c", name=name, arguments=cast("Mapping[str, object]", arguments))
    return ToolCallEvent(envelope=ENVELOPE, op=Op(id="o"), call=call, tool=tool)


def test_a_tool_that_does_not_exist_is_refused_with_the_nearest_name() -> None:
    assert unknown_tool(event("read_fil", tool=None), OFFERED) == Block(
        "there is no tool called 'read_fil'; did you mean 'read_file'?", code="unknown_tool"
    )
    assert unknown_tool(event("zzz", tool=None), OFFERED).reason == (
        "there is no tool called 'zzz'; the task offers 'read_file', 'shell', 'deploy'"
    )


def test_a_task_without_tools_says_so() -> None:
    assert unknown_tool(event("shell", tool=None), {}).reason.endswith("the task offers none")


def test_a_name_of_a_megabyte_is_cut_in_the_reason() -> None:
    for said in (unknown_tool(event("x" * 1_000_000), OFFERED), check_offered(event("x" * 1_000_000), OFFERED)):
        assert isinstance(said, Block)
        assert len(said.reason) < LONGEST_NAME + 100


def test_a_call_that_fits_an_offered_tool_passes() -> None:
    assert check_offered(event("read_file"), OFFERED) is None
    assert check_call(event("read_file")) is None


def test_a_tool_of_another_task_is_not_offered() -> None:
    said = check_offered(event("shell", tool=SHELL), {"read_file": READ})
    assert said == Block("the task does not offer the tool 'shell'; the task offers 'read_file'", code="not_offered")


def test_a_renamed_call_is_judged_as_the_tool_that_it_names_now() -> None:
    renamed = event("shell", tool=READ)
    assert check_offered(renamed, OFFERED) == renamed.replace(tool=SHELL)


def test_a_tool_that_a_hook_loosened_is_the_tasks_own_again() -> None:
    for loose in (None, ToolInfo(name="deploy"), ToolInfo(name="deploy", risk="low", principals=("*",))):
        said = check_offered(event("deploy", tool=loose), OFFERED)
        assert isinstance(said, ToolCallEvent)
        assert said.tool == RISKY


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'path' is missing"),
        ({"path": 1}, "at path: expected text, got 1"),
        ("{broken", "expected an object with the arguments"),
        ({"path": "a", "n": 2**60}, "an integer past 2^53-1"),
        ({"path": "a", "n": float("nan")}, "nan is no JSON number"),
        ({"path": "a", "n": 1 + 2j}, "has no canonical form"),
    ],
)
def test_arguments_that_do_not_fit_or_cannot_be_recorded_are_refused(arguments: object, problem: str) -> None:
    said = check_call(event("read_file", freeze(arguments)))
    assert isinstance(said, Block)
    assert said.code == "invalid_arguments"
    assert said.reason.startswith("the arguments of 'read_file' do not fit: ")
    assert problem in said.reason


def test_only_the_first_problems_are_told_and_the_rest_is_counted() -> None:
    many: dict[str, Any] = {f"unknown_{number}": 1 for number in range(MOST_PROBLEMS + 2)}
    said = check_call(event("shell", freeze(many), SHELL))
    assert isinstance(said, Block)
    assert said.reason.count("is not expected") == MOST_PROBLEMS
    assert said.reason.endswith("(and 2 more)")


@pytest.mark.parametrize(
    ("principals", "principal", "allowed"),
    [
        ((), None, True),
        (("*",), "ann", True),
        (("*",), None, False),
        (("ann",), "ann", True),
        (("ann",), "anna", False),
        (("ops-*", "ann"), "ops-7", True),
        (("ops-*", "ann"), "dev-7", False),
    ],
)
def test_a_tool_is_for_its_principals_and_a_run_without_one_is_none(
    principals: tuple[str, ...], principal: str | None, allowed: bool
) -> None:
    envelope = Envelope(run_id="r", task=ENVELOPE.task, correlation_id="r", principal=principal)
    call = ToolCall(id="c", name="shell")
    tool = ToolInfo(name="shell", principals=principals)
    said = check_principal(ToolCallEvent(envelope=envelope, op=Op(id="o"), call=call, tool=tool))
    assert (said is None) is allowed
    if said is not None:
        assert said.code == "not_authorised"
        assert ("has no principal" if principal is None else repr(principal)) in said.reason


def test_a_call_is_refused_after_five_equal_results_and_ends_the_run_the_eighth_time() -> None:
    account, call = Account(Budgets()), event("read_file")
    said: list[tuple[str, bool] | None] = []
    for _ in range(9):
        block = check_repeated(call, account)
        said.append(block and (block.code, block.stop))
        if block is None:
            account.called(call_digest(call.call), "same")
        else:
            account.refused()
    assert said == [None] * 5 + [("repeated_call", False)] * 2 + [("loop_detected", True)] * 2
    assert check_repeated(event("read_file", freeze({"path": "b"})), account) is None
    assert check_repeated(call, None) is None


def test_a_call_whose_results_differ_is_no_repetition() -> None:
    account, call = Account(Budgets()), event("read_file")
    for number in range(20):
        assert check_repeated(call, account) is None
        account.called(call_digest(call.call), str(number))


def test_a_tool_of_high_risk_needs_a_person_who_may_change_every_argument() -> None:
    assert check_risk(event("deploy", tool=RISKY)) == Suspend(
        "the tool 'deploy' is of high risk", code="risk", editable=("*",)
    )
    assert [check_risk(event("x", tool=ToolInfo(name="x", risk=risk))) for risk in ("low", "medium")] == [None, None]
