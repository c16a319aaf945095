"""A spec is frozen, says what the file leaves out, and knows where everything stands."""

import msgspec
import pytest

from tenter.catalogue import Budgets
from tenter.config.loading import parse_spec
from tenter.config.problem import Position
from tenter.config.spec import HookDefaults, HookSpec, RuleSpec, Spec, TaskSpec, ToolSpec
from tenter.kernel import FrozenDict
from tenter.wire import digest


def test_what_a_hook_leaves_out_is_as_the_design_says() -> None:
    hook = HookSpec(where=Position("f", 1, 1), path=(), name="a", python="m:f")
    assert (hook.priority, hook.mode, hook.observe, hook.match) == (None, None, None, None)
    assert (hook.grace_seconds, hook.verdict, hook.mutate.enabled) == (1.0, None, False)
    assert (hook.on_error, hook.timeout_seconds, hook.max_output_bytes) == (None, None, None)
    assert hook.suspend_mode is None
    assert HookDefaults() == HookDefaults(timeout_seconds=30.0, max_output_bytes=8192, suspend_mode="wait_for_resume")


def test_what_tasks_tools_and_rules_leave_out_limits_and_says_nothing() -> None:
    task = TaskSpec(version=1, model="m", instructions="x")
    assert (task.budgets, task.parallel_tools, task.subtasks) == (Budgets(), False, ())
    tool = ToolSpec()
    assert (tool.risk, tool.sandbox, tool.principals, tool.secrets) == (None, None, None, None)
    rule = RuleSpec(where=Position("f"), path=(), name="a", at="p", then="suspend", reason="x")
    assert (rule.match, rule.queue, rule.editable, rule.expires_in_seconds) == ({}, "default", (), None)
    assert rule.on_timeout == "block"


@pytest.mark.parametrize("kind", ["command", "script", "python"])
def test_a_hook_knows_its_kind(kind: str) -> None:
    value = ("x",) if kind == "command" else "x"
    assert msgspec.convert({"where": Position("f"), "path": (), "name": "a", kind: value}, HookSpec).kind == kind


def test_a_spec_cannot_be_changed() -> None:
    spec = Spec(file="f", digest="", version=1)
    with pytest.raises(AttributeError):
        spec.file = "g"  # type: ignore[misc]  # what the test is about


def test_the_place_of_what_is_missing_is_that_of_what_is_around_it() -> None:
    around = Position("f", 2, 1)
    spec = Spec(file="f", digest="", version=1, positions=FrozenDict({(): Position("f", 1, 1), ("hooks",): around}))
    assert spec.where("hooks") == around
    assert spec.where("hooks", "events", "tool.before", 0) == around
    assert spec.where("tasks", "x") == Position("f", 1, 1)


FILE = """\
version: 1
models:
  m: {provider: scripted, file: f}
  other: {provider: scripted, file: g}
tasks:
  fix: {version: 1, model: m, instructions: Fix., tools: [shell], subtasks: [look]}
  look: {version: 1, model: m, instructions: Look., tools: [grep], subtasks: [deep]}
  deep: {version: 1, model: m, instructions: Dig.}
  else: {version: 1, model: other, instructions: Else., tools: [glob], subtasks: [look]}
tools:
  shell: {timeout_seconds: 5}
  grep: {timeout_seconds: 6}
  glob: {timeout_seconds: 7}
policy:
  - {name: a, at: tool.before, then: block, reason: x}
  - {name: b, at: model.before, then: block, reason: x}
hooks:
  events:
    tool.before: [{name: c, script: x, on_error: warn}]
    pre.tool.invoked: [{name: d, script: x, on_error: warn}]
"""


