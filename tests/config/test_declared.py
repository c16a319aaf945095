"""Declarations before anything is bound: the file's settings first, then what a Python hook says of itself."""

from pathlib import Path

import pytest

from tenter.catalogue import CATALOGUE
from tenter.config.declared import (
    Declared,
    HookFile,
    declared_command,
    declared_function,
    declared_plugin,
    default_mode,
    suspend_mode_fault,
    suspend_mode_of,
)
from tenter.config.loading import parse_draft, parse_spec
from tenter.config.problem import Unresolved
from tenter.kernel import Declaration

MODULE = """\
from tenter.kernel import Hook, hook

@hook("tool.before", match={"tool": "shell"}, priority=3, timeout=2, on_error="warn", observe=True, mode="shadow")
def decorated(event): ...

@hook("tool.before", "tool.before")
def twice(event): ...

def plain(event): ...

made = print

class Audit(Hook):
    def on_tool_before(self, event): ...
    def on_tool_after(self, event): ...

class Other: ...

class Wrong(Hook):
    def on_tool_befor(self, event): ...
"""


def file_of(folder: Path, hooks: str, *, timeout: float | None = None) -> HookFile:
    (folder / "mine.py").write_text(MODULE)
    spec = parse_spec(f"version: 1\nhooks: {hooks}".encode(), "t.yaml")
    return HookFile(spec=spec, band="baseline", folder=folder, timeout=timeout)


def function(folder: Path, hook: str, *, point: str = "tool.before", timeout: float | None = None) -> Declaration:
    found = outcome(folder, hook, point=point, timeout=timeout)
    assert isinstance(found, Declared)
    return found.hooks[0]


def outcome(
    folder: Path, hook: str, *, point: str = "tool.before", timeout: float | None = None
) -> Declared | Unresolved:
    file = file_of(folder, f"{{events: {{{point}: [{{{hook}}}]}}}}", timeout=timeout)
    spec = file.spec.hooks.events[point][0]
    assert spec.python is not None
    return declared_function(spec, spec.python, file, CATALOGUE[point])


def said(found: Declared | Unresolved) -> str:
    assert isinstance(found, Unresolved)
    return found.message


def test_a_command_is_declared_with_the_settings_of_its_file_and_a_hard_deadline(tmp_path: Path) -> None:
    hooks = "{defaults: {timeout_seconds: 7}, events: {tool.before: [{name: a, script: x, on_error: warn}, %s]}}"
    more = "{name: b, script: x, on_error: fail, priority: 0, mode: shadow, timeout_seconds: 2, match: {tool: sh}}"
    file = file_of(tmp_path, hooks % more)
    first, second = (
        declared_command(spec, file, CATALOGUE["tool.before"]) for spec in file.spec.hooks.events["tool.before"]
    )
    assert (first.kind, first.point, first.band, first.self_timed) == ("command", "tool.invoked.pre", "baseline", True)
    assert (first.priority, first.mode, first.observe, first.timeout, dict(first.match)) == (
        500,
        "active",
        False,
        7,
        {},
    )
    assert (second.priority, second.mode, second.timeout, dict(second.match)) == (0, "shadow", 2, {"tool": "sh"})
    assert (first.source, second.on_error) == ("t.yaml:2", "fail")


def test_what_a_function_says_of_itself_counts_where_the_file_says_nothing(tmp_path: Path) -> None:
    quiet = function(tmp_path, "name: a, python: 'mine:decorated'")
    assert (quiet.name, quiet.band, quiet.source) == ("a", "baseline", "t.yaml:2")
    assert (dict(quiet.match), quiet.priority, quiet.timeout) == ({"tool": "shell"}, 3, 2)
    assert (quiet.on_error, quiet.observe, quiet.mode) == ("warn", True, "shadow")
    loud = function(
        tmp_path,
        "name: a, python: 'mine:decorated', match: {tool: x}, priority: 500, timeout_seconds: 9, on_error: block, "
        "observe: false, mode: active",
    )
    assert (dict(loud.match), loud.priority, loud.timeout) == ({"tool": "x"}, 500, 9)
    assert (loud.on_error, loud.observe, loud.mode) == ("block", False, "active")


def test_the_deadline_of_the_file_holds_for_functions_that_name_none(tmp_path: Path) -> None:
    assert function(tmp_path, "name: a, python: 'mine:plain'").timeout is None
    assert function(tmp_path, "name: a, python: 'mine:plain'", timeout=4).timeout == 4
    assert function(tmp_path, "name: a, python: 'mine:decorated'", timeout=4).timeout == 2
    assert function(tmp_path, "name: a, python: 'mine:plain', timeout_seconds: 3", timeout=4).timeout == 3


def test_a_method_of_a_class_is_the_hook_at_its_point(tmp_path: Path) -> None:
    assert function(tmp_path, "name: a, python: 'mine:Audit'").call.__name__ == "on_tool_before"
    assert function(tmp_path, "name: a, python: 'mine:Audit'", point="tool.after").call.__name__ == "on_tool_after"


