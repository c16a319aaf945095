"""Projects to run: a configuration, a script and tools in a folder, and what a run of them left in the journal."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenter.catalogue import Envelope, Op, TaskRef
from tenter.harness import Harness
from tenter.harness.model import Model
from tenter.harness.setup import Given, set_up
from tenter.journal import MemoryStore, Recorded, SqliteStore, Store, Stream
from tenter.kernel import FrozenDict

STORES: Mapping[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / ".tenter" / "journal.db"),
}

BOTH = tuple(STORES)
ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="run-1", name="work"), correlation_id="run-1")
OP = Op(id="run-1/1.tool.invoked.0#1", path="1.tool.invoked.0")


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


def with_model(path: Path, model: Model, *hooks: object, store: Store | None = None) -> Harness:
    """The harness of a project whose task asks another model."""
    setup = set_up(path, hooks, Given(store=store))
    return Harness(replace(setup, tasks=FrozenDict({"work": replace(setup.task("work"), model=model)})))


async def journal(store: Store, run_id: str) -> list[Recorded]:
    """The entries of a run."""
    return [recorded async for recorded in store.read(Stream("run", run_id))]


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
