"""From a file to the parts of a harness: all of it is checked, once, and every mistake has its place."""

import json
import sys
from pathlib import Path

import pytest
from tests.commandline import write_project
from tests.harness.world import project

from tenter.config import ConfigError, trust_state
from tenter.controls import GATES, Prices
from tenter.executors import PinnedImports
from tenter.harness import BUILTIN_TOOLS
from tenter.harness.sandbox import Machine
from tenter.harness.setup import Given, Setup, set_up
from tenter.journal import MemoryStore
from tenter.kernel import RegistrationError, TenterError, hook
from tenter.testing import FakeClock, FakeRandom

TOOLS = """\
from tenter import tool

@tool(idempotent=True)
def lookup(word: str) -> str:
    return word

def plain(word: str) -> str:
    "A function without the decorator."
    return word

def untyped(*words):
    return ""

number = 7
"""


def made(path: Path, **given: object) -> Setup:
    return set_up(path, (), Given(**{"store": MemoryStore(), **given}))  # type: ignore[arg-type]  # as Given says


def with_tools(folder: Path, tools: dict[str, object]) -> Path:
    (folder / "my_tools.py").write_text(TOOLS)
    return project(folder, tools=list(tools), settings={"tools": tools})


def test_a_task_is_equipped_with_its_model_and_its_tools(tmp_path: Path) -> None:
    setup = made(project(tmp_path, tools=["shell", "read_file"]))
    task = setup.task("work")
    assert (task.spec.version, task.spec.instructions) == (3, "Do it.")
    assert list(task.tools) == list(task.infos) == ["shell", "read_file"]
    assert task.infos["shell"] == task.tools["shell"].info


def test_a_key_of_the_journal_that_is_too_short_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENTER_JOURNAL_KEY", "x")
    with pytest.raises(TenterError, match="TENTER_JOURNAL_KEY has 1 characters and needs at least 16"):
        set_up(project(tmp_path), (), Given())


def test_the_users_own_tools_take_the_settings_of_the_file(tmp_path: Path) -> None:
    path = with_tools(
        tmp_path,
        {
            "lookup": {"python": "./my_tools.py:lookup", "timeout_seconds": 2, "idempotent": False},
            "plain": {"python": "./my_tools.py:plain", "idempotent": True},
        },
    )
    tools = made(path).task("work").tools
    assert (tools["lookup"].timeout_seconds, tools["lookup"].idempotent) == (2.0, False)
    assert (tools["plain"].description, tools["plain"].idempotent) == ("A function without the decorator.", True)


def test_every_tool_that_cannot_be_taken_on_is_told_at_its_place(tmp_path: Path) -> None:
    path = with_tools(
        tmp_path,
        {
            "number": {"python": "./my_tools.py:number"},
            "untyped": {"python": "./my_tools.py:untyped"},
            "absent": {"python": "./my_tools.py:lookups"},
        },
    )
    with pytest.raises(ConfigError) as caught:
        made(path)
    texts = [str(problem) for problem in caught.value.problems]
    assert len(texts) == 3
    assert all(text.startswith(f"{path}:1:") for text in texts)
    assert "no function" in next(text for text in texts if "tools.number" in text)
    assert "did you mean 'lookup'?" in next(text for text in texts if "tools.absent" in text)


def test_a_sandbox_that_the_machine_lacks_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    path = project(tmp_path, tools=["shell"], settings={"tools": {"shell": {"sandbox": "process"}}})
    assert made(path).task("work").infos["shell"].sandbox == "process"
    with pytest.raises(ConfigError, match=r"at tools\.shell: the tool 'shell' is to be executed in the sandbox"):
        made(path, machine=Machine(python="", sessions=False, limits=frozenset()))


def test_a_task_knows_the_prices_of_its_model_and_the_secrets_of_its_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "correct-horse")
    model = {"provider": "scripted", "file": "script.yaml", "prices": {"input": 3, "output": 15}}
    settings = {"secrets": ["KEY"], "models": {"default": model}, "tools": {"shell": {"secrets": ["KEY"]}}}
    setup = made(project(tmp_path, tools=["shell", "read_file"], settings=settings))
    task = setup.task("work")
    assert task.prices == Prices(input=3.0, output=15.0)
    assert task.secrets == {"shell": {"KEY": "correct-horse"}, "read_file": {}}
    assert "KEY" not in setup.tool_environment
    assert "correct-horse" not in repr(setup.tasks)
    (tmp_path / "plain").mkdir()
    assert made(project(tmp_path / "plain")).task("work").prices is None


def test_an_unknown_task_is_named_with_the_nearest_one_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "correct-horse")
    setup = made(project(tmp_path, settings={"secrets": ["KEY"]}))
    with pytest.raises(TenterError, match=r"tenter\.yaml has no task 'wrk'; did you mean 'work'\?"):
        setup.task("wrk")
    with pytest.raises(TenterError, match="it has 'work'") as caught:
        setup.task("correct-horse")
    assert "correct-horse" not in str(caught.value)


@pytest.mark.parametrize("value", ["abc", "    "])
def test_a_secret_that_could_not_be_masked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("KEY", value)
    with pytest.raises(ConfigError, match=r"at secrets: the value of the variable 'KEY' cannot be masked") as caught:
        made(project(tmp_path, settings={"secrets": ["OTHER", "KEY"]}))
    assert f"'{value}'" not in str(caught.value)


def test_a_secret_that_is_not_set_is_nothing_to_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY", raising=False)
    assert made(project(tmp_path, settings={"secrets": ["KEY"]})).redactor.redact("KEY") == "KEY"


