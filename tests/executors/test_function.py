"""Targets of a configuration: what they come to, and what is said when they come to nothing."""

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tenter.catalogue import CATALOGUE
from tenter.executors.function import FunctionHook, function_hook, load_target, plugin_hooks
from tenter.executors.kind import NoSink, Surroundings
from tenter.kernel import SYSTEM_CLOCK, Hook, Redactor, RegistrationError, Runtime

SECRET = "correct-horse-battery"
REDACTOR = Redactor(secrets=[SECRET])


@pytest.fixture(autouse=True)
def modules_as_before() -> Iterator[None]:
    """What a test loads is forgotten, so that another test may write a module of the same name."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(target: str, folder: Path) -> Any:
    return load_target(target, str(folder), redactor=REDACTOR)


def refused(target: str, folder: Path) -> str:
    """The error of a target that cannot be had; it leaves `sys.path` as it was."""
    path = list(sys.path)
    with pytest.raises(RegistrationError) as caught:
        load(target, folder)
    assert sys.path == path
    assert repr(target) in str(caught.value)
    return str(caught.value)


def surroundings(folder: Path) -> Surroundings:
    return Surroundings(
        workspace=str(folder),
        project_dir=str(folder),
        environment={},
        sink=NoSink(),
        redactor=REDACTOR,
        clock=SYSTEM_CLOCK,
        random=Random(),
    )


def settings(target: str, **more: Any) -> FunctionHook:
    return FunctionHook(name="mine", point=CATALOGUE["tool.before"], target=target, catalogue=CATALOGUE, **more)


# loading


def test_a_module_of_the_project_is_found_and_imports_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "tt_hooks.py").write_text("import tt_words\ndef check(event): return tt_words.WORD\n")
    (tmp_path / "tt_words.py").write_text("WORD = 'found'\n")
    before = list(sys.path)
    assert load("tt_hooks:check", tmp_path)(None) == "found"
    assert sys.path == before


def test_a_module_in_a_package_and_an_attribute_of_an_attribute_are_found(tmp_path: Path) -> None:
    (tmp_path / "tt_pack").mkdir()
    (tmp_path / "tt_pack" / "__init__.py").write_text("")
    (tmp_path / "tt_pack" / "hooks.py").write_text("class Box:\n    inner = 7\n")
    assert load("tt_pack.hooks:Box.inner", tmp_path) == 7


def test_an_installed_module_is_found(tmp_path: Path) -> None:
    assert load("tenter.kernel:Hook", tmp_path) is Hook


def test_a_module_of_the_project_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "tt_hooks.py").write_text("import colorsys\nwhere = colorsys.__file__\n")
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('this hides a module of Python')\n")
    assert Path(load("tt_hooks:where", tmp_path)).parent != tmp_path
    told = refused("colorsys:anything", tmp_path)
    assert str(tmp_path / "colorsys.py") in told
    assert "name the file: 'colorsys.py'" in told


def test_a_module_of_another_project_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tt_hooks.py").write_text(f"whose = {name!r}\n")
    assert load("tt_hooks:whose", tmp_path / "one") == "one"
    assert str(tmp_path / "one" / "tt_hooks.py") in refused("tt_hooks:whose", tmp_path / "two")
    assert load("tt_hooks.py:whose", tmp_path / "two") == "two"


def test_a_file_is_executed_once_and_again_when_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "hooks" / "my-checks.py"
    file.parent.mkdir()
    file.write_text("box = []\ndef check(event): ...\n")
    before = list(sys.path)
    box = load("hooks/my-checks.py:box", tmp_path)
    assert load("hooks/../hooks/my-checks.py:check", tmp_path).__globals__["box"] is box
    file.write_text("box = 'another'\n")
    assert load(f"{file}:box", tmp_path) == "another"
    assert sys.path == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["my-checks.py"]


def test_a_file_may_declare_dataclasses_and_knows_its_own_place(tmp_path: Path) -> None:
    code = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass Box:\n    size: int\n"
    (tmp_path / "a.py").write_text(code + "place = __file__\n")
    assert load("a.py:Box", tmp_path)(size=3).size == 3
    assert load("a.py:place", tmp_path) == str(tmp_path / "a.py")


@pytest.mark.parametrize("target", ["nothing", "module:", ":name", "", "a.py"])
def test_a_target_of_another_shape_is_refused(tmp_path: Path, target: str) -> None:
    assert "is neither 'module:attribute' nor 'path.py:attribute'" in refused(target, tmp_path)


def test_a_missing_module_is_told_with_the_nearest_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "tt_hooks.py").write_text("")
    told = refused("tt_hook:check", tmp_path)
    assert f"there is no module 'tt_hook', neither installed nor in {str(tmp_path)!r}" in told
    assert told.endswith("did you mean 'tt_hooks'?")


def test_a_module_that_the_module_misses_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "tt_hooks.py").write_text("import tt_not_there\n")
    told = refused("tt_hooks:check", tmp_path)
    assert f"importing 'tt_hooks' failed at {tmp_path / 'tt_hooks.py'}:1: ModuleNotFoundError" in told
    assert "tt_not_there" in told


def test_a_missing_file_is_told_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("")
    told = refused("check.py:check", tmp_path)
    assert str(tmp_path / "check.py") in told
    assert told.endswith("did you mean 'checks.py'?")


@pytest.mark.parametrize("target", ["tt_hooks:style_gate", "tt_hooks.py:style_gate"])
def test_a_missing_attribute_is_told_with_file_and_nearest_name(tmp_path: Path, target: str) -> None:
    (tmp_path / "tt_hooks.py").write_text("def style_gates(event): ...\n")
    told = refused(target, tmp_path)
    assert f"there is no 'style_gate' in {str(tmp_path / 'tt_hooks.py')!r}; did you mean 'style_gates'?" in told


@pytest.mark.promise(6)
@pytest.mark.parametrize("target", ["tt_hooks:check", "tt_hooks.py:check"])
@pytest.mark.parametrize(
    ("code", "what"),
    [
        (f"raise ValueError('{SECRET}')", "ValueError: [redacted]"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("class Own(BaseException): ...\nraise Own('mine')", "Own: mine"),
        ("def check(:", "SyntaxError"),
        ("'\\0'\n\0", "null bytes"),
        ("from tenter.kernel import hook\nhook()", "@hook needs the name of a point"),
    ],
)
def test_code_that_fails_when_it_is_loaded_is_an_error_with_file_and_masked_words(
    tmp_path: Path, target: str, code: str, what: str
) -> None:
    (tmp_path / "tt_hooks.py").write_text(f"{code}\n")
    told = refused(target, tmp_path)
    assert what in told
    assert SECRET not in told
    assert not any("tt_hooks" in name for name in sys.modules)


def test_an_attribute_that_raises_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def __getattr__(name): raise LookupError(name)\n")
    assert "LookupError: check" in refused("a.py:check", tmp_path)


def test_the_interrupt_of_the_user_passes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load("a.py:check", tmp_path)


# hooks under a point

HOOKS = """
from tenter.kernel import Block, Hook, hook

