import pytest
from tests.agent.playbook import PLAN, REFUSED, SIDE_BY_SIDE, STOPPED, begun, calling, calls, error_of, told, until

from tenter.agent.calls import rounds, tool_message
from tenter.agent.plan import Plan
from tenter.catalogue import ToolCall, ToolInfo, ToolResult


def test_every_call_of_a_response_has_its_number_however_many_are_made_at_once() -> None:
    asked = [ToolCall(id=f"c{number}", name="shell") for number in range(3)]
    one_by_one, at_once = rounds(asked, PLAN), rounds(asked, SIDE_BY_SIDE)
    assert [[branch.index for branch in branches] for branches in one_by_one] == [[0], [1], [2]]
    assert [[branch.index for branch in branches] for branches in at_once] == [[0, 1, 2]]


def test_a_result_is_told_under_the_id_and_the_name_of_its_call() -> None:
    said = tool_message(ToolCall(id="c7", name="shell"), ToolResult(output="no", is_error=True))
    assert (said.role, said.content, said.tool_call_id, said.name, said.is_error) == ("tool", "no", "c7", "shell", True)


def test_several_calls_are_made_one_by_one_in_their_order() -> None:
    playbook = begun() >> "1.llm.invoked.0" << calls("shell", "shell", "shell")
    playbook = playbook >> "1.tool_calls.extracted.0, 1.tool.invoked.0, 1.tool.invoked.1"
    playbook = playbook << {"result": ToolResult(output="it said no", is_error=True)} >> "1.tool.invoked.2"
    playbook = playbook >> "2.llm.invoked.0, 2.tool_calls.extracted.0, 2.task.complete.0"
    playbook = playbook.ending(2, "completed")
    playbook.play()
    request = playbook.event("2.llm.invoked.0").request
    assert [(m.tool_call_id, m.content, m.is_error) for m in request.messages if m.role == "tool"] == [
        ("c0", "shell ran", False),
        ("c1", "it said no", True),
        ("c2", "shell ran", False),
    ]


def test_a_call_carries_its_tool_and_an_unknown_one_none() -> None:
    playbook = until("1.tool_calls.extracted.0") << {
        "calls": (ToolCall(id="c0", name="shell"), ToolCall(id="c1", name="nope"))
    }
    playbook = playbook >> "1.tool.invoked.0" >> "1.tool.invoked.1" << REFUSED >> "2.llm.invoked.0" << REFUSED
    playbook.ending(2, "blocked").play()
    assert playbook.event("1.tool.invoked.0").tool == ToolInfo(name="shell")
    assert playbook.event("1.tool.invoked.1").tool is None


# Side by side


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_calls_that_are_made_side_by_side_are_told_in_the_order_in_which_they_were_asked_for(
    order: tuple[int, ...],
) -> None:
    playbook = calling("shell", "shell", "shell")
    for index in order:
        playbook = playbook >> f"1.tool.invoked.{index}" << {"result": ToolResult(output=f"result {index}")}
    playbook = (playbook >> "2.llm.invoked.0" << REFUSED).ending(2, "blocked")
    playbook.order = order
    assert told(playbook.play(SIDE_BY_SIDE)) == ["result 0", "result 1", "result 2"]


def test_a_call_that_ends_the_run_lets_those_beside_it_end_first() -> None:
    playbook = calling("shell", "shell") >> "1.tool.invoked.0" << STOPPED >> "1.tool.invoked.1"
    assert error_of(playbook.ending(1, "blocked").play(SIDE_BY_SIDE)).message == "enough"


def test_one_by_one_no_call_is_made_after_the_one_that_ends_the_run() -> None:
    playbook = calling("shell", "shell") >> "1.tool.invoked.0" << STOPPED
    assert error_of(playbook.ending(1, "blocked").play()).message == "enough"


@pytest.mark.parametrize("plan", [PLAN, SIDE_BY_SIDE], ids=["one by one", "side by side"])
def test_a_thousand_calls_at_once_are_all_made_and_told(plan: Plan) -> None:
    playbook = calling(*["shell"] * 1_000)
    for index in range(1_000):
        playbook = playbook >> f"1.tool.invoked.{index}"
    playbook = (playbook >> "2.llm.invoked.0" << REFUSED).ending(2, "blocked")
    messages = playbook.play(plan).progress.messages
    assert [message.tool_call_id for message in messages[3:]] == [f"c{number}" for number in range(1_000)]
