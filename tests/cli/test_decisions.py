"""What a person decides, as it goes on record: which fields of the call, which new values, whose decision."""

import os
import pwd

import click
import msgspec
import pytest
from hypothesis import given, strategies

from tenter.catalogue import ApprovalReason, ApprovalRequest
from tenter.cli.decisions import (
    call_of,
    editable_of,
    edits_of,
    fields_of,
    login_name,
    refuse_secrets,
    root_of,
    value_of,
)
from tenter.kernel import FrozenDict


def request(*editable: tuple[str, ...], operation: str = "tool.invoked", **call: object) -> ApprovalRequest:
    return ApprovalRequest(
        id="r1",
        run_id="child",
        operation=operation,
        path="1.tool.invoked.0",
        call=FrozenDict(call),
        digest="sha256:0",
        reasons=tuple(
            ApprovalReason(hook=f"h{n}", reason="why", code="risk", editable=names) for n, names in enumerate(editable)
        ),
        requested_at=1.0,
    )


CALL = {"name": "shell", "arguments": {"command": "rm x", "cwd": "."}}


def test_the_run_to_resume_is_the_outermost() -> None:
    plain = request(call=CALL)
    assert root_of(plain) == "child"
    assert root_of(msgspec.structs.replace(plain, root_run_id="root")) == "root"


def test_of_a_tool_call_the_arguments_may_be_edited_as_far_as_every_reason_says() -> None:
    assert fields_of(request(call=CALL)) == {"command": "rm x", "cwd": "."}
    assert editable_of(request(call=CALL)) == ()
    assert editable_of(request(("command", "new"), ("*",), call=CALL)) == ("command", "new")
    assert editable_of(request(("*",), call=CALL)) == ("command", "cwd")
    assert editable_of(request(("command",), ("cwd",), call=CALL)) == ()


def test_where_all_may_be_edited_arguments_that_the_model_left_out_are_named_too() -> None:
    tool = {"name": "shell", "parameters": {"properties": {"timeout": {"type": "number"}, "command": {}}}}
    assert editable_of(request(("*",), call=CALL, tool=tool)) == ("command", "cwd", "timeout")
    assert editable_of(request(("command",), call=CALL, tool=tool)) == ("command",)
    for other in ("shell", {"parameters": "broken"}, {"parameters": {"properties": ["broken"]}}):
        assert editable_of(request(("*",), call=CALL, tool=other)) == ("command", "cwd")
    asked = request(("*",), operation="task.complete", output="done", tool=tool)
    assert editable_of(asked) == ("output", "tool"), "a field that only bears the name"


def test_of_another_operation_its_own_fields_may_be_edited() -> None:
    asked = request(("output",), operation="task.complete", output="done", attempt=0)
    assert fields_of(asked) == {"output": "done", "attempt": 0}
    assert editable_of(asked) == ("output",)


def test_of_arguments_that_are_no_object_nothing_is_there_to_edit() -> None:
    assert fields_of(request(call={"name": "shell", "arguments": "{broken"})) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("null", None),
        ('"3"', "3"),
        ('{"a": [1]}', {"a": [1]}),
        ("ls -l", "ls -l"),
        ("", ""),
        ("017", "017"),
        ("{a: 1}", "{a: 1}"),
        ("NaN", "NaN"),
    ],
)
def test_a_value_is_json_or_the_text_itself(text: str, value: object) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


@given(strategies.text(alphabet="abc =!-", min_size=1))
def test_what_is_no_json_stays_as_it_was_typed(text: str) -> None:
    assert edits_of([f"name={text}"]) == {"name": text}


@pytest.mark.fault(51)
def test_a_value_that_two_readers_take_differently_is_refused() -> None:
    with pytest.raises(click.UsageError, match="'a' stands twice"):
        edits_of(['x={"a": 1, "a": 2}'])
    with pytest.raises(click.UsageError, match="is ambiguous"):
        edits_of(["x=9007199254740993000001"])


@pytest.mark.fault(51)
def test_a_value_of_any_depth_is_taken_or_refused() -> None:
    assert edits_of(["x=[[1]]"]) == {"x": [[1]]}
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000):
        with pytest.raises(click.UsageError, match="is ambiguous"):
            edits_of([f"x={text}"])


@pytest.mark.parametrize("words", [["name"], ["=1"], [""], ["a=1", "a=2"]])
def test_what_sets_nothing_or_twice_is_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match="--set"):
        edits_of(words)


@pytest.mark.promise(4)
def test_a_secret_in_a_new_value_is_refused_and_not_told() -> None:
    def mask(text: str) -> str:
        return text.replace("opensesame", "[redacted]")

    refuse_secrets({"command": {"deep": ["open"]}}, mask)
    for value in ("opensesame", {"deep": ["opensesame"]}, {"opensesame": 1}):
        with pytest.raises(click.ClickException, match="the new value of 'command' holds a secret") as refused:
            refuse_secrets({"cwd": ".", "command": value}, mask)
        assert refused.value.exit_code == 1
        assert "opensesame" not in refused.value.message


def test_who_decides_is_told_by_the_system_and_not_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert login_name() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_an_entry_is_called_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert login_name() == "uid 4000000000"


def test_a_call_is_shown_with_its_name_first() -> None:
    asked = request(call={"arguments": {"b": 1}, "id": "1", "name": "shell"}, tool="shell")
    assert list(call_of(asked).items()) == [("name", "shell"), ("arguments", {"b": 1}), ("id", "1")]
    assert call_of(request(operation="task.complete", output="x")) == {"output": "x"}
