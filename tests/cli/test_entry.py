"""The command line's endings: exit codes, mistakes, bugs, closed pipes; and that it loads only what it needs."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.commandline import TENTER, Ended, environment, on_terminal, tenter, write_project

from tenter.cli.entry import VERBS, Verbs, run, tenter as command

ROOT = Path(__file__).parent.parent.parent
HEAVY = {"asyncio", "sqlite3", "subprocess", "rich", "httpx", "jsonschema", "re2", "yaml"}
KEY = "ghp_" + "a1B2" * 9


def python(code: str, *, cwd: Path, **variables: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment(cwd, **variables),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def loaded_by(*arguments: str, cwd: Path) -> set[str]:
    """The modules that a verb loads, in a process of its own."""
    code = (
        "import json, sys\nfrom tenter.cli.entry import run\n"
        f"run({list(arguments)!r})\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    )
    return set(json.loads(python(code, cwd=cwd).out.splitlines()[-1]))


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert tenter("--version", cwd=tmp_path) == Ended(0, f"tenter {importlib.metadata.version('tenter')}\n", "")


def test_help_names_every_verb_and_exit_code(tmp_path: Path) -> None:
    shown = tenter("--help", cwd=tmp_path)
    assert shown.code == 0
    assert all(f"  {verb} " in shown.out for verb in VERBS)
    assert all(f" {code} " in " ".join(shown.out.split()) for code in (0, 1, 2, 3, 4, 5, 6, 70, 130))


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_the_table_is_there_and_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(command, Verbs)
    found = command.get_command(click.Context(command), verb)
    assert found is not None
    assert found.name == verb
    assert run([verb, "--help"]) == 0
    assert f"Usage: tenter {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("rnu",)])
def test_help_and_version_load_no_verb(arguments: tuple[str, ...], tmp_path: Path) -> None:
    loaded = loaded_by(*arguments, cwd=tmp_path)
    assert not loaded & HEAVY
    assert not loaded & {f"tenter.cli.{verb}" for verb in VERBS}


def test_listing_runs_loads_no_harness(tmp_path: Path) -> None:
    loaded = loaded_by("runs", "list", cwd=write_project(tmp_path, []))
    assert "tenter.cli.runs" in loaded
    assert not loaded & (HEAVY - {"asyncio", "sqlite3", "subprocess", "re2"})
    assert not [name for name in loaded if name.startswith(("tenter.harness.", "tenter.executors."))]


def test_init_loads_no_harness(tmp_path: Path) -> None:
    loaded = loaded_by("init", cwd=tmp_path)
    assert "tenter.cli.init" in loaded
    assert not loaded & (HEAVY - {"yaml"}), "it reads what it wrote, to trust it"
    assert "tenter.harness.harness" not in loaded


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rnu",), "did you mean 'run'?"),
        (("\x1b[31m",), "there is no verb '\\x1b[31m'; there are init, run"),
        (("runs", "lst"), "list"),
        (("run",), "Missing argument 'TASK'"),
        (("run", "job", "--jsno"), "--json"),
        (("run", "job", "--timeout", "nan"), "expected a number of seconds"),
        (("run", "job", "--timeout", "inf"), "expected a number of seconds"),
        (("run", "job", "--timeout", "0"), "--timeout"),
        (("runs", "list", "--last", "0"), "--last"),
    ],
)
def test_a_usage_mistake_says_what_to_write_and_ends_with_2(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = tenter(*arguments, cwd=write_project(tmp_path, []))
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.promise(4)
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("runs", "show", "opensesame"), 2, "there is no run '[redacted]'"),
        (("run", "opensesame"), 2, "tenter.yaml has no task '[redacted]'"),
        (("loop", "show", "loop-"), 2, "there is no loop 'loop-'"),
        (("runs", "list", "--last", "0"), 2, "Invalid value for '--last': 0 is not in the range x>=1."),
        (("runs", "lst"), 2, "No such command 'lst'."),
        (("emit", "a"), 2, "'tenter emit' works only inside a loop"),
        (("hooks", "trust"), 1, "TENTER_RUN_ID is set: "),
    ],
)
def test_what_went_wrong_is_a_document_where_one_was_asked_for(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path
) -> None:
    write_project(tmp_path, [{"text": "done"}], secrets=["PLAIN_NAME"])
    plain, done = (
        tenter(*arguments, *more, cwd=tmp_path, PLAIN_NAME="opensesame", TENTER_RUN_ID="run-1")
        for more in ((), ("--json",))
    )
    assert (plain.code, plain.out) == (code, "")
    assert (done.code, done.err) == (code, plain.err)
    (line,) = done.out.splitlines()
    told = json.loads(line)
    assert told == {"error": {"message": told["error"]["message"], "exit_code": code}}
    assert told["error"]["message"].startswith(says)
    assert "opensesame" not in done.out


def test_a_word_behind_two_dashes_asks_for_no_document(tmp_path: Path) -> None:
    done = tenter("run", "job", "--timeout", "0", "--", "--json", cwd=write_project(tmp_path, []))
    assert (done.code, done.out) == (2, "")


def test_a_document_that_nobody_takes_changes_no_exit_code(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [TENTER, "runs", "show", "x", "--json"],
            cwd=write_project(tmp_path, []),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "there is no run" in done.stderr


def test_no_verb_shows_the_help(tmp_path: Path) -> None:
    done = tenter(cwd=tmp_path)
    assert done.code == 2
    assert "Usage: tenter" in done.err


def test_every_problem_of_a_configuration_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\nhoks: {}\ntasks: 3\n")
    done = tenter("run", "job", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "tenter.yaml:2:1" in done.err
    assert "'hooks'" in done.err
    assert "tenter.yaml:3:" in done.err
    assert "Traceback" not in done.err


@pytest.mark.promise(4)
def test_a_key_in_a_configuration_is_not_told_back(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text(f"version: 1\nsecrets: [{KEY}]\ntasks: {KEY}\n{KEY}: 1\n")
    done = tenter("run", "job", cwd=tmp_path)
    assert done.code == 2
    assert KEY not in done.err
    assert "[redacted]" in done.err


@pytest.mark.promise(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "job"),
        ("run", "job", "input", "opensesame"),
        ("runs", "show", "opensesame"),
        ("hooks", "list"),
        ("hooks", "list", "opensesame"),
        ("hooks", "validate"),
        ("hooks", "validate", "--json"),
    ],
)
def test_a_mistake_does_not_tell_the_secrets_that_the_configuration_names(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\nsecrets: [PLAIN_NAME]\ntasks: opensesame\nopensesame: 1\n")
    done = tenter(*arguments, cwd=tmp_path, PLAIN_NAME="opensesame")
    assert done.code == 2
    assert "opensesame" not in done.err + done.out
    assert "[redacted]" in done.err + done.out


@pytest.mark.parametrize(
    "arguments",
    [("run", "job"), ("runs", "list"), ("hooks", "log"), ("hooks", "validate"), ("hooks", "list"), ("init",)],
)
def test_a_working_folder_that_was_removed_is_a_mistake(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = 'rmdir "$PWD" && exec "$0" "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", command, str(TENTER), *arguments],
        cwd=tmp_path / "gone",
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr + done.stdout


@pytest.mark.parametrize("arguments", [("run", "job"), ("hooks", "validate"), ("hooks", "list"), ("runs", "list")])
def test_a_configuration_that_is_a_circle_of_links_is_a_mistake(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").symlink_to("tenter.yaml")
    done = tenter(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "tenter.yaml" in done.err + done.out


def test_who_interrupts_it_while_it_loads_gets_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tenter.cli.entry': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from tenter.cli import main\n"
        "main()\n"
    )
    done = python(code, cwd=tmp_path)
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


@pytest.mark.promise(4)
@pytest.mark.fault(61)
def test_a_bug_ends_with_70_and_a_report_without_secrets(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "import tenter.cli.runs_list as verb\n"
        "def broken(config):\n"
        f"    raise ZeroDivisionError('key {KEY} and opensesame \\x1b[31m\\u202e') from ValueError('opensesame')\n"
        "verb.journal_of = broken\n"
        "sys.argv = ['tenter', 'runs', 'list']\n"
        "from tenter.cli import main\n"
        "main()\n"
    )
    done = python(code, cwd=write_project(tmp_path, []), MY_API_KEY="opensesame")
    assert (done.code, done.out) == (70, "")
    assert done.err.startswith("tenter came upon a bug of its own. Please report it")
    assert f"tenter {importlib.metadata.version('tenter')}, Python 3." in done.err
    assert "command: tenter runs list" in done.err
    assert "ZeroDivisionError: key [redacted] and [redacted] \\x1b[31m\\u202e" in done.err
    assert "opensesame" not in done.err
    assert KEY not in done.err


@pytest.mark.promise(4)
def test_a_bug_within_a_run_does_not_tell_the_secrets_of_the_configuration(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "hello"}], secrets=["PLAIN_NAME"])
    code = (
        "import sys\n"
        "import tenter.cli.report as report\n"
        "def broken(result):\n"
        "    raise ZeroDivisionError('it is opensesame')\n"
        "report.status_line = broken\n"
        "sys.argv = ['tenter', 'run', 'job']\n"
        "from tenter.cli import main\n"
        "main()\n"
    )
    done = python(code, cwd=tmp_path, PLAIN_NAME="opensesame")
    assert done.code == 70
    assert "ZeroDivisionError: it is [redacted]" in done.err
    assert "opensesame" not in done.err


def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [TENTER, "--help"], cwd=tmp_path, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_output_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [TENTER, "--version"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_encoding_of_the_output_lacks_is_escaped(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "a → b"}])
    done = tenter("run", "job", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert (done.code, done.out) == (0, "a \\u2192 b\n")


@pytest.mark.parametrize("colour", [True, False])
def test_nobody_gets_colours_who_does_not_want_them(colour: bool, tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "hello"}])
    with on_terminal("run", "job", cwd=tmp_path, NO_COLOR="" if colour else "1") as terminal:
        done = terminal.end()
    assert done.code == 0
    assert ("\x1b[" in done.err) is colour


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "examples/fix-tests/README.md"]
)
def test_every_command_that_a_page_names_is_there(page: str) -> None:
    context = click.Context(command)
    for verb, word in re.findall(r"\btenter ([a-z]+)(?: ([a-z]+))?", (ROOT / page).read_text()):
        found = command.get_command(context, verb)
        assert not isinstance(found, click.Group) or word in found.commands, f"tenter {verb} {word}"


def test_the_table_of_the_readme_has_every_verb() -> None:
    assert set(re.findall(r"^\| `tenter ([a-z]+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE)) == set(VERBS)
