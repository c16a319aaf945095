"""What a backend works with in a test: a workspace, a log, and the harness of a small project beside it."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.harness.world import project
from tests.outside import leaves_nothing

from tenter import Harness
from tenter.catalogue import LoopFacts
from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.journal import MemoryStore
from tenter.kernel import SYSTEM_CLOCK, FrozenDict, Redactor
from tenter.loop.output_log import OutputLog
from tenter.loop.work import Equipment, Work

SECRET = "correct-horse-battery"
MASK = Redactor(secrets=[SECRET], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS).mask_fuzzy
FACTS = LoopFacts(
    loop=FrozenDict({"id": "loop-12ab-34cd"}),
    iteration=FrozenDict({"current": 3, "max": 100}),
    context=FrozenDict({"selected_hat": "builder"}),
)


@dataclass(frozen=True)
class World:
    """A folder `workspace`, and what is known of the backend's processes and of its output."""

    folder: Path
    equipment: Equipment
    mark: str
    """In the environment of all that a backend starts."""

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def log(self) -> list[str]:
        """The lines of the log without their times."""
        path = self.folder / "output.log"
        return [line.partition(" ")[2] for line in path.read_text().splitlines()] if path.exists() else []

    def work(self, prompt: str = "Do it.", *, seconds: float | None = None) -> Work:
        deadline = None if seconds is None else SYSTEM_CLOCK.now() + seconds
        variables = {
            "TENTER_LOOP_ID": "loop-12ab-34cd",
            "TENTER_ITERATION": "3",
            "TENTER_EVENTS_FILE": str(self.folder / "events.jsonl"),
            "TENTER_WORKSPACE": str(self.workspace),
            "TENTER_PROJECT_DIR": str(self.folder),
        }
        return Work(number=3, prompt=prompt, facts=FACTS, hat="builder", deadline=deadline, environment=variables)


@asynccontextmanager
async def world(
    folder: Path, *turns: object, hooks: Sequence[object] = (), tools: Sequence[str] = ()
) -> AsyncGenerator[World]:
    """Fails where a backend left anything of it behind. `turns` are what the model of the task `work` says."""
    mark = uuid4().hex
    (folder / "workspace").mkdir()
    async with leaves_nothing(mark):
        log = OutputLog(folder / "output.log", MASK, now=SYSTEM_CLOCK.now)
        harness = Harness.from_file(
            project(folder, *turns, tools=tools), hooks=hooks, workspace=folder / "workspace", store=MemoryStore()
        )
        async with harness:
            equipment = Equipment(
                workspace=str(folder / "workspace"),
                environment={**os.environ, "MARK": mark, "MY_KEY": "of the user"},
                log=log,
                mask=MASK,
                clock=SYSTEM_CLOCK,
                harness=harness,
            )
            yield World(folder, equipment, mark)
        log.close()
