"""Edits of a call that could not be made so are refused before they are on record."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.waiting import waiting_project

from tenter import Harness
from tenter.catalogue import TOOL_INVOKED, ApprovalReason, ApprovalRequest, ToolInfo
from tenter.harness import check_edits
from tenter.harness.edits import MOST_PROBLEMS, check_unmasked
from tenter.journal import DecisionRefused, MemoryStore
from tenter.kernel import FrozenDict

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "cwd": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}
KEY = "ghp_" + "a1B2" * 9


def request(
    *editable: str, tool: object = None, operation: str = TOOL_INVOKED.name, command: object = "rm x"
) -> ApprovalRequest:
    call = {"name": "shell", "arguments": {"command": command, "cwd": "."}}
    return ApprovalRequest(
        id="r1",
        run_id="a1",
        operation=operation,
        path="1.tool.invoked.0",
        call=FrozenDict({"call": call, "tool": {"name": "shell", "parameters": SCHEMA} if tool is None else tool}),
        digest="sha256:0",
        reasons=(ApprovalReason(hook="h", reason="why", code="risk", editable=editable),),
        requested_at=1.0,
    )


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"command": 5}, "at command: expected text, got 5"),
        ({"command": None}, "at command: expected text, got null"),
        ({"nope": 1}, '"nope" is not expected'),
        ({"command": "\ud800"}, "cannot be written as UTF-8"),
        ({"command": float("nan")}, "nan"),
    ],
)
def test_an_edit_that_does_not_fit_the_schema_of_the_tool_or_a_record_is_refused(
    edits: Mapping[str, object], why: str
) -> None:
    with pytest.raises(DecisionRefused, match="the request 'r1': the edit does not fit: ") as refused:
        check_edits(request("*"), edits)
    assert refused.value.why == "not_editable"
    assert why in str(refused.value)
    assert str(refused.value).endswith("; nothing was decided")


@pytest.mark.parametrize("edits", [{"command": "ls"}, {"command": "ls", "cwd": "sub"}, {}])
def test_an_edit_that_fits_passes_and_what_is_not_edited_is_not_judged(edits: Mapping[str, object]) -> None:
    check_edits(request("*"), edits)
    check_edits(request("*", command=5), {})
    with pytest.raises(DecisionRefused):
        check_edits(request("*", command=5), {"cwd": "sub"})


def test_the_schema_may_stand_there_as_a_value_or_not_at_all() -> None:
    info = ToolInfo(name="shell", description="", parameters=FrozenDict(SCHEMA))
    with pytest.raises(DecisionRefused):
        check_edits(request("*", tool=info), {"nope": 1})
    check_edits(request("*", tool="shell"), {"nope": 1})
    check_edits(request("*", operation="task.complete"), {"nope": 1})


def test_what_may_not_be_edited_is_for_the_journal_to_refuse() -> None:
    check_edits(request("cwd"), {"command": 5})
    with pytest.raises(DecisionRefused):
        check_edits(request("command"), {"command": 5})


def test_of_many_problems_some_are_told() -> None:
    with pytest.raises(DecisionRefused, match=r" \(and 2 more\); nothing was decided$"):
        check_edits(request("*"), {f"n{n}": n for n in range(MOST_PROBLEMS + 2)})


@pytest.mark.promise(4)
def test_an_edit_in_which_something_was_masked_is_refused() -> None:
    with pytest.raises(DecisionRefused, match="holds a secret") as refused:
        check_unmasked(request("*"), {"command": "x"}, {"command": "[redacted]"})
    assert refused.value.why == "not_editable"
    check_unmasked(request("*"), {"command": "x"}, FrozenDict({"command": "x"}))


async def test_a_refused_edit_leaves_the_request_open(tmp_path: Path) -> None:
    store = MemoryStore()
    async with Harness.from_file(waiting_project(tmp_path) / "tenter.yaml", store=store) as harness:
        run_id = (await harness.run("job")).run_id
        for command in (5, "\ud800", f"echo {KEY}"):
            with pytest.raises(DecisionRefused) as refused:
                await harness.approve(run_id, by="ann", edits={"command": command})
            assert refused.value.why == "not_editable"
        (row,) = await store.approvals(run=run_id)
        assert row.state == "open"
        decision = await harness.approve(run_id, by="ann", edits={"command": "echo edited > acted"})
        assert (decision.decision, (await harness.resume(run_id)).status) == ("edit", "completed")
    assert (tmp_path / "acted").read_text() == "edited\n"