def test_the_secrets_of_the_users_file_are_masked_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xdg" / "tenter").mkdir(parents=True)
    (tmp_path / "xdg" / "tenter" / "tenter.yaml").write_text("version: 1\nsecrets: [MINE]\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("MINE", "correct-horse")
    assert "horse" not in made(project(tmp_path)).redactor.redact("a correct-horse")


def test_what_the_caller_gives_is_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store, clock, random = MemoryStore(), FakeClock(), FakeRandom()
    setup = made(project(tmp_path), store=store, clock=clock, random=random, workspace=tmp_path / "elsewhere")
    assert (setup.store, setup.clock, setup.random) == (store, clock, random)
    assert setup.workspace.root == (tmp_path / "elsewhere").resolve()


def test_the_journal_stands_beside_the_file_and_is_made_at_first_use(tmp_path: Path) -> None:
    set_up(project(tmp_path), (), Given())
    assert not (tmp_path / ".tenter").exists()


def test_what_tools_start_inherits_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "correct-horse")
    environment = made(project(tmp_path)).tool_environment
    assert "PATH" in environment
    assert "OPENAI_API_KEY" not in environment


def test_a_secret_that_is_called_like_what_tools_inherit_is_inherited_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_KEY", "correct-horse")
    assert "LC_KEY" in made(project(tmp_path)).tool_environment
    assert "LC_KEY" not in made(project(tmp_path, settings={"secrets": ["LC_KEY"]})).tool_environment


def test_the_callers_hooks_stand_after_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "hooks.py").write_text("def mine(event):\n    return None\n")
    events = {"tool.before": [{"name": "mine", "python": "./hooks.py:mine"}]}

    @hook("tool.before", name="theirs")
    def theirs(event: object) -> None: ...

    setup = set_up(project(tmp_path, settings={"hooks": {"events": events}}), (theirs,), Given(store=MemoryStore()))
    names = [link.name for link in setup.runtime.chain("tool.before").links]
    assert names == ["mine", "theirs", *(gate.name for gate in GATES if gate.point == "tool.invoked.pre")]


def test_a_hook_that_cannot_be_attached_is_refused_when_the_harness_is_made(tmp_path: Path) -> None:
    @hook("tool.befour")
    def lost(event: object) -> None: ...

    with pytest.raises(RegistrationError, match=r"did you mean 'tool\.before'\?"):
        set_up(project(tmp_path), (lost,), Given(store=MemoryStore()))


def test_a_script_that_is_not_there_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    path = project(tmp_path)
    (tmp_path / "script.yaml").unlink()
    with pytest.raises(ConfigError, match="the script cannot be read"):
        made(path)


def test_the_digest_of_the_configuration_changes_with_the_file(tmp_path: Path) -> None:
    first = made(project(tmp_path)).spec.digest
    path = project(tmp_path, settings={"secrets": ["OTHER"]})
    assert made(path).spec.digest != first
    assert json.loads(path.read_text())["secrets"] == ["OTHER"]


@pytest.mark.promise(4)
@pytest.mark.parametrize("where", ["hook", "task", "tool"])
def test_a_name_that_holds_a_secret_is_refused_without_telling_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "opensesame")
    names = {one: "opensesame" if one == where else "plain" for one in ("hook", "task", "tool")}
    hook = {"name": names["hook"], "script": "true", "on_error": "warn"}
    task = {"version": 1, "model": "default", "instructions": "i", "tools": [names["tool"]]}
    path = write_project(tmp_path, ["done"], events={"tool.before": [hook]}, secrets=["PLAIN_NAME"]) / "tenter.yaml"
    spec = json.loads(path.read_text())
    spec["tasks"], spec["tools"] = {names["task"]: task}, {names["tool"]: {"python": "./t.py:f"}}
    path.write_text(json.dumps(spec))
    (tmp_path / "t.py").write_text("def f() -> str:\n    'Do.'\n    return ''\n")
    with pytest.raises(RegistrationError, match=f"the name of a {where}.* holds a secret") as caught:
        made(path)
    assert "opensesame" not in str(caught.value)


@pytest.mark.promise(14)
@pytest.mark.fault(56)
def test_a_project_is_held_to_the_pins_and_without_them_nobody_is_asked(tmp_path: Path) -> None:
    path = with_tools(tmp_path, {"lookup": {"python": "./my_tools.py:lookup"}})
    pins = trust_state(path, builtin_tools=BUILTIN_TOOLS).now.pins
    try:
        made(path, pins=pins)
        (tmp_path / "my_tools.py").write_text(TOOLS + f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
        with pytest.raises(TenterError, match="changed while it was being loaded"):
            made(path, pins=pins)
        assert not (tmp_path / "ran").exists()
    finally:
        for finder in [one for one in sys.meta_path if isinstance(one, PinnedImports)]:
            finder.remove()
    made(path)
    assert (tmp_path / "ran").exists()


@pytest.mark.fault(56)
def test_what_changes_a_named_file_while_it_is_loaded_stops_the_start(tmp_path: Path) -> None:
    path = with_tools(tmp_path, {"lookup": {"python": "./my_tools.py:lookup"}})
    script = tmp_path / "script.yaml"
    more = f"import pathlib\npathlib.Path({str(script)!r}).write_text('{{version: 1, turns: [other]}}')\n"
    (tmp_path / "my_tools.py").write_text(TOOLS + more)
    pins = trust_state(path, builtin_tools=BUILTIN_TOOLS).now.pins
    try:
        with pytest.raises(TenterError, match=r"script.*changed while it was being loaded"):
            made(path, pins=pins)
    finally:
        for finder in [one for one in sys.meta_path if isinstance(one, PinnedImports)]:
            finder.remove()
