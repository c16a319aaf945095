"""Drives the real command line in a real process: through pipes, or on a terminal of its own.

The process gets this one's environment, except that its home is an empty folder, and what it keeps of the user's is
beside the test's folder: nobody's own configuration counts. The project that it runs in is trusted as it is, by the
variable TENTER_TRUST, unless a test gives that another value, such as "".
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tenter.config import trust_state, write_record
from tenter.harness import BUILTIN_TOOLS
from tenter.kernel import TenterError

TENTER = Path(sys.executable).with_name("tenter")
LONGEST = 30.0
"""Seconds that a command may take."""


@dataclass(frozen=True)
class Ended:
    """What a command came to."""

    code: int
    out: str
    err: str


def write_project(
    folder: Path,
    turns: Sequence[object],
    *,
    events: Mapping[str, object] | None = None,
    tools: Sequence[str] = ("read_file", "write_file", "shell"),
    **settings: object,
) -> Path:
    """A configuration with one task, `job`, whose model says `turns`; YAML reads JSON."""
    spec = {
        "version": 1,
        "models": {"default": {"provider": "scripted", "file": "script.yaml"}},
        "tasks": {"job": {"version": 1, "model": "default", "instructions": "Do it.", "tools": list(tools)}},
        "hooks": {"events": events or {}},
        **settings,
    }
    (folder / "tenter.yaml").write_text(json.dumps(spec, indent=1))
    (folder / "script.yaml").write_text(json.dumps({"version": 1, "turns": turns}, indent=1))
    return folder


def calls(tool: str, **arguments: object) -> Mapping[str, object]:
    """A turn in which the model calls one tool."""
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


def hook_script(folder: Path, name: str, text: str) -> str:
    """A command hook, a shell script; its path as a configuration in `folder` names it."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"./{name}"


def environment(folder: Path, *, config: str = "tenter.yaml", **more: str) -> dict[str, str]:
    """The environment of a command that runs in `folder`; `config` is the file whose project is trusted as it is."""
    plain = {
        name: value for name, value in os.environ.items() if name not in ("XDG_CONFIG_HOME", "COLUMNS", "NO_COLOR")
    }
    own = {"HOME": str(folder / "no-home"), "XDG_STATE_HOME": str(folder.parent / f"{folder.name}-state")}
    given = {**plain, **own, **more}
    return given if "TENTER_TRUST" in more else {**given, "TENTER_TRUST": digest_of(folder / config, given)}


def digest_of(config: Path, given: Mapping[str, str] = os.environ) -> str:
    """What TENTER_TRUST must be for the project to run as it is now; empty where its file cannot be used."""
    try:
        return trust_state(config, builtin_tools=BUILTIN_TOOLS, environment=given).now.digest
    except TenterError:
        return ""


def trust(config: Path, given: Mapping[str, str] = os.environ) -> None:
    """Records that the project is trusted as it is now, as `tenter hooks trust` does in an environment like `given`."""
    write_record(trust_state(config, builtin_tools=BUILTIN_TOOLS, environment=given).now, 0.0, given)


def _config_of(arguments: Sequence[str]) -> str:
    """The configuration that a command line names."""
    named = [value for option, value in pairwise(arguments) if option in ("-c", "--config")]
    return named[-1] if named else "tenter.yaml"


def tenter(*arguments: str, cwd: Path, stdin: bytes = b"", **variables: str) -> Ended:
    """Runs `tenter` in `cwd`, its three streams being pipes, with `variables` in its environment."""
    done = subprocess.run(
        [TENTER, *arguments],
        cwd=cwd,
        env=environment(cwd, config=_config_of(arguments), **variables),
        input=stdin,
        capture_output=True,
        timeout=LONGEST,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_json(*arguments: str, cwd: Path) -> dict[str, object]:
    """The one JSON document that a command prints."""
    done = tenter(*arguments, "--json", cwd=cwd)
    assert len(done.out.splitlines()) == 1, done
    document: dict[str, object] = json.loads(done.out)
    return document


class Terminal:
    """A command that runs on a terminal of 100 columns: what it writes to it is read as it comes."""

    def __init__(self, process: "subprocess.Popen[bytes]", screen: int) -> None:
        self.process = process
        self.shown = ""
        self._screen = screen
        self._until = time.monotonic() + LONGEST

    def wait_for(self, text: str) -> str:
        """What was shown when `text` was on the screen."""
        self._read(lambda: text in self.shown)
        assert text in self.shown, self.shown
        return self.shown

    def end(self) -> Ended:
        """Waits for the end of the command; what was piped and not shown is `out`."""
        self._read(lambda: False)
        out = self.process.stdout.read() if self.process.stdout is not None else b""
        return Ended(self.process.wait(LONGEST), out.decode(), self.shown)

    def type(self, text: str) -> None:
        """Types `text` on the keyboard."""
        os.write(self._screen, text.encode())

    def hand_on_each_key(self) -> None:
        """From now on it makes no line and no end of input of what is typed."""
        tty.setcbreak(self._screen)

    def _read(self, enough: Callable[[], bool]) -> None:
        while not enough():
            left = self._until - time.monotonic()
            assert left > 0, f"still running after {LONGEST:g} s:\n{self.shown}"
            if not select.select([self._screen], [], [], left)[0]:
                continue
            try:
                data = os.read(self._screen, 65536)
            except OSError:  # how Linux says that nobody has the terminal open any more
                return
            if not data:
                return
            self.shown += data.decode().replace("\r\n", "\n")


@contextmanager
def on_terminal(*arguments: str, cwd: Path, piped_out: bool = False, **variables: str) -> Generator[Terminal]:
    """Runs `tenter` on a terminal; with `piped_out` its standard output is a pipe. Leaving the block ends it."""
    screen, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    with _signals_heard():
        process = subprocess.Popen(
            [TENTER, *arguments],
            cwd=cwd,
            env=environment(cwd, config=_config_of(arguments), **{"TERM": "xterm", **variables}),
            stdin=slave,
            stdout=subprocess.PIPE if piped_out else slave,
            stderr=slave,
            start_new_session=True,
        )
    os.close(slave)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait(LONGEST)
        if process.stdout is not None:
            process.stdout.close()
        os.close(screen)


@contextmanager
def started(*arguments: str, cwd: Path, stderr: int = subprocess.PIPE) -> Generator["subprocess.Popen[str]"]:
    """A `tenter` that runs on meanwhile, its output in pipes; what is left of it when the block is left is killed."""
    with _signals_heard():
        process = subprocess.Popen(
            [TENTER, *arguments],
            cwd=cwd,
            env=environment(cwd, config=_config_of(arguments)),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(LONGEST)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def gate(path: Path) -> Generator[int]:
    """A FIFO that a tool writes to when it has begun: the descriptor that hears of it."""
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reading
    finally:
        os.close(reading)


def heard(reading: int) -> str:
    """The line that comes through a gate."""
    ready, _, _ = select.select([reading], [], [], LONGEST)
    assert ready, "nobody wrote"
    return os.read(reading, 4096).decode().strip()


@contextmanager
def _signals_heard() -> Generator[None]:
    """What is started within it hears Ctrl-C, which a shell that runs the tests in its background has ignored."""
    ignored = [one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
