"""What a file says of loops: every key is read and checked, and what it leaves out has the default of the contract."""

import re

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.config.keys import project_keys
from tenter.config.loading import parse_draft, parse_spec
from tenter.config.loop_spec import (
    TOPIC,
    TOPIC_PATTERN,
    CommandBackendSpec,
    HarnessBackendSpec,
    HatSpec,
    LoopSpec,
    PreflightSpec,
)
from tenter.config.problem import ConfigError
from tenter.config.schema import MapOf, Schema, Table

TASK = """\
version: 1
models: {m: {provider: scripted, file: f}}
tasks: {fix: {version: 1, model: m, instructions: x}}
"""


def loop(text: str) -> LoopSpec:
    return parse_spec(f"{TASK}loop: {text}\n".encode(), "f").loop


def problems(text: str) -> list[str]:
    found = parse_draft(f"{TASK}loop: {text}\n".encode(), "f").problems
    return [str(one).removeprefix("f:4:") for one in found]


def keys_of(schema: Schema, *path: str) -> set[str]:
    for key in path:
        assert isinstance(schema, Table)
        schema = schema.keys[key]
        schema = schema.value if isinstance(schema, MapOf) else schema
    assert isinstance(schema, Table)
    return set(schema.keys)


def test_a_file_without_a_loop_has_the_defaults_of_the_contract() -> None:
    assert parse_spec(b"version: 1", "f").loop == loop("{}") == LoopSpec()
    assert LoopSpec() == LoopSpec(
        backend=None,
        hats={},
        completion_promise="LOOP_COMPLETE",
        required_events=(),
        max_iterations=100,
        max_runtime_seconds=None,
        max_cost_usd=None,
        max_consecutive_failures=5,
        answer_timeout_seconds=300.0,
        preflight=PreflightSpec(enabled=True, skip=(), strict=False),
    )


def test_every_key_of_a_loop_is_read() -> None:
    made = loop("""
  backend: {command: [./agent.sh, -p], prompt: argument, inactivity_timeout_seconds: 60}
  hats:
    planner: {triggers: [task.start]}
    builder:
      description: Builds.
      instructions: Write the code.
      triggers: [build.*, "*.failed"]
      publishes: [build.done]
      backend: {harness: fix}
  completion_promise: All done.
  required_events: [tests.passed]
  max_iterations: 7
  max_runtime_seconds: 3600
  max_cost_usd: 0.5
  max_consecutive_failures: 1
  answer_timeout_seconds: 1.5
  preflight: {enabled: false, skip: [git, trust], strict: true}""")
    assert made == LoopSpec(
        backend=CommandBackendSpec(command=("./agent.sh", "-p"), prompt="argument", inactivity_timeout_seconds=60.0),
        hats={
            "planner": HatSpec(triggers=("task.start",)),
            "builder": HatSpec(
                description="Builds.",
                instructions="Write the code.",
                triggers=("build.*", "*.failed"),
                publishes=("build.done",),
                backend=HarnessBackendSpec(harness="fix"),
            ),
        },
        completion_promise="All done.",
        required_events=("tests.passed",),
        max_iterations=7,
        max_runtime_seconds=3600.0,
        max_cost_usd=0.5,
        max_consecutive_failures=1,
        answer_timeout_seconds=1.5,
        preflight=PreflightSpec(enabled=False, skip=("git", "trust"), strict=True),
    )


def test_a_command_backend_gets_the_prompt_on_stdin_and_may_be_silent_for_half_an_hour() -> None:
    backend = CommandBackendSpec(command=("x",), prompt="stdin", inactivity_timeout_seconds=1800.0)
    assert loop("{backend: {command: [x]}}").backend == backend


def test_hats_keep_the_order_of_the_file() -> None:
    names = [f"hat-{number}" for number in (3, 1, 2, 9, 0)]
    hats = ", ".join(f"{name}: {{triggers: [a]}}" for name in names)
    assert list(loop(f"{{hats: {{{hats}}}}}").hats) == names


@pytest.mark.parametrize(
    ("path", "specs"),
    [
        ((), [LoopSpec]),
        (("backend",), [CommandBackendSpec, HarnessBackendSpec]),
        (("hats",), [HatSpec]),
        (("hats", "backend"), [CommandBackendSpec, HarnessBackendSpec]),
        (("preflight",), [PreflightSpec]),
    ],
)
def test_every_key_is_a_field_and_every_field_a_key(path: tuple[str, ...], specs: list[type[msgspec.Struct]]) -> None:
    fields = {field.name for spec in specs for field in msgspec.structs.fields(spec)}
    assert keys_of(project_keys([]), "loop", *path) == fields


