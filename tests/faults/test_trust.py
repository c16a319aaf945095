"""Trust, cases 55, 56 and 58: what nobody trusts does not run, and what was looked at is what runs.

Through the real command line. Where a test says `TENTER_TRUST=""`, nobody vouches for its project but by a record.
"""

import importlib.util
import json
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commandline import calls, environment, hook_script, run_json, tenter, write_project

pytestmark = pytest.mark.promise(14)

MARK = 'cat > /dev/null; touch "$TENTER_PROJECT_DIR/ran"'


def hook(name: str, command: list[str], **more: object) -> dict[str, object]:
    return {"name": name, "command": command, "on_error": "block", **more}


def users_hook(folder: Path) -> str:
    """A hook of the user, who is asked nothing about it: the value of XDG_CONFIG_HOME."""
    place = folder.parent / f"{folder.name}-config" / "tenter"
    place.mkdir(parents=True)
    script = f"cat > /dev/null; touch {place}/ran"
    own = {"name": "mine", "script": script, "on_error": "block"}
    deadline = {"name": "timed", "python": "./user_hooks.py:timed", "observe": True}
    (place / "user_hooks.py").write_text("async def timed(event): ...\n")
    spec = {"version": 1, "hooks": {"events": {"run.start": [own, deadline]}}}
    (place / "tenter.yaml").write_text(json.dumps(spec))
    return str(place.parent)


def rows(folder: Path, config: str) -> dict[str, dict[str, object]]:
    done = tenter("hooks", "list", "--json", cwd=folder, TENTER_TRUST="", XDG_CONFIG_HOME=config)
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)["rows"]}


@pytest.mark.fault(55)
def test_of_an_untrusted_project_nothing_runs_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "fau_m.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef f(event): ...\n")
    guard = hook_script(tmp_path, "guard.sh", MARK)
    events = {"run.start": [hook("guard", [guard]), {"name": "py", "python": "fau_m:f"}]}
    write_project(tmp_path, [calls("shell", command="touch ran")], events=events)
    before = sorted(tmp_path.rglob("*"))
    for verb, code in ((["run", "job"], 6), (["hooks", "list"], 0), (["hooks", "validate"], 0)):
        assert tenter(*verb, cwd=tmp_path, TENTER_TRUST="").code == code
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.fault(55)
def test_no_setting_of_an_untrusted_project_holds_for_the_users_hooks(tmp_path: Path) -> None:
    config = users_hook(tmp_path)
    guard = hook_script(tmp_path, "guard.sh", MARK)
    settings = {"defaults": {"timeout_seconds": 0.001}, "events": {"run.start": [hook("guard", [guard])]}}
    write_project(tmp_path, [{"text": "x"}], hooks=settings)
    found = rows(tmp_path, config)
    assert (found["guard"]["untrusted"], found["guard"]["timeout_seconds"]) == (True, 0.001)
    for name, order in (("mine", 1), ("timed", 2)):
        row = found[name]
        assert (row["untrusted"], row["order"], row["timeout_seconds"]) == (False, order, 30), name
    assert found["timed"]["deadline"] == "soft"


@pytest.mark.fault(55)
@pytest.mark.parametrize("trusted", [True, False])
def test_a_project_cannot_switch_the_users_hooks_off(trusted: bool, tmp_path: Path) -> None:
    config = users_hook(tmp_path)
    write_project(tmp_path, [{"text": "x"}], hooks={"enabled": False})
    found = rows(tmp_path, config)
    assert not found["mine"]["untrusted"]
    if trusted:
        assert tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="", XDG_CONFIG_HOME=config).code == 0
    done = tenter("run", "job", cwd=tmp_path, TENTER_TRUST="", XDG_CONFIG_HOME=config)
    assert done.code == (0 if trusted else 6)
    assert Path(config, "tenter", "ran").exists() is trusted


def changed_script(folder: Path) -> None:
    hook_script(folder, "guard.sh", f"{MARK}; exit 0")


def changed_argument(folder: Path) -> None:
    (folder / "rules").write_text("other")


def changed_link(folder: Path) -> None:
    (folder / "link.sh").unlink()
    (folder / "link.sh").symlink_to("same.sh")


def changed_behind_the_link(folder: Path) -> None:
    hook_script(folder, "real.sh", f"{MARK}; exit 0")


def changed_import(folder: Path) -> None:
    (folder / "fau_b.py").write_text("x = 2\n")


def changed_model(folder: Path) -> None:
    (folder / "script.yaml").write_text(json.dumps({"version": 1, "turns": [calls("shell", command="touch ran")]}))


def changed_tool(folder: Path) -> None:
    (folder / "fau_tool.py").write_text("def look() -> str:\n    'Looks.'\n    return 'other'\n")


