"""What a loop is told of each hook at its points: how it waits when that hook suspends it."""

from pathlib import Path

import pytest

from tenter.config.loading import load
from tenter.config.spec import Spec
from tenter.config.suspend_mode import suspend_modes

MODULE = """\
from tenter.kernel import Hook, hook

class Gates(Hook):
    name = "gates"
    def on_loop_start_pre(self, event): ...
    def on_tool_before(self, event): ...

@hook("pre.loop.error", name="alarm")
def alarm(event): ...

made = print
"""


def spec_of(folder: Path, hooks: str, *, user: bool = False) -> Spec:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(MODULE)
    (folder / "tenter.yaml").write_text(f"version: 1\nhooks: {hooks}\n")
    return load(folder / "tenter.yaml", level="user" if user else "project")


def test_what_hooks_name_counts_and_what_nobody_names_is_left_out(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path,
        """
  events:
    pre.loop.start:
      - {name: plain, script: x, on_error: suspend}
      - {name: said, script: x, on_error: suspend, suspend_mode: wait_for_resume}
    loop.start.pre:
      - {name: again, script: x, on_error: suspend, suspend_mode: retry_backoff}
    iteration.start.post:
      - {name: again, python: "mine:alarm", suspend_mode: wait_then_retry}
    tool.before:
      - {name: tool, script: x, on_error: suspend}
    no.such.point: []
""",
    )
    assert suspend_modes(spec) == {
        ("loop.start.pre", "said"): "wait_for_resume",
        ("loop.start.pre", "again"): "retry_backoff",
        ("iteration.start.post", "again"): "wait_then_retry",
    }


EVENTS = """events: {pre.loop.complete: [
    {name: %(who)s-script, script: x, on_error: suspend}, {name: %(who)s-python, python: "mine:alarm"}],
    run.end: [{name: %(who)s-end, script: x, on_error: warn}]}"""


def test_the_default_of_a_file_is_for_its_own_hooks_and_plugins_at_points_of_a_loop(tmp_path: Path) -> None:
    project = spec_of(
        tmp_path,
        "{defaults: {suspend_mode: wait_then_retry}, plugins: ['mine:Gates', 'mine:alarm', 'mine:made'], "
        f"{EVENTS % {'who': 'own'}}}}",
    )
    user = spec_of(
        tmp_path / "user",
        f"{{defaults: {{suspend_mode: retry_backoff}}, plugins: ['mine:Gates'], {EVENTS % {'who': 'users'}}}}",
        user=True,
    )
    own = {
        ("loop.complete.pre", "own-script"): "wait_then_retry",
        ("loop.complete.pre", "own-python"): "wait_then_retry",
        ("loop.start.pre", "gates"): "wait_then_retry",
        ("loop.error.pre", "alarm"): "wait_then_retry",
    }
    assert suspend_modes(project) == own
    assert suspend_modes(project, user) == {**own, ("loop.complete.pre", "users-script"): "retry_backoff"}


def test_hooks_that_are_switched_off_wait_for_nothing(tmp_path: Path) -> None:
    hooks = "{{enabled: {}, events: {{pre.loop.start: [{{name: a, script: x, on_error: suspend, {}}}]}}}}"
    mode = "suspend_mode: retry_backoff"
    assert suspend_modes(spec_of(tmp_path, hooks.format("false", mode))) == {}
    rule = "\npolicy: [{name: a, at: loop.start.pre, then: suspend, reason: x}]"
    assert suspend_modes(spec_of(tmp_path, hooks.format("false", mode) + rule)) == {}
    plugins = "{enabled: false, defaults: {suspend_mode: wait_then_retry}, plugins: ['mine:Gates']}"
    assert suspend_modes(spec_of(tmp_path, plugins + rule)) == {}
    assert suspend_modes(spec_of(tmp_path, hooks.format("true", mode))) == {("loop.start.pre", "a"): "retry_backoff"}


@pytest.mark.promise(14)
def test_nothing_is_imported(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "{defaults: {suspend_mode: wait_then_retry}, plugins: ['mine:Gates']}")
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'touched')!r}, 'w').close()\n{MODULE}")
    assert suspend_modes(spec) == {("loop.start.pre", "gates"): "wait_then_retry"}
    assert not (tmp_path / "touched").exists()
