"""All hooks of all files in registration order, and everything that is wrong with them, each at its place."""

from pathlib import Path

import pytest

from tenter.config.loading import load, parse_spec
from tenter.config.outline import Outline, PlannedHook, hook_files, outline
from tenter.config.spec import Spec

PATH = "/usr/bin:/bin"


def spec_of(folder: Path, text: str, *, user: bool = False) -> Spec:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tenter.yaml").write_text(text)
    return load(folder / "tenter.yaml", level="user" if user else "project")


def problems(folder: Path, hooks: str) -> list[str]:
    spec = spec_of(folder, "version: 1\nhooks:\n  events:\n" + hooks)
    found = outline(hook_files(spec, None), PATH).problems
    return [str(one).removeprefix(f"{folder}/tenter.yaml:") for one in found]


def names(planned: Outline) -> list[tuple[str, str]]:
    return [(one.name, one.band) for one in planned.declarations]


def test_hooks_stand_in_registration_order_and_the_users_are_the_baseline(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "mine.py").write_text(
        "from tenter.kernel import hook\n@hook('run.end', name='plugged')\ndef f(event): ...\n"
    )
    (tmp_path / "mine.py").write_text("from tenter.kernel import hook\n@hook('run.end')\ndef g(event): ...\n")
    rest = "script: x, on_error: warn"
    events = f"events: {{{{tool.before: [{{{{name: {{0}}1, {rest}}}}}], tool.after: [{{{{name: {{0}}2, {rest}}}}}]}}}}"
    user = spec_of(tmp_path / "user", f"version: 1\nhooks: {{plugins: ['mine:f'], {events.format('u')}}}", user=True)
    project = spec_of(tmp_path, f"version: 1\nhooks: {{{events.format('p')}, plugins: ['mine:g']}}")
    assert names(outline(hook_files(project, user), PATH)) == [
        *(("plugged", "baseline"), ("u1", "baseline"), ("u2", "baseline")),
        *(("g", "app"), ("p1", "app"), ("p2", "app")),
    ]


@pytest.mark.parametrize(("user", "project", "left"), [("false", "true", ["p"]), ("true", "false", ["u"])])
def test_a_file_whose_hooks_are_switched_off_has_none_and_the_other_keeps_its_own(
    user: str, project: str, left: list[str]
) -> None:
    text = "version: 1\nhooks: {{enabled: {}, events: {{run.end: [{{name: {}, script: x, on_error: warn}}]}}}}"
    files = hook_files(
        parse_spec(text.format(project, "p").encode(), "p.yaml"),
        parse_spec(text.format(user, "u").encode(), "u.yaml", level="user"),
    )
    assert [one.name for one in outline(files, PATH).declarations] == left


def test_a_project_cannot_change_the_deadline_of_the_users_hooks() -> None:
    text = "version: 1\nhooks: {defaults: {timeout_seconds: %s}}"
    project, user, same = (parse_spec((text % seconds).encode(), "f") for seconds in ("0.001", "20", "0.001"))
    assert [file.timeout for file in hook_files(project, user)] == [20, None]
    assert [file.timeout for file in hook_files(project, same)] == [None, None]


@pytest.mark.promise(14)
@pytest.mark.fault(55)
def test_without_a_trusted_project_only_the_users_file_counts_and_the_usual_deadline() -> None:
    user = parse_spec(b"version: 1\nhooks: {defaults: {timeout_seconds: 30}}", "u.yaml", level="user")
    (file,) = [one for one in hook_files(None, user) if one.spec is user]
    assert (len(hook_files(None, user)), file.band, file.timeout) == (1, "baseline", None)
    assert hook_files(None, None) == ()


def test_programs_are_resolved_from_the_folder_of_their_own_file(tmp_path: Path) -> None:
    for folder in (tmp_path / "user", tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "guard").write_text("#!/bin/sh\n")
        (folder / "guard").chmod(0o755)
    text = "version: 1\nhooks: {events: {run.end: [{name: %s, command: [./guard, -x], on_error: warn}]}}"
    user, project = spec_of(tmp_path / "user", text % "u", user=True), spec_of(tmp_path, text % "p")
    planned = outline(hook_files(project, user), PATH).planned
    assert [one.argv for one in planned if isinstance(one, PlannedHook)] == [
        (str(tmp_path / "user" / "guard"), "-x"),
        (str(tmp_path / "guard"), "-x"),
    ]


@pytest.mark.promise(2)
def test_an_unknown_point_is_a_problem_at_its_place_with_the_nearest_name(tmp_path: Path) -> None:
    assert problems(tmp_path, "    tool.befor: [{name: a, script: x, on_error: warn}]\n    zzz: []\n") == [
        "4:5: at hooks.events.tool.befor: there is no point 'tool.befor'; did you mean 'tool.before'?",
        "5:5: at hooks.events.zzz: there is no point 'zzz'; 'tenter hooks list --all' prints all points",
    ]


