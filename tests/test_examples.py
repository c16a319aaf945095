"""Every folder of examples/ is run here; what it says of itself is true, and the repository stays as it was."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.commandline import LONGEST, TENTER, Ended, environment, tenter

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def files_of(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def copy_of(example: str, folder: Path) -> Path:
    return shutil.copytree(
        EXAMPLES / example, folder / example, ignore=shutil.ignore_patterns("__pycache__", ".tenter")
    )


def shell(command: str, folder: Path, path: str) -> Ended:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment(folder, PATH=path, TENTER_TRUST=""),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def run_fix_tests(folder: Path) -> None:
    """Its commands, as its README lists them; where one asks, and nobody is there, the answer is an option."""
    text = (folder / "README.md").read_text()
    commands = [line.split("  #")[0].strip() for line in text.splitlines() if re.match(r"    (python3|tenter) ", line)]
    assert len(commands) == 7
    path = f"{TENTER.parent}{os.pathsep}{os.environ['PATH']}"
    unasked = {"tenter hooks trust": "tenter hooks trust --yes"}
    ended = [shell(unasked.get(command, command), folder, path) for command in commands]
    assert [one.code for one in ended] == [1, 0, 0, 0, 0, 0, 0], ended
    assert "all three tests pass" in ended[3].out
    for hook in ("no-destruction", "no-bytecode", "log-tools", "audit"):
        assert hook in ended[1].out


RUNS: Mapping[str, Callable[[Path], None]] = {"fix-tests": run_fix_tests}


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(RUNS)


@pytest.mark.parametrize("example", RUNS)
def test_an_example_does_what_its_page_says(example: str, tmp_path: Path) -> None:
    before = files_of(EXAMPLES / example)
    RUNS[example](copy_of(example, tmp_path))
    assert files_of(EXAMPLES / example) == before


@pytest.mark.parametrize("example", RUNS)
def test_an_example_is_valid_and_its_hooks_can_be_started(example: str, tmp_path: Path) -> None:
    done = tenter("hooks", "validate", cwd=copy_of(example, tmp_path))
    assert done.code == 0, done.out + done.err


def test_fix_tests_needs_only_sh_cat_and_python(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "cat").symlink_to(str(shutil.which("cat")))
    python = TENTER.with_name("python3")
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    (tools / "python3").chmod(0o755)
    done = tenter("run", "fix", cwd=copy_of("fix-tests", tmp_path), PATH=str(tools))
    assert done.code == 0, done.err
    assert "all three tests pass" in done.out


def test_make_demo_runs_twice_and_leaves_the_repository_as_it_was(tmp_path: Path) -> None:
    before = files_of(EXAMPLES)
    plain = {name: value for name, value in environment(tmp_path).items() if not name.startswith("MAKE")}
    for _ in range(2):
        done = subprocess.run(
            ["make", "--old-file=.venv/.run-ready", "demo", f"DEMO={tmp_path / 'demo'}"],
            cwd=ROOT,
            env=plain,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        told = [
            "FAILED (failures=1)",
            "and trusts it:",
            "blocked by no-destruction",
            "what the hooks did:",
            "completed in",
            "answered block",
        ]
        places = [done.stdout.find(text) for text in told]
        assert -1 not in places, done.stdout
        assert places == sorted(places), "the failing tests, the steps, the summary, the log: in this order"
        assert done.stdout.count("allowed: ") == 5, "of this run alone"
        assert "\x1b" not in done.stdout
    assert files_of(EXAMPLES) == before
