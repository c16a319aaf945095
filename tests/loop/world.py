"""A loop to run in process: a project in a folder, hooks, a scripted agent, real files and a real registry."""

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenter.catalogue import LOOP_OPERATIONS
from tenter.config import suspend_modes
from tenter.executors import SuspendMode
from tenter.executors.process_id import this_process
from tenter.harness import uncut
from tenter.harness.setup import Given, set_up
from tenter.journal import MemoryStore, Recorded, Store, Stream
from tenter.kernel import Declaration, Event, Outcome
from tenter.loop.attention import Attention
from tenter.loop.events_file import publish
from tenter.loop.facts import Identity
from tenter.loop.finish import finish
from tenter.loop.loop_row import LoopRow
from tenter.loop.moment import moment
from tenter.loop.orchestrator import Orchestrator
from tenter.loop.parts import Asking, Parts, Told, ToldKind
from tenter.loop.place import Place
from tenter.loop.points import Points
from tenter.loop.reason import ReleaseHow
from tenter.loop.record import LoopRecord, last_state
from tenter.loop.registry import Registry
from tenter.loop.release import by_this_process
from tenter.loop.request import LoopResult
from tenter.loop.signal_file import Answer, Signal, write_signal
from tenter.loop.state import LoopState
from tenter.loop.suspension import read_state
from tenter.loop.work import Work, Worked
from tenter.testing import FakeClock, FakeRandom

LOOP = "loop-12ab-34cd"
STREAM = Stream("loop", LOOP)
POINTS = tuple(f"{operation.name}.{phase}" for operation in LOOP_OPERATIONS for phase in ("pre", "post"))
LONGEST = 20.0
"""Seconds that a loop of a test may take."""
OK = Worked(status="ok")
DONE = ("LOOP_COMPLETE", None)
EVERYTHING = (("plan.drawn", {"steps": 2}), ("human.interact", {"question": "go on?", "timeout_seconds": 0.01}))
"""Events that make an iteration fire every point of its own."""

Turn = Sequence[tuple[str, object]] | Worked | Callable[[Work], Awaitable[Worked]]
"""What the agent does in one iteration: it publishes these events, comes to that, or does it all itself."""


class Agent:
    """A backend that does what it is told, one turn an iteration, and after the last one says that it is done."""

    def __init__(self, events: Path, turns: Sequence[Turn]) -> None:
        self.works: list[Work] = []
        self._events = events
        self._turns = list(turns)

    async def run(self, work: Work, /) -> Worked:
        number = len(self.works)
        self.works.append(work)
        turn = self._turns[number] if number < len(self._turns) else [DONE]
        if isinstance(turn, Worked):
            return turn
        if callable(turn):
            return await turn(work)
        for topic, payload in turn:
            publish(self._events, topic, payload, at=1.0)
        return OK


@dataclass
class World:
    """One loop and what surrounds it."""

    parts: Parts
    agent: Agent
    attention: Attention
    record: LoopRecord
    orchestrator: Orchestrator
    told: list[Told]
    when_held: list[Callable[["World"], object]]
    """What happens at each suspension, in order; where there is nothing more the loop is stopped."""
    ended: list[LoopResult] = field(default_factory=list[LoopResult])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> LoopResult:
        """Brings the loop to its end, and puts that on record as `run_loop` does."""
        try:
            async with asyncio.timeout(LONGEST):
                await self.orchestrator.run()
        finally:
            self.ended.append(await uncut(finish(self.parts, self.orchestrator.state, self.record)))
        return self.ended[-1]

    @property
    def place(self) -> Place:
        return self.parts.place

    @property
    def store(self) -> Store:
        return self.parts.setup.store

    @property
    def state(self) -> LoopState:
        return self.orchestrator.state

    @property
    def row(self) -> LoopRow:
        row = self.parts.registry.row(LOOP)
        assert row is not None
        return row

    def texts(self, kind: ToldKind) -> list[str]:
        """What people were told of this kind."""
        return [one.text for one in self.told if one.kind == kind]

    async def until_told(self, kind: ToldKind, text: str = "") -> None:
        """Waits until people were told something of this kind, with `text` in it."""
        async with asyncio.timeout(LONGEST):
            while not any(text in one for one in self.texts(kind)):
                self.news.clear()
                await self.news.wait()

    def hear(self, told: Told) -> None:
        self.told.append(told)
        self.news.set()
        if told.kind == "held":
            (self.when_held.pop(0) if self.when_held else stop)(self)

    def signal(self, how: ReleaseHow, suspension_id: str | None = None) -> None:
        """Asks the loop for something, as another process does."""
        at = moment(self.parts.setup.clock.now())
        write_signal(
            self.place,
            Signal(kind=how, loop_id=LOOP, suspension_id=suspension_id, at=at, by=by_this_process()),
        )

    def answer(self, text: str) -> None:
        """Answers the question that the loop waits with."""
        assert self.row.question is not None
        at, question_id = moment(self.parts.setup.clock.now()), self.row.question.question_id
        write_signal(self.place, Answer(loop_id=LOOP, question_id=question_id, text=text, at=at, by=by_this_process()))

    async def run_and_die(self) -> None:
        """Runs the loop until somebody `die`s; what is on record then stays as it is."""
        with contextlib.suppress(Died):
            async with asyncio.timeout(LONGEST):
                await self.orchestrator.run()
            raise AssertionError("it lived on")

    async def journal(self) -> list[Recorded]:
        return [record async for record in self.store.read(STREAM)]


