"""Loops in processes of their own that a test harms while they run, and what has to hold of them afterwards.

What became of a loop is read from its files and from the registry's tables, so that it is not checked by the code that
wrote it.
"""

import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.commandline import LONGEST, TENTER, Ended, environment
from tests.looping import loop_project
from tests.outside import alive, alive_with

RUN = ("loop", "run", "--prompt", "do it")
DONE = "echo LOOP_COMPLETE"
LOOK_SECONDS = 0.02


def wait_until(condition: Callable[[], bool], what: str, within: float = LONGEST) -> None:
    """Looks at `condition` again and again, within a bound."""
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, f"waited {within:g} s until {what}"
        select.select([], [], [], LOOK_SECONDS)


class Living:
    """A `tenter` that runs, or ran; what it says goes into files."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def err(self) -> str:
        """What it has written to standard error."""
        return self._err.read_text()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits until `condition` holds; fails when the process ends before it does."""
        wait_until(lambda: condition() or self.process.poll() is not None, what)
        assert condition(), f"it ended with {self.process.poll()} before {what}:\n{self.err}"

    def says(self, text: str) -> None:
        """Waits until it has said `text` on standard error."""
        self.until(lambda: text in self.err, f"it says {text!r}")

    def end(self, within: float = LONGEST) -> Ended:
        """Waits for its end."""
        code = self.process.wait(within)
        return Ended(code, self._out.read_text(), self.err)

    def kill(self) -> None:
        """Ends it as nobody can hear coming, and waits for that."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LONGEST)


@contextmanager
def living(*arguments: str, cwd: Path, within: Sequence[str] = (), **variables: str) -> Generator[Living]:
    """Runs `tenter` (a loop, where no arguments say otherwise) meanwhile; what is left of it at the end is killed.

    `within` are words of a command that runs it.
    """
    said = cwd.parent / f"{cwd.name}-said"
    said.mkdir(exist_ok=True)
    number = len(list(said.iterdir()))
    out, err = said / f"{number}.out", said / f"{number}.err"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = subprocess.Popen(
            [*within, TENTER, *(arguments or RUN)],
            cwd=cwd,
            env=environment(cwd, **variables),
            stdin=subprocess.DEVNULL,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
        )
    try:
        yield Living(process, out, err)
    finally:
        process.kill()
        process.wait(LONGEST)


@contextmanager
def suspended(folder: Path, **variables: str) -> Generator[Living]:
    """A loop in `folder`, whose hooks suspend it, when it is suspended."""
    with living(cwd=folder, **variables) as loop:
        loop.says(": suspended at ")
        yield loop


def rows(folder: Path) -> list[dict[str, object]]:
    """The rows of the registry in `folder`, the first loop first; none without a registry."""
    path = folder / ".tenter" / "loops.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=LONGEST)) as registry:
        registry.row_factory = sqlite3.Row
        return [dict(row) for row in registry.execute("SELECT * FROM loops ORDER BY number")]


def row(folder: Path) -> dict[str, object]:
    """The only row of the registry in `folder`."""
    (found,) = rows(folder)
    return found


def release(folder: Path) -> tuple[str, int, str]:
    """What ended the last suspension of the only loop, as the registry has it: how, by which process, and when."""
    told = json.loads(str(row(folder)["released"]))
    return told["how"], told["by"]["pid"], told["at"]


def loop_id(folder: Path) -> str:
    """The id of the only loop."""
    return str(row(folder)["loop_id"])


def journaled(folder: Path, kind: str) -> int:
    """How many entries of `kind` the project's journal has."""
    with closing(sqlite3.connect(f"file:{folder}/.tenter/journal.db?mode=ro", uri=True, timeout=LONGEST)) as journal:
        (count,) = journal.execute("SELECT count(*) FROM entries WHERE kind = ?", (kind,)).fetchone()
        return int(count)


def kept(folder: Path, name: str) -> Path:
    """A file of the only loop's own folder."""
    return folder / ".tenter" / "loops" / loop_id(folder) / name


def summary(folder: Path) -> Mapping[str, object]:
    """The summary of the only loop."""
    found: Mapping[str, object] = json.loads(kept(folder, "summary.json").read_text())
    return found


def runs(folder: Path, name: str = "ran") -> int:
    """How many lines a program has appended to a file: `echo x >> ran`."""
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def ended_well(done: Ended, folder: Path, *, code: int, reason: str | None = None) -> None:
    """What holds of every ending: its code, no traceback, nothing left, and no row that says what is not so."""
    assert done.code == code, done
    assert "Traceback" not in done.err, done.err
    assert "bug of its own" not in done.err, done.err
    assert "Exception ignored" not in done.err, done.err
    nothing_left(folder)
    for one in rows(folder):
        assert one["status"] not in ("running", "suspended") or alive(int(str(one["pid"]))), one
    if reason is not None:
        assert row(folder)["reason"] == reason, done


def nothing_left(folder: Path) -> None:
    """Nothing lives on that was started for `folder`, whose name is in the environment of all of that."""
    wait_until(lambda: not alive_with(f"{folder}/no-home"), f"nothing lives: {alive_with(f'{folder}/no-home')}", 5)


def started_nothing(folder: Path) -> None:
    """No loop was begun: there is no folder for one, none is registered, and the agent did not run."""
    assert not (folder / ".tenter" / "loops").exists()
    assert rows(folder) == []
    assert not (folder / "ran").exists()


def git_project(folder: Path, agent: str, hooks: Mapping[str, object]) -> Path:
    """A project with a loop in a git repository with a commit."""
    loop_project(folder, agent, hooks=hooks)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "All of it")


def git(folder: Path, *arguments: str) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=plain, check=True, capture_output=True, text=True, timeout=LONGEST
    ).stdout


def mounting(setup: str) -> tuple[str, ...]:
    """Words that run a command with mounts of its own, made by the shell commands `setup`; skips where none are to be
    had."""
    program = shutil.which("unshare")
    if program is None:
        pytest.skip("there is no `unshare`, by which a process gets mounts of its own")
    words = (program, "--user", "--map-root-user", "--mount", "--")
    tried = subprocess.run(
        [*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False, timeout=9
    )
    if tried.returncode:
        pytest.skip(f"a process may have no mounts of its own here: {tried.stderr.decode().strip()}")
    return (*words, "/bin/sh", "-c", f'{setup}\nexec "$@"', "sh")


_PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


def run_measured(folder: Path) -> tuple[Ended, int]:
    """`tenter loop run`, and the memory of its largest process in KiB: of this run alone, not of earlier children."""
    peak = folder / "peak"
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(peak), str(TENTER), "loop", "run", "--prompt", "do it"],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr), int(peak.read_text())