def test_each_setting_that_a_point_cannot_take_is_a_problem_at_its_own_place(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "    run.start:\n"
        "      - name: a\n"
        "        script: x\n"
        "        on_error: suspend\n"
        "        match: {tool: x, task: {re: '('}}\n",
    )
    where = "hooks.events.run.start[0]"
    assert found[0] == (
        f"7:19: at {where}.on_error: hook 'a' at 'run.start' has on_error 'suspend'; this point takes 'warn', 'block', "
        "'fail'"
    )
    assert found[1] == (
        f"8:23: at {where}.match.tool: hook 'a' at 'run.start' matches on 'tool'; this point can match on task"
    )
    assert found[2].startswith(
        f"8:26: at {where}.match.task: hook 'a' at 'run.start', match.task, is not an expression"
    )
    assert len(found) == 3


def test_a_mode_of_waiting_that_nobody_would_carry_out_is_a_problem_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(event): ...\n")
    mode = "suspend_mode: retry_backoff"
    found = problems(
        tmp_path,
        f"""\
    tool.before:
      - {{name: a, script: x, on_error: suspend, {mode}}}
      - {{name: p, python: "mine:f", {mode}}}
    pre.loop.start:
      - {{name: a, script: x, on_error: block, {mode}}}
      - {{name: b, script: x, on_error: warn, observe: true, {mode}}}
      - {{name: c, python: "mine:f", {mode}}}
      - {{name: d, python: "mine:f", observe: true, suspend_mode: wait_then_retry}}
      - {{name: e, script: x, on_error: suspend, {mode}}}
      - {{name: f, script: x, on_error: warn, verdict: json, {mode}}}
      - {{name: g, python: "mine:f", suspend_mode: wait_then_retry}}
      - {{name: h, script: x, on_error: suspend, observe: true, {mode}}}
""",
    )
    told = [(one.split(":")[0], one.split(": ", 2)[2]) for one in found]
    points = "loop.start, iteration.start, plan.created, human.interact, loop.complete, loop.error"
    elsewhere = f"has a suspend_mode; only a loop waits so; remove it; it is for pre and post of {points}"
    never = (
        "at 'loop.start.pre' never suspends the loop, so that its suspend_mode says nothing; set 'on_error: suspend'"
    )
    no_process = "at 'loop.start.pre' is no process; 'retry_backoff' is for command and script hooks"
    assert told == [
        ("5", f"hook 'a' at 'tool.before' {elsewhere}"),
        ("6", f"hook 'p' at 'tool.before' {elsewhere}"),
        ("8", f"hook 'a' {never}, or 'verdict: json', so that it can answer so"),
        ("9", f"hook 'b' {never}"),
        ("10", f"hook 'c' {no_process}; write wait_for_resume or wait_then_retry"),
        ("11", f"hook 'd' {never}"),
    ]
    assert all("].suspend_mode: " in one for one in found)


def test_the_point_of_a_loop_does_not_take_fail(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "    post.loop.error:\n      - {name: a, script: x, on_error: fail}\n")
    assert found == (
        "5:40: at hooks.events.post.loop.error[0].on_error: hook 'a' at 'loop.error.post' has on_error 'fail'; this "
        "point takes 'warn', 'block', 'suspend'"
    )


def test_a_name_twice_at_a_point_is_a_problem_under_any_name_of_the_point(tmp_path: Path) -> None:
    text = "{name: a, script: x, on_error: warn}"
    found = problems(
        tmp_path, f"    tool.before: [{text}]\n    tool.invoked.pre: [{text}]\n    pre.tool.invoked: [{text}]\n"
    )
    taken = f"the name 'a' is taken at 'tool.before', by {tmp_path}/tenter.yaml:4:26; give it another name"
    assert found == [
        f"5:31: at hooks.events.tool.invoked.pre[0].name: {taken}",
        f"6:31: at hooks.events.pre.tool.invoked[0].name: {taken}",
    ]


def test_the_names_of_tenters_own_checks_are_taken(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "    tool.before: [{name: policy, script: x, on_error: warn}]\n")
    assert "the name 'policy' is taken at 'tool.before', by one of tenter's own checks" in found


RULE = "then: block, reason: x"


def policy_problems(folder: Path, policy: str, hooks: str = "{}") -> list[str]:
    spec = spec_of(folder, f"version: 1\nhooks: {hooks}\npolicy:\n{policy}")
    found = outline(hook_files(spec, None), PATH).problems
    return [str(one).removeprefix(f"{folder}/tenter.yaml:") for one in found]