@pytest.mark.fault(53)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "'7'", "1e3", "017", "true", "[1]", "1000001", "null"])
@pytest.mark.parametrize("key", ["max_iterations", "max_consecutive_failures"])
def test_a_count_is_a_whole_number_from_1_on(key: str, value: str) -> None:
    (said,) = problems(f"{{{key}: {value}}}")
    assert f"at loop.{key}: expected a whole number from 1 to 1000000, got " in said


@pytest.mark.fault(53)
@pytest.mark.parametrize("value", ["0", "-0.5", "0.0", "'60'", "1:30", "1e3", ".inf", ".nan", "true", "99999999999"])
@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("max_runtime_seconds", "a number of seconds above 0 and at most 31622400"),
        ("answer_timeout_seconds", "a number of seconds above 0 and at most 31622400"),
        ("max_cost_usd", "a number of US dollars above 0 and at most 1000000"),
    ],
)
def test_an_amount_is_a_number_above_0(key: str, what: str, value: str) -> None:
    (said,) = problems(f"{{{key}: {value}}}")
    assert f"at loop.{key}: expected {what}, got " in said


@pytest.mark.fault(53)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{max_iteration: 3}", "8: at loop.max_iteration: unknown key 'max_iteration'; did you mean 'max_iterations'?"),
        (
            "{hats: {b: {trigers: [a]}}}",
            "19: at loop.hats.b.trigers: unknown key 'trigers'; did you mean 'triggers'?",
        ),
        ("{hats: {b: {description: x}}}", "15: at loop.hats.b: the key 'triggers' is missing"),
        (
            "{hats: {b: {triggers: []}}}",
            "19: at loop.hats.b.triggers: expected a list of at least one topic, got an empty list",
        ),
        (
            "{hats: {b: {triggers: build.*}}}",
            (
                "29: at loop.hats.b.triggers: expected a list of at least one topic, got 'build.*'; "
                "write a list: ['build.*']"
            ),
        ),
        (
            "{hats: {b: {triggers: [a, a]}}}",
            "33: at loop.hats.b.triggers[1]: the same stands at line 4 already; keep one of the two",
        ),
        ("{backend: {}}", "8: at loop.backend: expected exactly one of 'command', 'harness', got none"),
        (
            "{backend: {command: [x], harness: fix}}",
            "8: at loop.backend: expected exactly one of 'command', 'harness', got 'command' and 'harness'; keep one",
        ),
        (
            "{backend: {kind: command, command: [x]}}",
            (
                "18: at loop.backend.kind: unknown key 'kind'; the keys here are command, harness, "
                "inactivity_timeout_seconds, prompt"
            ),
        ),
        (
            "{backend: ./agent.sh}",
            "17: at loop.backend: expected a backend (a mapping with one of command, harness), got './agent.sh'",
        ),
        (
            "{backend: {command: ./agent.sh -p}}",
            (
                "27: at loop.backend.command: expected a program and its arguments as a list, got './agent.sh -p'; "
                "write a list: ['./agent.sh -p']"
            ),
        ),
        (
            "{backend: {command: []}}",
            "18: at loop.backend.command: expected a program and its arguments as a list, got an empty list",
        ),
        (
            "{backend: {command: [x], prompt: stdn}}",
            "40: at loop.backend.prompt: expected 'stdin' or 'argument', got 'stdn'; did you mean 'stdin'?",
        ),
        (
            "{backend: {harness: fix, prompt: stdin}}",
            "32: at loop.backend.prompt: 'prompt' needs 'command' beside it; it says how a program is run",
        ),
        (
            "{backend: {harness: fx}}",
            "27: at loop.backend.harness: expected the name of a task, got 'fx'; did you mean 'fix'?",
        ),
        (
            "{hats: {b: {triggers: [a], backend: {harness: zzz}}}}",
            "53: at loop.hats.b.backend.harness: expected the name of a task, got 'zzz'; there are fix",
        ),
        (
            "{preflight: {skip: [gti]}}",
            (
                "27: at loop.preflight.skip[0]: expected 'config' or 'hooks' or 'trust' or 'backend' or 'git' or "
                "'paths', got 'gti'; did you mean 'git'?"
            ),
        ),
        ("{preflight: {strict: yes}}", "28: at loop.preflight.strict: expected true or false, got 'yes'; write true"),
        ("[]", "1: at loop: expected a mapping, got a list"),
    ],
)
def test_what_is_wrong_is_said_at_its_place_with_what_to_do(text: str, said: str) -> None:
    assert problems(text) == [said]


