"""Projects to run: a configuration, a script and tools in a folder, and what a run of them left in the journal."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenter.catalogue import Envelope, Op, TaskRef
from tenter.harness import Harness, RunResult
from tenter.harness.model import Model
from tenter.harness.setup import Given, set_up
from tenter.journal import MemoryStore, Recorded, SqliteStore, Store, Stream
from tenter.kernel import FrozenDict
from tenter.testing import FakeClock, FakeRandom

STORES: Mapping[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / ".tenter" / "journal.db"),
}

BOTH = tuple(STORES)
ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="run-1", name="work"), correlation_id="run-1")
OP = Op(id="run-1/1.tool.invoked.0#1", path="1.tool.invoked.0")


ACT = """\
from pathlib import Path
from tenter import tool
from tenter.harness import ToolContext

@tool
def act(context: ToolContext, mark: str = "") -> str:
    path = Path(context.workspace.root, "acted")
    with path.open("a") as file:
        print(mark, context.key, file=file)
    if mark == "flaky" and len(path.read_text().splitlines()) == 1:
        raise ValueError("not yet")
    return f"did {mark}"
"""
"""A tool that leaves a line each time: its argument and the key of the call. One that is flaky fails at first."""


def calls(*named: tuple[str, Mapping[str, object]], text: str = "") -> dict[str, object]:
    """A turn of the model that calls tools."""
    return {"text": text, "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


def project(
    folder: Path, *turns: object, tools: Sequence[str] = (), settings: Mapping[str, object] | None = None
) -> Path:
    """Writes a project with the task `work`; `settings` are laid over its configuration. The path of its file."""
    config: dict[str, Any] = {
        "version": 1,
        "models": {"default": {"provider": "scripted", "file": "script.yaml"}},
        "tasks": {"work": {"version": 3, "model": "default", "instructions": "Do it.", "tools": list(tools)}},
        **(settings or {}),
    }
    (folder / "script.yaml").write_text(json.dumps({"version": 1, "turns": list(turns) or ["Done."]}))
    path = folder / "tenter.yaml"
    path.write_text(json.dumps(config))
    return path


def acting(
    folder: Path, *turns: object, settings: Mapping[str, object] | None = None, tool: Mapping[str, object] | None = None
) -> Path:
    """A project whose task has the tool `act`; `tool` are its settings. The path of its file."""
    (folder / "my_tools.py").write_text(ACT)
    tools = {"act": {"python": "./my_tools.py:act", **(tool or {})}}
    return project(folder, *turns, tools=["act"], settings={"tools": tools, **(settings or {})})


def acted(folder: Path) -> list[str]:
    """What `act` left, in order: the argument of each call."""
    return [line.partition(" ")[0] for line in keys(folder)]


def keys(folder: Path) -> list[str]:
    """What `act` left: the argument and the key of each call."""
    path = folder / "acted"
    return path.read_text().splitlines() if path.exists() else []


def spawning(
    folder: Path, parent: Sequence[object], child: Sequence[object], *, settings: Mapping[str, object] | None = None
) -> Path:
    """A project whose task `work` may spawn the task `part`, which has the tool `act`. The path of its file."""
    (folder / "my_tools.py").write_text(ACT)
    (folder / "part.yaml").write_text(json.dumps({"version": 1, "turns": list(child)}))
    given: dict[str, Any] = dict(settings or {})
    work: dict[str, object] = {"version": 3, "model": "default", "instructions": "Do it.", "subtasks": ["part"]}
    part: dict[str, object] = {"version": 2, "model": "other", "instructions": "Do a part.", "tools": ["act"]}
    config: dict[str, object] = {
        "models": {
            "default": {"provider": "scripted", "file": "script.yaml"},
            "other": {"provider": "scripted", "file": "part.yaml"},
        },
        "tools": {"act": {"python": "./my_tools.py:act", **given.pop("tool", {})}},
        "tasks": {"work": work | given.pop("work", {}), "part": part | given.pop("part", {})},
    }
    return project(folder, *parent, settings={**config, **given})


def spawn(*inputs: str, task: str = "part") -> dict[str, object]:
    """A turn of the model that spawns a sub-run for each input."""
    return calls(*(("spawn_subtask", {"task": task, "input": text}) for text in inputs))


def act(*marks: str) -> dict[str, object]:
    """A turn of the model that calls `act` once for each mark."""
    return calls(*(("act", {"mark": mark}) for mark in marks))


class Processes:
    """Harnesses of one project with one journal, as several processes have it."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.harnesses: list[Harness] = []
        self._store = STORES[kind]
        self.store = self._store(path.parent)
        """Looks into the journal."""

    def harness(self, *hooks: object, model: Model | None = None, **given: Any) -> Harness:
        """The next process."""
        store = self.store if isinstance(self.store, MemoryStore) else self._store(self.path.parent)
        setup = set_up(self.path, hooks, Given(store=store, **given))
        if model is not None:
            setup = replace(setup, tasks=FrozenDict({"work": replace(setup.task("work"), model=model)}))
        self.harnesses.append(Harness(setup))
        return self.harnesses[-1]