def plain(event):
    return Block("plain")

@hook("tool.before", name="decorated", timeout=5, priority=7, match={"tool": "shell"}, on_error="fail")
def decorated(event):
    ...

@hook("run.start", "tool.invoked.pre")
def two(event):
    ...

@hook("run.start")
def elsewhere(event):
    ...

class Plugin(Hook):
    on_error = "suspend"
    def on_tool_before(self, event): return Block("from the plugin")
    def on_run_end(self, event): ...
    def abandon(self, point, event, error): ...

plugin = Plugin()

class Twice(Hook):
    def on_tool_before(self, event): ...
    def on_tool_invoked_pre(self, event): ...

class Wrong(Hook):
    def on_tool_befor(self, event): ...

class Exits(Hook):
    def __init__(self): raise SystemExit(4)
    def on_tool_before(self, event): ...

class NoHook: ...
seven = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hooks.py").write_text(HOOKS)
    return tmp_path


def test_a_plain_function_is_a_hook_with_the_settings_of_the_configuration(folder: Path) -> None:
    given: dict[str, Any] = {"timeout_seconds": 3.0, "on_error": "warn", "priority": 1, "band": "baseline"}
    declared = function_hook(
        settings("hooks.py:plain", **given, match={"tool": "x"}, mode="shadow"), surroundings(folder)
    )
    assert (declared.name, declared.point, declared.kind) == ("mine", "tool.invoked.pre", "function")
    assert (declared.timeout, declared.on_error, declared.priority, declared.band) == (3.0, "warn", 1, "baseline")
    assert (declared.match, declared.mode, declared.observe) == ({"tool": "x"}, "shadow", False)
    assert declared.source == f"{folder / 'hooks.py'}:4"
    (link,) = Runtime(CATALOGUE, [declared]).links()
    assert link.hook is declared