def changed(before: str, after: str, *, task: str = "fix") -> set[str]:
    """The parts of `task` that differ once the first `before` of the file is `after`."""
    assert before in FILE
    first, second = (
        parse_spec(text.encode(), "f", builtin_tools=["shell", "grep", "glob"]).parts(task)
        for text in (FILE, FILE.replace(before, after, 1))
    )
    assert first.keys() == second.keys() == {"task", "models", "tools", "hooks", "policy"}
    return {part for part in first if first[part] != second[part]}


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ("Fix.", "Mend.", "task"),
        ("Look.", "Look well.", "task"),
        ("Dig.", "Dig deep.", "task"),
        ("tools: [shell], subtasks", "tools: [shell], budgets: {tool_calls: 3}, subtasks", "task"),
        ("tools: [shell], subtasks", "tools: [shell], parallel_tools: true, subtasks", "task"),
        ("file: f", "file: h", "models"),
        ("file: f}", "file: f, prices: {input: 1, output: 1}}", "models"),
        ("timeout_seconds: 5", "timeout_seconds: 50", "tools"),
        ("timeout_seconds: 6", "timeout_seconds: 6, risk: low", "tools"),
        ("script: x", "script: y", "hooks"),
        ("hooks:", "hooks:\n  enabled: false", "hooks"),
        ("hooks:", "hooks:\n  defaults: {timeout_seconds: 3}", "hooks"),
        ("hooks:", "hooks:\n  plugins: ['m:f']", "hooks"),
        ("then: block", "then: suspend", "policy"),
        ("name: a,", "name: aa,", "policy"),
    ],
)
def test_a_change_of_what_a_run_rests_on_changes_that_part_and_no_other(before: str, after: str, part: str) -> None:
    assert changed(before, after) == {part}


def test_the_order_of_rules_and_points_counts() -> None:
    rules = FILE[FILE.index("  - {name: a") : FILE.index("hooks:")]
    assert changed(rules, "".join(reversed(rules.splitlines(keepends=True)))) == {"policy"}
    points = FILE[FILE.index("    tool.before:") :]
    assert changed(points, "".join(reversed(points.splitlines(keepends=True)))) == {"hooks"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: 1\nmodels", "# told\n\nversion: 1\nmodels"),
        ("policy:", "\npolicy:   # rules"),
        ("Else.", "Other."),
        ("file: g", "file: h"),
        ("timeout_seconds: 7", "timeout_seconds: 70"),
        ("tasks:", "tasks:\n  new: {version: 1, model: other, instructions: New.}"),
        ("tools:\n", "secrets: [A_KEY]\nloop: {max_iterations: 3}\ntools:\n  glob2: {python: 'm:f'}\n"),
        ("hooks:", "hooks:\n  enabled: true\n  defaults: {timeout_seconds: 30}"),
        ("Dig.}", "Dig., tools: [], budgets: {}, parallel_tools: false, subtasks: []}"),
    ],
)
def test_a_comment_another_task_or_saying_what_holds_anyway_changes_no_part(before: str, after: str) -> None:
    assert changed(before, after) == set()


def test_the_parts_of_a_task_are_its_own() -> None:
    assert changed("Else.", "Other.", task="else") == {"task"}
    assert changed("Fix.", "Mend.", task="else") == set()
    assert changed("Look.", "Look well.", task="look") == {"task"}
    assert changed("timeout_seconds: 5", "timeout_seconds: 50", task="look") == set()


def test_a_task_that_is_not_there_has_no_parts() -> None:
    spec = parse_spec(FILE.encode(), "f", builtin_tools=["shell", "grep", "glob"])
    assert list(spec.reached("fix")) == ["fix", "look", "deep"]
    with pytest.raises(KeyError):
        spec.parts("gone")


def test_a_key_that_comes_to_be_later_changes_no_part_of_a_file_without_it() -> None:
    spec = parse_spec(
        b"version: 1\nmodels: {m: {provider: scripted, file: f}}\ntasks: {t: {version: 1, model: m, "
        b"instructions: x}}\n",
        "f",
    )
    assert spec.parts("t") == {
        "task": digest({"t": {"version": 1, "model": "m", "instructions": "x"}}),
        "models": digest({"m": {"provider": "scripted", "file": "f"}}),
        "tools": digest({}),
        "hooks": digest([FrozenDict[str, object](), ()]),
        "policy": digest([]),
    }