@asynccontextmanager
async def processes(path: Path, kind: str) -> AsyncGenerator[Processes]:
    """Closes all of them in the end."""
    made = Processes(path, kind)
    yield made
    for harness in made.harnesses:
        await harness.close()
    await made.store.close()


def with_model(path: Path, model: Model, *hooks: object, store: Store | None = None) -> Harness:
    """The harness of a project whose task asks another model."""
    setup = set_up(path, hooks, Given(store=store))
    return Harness(replace(setup, tasks=FrozenDict({"work": replace(setup.task("work"), model=model)})))


async def whole(path: Path, *hooks: object) -> tuple[MemoryStore, RunResult]:
    """A run to its end, and the journal that it left."""
    store = MemoryStore()
    harness = Harness.from_file(path, hooks=hooks, store=store, clock=FakeClock(), random=FakeRandom(7))
    result = await harness.run("work", "go")
    assert result.status == "completed", result.error
    return store, result


async def go_on(path: Path, store: Store, run_id: str, *hooks: object, **arguments: Any) -> RunResult:
    """What comes of a run that another process goes on with."""
    return await Harness.from_file(path, hooks=hooks, store=store, clock=FakeClock()).resume(run_id, **arguments)


async def journal(store: Store, run_id: str) -> list[Recorded]:
    """The entries of a run."""
    return [recorded async for recorded in store.read(Stream("run", run_id))]


async def cut(source: Store, run_id: str, entries: int, target: Store) -> None:
    """Leaves a run in `target` as it stood in `source` after so many entries: its process ended there."""
    records = await journal(source, run_id)
    await target.append(Stream("run", run_id), [recorded.entry for recorded in records[:entries]])


async def after(store: Store, run_id: str, line: str) -> int:
    """How many entries a run has up to the first that reads so, as `lines` has it."""
    return lines(await journal(store, run_id)).index(line) + 1


async def only_run(store: Store) -> str:
    """The id of the one run that a store holds."""
    (summary,) = await store.streams("run")
    return summary.stream.id


async def statuses(store: Store, run_id: str) -> list[object]:
    """What the entries say of the run's status, in order."""
    return [one.entry.content["status"] for one in await journal(store, run_id) if one.entry.kind == "status"]


def lines(records: Sequence[Recorded]) -> list[str]:
    """The entries as `kind path`, or their kind alone."""
    return [f"{one.entry.kind} {one.entry.content.get('path', '')}".strip() for one in records]


def of_kind(records: Sequence[Recorded], kind: str, path: str | None = None) -> list[Mapping[str, Any]]:
    """The contents of the entries of one kind (and path)."""
    return [
        one.entry.content for one in records if one.entry.kind == kind and path in (None, one.entry.content.get("path"))
    ]