def test_what_the_configuration_does_not_say_the_decorator_says(folder: Path) -> None:
    declared = function_hook(settings("hooks.py:decorated", match={}), surroundings(folder))
    assert (declared.name, declared.band) == ("mine", "app")
    assert (declared.timeout, declared.priority, declared.on_error) == (5, 7, "fail")
    assert declared.match == {"tool": "shell"}
    said = function_hook(settings("hooks.py:decorated", timeout_seconds=1.0, match={"tool": "x"}), surroundings(folder))
    assert (said.timeout, said.match, said.priority) == (1.0, {"tool": "x"}, 7)


def test_a_function_for_several_points_is_taken_for_this_one(folder: Path) -> None:
    assert function_hook(settings("hooks.py:two"), surroundings(folder)).point == "tool.invoked.pre"


@pytest.mark.parametrize("target", ["hooks.py:Plugin", "hooks.py:plugin"])
def test_of_a_plugin_only_the_method_of_the_point_is_taken(folder: Path, target: str) -> None:
    declared = function_hook(settings(target), surroundings(folder))
    assert (declared.name, declared.point, declared.on_error) == ("mine", "tool.invoked.pre", "suspend")
    assert declared.abandon is not None
    assert cast(Any, declared.call)(None).reason == "from the plugin"
    assert len(Runtime(CATALOGUE, [declared]).links()) == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("elsewhere", "is declared not for 'tool.before', but for 'run.start'"),
        ("Twice", "is declared twice for 'tool.before'"),
        ("Wrong", "Wrong.on_tool_befor is the method of no point; did you mean 'tool.before'?"),
        ("Exits", "SystemExit: 4"),
        ("NoHook", "is the class 'NoHook'; expected a function (event), or a class that derives from tenter.Hook"),
        ("seven", "is a int; expected a function (event)"),
    ],
)
def test_what_is_no_hook_for_the_point_is_refused(folder: Path, name: str, what: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        function_hook(settings(f"hooks.py:{name}"), surroundings(folder))
    assert what in str(caught.value)
    assert f"'hooks.py:{name}'" in str(caught.value)


# plugins


def test_a_plugin_gives_all_that_it_declares_in_the_band_of_its_file(folder: Path) -> None:
    around = surroundings(folder)
    found = plugin_hooks("hooks.py:Plugin", around, catalogue=CATALOGUE, band="baseline")
    assert [(each.name, each.point, each.band) for each in found] == [
        ("plugin", "run.post", "baseline"),
        ("plugin", "tool.invoked.pre", "baseline"),
    ]
    (decorated,) = plugin_hooks("hooks.py:decorated", around, catalogue=CATALOGUE)
    assert (decorated.name, decorated.band) == ("decorated", "app")


@pytest.mark.parametrize("name", ["plain", "seven", "NoHook", "Wrong", "Exits"])
def test_what_is_no_plugin_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(RegistrationError, match=f"'hooks.py:{name}'"):
        plugin_hooks(f"hooks.py:{name}", surroundings(folder), catalogue=CATALOGUE)


def test_a_hook_that_asks_for_another_band_than_its_file_s_is_refused(folder: Path) -> None:
    (folder / "high.py").write_text(
        "from tenter import hook\n@hook('tool.before', band='baseline')\ndef guard(event): ...\n"
    )
    with pytest.raises(RegistrationError, match="'guard' asks for the band 'baseline'; a project's hooks stand in"):
        plugin_hooks("high.py:guard", surroundings(folder), catalogue=CATALOGUE)
    settings = FunctionHook(name="a", point=CATALOGUE["tool.before"], target="high.py:guard", catalogue=CATALOGUE)
    with pytest.raises(RegistrationError, match="'guard' asks for the band 'baseline'"):
        function_hook(settings, surroundings(folder))


def test_what_tenter_says_of_a_tool_of_the_file_is_told_as_it_is(folder: Path) -> None:
    (folder / "badtool.py").write_text("from tenter import tool\n@tool\ndef untyped(x): ...\n")
    said = refused("badtool.py:untyped", folder)
    assert "the parameter 'x' has no annotation" in said
    assert "TenterError" not in said
    assert "signature.py" not in said
