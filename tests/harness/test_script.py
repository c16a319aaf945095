"""A script is read strictly: every mistake has its place."""

import os
from pathlib import Path

import pytest

from tenter.config import ConfigError
from tenter.harness.script import CallLine, Turn, UsageLine, When, load_script, parse_script
from tenter.kernel import freeze

WHOLE = """\
version: 1
turns:
  - text: I look first.
    tool_calls:
      - {name: read_file, arguments: {path: a.py, deep: [1, {x: true, y: null}]}}
      - {name: shell, arguments: "{broken", id: mine}
    usage: {input_tokens: 10, output_tokens: 5}
    cost_usd: 0.001
  - - when: {tool: shell, is_error: true, contains: refused, matches: "exit code [0-9]"}
      tool_calls: [{name: edit}]
    - text: Otherwise.
      cost_usd: 0
  - Done.
"""


def test_a_whole_script_is_read_as_written() -> None:
    first, second, third = parse_script(WHOLE.encode(), "script.yaml")
    assert first.turns == (
        Turn(
            text="I look first.",
            tool_calls=(
                CallLine(name="read_file", arguments={"path": "a.py", "deep": (1, {"x": True, "y": None})}),
                CallLine(name="shell", arguments="{broken", id="mine"),
            ),
            usage=UsageLine(input_tokens=10, output_tokens=5),
            cost_usd=0.001,
        ),
    )
    assert second.turns[0].when == When(tool="shell", is_error=True, contains="refused", matches="exit code [0-9]")
    assert second.turns[1] == Turn(text="Otherwise.", cost_usd=0.0)
    assert third.turns == (Turn(text="Done."),)
    assert [str(step.where) for step in (first, second, third)] == [f"script.yaml:{n}" for n in ("3:5", "9:5", "13:5")]
    assert freeze(first) is first


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["s.yaml: the file is empty"]),
        ("- a", ["s.yaml:1:1: expected a mapping, got a list"]),
        ("version: 2\nturns: [a]", ["s.yaml:1:1: at version: expected 1"]),
        ("turns: [a]", ["s.yaml:1:1: the key 'version' is missing"]),
        ("version: 1\nturns: []", ["s.yaml:2:1: at turns: expected at least one turn"]),
        ("version: 1\nturns: [[]]", ["s.yaml:2:9: at turns[0]: expected at least one alternative"]),
        ("version: 1\nturn: [a]\nturns: [a]", ["s.yaml:2:1: at turn: unknown key 'turn'; did you mean 'turns'?"]),
        (
            "version: 1\nturns:\n  - txt: a\n  - text: 4\n  - usage: {input_token: 1}",
            [
                "s.yaml:3:5: at turns[0].txt: unknown key 'txt'; did you mean 'text'?",
                "s.yaml:4:5: at turns[1].text: expected text, got a whole number",
                "s.yaml:5:13: at turns[2].usage.input_token: unknown key 'input_token'; did you mean 'input_tokens'?",
            ],
        ),
        (
            "version: 1\nturns:\n  - tool_calls: [{arguments: {a: 1}}]",
            ["s.yaml:3:18: at turns[0].tool_calls[0]: the key 'name' is missing"],
        ),
        (
            "version: 1\nturns:\n  - tool_calls: [{name: x, arguments: [1]}]",
            ["s.yaml:3:28: at turns[0].tool_calls[0].arguments: expected text or a mapping, got a list"],
        ),
        (
            "version: 1\nturns:\n  - when: {matches: '('}",
            ["s.yaml:3:12: at turns[0].when.matches: RE2 does not take this expression"],
        ),
        ("version: 1\nturns:\n  - cost_usd: -1", ["s.yaml:3:5: at turns[0].cost_usd: expected a number >= 0"]),
        (
            "version: 1\nturns:\n  - - text: a\n    - text: b",
            ["s.yaml:3:7: at turns[0][0]: this turn is always taken, so those after it never are"],
        ),
        ("version: 1\nturns: [&a b]", ["s.yaml:2:9: at turns[0]: an anchor"]),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_was_expected(text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_script(text.encode(), "s.yaml")
    told = [str(problem) for problem in caught.value.problems]
    assert [line[: len(start)] for line, start in zip(told, problems, strict=True)] == problems


@pytest.mark.fault(51)
def test_a_key_that_stands_twice_is_an_error_with_both_lines() -> None:
    with pytest.raises(ConfigError, match=r"s.yaml:4:5: .*'text' stands here again; it stands first at line 3"):
        parse_script(b"version: 1\nturns:\n  - text: a\n    text: b\n", "s.yaml")


@pytest.mark.fault(54)
def test_words_stay_words() -> None:
    (step,) = parse_script(
        b"version: 1\nturns:\n  - tool_calls: [{name: on, arguments: {a: no, b: 1:30, c: 017}}]\n", "s"
    )
    assert step.turns[0].tool_calls[0] == CallLine(name="on", arguments={"a": "no", "b": "1:30", "c": "017"})


def test_a_script_that_cannot_be_read_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, told in (("missing", "No such file"), ("pipe", "not a regular file"), (".", "not a regular file")):
        with pytest.raises(ConfigError, match=told):
            load_script(tmp_path / path)
    (tmp_path / "s.yaml").write_text(WHOLE)
    assert len(load_script(tmp_path / "s.yaml")) == 3
