"""What whoever watches a run is shown of each step, and of no other."""

from tests.harness.test_local import INPUT, engine

from tenter.catalogue import REQUEST_RECEIVED, InputEvent, Op
from tenter.harness.parts import Step
from tenter.harness.showing import own_entries
from tenter.journal import MemoryStore
from tenter.kernel import Done, FrozenDict, Trace, hook


async def test_whoever_watches_hears_why_a_hook_failed_which_the_trace_never_says() -> None:
    steps, trace = list[Step](), Trace()

    @hook("input.before", name="broken", on_error="warn")
    def broken(event: InputEvent) -> None:
        raise KeyError("silver")

    one = engine(MemoryStore(), broken, watcher=steps.append, trace=trace)
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    (failure,) = [entry for entry in steps[-1].trace if entry.kind == "failure"]
    assert list(steps[-1].reasons) == [failure.sequence]
    assert steps[-1].reasons[failure.sequence].endswith("KeyError: 'silver'")
    assert steps[0].reasons == {}
    assert "silver" not in repr(trace.events())
    await engine(MemoryStore(), broken, trace=(unwatched := Trace())).run(
        "0.request.received.0", REQUEST_RECEIVED, INPUT
    )
    assert unwatched.heard is None


def test_entries_of_a_call_beside_are_not_its_own() -> None:
    trace, op = Trace(), Op(id="run-1/1.tool.invoked.0#1")
    for name, details in {
        op.id: {},
        "run-1/1.tool.invoked.1#1": {},
        "run-1/1.inner.0#1": {"parent": op.id},
        "elsewhere": {},
        "": {},
    }.items():
        trace.add((0.0, "hook", "point", "", name, FrozenDict(details)))
    assert [entry.op for entry in own_entries(trace.events(), op)] == [op.id, "run-1/1.inner.0#1", "elsewhere", ""]


async def test_a_watcher_that_raises_is_told_no_more_and_stops_nothing() -> None:
    told, trace = list[Step](), Trace()

    def watch(step: Step) -> None:
        told.append(step)
        raise BrokenPipeError

    one = engine(MemoryStore(), watcher=watch, trace=trace)
    assert isinstance(await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT), Done)
    assert len(told) == 1
    notes = [entry for entry in trace.events() if entry.kind == "note"]
    assert [(note.source, note.code, dict(note.details)) for note in notes] == [
        ("watcher", "raised", {"exception": "BrokenPipeError"})
    ]
