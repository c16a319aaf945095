"""The scripted model is a function of the conversation alone."""

from pathlib import Path

import pytest

from tenter.catalogue import Message, ModelRequest, ModelResponse, ToolCall, Usage
from tenter.config import ConfigError, ModelSpec
from tenter.harness.script import parse_script
from tenter.harness.scripted import ScriptedModel, respond
from tenter.kernel import OperationFailed

SCRIPT = """\
version: 1
turns:
  - text: first
    tool_calls: [{name: shell, arguments: {command: ls}}, {name: read_file, id: mine}]
    usage: {input_tokens: 3, output_tokens: 2}
    cost_usd: 0.5
  - - when: {tool: shell, is_error: true, matches: "code [1-9]"}
      text: it failed
    - when: {tool: shell, contains: "code 0"}
      text: it worked
    - when: {tool: read_file}
      text: only read
    - text: nothing of these
  - when: {is_error: false}
    text: last
"""
STEPS = parse_script(SCRIPT.encode(), "script.yaml")


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(alias="default", model="scripted", messages=(Message(role="user", content="go"), *messages))


def assistant(*calls: ToolCall) -> Message:
    return Message(role="assistant", content="…", tool_calls=calls)


def result(name: str, content: str, *, is_error: bool = False) -> Message:
    return Message(role="tool", name=name, content=content, is_error=is_error)


def test_the_first_turn_is_answered_whole() -> None:
    assert respond(STEPS, request()) == ModelResponse(
        model="scripted",
        text="first",
        tool_calls=(
            ToolCall(id="call-1-1", name="shell", arguments={"command": "ls"}),
            ToolCall(id="mine", name="read_file"),
        ),
        usage=Usage(input_tokens=3, output_tokens=2),
        cost_usd=0.5,
        finish_reason="tool_calls",
    )


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([result("shell", "exit code 2", is_error=True)], "it failed"),
        ([result("shell", "exit code 2")], "nothing of these"),
        ([result("shell", "exit code 0", is_error=True)], "it worked"),
        ([result("shell", "exit code 0"), result("read_file", "x")], "it worked"),
        ([result("shell", "exit code 0"), result("shell", "exit code 1", is_error=True)], "it failed"),
        ([result("read_file", "code 0")], "only read"),
        ([], "nothing of these"),
    ],
)
def test_the_first_alternative_whose_condition_holds_is_taken(results: list[Message], text: str) -> None:
    response = respond(STEPS, request(assistant(), *results))
    assert response.text == text
    assert (response.usage, response.cost_usd, response.finish_reason) == (Usage(), None, "stop")


def test_a_result_without_a_name_is_known_by_its_call() -> None:
    nameless = Message(role="tool", tool_call_id="call-1-1", content="exit code 0")
    called = assistant(ToolCall(id="call-1-1", name="shell"))
    assert respond(STEPS, request(called, nameless)).text == "it worked"


def test_results_of_an_earlier_turn_do_not_count() -> None:
    old = result("shell", "exit code 0")
    with pytest.raises(OperationFailed, match="there is no tool result since the last answer"):
        respond(STEPS, request(assistant(), old, assistant()))


def test_a_condition_that_is_not_met_fails_the_model_for_good_and_says_what_was_there() -> None:
    error = result("shell", "it went wrong", is_error=True)
    with pytest.raises(
        OperationFailed, match=r"in turn 3 \(script.yaml:14:5\).*an error of 'shell': 'it went wrong'"
    ) as caught:
        respond(STEPS, request(assistant(), assistant(), error))
    assert caught.value.code == "provider_permanent"
    assert not caught.value.retryable


def test_a_script_that_has_ended_fails_the_model_for_good() -> None:
    with pytest.raises(
        OperationFailed, match=r"no turn 4: the script ends after 3 turns \(script.yaml:14:5\)"
    ) as caught:
        respond(STEPS, request(assistant(), assistant(), assistant()))
    assert caught.value.code == "provider_permanent"


def test_arguments_that_are_no_object_are_handed_on_as_text() -> None:
    steps = parse_script(b"version: 1\nturns: [{tool_calls: [{name: a, arguments: '{broken'}]}]", "s")
    assert respond(steps, request()).tool_calls[0].arguments == "{broken"


async def test_asking_twice_gives_the_same_answer_because_there_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCRIPT)
    model = ScriptedModel.from_spec(ModelSpec(provider="scripted", file="s.yaml"), tmp_path)
    assert await model.generate(request()) == await model.generate(request()) == respond(STEPS, request())


def test_a_script_is_found_beside_the_configuration_or_the_error_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/s.yaml: the script cannot be read"):
        ScriptedModel.from_spec(ModelSpec(provider="scripted", file="s.yaml"), tmp_path)