@pytest.mark.parametrize("name", ["Builder", "../x", "-x", "con", "a b", "x" * 65])
def test_a_hat_has_a_plain_name(name: str) -> None:
    assert len(problems(f"{{hats: {{'{name}': {{triggers: [a]}}}}}}")) == 1


@pytest.mark.fault(54)
def test_words_stay_words_and_what_is_no_word_is_said_to_need_quotes() -> None:
    assert loop("{hats: {b: {triggers: [on, no, 017]}}}").hats["b"].triggers == ("on", "no", "017")
    for trap in ("1.5", "5", "true"):
        (said,) = problems(f"{{required_events: [{trap}]}}")
        assert said.endswith(f'got {trap}; put it in quotes: "{trap}"')


@pytest.mark.fault(54)
@pytest.mark.parametrize("trigger", ["*", "*.done", "*done"])
def test_a_star_without_quotes_is_said_to_need_them(trigger: str) -> None:
    (said,) = problems(f"{{hats: {{b: {{triggers: [{trigger}]}}}}}}")
    assert "in quotes" in said


TOPICS = ["a", "build.done", "LOOP_COMPLETE", "a-b.c_d.0", "017", "plan." + "x" * 195]
NO_TOPICS = ["", ".", "a.", ".a", "a..b", "a b", "-a", "a.-b", "a/b", "a\n", "ä", "plan." + "x" * 196, "a:b", "a\0"]


@pytest.mark.parametrize("text", TOPICS)
def test_a_topic_is_words_joined_by_dots(text: str) -> None:
    assert re.fullmatch(TOPIC, text)
    assert re.fullmatch(TOPIC_PATTERN, text)


@pytest.mark.parametrize("text", NO_TOPICS)
def test_what_is_no_topic_is_no_pattern_of_topics_either(text: str) -> None:
    assert not re.fullmatch(TOPIC, text)
    assert not re.fullmatch(TOPIC_PATTERN, text)


@pytest.mark.parametrize(
    ("text", "is_one"), [("*", True), ("*.*", True), ("a.*.b", True), ("a*", False), ("**", False)]
)
def test_a_star_stands_for_a_whole_word_of_a_pattern_and_never_in_a_topic(text: str, is_one: bool) -> None:
    assert not re.fullmatch(TOPIC, text)
    assert bool(re.fullmatch(TOPIC_PATTERN, text)) is is_one


@pytest.mark.parametrize("text", ["LOOP_COMPLETE", "All done!", "x", "y" * 200, "<promise>fertig ✓</promise>"])
def test_a_promise_is_any_line(text: str) -> None:
    assert loop(f"{{completion_promise: '{text}'}}").completion_promise == text


@pytest.mark.parametrize(
    "written",
    ["''", "' '", "' x'", "'x '", '"a\\nb"', '"a\\u2028b"', '"a\\eb"', "x" * 201, "loop.cancel", "human.interact", "5"],
)
def test_a_promise_is_one_line_that_means_nothing_else(written: str) -> None:
    (said,) = problems(f"{{completion_promise: {written}}}")
    assert "at loop.completion_promise: expected one line of at most 200 characters" in said


def test_a_topic_that_only_begins_like_one_with_a_meaning_may_be_the_promise() -> None:
    assert loop("{completion_promise: loop.cancelled}").completion_promise == "loop.cancelled"


@given(st.text(max_size=300))
def test_whatever_is_taken_for_a_promise_stands_on_one_line_with_nothing_around_it(text: str) -> None:
    document = f"{TASK}loop: {{completion_promise: {msgspec.json.encode(text).decode()}}}\n"
    try:
        promise = parse_spec(document.encode(), "f").loop.completion_promise
    except ConfigError:
        return
    assert promise.splitlines() == [promise]
    assert promise == promise.strip() != ""
    assert len(promise) <= 200


def test_a_loop_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        LoopSpec().max_iterations = 3  # type: ignore[misc]  # what the test is about
