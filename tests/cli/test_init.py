"""`tenter init` writes a start that is valid, runs, and takes nothing away."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.commandline import TENTER, environment, tenter

from tenter.cli.init import FILES


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_written_is_valid_and_runs_and_its_guard_refuses(tmp_path: Path) -> None:
    done = tenter("init", cwd=tmp_path)
    assert done.code == 0
    assert set(files_in(tmp_path)) == set(FILES)
    assert tenter("hooks", "validate", cwd=tmp_path).code == 0
    ran = tenter("run", "hello", "say hello", "--steps", cwd=tmp_path)
    assert ran.code == 0
    assert "blocked by guard: rm -rf is not allowed here" in ran.err
    assert "your guard refused it" in ran.out


def test_the_loop_that_stands_there_as_a_comment_is_valid(tmp_path: Path) -> None:
    tenter("init", cwd=tmp_path)
    path = tmp_path / "tenter.yaml"
    text = path.read_text()
    section = text[text.index("# loop:") : text.index("\ntasks:")]
    path.write_text(text.replace(section, "".join(line.removeprefix("# ") + "\n" for line in section.splitlines())))
    assert tenter("hooks", "validate", cwd=tmp_path).code == 0
    plan = json.loads(tenter("loop", "run", "--prompt", "greet", "--dry-run", "--json", cwd=tmp_path).out)
    assert (plan["backend"], plan["max_iterations"]) == ("harness hello", 20)


def test_what_is_told_to_do_next_works_from_where_the_user_is(tmp_path: Path) -> None:
    done = tenter("init", "a new folder", cwd=tmp_path)
    commands = [line.strip() for line in done.out.split("Next:")[1].splitlines() if line.strip()]
    assert commands == [
        "cd 'a new folder' && tenter hooks list",
        "cd 'a new folder' && tenter run hello 'say hello'",
    ]
    variables = environment(tmp_path, PATH=f"{TENTER.parent}{os.pathsep}{os.environ['PATH']}")
    for one in commands:
        ran = subprocess.run(["/bin/sh", "-c", one], cwd=tmp_path, env=variables, timeout=30, check=False)
        assert ran.returncode == 0


def test_the_hook_is_executable_and_the_umask_is_kept(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        tenter("init", cwd=tmp_path)
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES}
    assert modes == {"tenter.yaml": 0o640, "script.yaml": 0o640, "hooks/guard.sh": 0o750}


@pytest.mark.parametrize("taken", FILES)
def test_nothing_is_overwritten_and_nothing_written_beside_it(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    (tmp_path / taken).write_text("mine")
    done = tenter("init", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"'{taken}' exists already" in done.err
    assert files_in(tmp_path) == {taken: b"mine"}


@pytest.mark.parametrize("taken", FILES)
def test_a_link_to_nowhere_is_not_written_through(taken: str, tmp_path: Path) -> None:
    link = tmp_path / "project" / taken
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    assert tenter("init", cwd=tmp_path / "project").code == 2
    assert not (tmp_path / "elsewhere").exists()
    assert files_in(tmp_path) == {}


def test_a_second_time_is_refused(tmp_path: Path) -> None:
    assert tenter("init", cwd=tmp_path).code == 0
    before = files_in(tmp_path)
    assert tenter("init", cwd=tmp_path).code == 2
    assert files_in(tmp_path) == before


def test_a_file_where_a_folder_is_needed_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "hooks").write_text("mine")
    done = tenter("init", cwd=tmp_path)
    assert done.code == 2
    assert "hooks" in done.err
    assert "Traceback" not in done.err
    assert (tmp_path / "hooks").read_text() == "mine"


def test_json_names_what_was_written(tmp_path: Path) -> None:
    done = tenter("init", "new", "--json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)) == (0, {"written": [f"new/{name}" for name in FILES], "trusted": True})