@pytest.mark.promise(15)
def test_rules_stand_before_the_projects_hooks_in_the_control_band_and_those_of_the_gate_not_at_all(
    tmp_path: Path,
) -> None:
    hook = "{events: {model.before: [{name: %s, script: x, on_error: warn}]}}"
    user = spec_of(tmp_path / "user", f"version: 1\nhooks: {hook % 'mine'}", user=True)
    rules = f"[{{name: a, at: model.before, {RULE}}}, {{name: b, at: tool.before, {RULE}}}]"
    for enabled, left in (("true", [("h", "app")]), ("false", [])):
        hooks = f"{{enabled: {enabled}, {(hook % 'h')[1:]}"
        project = spec_of(tmp_path, f"version: 1\nhooks: {hooks}\npolicy: {rules}")
        found = outline(hook_files(project, user), PATH)
        assert found.problems == ()
        assert names(found) == [("mine", "baseline"), ("a", "control"), *left]


@pytest.mark.promise(2)
def test_what_is_wrong_with_rules_is_told_at_its_own_place(tmp_path: Path) -> None:
    found = policy_problems(
        tmp_path,
        f"""\
  - {{name: a, at: tool.befor, {RULE}}}
  - {{name: b, at: run.start, then: suspend, reason: x, match: {{tool: x}}}}
  - {{name: b, at: tool.after, {RULE}}}
  - {{name: c, at: model.before, then: suspend, reason: x, editable: [reqest]}}
""",
    )
    assert found == [
        "4:19: at policy[0].at: there is no point 'tool.befor'; did you mean 'tool.before'?",
        "5:36: at policy[1].then: the rule 'b' at 'run.start' cannot suspend; this point takes block",
        "5:70: at policy[1].match.tool: rule 'b' at 'run.start' matches on 'tool'; this point can match on task",
        (
            "6:19: at policy[2].at: a rule cannot stand at 'tool.after': what it would refuse has happened; "
            "set it to 'tool.before', or use a hook"
        ),
        "6:12: at policy[2].name: the name 'b' is taken by the rule at line 5; give it another name",
        ("7:70: at policy[3].editable[0]: what waits at 'model.before' has no field 'reqest'; did you mean 'request'?"),
    ]


def test_a_hook_and_a_rule_at_one_point_have_different_names(tmp_path: Path) -> None:
    hook = "{events: {model.before: [{name: a, script: x, on_error: warn}]}}"
    (found,) = policy_problems(tmp_path, f"  - {{name: a, at: llm.invoked.pre, {RULE}}}\n", hook)
    assert found.startswith("2:40: at hooks.events.model.before[0].name: the name 'a' is taken at 'model.before', by ")
    assert policy_problems(tmp_path, f"  - {{name: a, at: input.before, {RULE}}}\n", hook) == []


def test_a_project_cannot_take_the_name_of_a_users_hook(tmp_path: Path) -> None:
    text = "version: 1\nhooks: {events: {run.end: [{name: a, script: x, on_error: warn}]}}"
    user, project = spec_of(tmp_path / "user", text, user=True), spec_of(tmp_path, text)
    (found,) = outline(hook_files(project, user), PATH).problems
    assert found.where.file == str(tmp_path / "tenter.yaml")
    assert f"by {tmp_path}/user/tenter.yaml:2:35" in found.message


def test_programs_targets_and_plugins_that_are_not_there_are_problems_together(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(): ...\nclass A: ...\n")
    spec = spec_of(
        tmp_path,
        """\
version: 1
hooks:
  plugins: ["gone:A", "mine:A"]
  events:
    tool.before:
      - {name: a, command: [./gone], on_error: warn}
      - {name: b, python: "mine:g"}
      - {name: c, python: "mine:f"}
""",
    )
    found = [(one.where.line, one.message) for one in outline(hook_files(spec, None), PATH).problems]
    assert [line for line, _ in found] == [3, 3, 6, 7, 8]
    assert found[0][1].startswith("the plugin 'gone:A': there is no module 'gone'")
    assert "is no hook" in found[1][1]
    assert found[2][1].startswith("the program './gone' does not exist")
    assert found[3][1] == f"the target 'mine:g': there is no 'g' in {tmp_path}/mine.py"
    assert found[4][1] == "hook 'c' at 'tool.before' has the signature (); expected (event)"


def test_what_a_function_says_wrongly_of_itself_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""\
from tenter.kernel import hook
@hook("tool.before", match=3)
def matches(event): ...
@hook("tool.before", name=[])
def named(event): ...
@hook("tool.befor")
def nowhere(event): ...
@hook("tool.before", name="a")
def same(event): ...
""")
    targets = ", ".join(f"'mine:{name}'" for name in ("matches", "named", "nowhere", "same"))
    text = f"""\
version: 1
hooks:
  plugins: [{targets}]
  events:
    tool.invoked.pre:
      - {{name: a, script: x, on_error: warn}}
      - {{name: b, python: "mine:matches"}}
"""
    found = [one.message for one in outline(hook_files(spec_of(tmp_path, text), None), PATH).problems]
    assert "has the match 3; expected a mapping" in found[0]
    assert "has no usable name" in found[1]
    assert "did you mean 'tool.before'?" in found[2]
    assert "the name 'a' is taken at 'tool.before'" in found[3]
    assert "has the match 3; expected a mapping" in found[4]
    assert len(found) == 5
