"""The acceptance scenario of the first slice: see fix_tests.feature."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from pytest_bdd import given, parsers, scenarios, then, when
from tests.commandline import LONGEST, TENTER, Ended, environment, tenter

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

scenarios("fix_tests.feature")


def unittest_in(project: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-B", "-m", "unittest"],
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


@given(parsers.parse('a copy of the example "{name}"'), target_fixture="project")
def copied(name: str, tmp_path: Path) -> Path:
    return shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".tenter"))


@given("the tests of the project fail")
def fails(project: Path) -> None:
    assert "FAILED (failures=1)" in unittest_in(project).stderr


@given(parsers.parse('the hook "{name}" is taken out of the configuration'))
def without(name: str, project: Path) -> None:
    path = project / "tenter.yaml"
    text, count = re.subn(rf"      - name: {name}\b.*\n(?:        .*\n)+", "", path.read_text())
    assert count == 1
    path.write_text(text)


@when(parsers.parse("the user runs: tenter {arguments}"), target_fixture="done")
def runs(arguments: str, project: Path) -> Ended:
    return tenter(*shlex.split(arguments), cwd=project, PATH=f"{TENTER.parent}:/usr/bin:/bin")


@then(parsers.parse("the exit code is {code:d}"))
def ends_with(code: int, done: Ended) -> None:
    assert done.code == code, done.err


@then("standard output is the agent's answer alone")
def answers(done: Ended) -> None:
    assert done.out == "A discount of 25 percent was taken as 250. I corrected the divisor; all three tests pass.\n"


@then("standard error is one line")
def quiet(done: Ended) -> None:
    lines = [line for line in done.err.splitlines() if not line.startswith("audit: ")]
    assert len(lines) == 1, "a hook printed, and the run told how it ended"
    assert "completed" in lines[0]


@then("the tests of the project pass")
def passes(project: Path) -> None:
    assert unittest_in(project).stderr.endswith("OK\n")


@then(parsers.parse('the screen shows that the hook "{hook}" refused "{command}"'))
def refused(hook: str, command: str, done: Ended) -> None:
    lines = done.err.splitlines()
    at = lines.index(f'tool     shell(command="{command}")')
    assert lines[at + 1].startswith(f"  blocked by {hook}: removing folders")


@then(parsers.parse('the screen shows that "{before}" was rewritten to "{after}"'))
def rewritten(before: str, after: str, done: Ended) -> None:
    lines = done.err.splitlines()
    at = lines.index(f'tool     shell(command="{before}")')
    assert lines[at + 1 : at + 3] == ["  hook   no-bytecode rewrote it", f'  as     shell(command="{after}")']
    assert lines[at + 3].startswith("  ok     exit code 0")


@then(parsers.parse('the folder "{name}" is still there'))
def stands(name: str, project: Path) -> None:
    assert (project / name).is_dir()


@then(parsers.parse('the folder "{name}" is gone'))
def gone(name: str, project: Path) -> None:
    assert not (project / name).exists()


@then("no bytecode stands beside the sources")
def clean(project: Path) -> None:
    assert not list((project / "prices").rglob("*.pyc"))
    assert not list((project / "tests").rglob("*.pyc"))


@then(parsers.parse('the file "{name}" has every call, the refused one too'))
def logged(name: str, project: Path) -> None:
    assert (project / name).read_text().splitlines() == [
        'allowed: list_dir {"path": "."}',
        'allowed: read_file {"path": "tests/test_discount.py"}',
        'no-destruction answered block: shell {"command": "rm -rf build tests"}',
        'allowed: read_file {"path": "prices/discount.py"}',
        'allowed: edit {"path": "prices/discount.py", "old": "percent // 10", "new": "percent // 100"}',
        'allowed: shell {"command": "python3 -B -m unittest"}',
    ]


@then("the summary tells what each hook did")
def summed(done: Ended) -> None:
    lines = done.err.splitlines()
    told = [line.partition("  (")[0].split(None, 2) for line in lines[lines.index("what the hooks did:") + 1 : -2]]
    assert sorted(told) == [
        ["run.end", "audit", "watched 1x"],
        ["tool.after", "audit", "watched 5x"],
        ["tool.before", "log-tools", "watched 6x"],
        ["tool.before", "no-bytecode", "rewrote it 1x"],
        ["tool.before", "no-destruction", "blocked it 1x, passed 1x"],
    ]
    assert "audit: edit worked 1x, list_dir worked 1x, read_file worked 2x, shell worked 1x" in lines


@then(parsers.parse('"tenter runs list" names one run of the task "{task}" that {status}'))
def listed(task: str, status: str, project: Path) -> None:
    (line,) = tenter("runs", "list", cwd=project).out.splitlines()
    assert line.split()[2:] == [status, task]


@then(parsers.parse('"tenter runs show" tells that the hook "{hook}" blocked a call'))
def shown(hook: str, project: Path) -> None:
    run_id = tenter("runs", "list", cwd=project).out.split()[0]
    (blocked,) = [line for line in tenter("runs", "show", run_id, cwd=project).out.splitlines() if "blocked" in line]
    assert f"2.tool.invoked.0#1  shell  blocked by {hook} in " in blocked


@then(parsers.parse('"tenter hooks log" has {guards:d} runs of "{guard}" and {logs:d} of "{logger}"'))
def hooks_logged(guards: int, guard: str, logs: int, logger: str, project: Path) -> None:
    lines = tenter("hooks", "log", cwd=project).out.splitlines()
    assert (len([line for line in lines if guard in line]), len([line for line in lines if logger in line])) == (
        guards,
        logs,
    )