def changed_environment(folder: Path) -> None:
    text = (folder / "tenter.yaml").read_text()
    assert '"lax"' in text
    (folder / "tenter.yaml").write_text(text.replace('"lax"', '"laxer"'))


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changed_script, "the file guard.sh: content"),
        (changed_argument, "the file rules: content"),
        (changed_link, "(a link to 'same.sh')"),
        (changed_behind_the_link, "the file link.sh: content"),
        (changed_import, "the file fau_b.py: content"),
        (changed_model, "the file script.yaml: content"),
        (changed_tool, "the file fau_tool.py: content"),
        (changed_environment, ".env.MODE: a value -> another value"),
    ],
)
def test_what_changed_after_it_was_trusted_does_not_run(
    change: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    for name in ("guard.sh", "real.sh", "same.sh"):
        hook_script(tmp_path, name, "cat > /dev/null")
    (tmp_path / "link.sh").symlink_to("real.sh")
    (tmp_path / "rules").write_text("none")
    (tmp_path / "fau_a.py").write_text("from fau_b import x\ndef f(event): ...\n")
    (tmp_path / "fau_b.py").write_text("x = 1\n")
    (tmp_path / "fau_tool.py").write_text("def look() -> str:\n    'Looks.'\n    return 'x'\n")
    hooks = [hook("a", ["./guard.sh", "rules"], env={"MODE": "lax"}), hook("b", ["./link.sh"])]
    write_project(
        tmp_path,
        [{"text": "done"}],
        events={"run.start": [*hooks, {"name": "c", "python": "fau_a:f"}]},
        tools=("look", "shell"),
    )
    spec = json.loads((tmp_path / "tenter.yaml").read_text())
    (tmp_path / "tenter.yaml").write_text(json.dumps({**spec, "tools": {"look": {"python": "fau_tool:look"}}}))
    assert tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="").code == 0
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 0
    change(tmp_path)
    done = tenter("run", "job", cwd=tmp_path, TENTER_TRUST="")
    assert done.code == 6
    assert told in done.err
    assert not (tmp_path / "ran").exists()


def in_the_middle(folder: Path, command: str) -> None:
    """A run whose agent first does `command` and then something else; a hook guards each of its calls."""
    hook_script(folder, "guard.sh", "cat > /dev/null")
    (folder / "rules").write_text("none")
    turns = [calls("shell", command=command), calls("shell", command="touch second"), {"text": "done"}]
    write_project(folder, turns, events={"tool.before": [hook("guard", ["./guard.sh", "rules"])]})
    assert tenter("run", "job", cwd=folder).code == 0


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("echo 'touch evil' >> guard.sh", "untrusted"),
        ("echo '#!/bin/sh' > x; chmod +x x; ln -sf x guard.sh", "untrusted"),
        ("echo all > rules", "untrusted"),
        ("rm rules", "spawn_failed"),
        ("rm guard.sh", "spawn_failed"),
        ("true", "ok"),
    ],
)
def test_what_changes_while_it_runs_does_not_run(command: str, result: str, tmp_path: Path) -> None:
    in_the_middle(tmp_path, command)
    ends = json.loads(tenter("hooks", "log", "--json", cwd=tmp_path).out)
    assert [one["result"] for one in ends] == ["ok", result]
    assert (tmp_path / "second").exists() is (result == "ok"), "a guard that fails blocks"
    assert not (tmp_path / "evil").exists()


@pytest.mark.fault(56)
def test_bytecode_that_a_repository_brings_along_is_not_run(tmp_path: Path) -> None:
    evil = f"open({str(tmp_path / 'ran')!r}, 'w').close()\nx = 1\n"
    good = "import fau_d\nfrom tenter import Block\ndef f(event): return Block('seen')\n"
    for name, text in (("fau_c", good), ("fau_d", "x = 1\n")):
        source = tmp_path / f"{name}.py"
        source.write_text(evil + "def f(event): ...\n")
        cached = importlib.util.cache_from_source(str(source))
        py_compile.compile(str(source), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        source.write_text(text)
    write_project(tmp_path, [{"text": "x"}], events={"run.start": [{"name": "py", "python": "fau_c:f"}]})
    done = tenter("run", "job", cwd=tmp_path)
    assert done.code == 3
    assert "blocked by the hook 'py': seen" in done.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.fault(56)
def test_a_module_that_only_a_call_imports_is_refused_and_said_so(tmp_path: Path) -> None:
    (tmp_path / "fau_e.py").write_text("__import__('fau_f')\ndef f(event): ...\n")
    (tmp_path / "fau_f.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    write_project(tmp_path, [{"text": "x"}], events={"run.start": [{"name": "py", "python": "fau_e:f"}]})
    done = tenter("run", "job", cwd=tmp_path)
    assert done.code == 2
    assert "fau_f.py' is not among the files that were trusted" in done.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.fault(56)
def test_in_another_workspace_a_hook_runs_the_content_that_was_trusted_or_nothing(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "check.sh").write_text("cat > /dev/null")
    write_project(place, [{"text": "done"}], events={"run.start": [hook("check", ["sh", "check.sh"])]})
    for name, text, code in (("same", "cat > /dev/null", 0), ("other", MARK, 3), ("none", "", 3)):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "check.sh").write_text(text)
        assert tenter("run", "job", "--workspace", str(tmp_path / name), cwd=place).code == code, name
    assert not (place / "ran").exists()


@pytest.mark.fault(58)
def test_without_a_terminal_it_is_refused_loudly_and_waits_for_nobody(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "done"}])
    done = tenter("run", "job", "--json", cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, json.loads(done.out)["error"]["exit_code"]) == (6, 6)
    assert "tenter.yaml is not trusted, so nothing of it runs" in done.err
    digest = str(run_json("hooks", "trust", "--digest", cwd=tmp_path)["digest"])
    assert f"TENTER_TRUST={digest}" in done.err
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST=digest).code == 0
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST=digest[:-1]).code == 6


@pytest.mark.fault(55)
def test_a_project_replaces_no_module_of_tenters_before_it_is_trusted(tmp_path: Path) -> None:
    """`python -m` puts the working folder before all others."""
    for name in ("click", "msgspec", "yaml", "hashlib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    write_project(tmp_path, [{"text": "done"}])
    done = subprocess.run(
        [sys.executable, "-m", "tenter", "run", "job"],
        cwd=tmp_path,
        env=environment(tmp_path, TENTER_TRUST=""),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 6
    assert not (tmp_path / "ran").exists()
