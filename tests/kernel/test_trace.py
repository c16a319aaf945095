import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.kernel import FrozenDict, Trace, TraceEvent


def test_entries_are_numbered_from_one_in_the_order_in_which_they_came() -> None:
    trace = Trace()
    trace.add((1.5, "hook", "tool.before", "block", "op-1", FrozenDict({"hooks": 2})))
    trace.note(2.5, "budget", "budget_exceeded", limit=3)
    assert len(trace) == 2
    assert trace.events() == (
        TraceEvent(
            sequence=1, time=1.5, kind="hook", source="tool.before", code="block", op="op-1", details={"hooks": 2}
        ),
        TraceEvent(sequence=2, time=2.5, kind="note", source="budget", code="budget_exceeded", details={"limit": 3}),
    )


def test_a_reader_goes_on_where_it_stopped() -> None:
    trace = Trace()
    for n in range(3):
        trace.note(float(n), "loop", f"step_{n}")
    assert [entry.sequence for entry in trace.events(after=2)] == [3]
    assert trace.events(after=3) == ()


def test_a_trace_that_continues_another_goes_on_with_its_numbers() -> None:
    trace = Trace(start=8)
    trace.note(1.0, "loop", "resumed")
    trace.note(2.0, "loop", "step")
    assert [entry.sequence for entry in trace.events()] == [8, 9]
    assert [entry.sequence for entry in trace.events(after=1)] == [9]


def test_what_was_read_does_not_change_when_more_comes() -> None:
    trace = Trace()
    trace.count(1.0, "stream.chunk", "", "op-1")
    first = trace.events()
    trace.count(2.0, "stream.chunk", "block", "op-1")
    assert first[0].details == {"firings": 1}
    assert trace.events()[0].details == {"firings": 2}


def test_the_firings_of_a_nested_operation_share_the_entry_of_the_first() -> None:
    trace = Trace()
    trace.count(1.0, "stream.chunk", "", "op-1")
    trace.note(1.5, "loop", "step")
    trace.count(2.0, "stream.chunk", "replaced", "op-1")
    trace.count(3.0, "stream.chunk", "", "op-1")
    trace.count(4.0, "stream.chunk", "", "op-2")
    assert [(entry.time, entry.kind, entry.code, entry.op, dict(entry.details)) for entry in trace.events()] == [
        (1.0, "hook", "replaced", "op-1", {"firings": 3}),
        (1.5, "note", "step", "", {}),
        (4.0, "hook", "", "op-2", {"firings": 1}),
    ]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))))
def test_the_firings_of_all_entries_add_up_to_what_was_counted(fired: list[tuple[str, str]]) -> None:
    trace = Trace()
    for source, op in fired:
        trace.count(0.0, source, "", op)
    assert {(entry.source, entry.op): entry.details["firings"] for entry in trace.events()} == {
        one: fired.count(one) for one in fired
    }


@pytest.mark.promise(12)
def test_an_entry_cannot_be_changed() -> None:
    trace = Trace()
    trace.note(1.0, "loop", "step", step=1)
    (entry,) = trace.events()
    with pytest.raises(AttributeError):
        entry.code = "other"  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test
    with pytest.raises(TypeError):
        entry.details["step"] = 2  # pyright: ignore[reportIndexIssue]  # as above


def test_an_entry_goes_through_json_and_back() -> None:
    trace = Trace()
    trace.note(1.0, "loop", "step", step=1, name="x", share=0.5, last=False, none=None)
    (entry,) = trace.events()
    assert msgspec.json.decode(msgspec.json.encode(entry), type=TraceEvent) == entry
