"""A run of some forty operations that is killed after any of its journal entries, and gone on with in another process.

Every touch of the world (a tool, a model, a hook) leaves one line in a log, written at once, so that what happened
before and after a kill can be told apart. Processes are forked from one that has loaded everything; each kill is a
SIGKILL that a process gives itself as an entry is acknowledged. The folder is in memory: no machine goes down here.
"""

import asyncio
import gc
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from tests.faults.swept import Before, Line, Swept, broken
from tests.harness.world import calls, of_kind

from tenter import Hook, Suspend
from tenter.catalogue import ApprovalDecision, ModelRequest, ModelResponse, ToolCallEvent
from tenter.harness import Harness, ToolContext, tool
from tenter.harness.model import Model
from tenter.harness.setup import Given, TaskSetup, set_up
from tenter.journal import Entry, Head, Recorded, SqliteStore, Stream, StreamSummary
from tenter.journal.database import Database
from tenter.kernel import Event, FrozenDict

MEMORY: Final = Path("/dev/shm")
OUTPUT: Final = "All is done."
OVER: Final = ("completed", "blocked", "escalated", "failed", "cancelled")

TURNS: Sequence[object] = (
    calls(("note", {"text": "a"}), ("flaky", {}), ("look", {"at": "b"})),
    calls(("pay", {"amount": 5}), ("note", {"text": "c"})),
    calls(("spawn_subtask", {"task": "part", "input": "your part"}), ("look", {"at": "d"})),
    OUTPUT,
)
PART: Sequence[object] = (calls(("note", {"text": "e"}), ("pay", {"amount": 7})), "The part is done.")

CONFIG: dict[str, object] = {
    "version": 1,
    "models": {
        "default": {"provider": "scripted", "file": "script.yaml"},
        "second": {"provider": "scripted", "file": "part.yaml"},
    },
    "tasks": {
        "work": {
            "version": 1,
            "model": "default",
            "instructions": "Do it.",
            "tools": ["note", "flaky", "look", "pay"],
            "parallel_tools": True,
            "subtasks": ["part"],
        },
        "part": {"version": 1, "model": "second", "instructions": "Do your part.", "tools": ["note", "pay"]},
    },
    "tools": {name: {"python": f"tests.faults.sweeping:{name}"} for name in ("note", "flaky", "look", "pay")},
}


class Case(msgspec.Struct, frozen=True):
    """After how many entries each process is killed, the first one first. The one after these goes on to the end."""

    kills: tuple[int, ...]
    shuffled: int | None = None
    """Seeds the order in which tools that run side by side come to their end; None: as they were begun."""


class World:
    """One run's folder."""

    def __init__(self, folder: Path, shuffled: int | None = None) -> None:
        self.folder = folder
        self.shuffled = shuffled

    @property
    def journal(self) -> Path:
        return self.folder / ".tenter" / "journal.db"

    def log(self, kind: str, name: str, place: str) -> None:
        file = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, f"{kind} {name} {place}\n".encode())
        finally:
            os.close(file)

    def lines(self) -> list[Line]:
        """Every touch so far."""
        path = self.folder / "log"
        return [Line(*line.split(" ", 2)) for line in path.read_text().splitlines()] if path.exists() else []

    def turns(self, place: str) -> float:
        """Seconds that a tool takes for its work."""
        return 0 if self.shuffled is None else random.Random(f"{self.shuffled}/{place}").randrange(4) / 500


_here: World = World(Path())


async def _act(context: ToolContext, name: str) -> None:
    """The work of a tool: it takes its time, and then leaves its line."""
    loop = asyncio.get_running_loop()
    if seconds := _here.turns(context.key.rpartition("/")[2]):
        done = loop.create_future()
        loop.call_later(seconds, done.set_result, None)
        await done
    _here.log("tool", name, context.key)


@tool
async def note(context: ToolContext, text: str, by: str = "nobody") -> str:
    await _act(context, "note")
    return f"noted {text} by {by}"


@tool
async def pay(context: ToolContext, amount: int) -> str:
    await _act(context, "pay")
    return f"paid {amount}"


@tool(idempotent=True)
async def look(context: ToolContext, at: str) -> str:
    await _act(context, "look")
    return f"saw {at}"


@tool(idempotent=True)
async def flaky(context: ToolContext) -> str:
    """Fails the first time."""
    await _act(context, "flaky")
    mark = _here.folder / "tried"
    if not mark.exists():
        mark.touch()
        raise RuntimeError("not yet")
    return "it works"


class Rules(Hook):
    """Rewrites every note, and asks a person for every payment."""

    name = "rules"

    def on_tool_before(self, event: ToolCallEvent) -> object:
        if event.call.name == "pay":
            return Suspend("money leaves the house")
        if event.call.name == "note":
            return event.with_arguments(by="the rules")
        return None


OPERATIONS: Final = (
    "run",
    "task.created",
    "task.state_changed",
    "request.received",
    "llm.invoked",
    "tool_calls.extracted",
    "tool.invoked",
    "subtask.spawned",
    "help.requested",
    "help.decided",
    "task.complete",
    "activity.failed",
    "activity.retried",
)
WATCHED: Final = [f"{operation}.{phase}" for operation in OPERATIONS for phase in ("pre", "post")]


