"""What one run is made of, and what whoever watches it is told."""

from tests.harness.test_local import INPUT, START, engine

from tenter.catalogue import REQUEST_RECEIVED, InputEvent
from tenter.harness.parts import Step
from tenter.journal import MemoryStore
from tenter.kernel import Block, Blocked, hook


async def test_whoever_watches_hears_of_beginnings_and_endings_with_what_hooks_decided() -> None:
    steps = list[Step]()

    @hook("input.before", name="guard")
    def refuse(event: InputEvent) -> Block:
        return Block("no")

    one = engine(MemoryStore(), refuse, watcher=steps.append)
    await one.open(START)
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    assert [(step.operation, step.ending is None) for step in steps] == [
        ("run", True),
        ("run", False),
        ("request.received", True),
        ("request.received", False),
    ]
    assert isinstance(steps[-1].ending, Blocked)
    assert [entry.source for entry in steps[-1].trace if entry.kind == "outcome"] == ["guard"]
