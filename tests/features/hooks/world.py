"""The world of an acceptance scenario: a project in a git repository of its own, a user with empty folders, an agent.

It knows the command line and the files that the command line documents, and nothing of the package behind them.
Programs that it writes leave what they saw in `records`, a folder outside the repository.
"""

import errno
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.outside import alive

TENTER = Path(sys.executable).with_name("tenter")
LONGEST = 30.0
"""Seconds that a command may take."""
LOOK_SECONDS = 0.02
BEGAN = re.compile(r"^loop (loop-[0-9a-f]{4}-[0-9a-f]{4}) in (.+)\n", re.MULTILINE)
PROMPT = "Build the thing."

PRELUDE = """\
#!/bin/sh
records='{records}'
note() {{ echo "$*" >> "$records/timeline"; }}
keep() {{ cat > "$records/$1.json"; }}
"""
"""What every hook script begins with: `note` writes a line of the timeline, `keep` the payload into a file."""

AGENT = """\
#!{python}
import json, os, subprocess, sys

records, folder = {records!r}, os.getcwd()
calls = os.path.join(records, "calls of " + os.path.basename(folder))
with open(calls, "a+") as file:
    file.write("x")
    file.seek(0)
    number = len(file.read())
with open(os.path.join(records, f"prompt {{number}}"), "w") as file:
    file.write(sys.stdin.read())
with open(os.path.join(records, "timeline"), "a") as file:
    file.write(f"agent {{number}}\\n")
with open(os.path.join(records, "plan.json")) as file:
    plan = json.load(file)
for act in plan.get(str(number), []):
    if act["does"] == "publishes":
        subprocess.run(["tenter", "emit", act["what"], *act["more"]], check=True, stdout=subprocess.DEVNULL)
    elif act["does"] == "says":
        print(act["what"])
    elif act["does"] == "fails":
        sys.exit(int(act["what"]))
    elif act["does"] == "waits for":
        with open(os.path.join(records, act["what"])) as gate:
            gate.read()
    elif act["does"] == "adds a line to":
        with open(act["what"], "a") as file:
            file.write("\\n# changed by the agent\\n")
"""
"""The backend: in each call it does what the plan says for it. It counts its calls by the folder that it works in."""


@dataclass(frozen=True)
class Ended:
    """What a command came to."""

    code: int
    out: str
    err: str


class Loop:
    """A `tenter loop` that runs, or ran, in a process of its own; its output goes to files."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def err(self) -> str:
        """What it has written to standard error."""
        return self._err.read_text()

    @property
    def id(self) -> str:
        """Its id, as it tells it first."""
        self.until(lambda: BEGAN.search(self.err) is not None, "it tells its id")
        found = BEGAN.search(self.err)
        assert found is not None
        return found[1]

    @property
    def workspace(self) -> Path:
        """Where it works, as it tells it first."""
        assert self.id
        found = BEGAN.search(self.err)
        assert found is not None
        return Path(found[2])

    def end(self) -> Ended:
        """Waits for its end."""
        code = self.process.wait(LONGEST)
        return Ended(code, self._out.read_text(), self.err)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits until `condition` holds; fails when that takes long, or when the process is gone before it does."""
        wait_until(lambda: condition() or self.process.poll() is not None, what)
        assert condition(), f"the loop ended with {self.process.poll()} before {what}:\n{self.err}"