def test_what_only_loading_would_tell_is_not_certain(tmp_path: Path) -> None:
    unsure, sure = (outcome(tmp_path, f"name: a, python: 'mine:{name}'") for name in ("made", "plain"))
    assert isinstance(unsure, Declared)
    assert isinstance(sure, Declared)
    assert (unsure.certain, sure.certain) == (False, True)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gone", "there is no 'gone' in "),
        (
            "Other",
            "the class 'Other' is no hook; expected a function (event), or a class that derives from tenter.Hook",
        ),
        ("twice", "it is declared twice for 'tool.before', but for 'tool.before', 'tool.before'"),
        ("Wrong", "Wrong.on_tool_befor is the method of no point; did you mean 'tool.before'?"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_without_loading_it(target: str, message: str, tmp_path: Path) -> None:
    assert message in said(outcome(tmp_path, f"name: a, python: 'mine:{target}'"))


def test_a_hook_for_another_point_is_refused(tmp_path: Path) -> None:
    message = said(outcome(tmp_path, "name: a, python: 'mine:decorated'", point="tool.after"))
    assert message == "it is declared not for 'tool.after', but for 'tool.before'"


def test_a_plugin_is_all_that_it_declares_in_the_band_of_its_file(tmp_path: Path) -> None:
    file = file_of(tmp_path, "{}", timeout=4)
    found = declared_plugin("mine:Audit", file)
    assert isinstance(found, Declared)
    assert [(one.name, one.point, one.band, one.timeout) for one in found.hooks] == [
        ("audit", "tool.invoked.post", "baseline", 4),
        ("audit", "tool.invoked.pre", "baseline", 4),
    ]
    assert found.hooks[0].source == f"{tmp_path / 'mine.py'}:15"
    assert declared_plugin("mine:made", file) == Declared((), certain=False)
    assert "is no hook; decorate the function" in said(declared_plugin("mine:plain", file))
    assert "there is no 'gone'" in said(declared_plugin("mine:gone", file))


def test_a_hook_that_asks_for_another_band_than_its_file_s_is_refused(tmp_path: Path) -> None:
    (tmp_path / "high.py").write_text("""\
from tenter.kernel import Hook, hook

class Audit(Hook):
    band = "gate"
    def on_tool_before(self, event): ...

@hook("tool.before", band="control")
def guard(event): ...
""")
    found = declared_plugin("high:Audit", file_of(tmp_path, "{}"))
    assert isinstance(found, Unresolved)
    assert "asks for the band 'gate'" in found.message
    found = outcome(tmp_path, "name: a, python: 'high:guard'")
    assert isinstance(found, Unresolved)
    assert "asks for the band 'control'" in found.message


@pytest.mark.parametrize(
    ("default", "hook", "mode"),
    [
        ("wait_for_resume", "script: x, on_error: suspend", "wait_for_resume"),
        ("retry_backoff", "script: x, on_error: suspend", "retry_backoff"),
        ("retry_backoff", "command: [x], on_error: warn, suspend_mode: wait_then_retry", "wait_then_retry"),
        ("retry_backoff", "python: 'mine:plain'", "wait_for_resume"),
        ("wait_then_retry", "python: 'mine:plain'", "wait_then_retry"),
        ("wait_then_retry", "python: 'mine:plain', suspend_mode: wait_for_resume", "wait_for_resume"),
    ],
)
def test_the_mode_of_waiting_is_that_of_the_hook_or_of_its_file_and_only_a_process_is_tried_again(
    tmp_path: Path, default: str, hook: str, mode: str
) -> None:
    for point in ("pre.iteration.start", "loop.error.post"):
        file = file_of(
            tmp_path, f"{{defaults: {{suspend_mode: {default}}}, events: {{{point}: [{{name: a, {hook}}}]}}}}"
        )
        assert suspend_mode_of(file.spec.hooks.events[point][0], file, CATALOGUE[point]) == mode


def test_the_default_of_a_file_is_for_the_points_of_a_loop_alone(tmp_path: Path) -> None:
    file = file_of(
        tmp_path, "{defaults: {suspend_mode: retry_backoff}, events: {run.end: [{name: a, script: x, on_error: warn}]}}"
    )
    (spec,) = file.spec.hooks.events["run.end"]
    assert suspend_mode_of(spec, file, CATALOGUE["run.end"]) == "wait_for_resume"
    assert suspend_mode_fault(spec, CATALOGUE["run.end"]) is None
    assert (default_mode(file, process=True), default_mode(file, process=False)) == ("retry_backoff", "wait_for_resume")


def test_a_hook_that_lacks_its_policy_is_not_blamed_for_its_mode_as_well() -> None:
    text = "version: 1\nhooks: {events: {pre.loop.start: [{name: a, script: x, suspend_mode: retry_backoff}]}}"
    draft = parse_draft(text.encode(), "t.yaml")
    assert draft.spec is not None
    (spec,) = draft.spec.hooks.events["pre.loop.start"]
    assert suspend_mode_fault(spec, CATALOGUE["pre.loop.start"]) is None
    assert [one.message for one in draft.problems] == ["'script' needs 'on_error' beside it"]