def watching() -> Hook:
    """A hook that logs what it hears at every point of a run."""

    def heard(point: str) -> object:
        def hear(_: Hook, event: Event) -> None:
            _here.log("hook", point, str(getattr(event.op, "id", "")))

        return hear

    methods = {f"on_{point.replace('.', '_')}": heard(point) for point in WATCHED}
    return type("Watching", (Hook,), {"name": "watching", **methods})()


class Logged:
    """Meets `Model`: logs each request by how long the conversation is."""

    def __init__(self, model: Model) -> None:
        self.model = model

    async def generate(self, request: ModelRequest) -> ModelResponse:
        _here.log("model", request.alias, str(len(request.messages)))
        return await self.model.generate(request)


class Killed(SqliteStore):
    """Ends its process when so many entries are acknowledged."""

    left = 0

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        head = await super().append(stream, entries, durable=durable, expected_head=expected_head)
        self._count(len(entries))
        return head

    async def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
        decided = await super().decide(decision)
        self._count(1)
        return decided

    def _count(self, entries: int) -> None:
        self.left -= entries
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def begin(folder: Path) -> None:
    """Writes the project."""
    (folder / "script.yaml").write_text(json.dumps({"version": 1, "turns": TURNS}))
    (folder / "part.yaml").write_text(json.dumps({"version": 1, "turns": PART}))
    (folder / "tenter.yaml").write_text(json.dumps(CONFIG))


def harness(folder: Path, store: SqliteStore) -> Harness:
    async def no_pause(seconds: float) -> bool:
        return True

    setup = set_up(folder / "tenter.yaml", (Rules(), watching()), Given(store=store, pause=no_pause))
    tasks: dict[str, TaskSetup] = {name: replace(task, model=Logged(task.model)) for name, task in setup.tasks.items()}
    return Harness(replace(setup, tasks=FrozenDict(tasks)))


async def finish(folder: Path, store: SqliteStore) -> None:
    """Begins the run, or goes on with it, and approves whatever is asked, until it is over and told of."""
    async with harness(folder, store) as one:
        outer = [summary for summary in await store.streams("run") if not summary.parent]
        if not outer:
            result = await one.run("work", "go")
        elif await told_of(store, outer[0]):
            return
        else:
            result = await one.resume(outer[0].stream.id)
        while result.status == "awaiting_approval":
            for row in await store.approvals(run=result.run_id):
                await one.approve(result.run_id, row.request.id, by="a person")
            result = await one.resume(result.run_id)


async def told_of(store: SqliteStore, summary: StreamSummary) -> bool:
    """Whether the run is over and its end was told: nobody has to go on with it."""
    if summary.status not in OVER:
        return False
    entries = [recorded async for recorded in store.read(summary.stream)]
    return any(one.get("phase") == "post" for one in of_kind(entries, "finished", "0.run.0"))


def in_process(world: World, *, entries: int | None) -> int:
    """Finishes the run in a process of its own, killed after so many entries; its exit code as `subprocess` has it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        global _here  # noqa: PLW0603  # the tools find it there
        _here = world
        store = SqliteStore(world.journal) if entries is None else Killed(world.journal)
        if isinstance(store, Killed):
            store.left = entries or 0
        asyncio.run(asyncio.wait_for(finish(world.folder, store), 20))
        code = 0
    except BaseException:
        (world.folder / "error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def recorded(world: World) -> dict[str, list[Recorded]]:
    """The entries of every run, by its id: the outermost run first."""
    with closing(Database(world.journal)) as database:
        runs = sorted(database.streams("run", None), key=lambda summary: bool(summary.parent))
        return {one.stream.id: list(database.page(one.stream, after=0, limit=100_000, whole=True)) for one in runs}


def swept(case: Case) -> Swept:
    """What came of the case."""
    with TemporaryDirectory(prefix="tenter-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
        world = World(Path(name), case.shuffled)
        begin(world.folder)
        killed: list[Before] = []
        for entries in case.kills:
            code = in_process(world, entries=entries)
            if code != -signal.SIGKILL:
                break  # there were not so many
            killed.append(Before(recorded(world), world.lines()))
        else:
            code = in_process(world, entries=None)
        if code:
            return Swept(kills=len(killed), broken=[f"it ended with {code}: {(world.folder / 'error').read_text()}"])
        journal = recorded(world)
        wrong = broken(killed, Before(journal, world.lines()), OUTPUT)
        return Swept(kills=len(killed), entries=sum(map(len, journal.values())), broken=wrong)


def serve() -> None:
    """Does the cases that stand on standard input, one after the other; a line of JSON on standard output for each."""
    cases = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case])
    warm_up()
    for case in cases:
        os.write(1, msgspec.json.encode(swept(case)) + b"\n")


def warm_up() -> None:
    """Loads here what a run loads, so that no process that is forked has to; and none looks it through for garbage."""
    global _here  # noqa: PLW0603  # as in a process of its own
    with TemporaryDirectory() as name:
        _here = World(Path(name))
        begin(_here.folder)
        asyncio.run(finish(_here.folder, SqliteStore(_here.journal)))
    gc.collect()
    gc.freeze()
    gc.disable()