class World:
    """The folders of one scenario, what is configured, and what was started."""

    def __init__(self, root: Path, living: ExitStack) -> None:
        self.root = root
        self.project = root / "project"
        self.records = root / "records"
        self.home = root / "home"
        for folder in (self.project, self.records, self.home):
            folder.mkdir()
        self.hooks = ""
        self.settings = ""
        self.whole: str | None = None
        self.plan: dict[str, list[dict[str, object]]] = {}
        self.loops: list[Loop] = []
        self.answers: list[Ended] = []
        """What commands of the operator came to, the last one last."""
        self.states: list[dict[str, object]] = []
        """The states of the suspensions that were seen."""
        self._living = living

    # -- the project --------------------------------------------------------------------------------------------------

    def script(self, name: str, text: str) -> None:
        """A hook script of the project."""
        path = self.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PRELUDE.format(records=self.records) + text + "\n")
        path.chmod(0o755)

    def agent(self) -> None:
        """The program of the backend, and what it is to do."""
        path = self.project / "agent.py"
        path.write_text(AGENT.format(python=sys.executable, records=str(self.records)))
        path.chmod(0o755)
        (self.records / "plan.json").write_text(json.dumps(self.plan))
        for act in (one for acts in self.plan.values() for one in acts):
            if act["does"] == "waits for":
                os.mkfifo(self.records / str(act["what"]))

    def configure(self) -> None:
        """Writes `tenter.yaml`."""
        backend = "backend: {command: [./agent.py], prompt: stdin}\nmax_iterations: 5\n"
        loop = textwrap.indent(backend + self.settings, "  ")
        events = textwrap.indent(self.hooks, "    ") if self.hooks else "    {}"
        text = self.whole or f"version: 1\nloop:\n{loop}\nhooks:\n  events:\n{events}\n"
        (self.project / "tenter.yaml").write_text(text)

    def commit(self) -> None:
        """The whole project, as one commit; `.tenter` and worktrees stay outside."""
        (self.project / ".gitignore").write_text(".tenter/\n.worktrees/\n")
        self.git("add", "--all")
        self.git("-c", "user.name=Owner", "-c", "user.email=owner@example.org", "commit", "--quiet", "-m", "All")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.project, env=self.environment(), timeout=LONGEST, check=True)

    # -- commands -----------------------------------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of who runs the tests: folders of the scenario's user, and where programs are."""
        return {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "PATH": f"{TENTER.parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            **more,
        }

    def tenter(self, *arguments: str, **variables: str) -> Ended:
        """Runs a command to its end."""
        done = subprocess.run(
            [TENTER, *arguments],
            cwd=self.project,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def asked(self, *arguments: str) -> Any:
        """The one JSON document that a command prints, of whatever shape."""
        done = self.tenter(*arguments, "--json")
        assert done.code == 0, done
        return json.loads(done.out)

    def start(self, *arguments: str, **variables: str) -> Loop:
        """A command that runs on meanwhile, and hears Ctrl-C also where whoever runs the tests has it ignored."""
        number = len(self.loops) + 1
        out, err = self.records / f"out {number}", self.records / f"err {number}"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                ["env", "--default-signal=INT,TERM,HUP", TENTER, *arguments],
                cwd=self.project,
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
            )
        self._living.callback(_end, process)
        self.loops.append(Loop(process, out, err))
        return self.loops[-1]

    def run(self, *options: str, **variables: str) -> Ended:
        """A loop from its start to its end."""
        return self.start("loop", "run", "--prompt", PROMPT, *options, **variables).end()

    @property
    def loop(self) -> Loop:
        """The loop that was started last."""
        return self.loops[-1]

    # -- what came of it ----------------------------------------------------------------------------------------------

    @property
    def timeline(self) -> list[str]:
        path = self.records / "timeline"
        return path.read_text().splitlines() if path.exists() else []

    def note(self, line: str) -> None:
        """A line of the timeline by the scenario itself."""
        with (self.records / "timeline").open("a") as file:
            file.write(f"{line}\n")

    def kept(self, name: str) -> dict[str, object]:
        """The payload that a hook kept."""
        document: dict[str, object] = json.loads((self.records / f"{name}.json").read_text())
        return document

    def prompt(self, call: int) -> str:
        """What the agent was told in a call."""
        return (self.records / f"prompt {call}").read_text()

    def forget_calls(self) -> None:
        """Lets the agent count its calls anew."""
        for calls in self.records.glob("calls of *"):
            calls.unlink()

    def telemetry(self, hook: str) -> list[dict[str, object]]:
        """The records of a hook in the loop that was started last, in order."""
        records: list[dict[str, object]] = self.asked("hooks", "log", "--loop", self.loop.id)
        return [record for record in records if record["hook_name"] == hook]

    def listed(self, loop: Loop) -> dict[str, object]:
        """How a loop stands in the list of all."""
        loop_id = loop.id
        listing: dict[str, list[dict[str, object]]] = self.asked("loop", "list", "--all")
        (row,) = [row for row in listing["loops"] if row["loop_id"] == loop_id]
        return row

    @property
    def summary(self) -> dict[str, object]:
        """What the loop that was started last left of itself."""
        found = read_json(self.project / ".tenter" / "loops" / self.loop.id / "summary.json")
        assert found is not None, "a loop that is over leaves a summary"
        return found

    # -- suspensions --------------------------------------------------------------------------------------------------

    def suspend_state(self, loop: Loop) -> Path:
        return loop.workspace / ".tenter" / "suspend-state.json"

    def suspended(self, loop: Loop) -> dict[str, object]:
        """Waits for a suspension that was not seen yet, until the loop has told of it everywhere; its state."""
        seen = [state["suspension_id"] for state in self.states]

        def new() -> bool:
            state = read_json(self.suspend_state(loop))
            return state is not None and state["suspension_id"] not in seen

        loop.until(new, "it is suspended")
        state = read_json(self.suspend_state(loop))
        assert state is not None
        self.states.append(state)
        told = f": suspended at {state['phase_event']} "
        loop.until(lambda: loop.err.count(told) >= len(self.states), "it tells that it is suspended")
        return state


@contextmanager
def new_world(root: Path) -> Generator[World]:
    """A world whose processes are ended when the scenario is."""
    with ExitStack() as living:
        yield World(root, living)


def wait_until(condition: Callable[[], bool], what: str, within: float = LONGEST) -> None:
    """Looks at `condition` again and again, within a bound."""
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, f"waited {within:g} s until {what}"
        select.select([], [], [], LOOK_SECONDS)


def read_json(path: Path) -> dict[str, object] | None:
    """The document at `path`, None without a file."""
    try:
        document: dict[str, object] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return document


def rows(table: Sequence[Sequence[str]]) -> list[Mapping[str, str]]:
    """The rows of a table below its head."""
    head, *body = table
    return [dict(zip(head, row, strict=True)) for row in body]


def opened(gate: Path) -> bool:
    """Lets whoever waits at a gate go on; False where nobody waits there yet."""
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


def gone(pid: int) -> None:
    """Waits until a process is no more."""
    wait_until(lambda: not alive(pid), f"the process {pid} is gone", within=5)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends what a scenario that failed left, its loop asked first so that it ends its agent and its hooks too."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait(LONGEST)