def resume(world: World) -> None:
    suspension = read_state(world.place)
    assert suspension is not None, "it is written before anybody waits"
    world.signal("resume", suspension.suspension_id)


def wait(world: World) -> None:
    """Nobody does anything yet: the test does it later."""
    del world


class Died(BaseException):
    """The process is gone: nothing in it does anything any more."""


def die(world: World) -> None:
    del world
    raise Died


def stop(world: World) -> None:
    world.signal("stop")


def restart(world: World) -> None:
    world.signal("restart")


def says(point: str, *answers: Outcome | Exception | None, name: str = "gate", **settings: object) -> Declaration:
    """A hook that gives the next of `answers` each time it is asked, and the last one from then on."""
    left = list(answers)

    def answer(event: Event) -> Outcome | None:
        del event
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, Exception) and not isinstance(said, Outcome):
            raise said
        return said

    return Declaration(name=name, point=point, call=answer, **settings)  # pyright: ignore[reportArgumentType]  # the settings of a hook, by their names


def listeners(heard: list[tuple[str, Event]]) -> list[Declaration]:
    """An observer at every point of a loop, which keeps what it hears."""

    def listen(point: str) -> Declaration:
        def hear(event: Event) -> None:
            heard.append((point, event))

        return Declaration(name="listener", point=point, call=hear, observe=True)

    return [listen(point) for point in POINTS]


def world(
    folder: Path,
    *turns: Turn,
    hooks: Sequence[object] = (),
    config: Mapping[str, object] | None = None,
    modes: Mapping[tuple[str, str], SuspendMode] | None = None,
    when_held: Sequence[Callable[[World], object]] = (),
    asking: Asking | None = None,
    store: Store | None = None,
    prompt: str = "mend it",
    pause: Callable[[float], Awaitable[bool]] | None = None,
) -> World:
    """A loop that was registered and not begun; `config` is laid over its configuration."""
    path = folder / "tenter.yaml"
    path.write_text(json.dumps({"version": 1, **(config or {})}))
    place = Place(LOOP, folder, folder)
    place.make()
    registry = Registry(folder / ".tenter" / "loops.db")
    process = this_process()
    row = LoopRow(
        loop_id=LOOP,
        primary=True,
        project=str(folder),
        workspace=str(folder),
        config=str(path),
        pid=process.pid,
        started=process.started,
        started_at=FakeClock().now(),
    )
    assert registry.add(row, hold=True) is None
    return _made(
        place,
        hooks,
        turns=turns,
        when_held=when_held,
        state=None,
        modes=modes or {},
        settings={"asking": asking, "prompt": prompt},
        registry=registry,
        store=store or MemoryStore(),
        pause=pause,
    )


async def continued(
    before: World,
    *turns: Turn,
    hooks: Sequence[object] = (),
    when_held: Sequence[Callable[[World], object]] = (),
) -> World:
    """The loop as another process takes it on, from what is on record."""
    parts, state = before.parts, await last_state(before.store, STREAM)
    assert state is not None
    return _made(
        before.place,
        hooks,
        turns=turns,
        when_held=when_held,
        state=state,
        modes=parts.modes,
        settings={"asking": parts.asking, "prompt": parts.prompt},
        registry=parts.registry,
        store=before.store,
    )


def _made(
    place: Place,
    hooks: Sequence[object],
    *,
    turns: Sequence[Turn],
    when_held: Sequence[Callable[[World], object]],
    state: LoopState | None,
    modes: Mapping[tuple[str, str], SuspendMode],
    settings: Mapping[str, object],
    store: Store,
    registry: Registry,
    pause: Callable[[float], Awaitable[bool]] | None = None,
) -> World:
    made: list[World] = []

    def hear(told: Told) -> None:
        made[0].hear(told)

    attention = Attention(place, LOOP, lambda text: hear(Told(kind="note", loop_id=LOOP, text=text)))
    given = Given(store=store, clock=FakeClock(), random=FakeRandom(), pause=pause or attention.pause)
    setup = set_up(place.project / "tenter.yaml", tuple(hooks), given)
    agent, spec = Agent(place.events, turns), setup.spec.loop
    identity = Identity(
        id=LOOP,
        is_primary=True,
        workspace=str(place.workspace),
        repo_root=str(place.project),
        pid=os.getpid(),
        max_iterations=spec.max_iterations,
    )
    parts = Parts(
        identity=identity,
        place=place,
        spec=spec,
        setup=setup,
        registry=registry,
        modes={**suspend_modes(setup.spec), **modes},
        backends={None: agent},
        environment={"TENTER_LOOP_ID": LOOP},
        task=None,
        listener=hear,
        **settings,  # pyright: ignore[reportArgumentType]  # the rest of the parts, by their names
    )
    row = registry.row(LOOP)
    assert row is not None
    suspension = None if state is None else row.suspension or read_state(place)
    state = state or LoopState(started_at=setup.clock.now())
    record = LoopRecord(store, STREAM, redactor=setup.redactor, clock=setup.clock)
    setup.sink.remember(STREAM, state.metadata)
    points = Points(parts, record, attention, continued=suspension)
    orchestrator = Orchestrator(parts, state, points=points, record=record, attention=attention)
    made.append(World(parts, agent, attention, record, orchestrator, [], list(when_held)))
    return made[0]
