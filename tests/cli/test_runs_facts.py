"""What a run was begun with and what it used is read from its record, as far as that tells."""

import msgspec
from tests.journaled import begun, entry

from tenter.catalogue import Usage
from tenter.cli.runs_facts import Facts, fact_lines, facts_of
from tenter.journal import Entry, Recorded, Stream


def recorded(*entries: Entry) -> list[Recorded]:
    return [
        Recorded(stream=Stream("run", "a"), sequence=n, hash="", digest="", entry=one)
        for n, one in enumerate(entries, 1)
    ]


def answered(path: str, number: int = 1, *, kind: str = "acted", **response: object) -> Entry:
    return entry(kind, path=path, result={"response": {"model": "m1", **response}}, **{"pass": number})


def acting(path: str, number: int = 1) -> Entry:
    return entry("acting", path=path, **{"pass": number})


def usage(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens, "output_tokens": 1}


def test_every_pass_that_a_model_answered_counts_once_as_hooks_made_it() -> None:
    path = "1.llm.invoked.0"
    facts = facts_of(
        recorded(
            begun(),
            answered(path, usage=usage(10), cost_usd=1.0),
            entry("finished", path=path, outcome="retry", **{"pass": 1}),
            answered(path, 2, usage=usage(20), cost_usd=1.0),
            answered(path, 2, kind="finished", usage=usage(30), cost_usd=2.0),
            answered("2.llm.invoked.0", usage=usage(40), cost_usd=None, model="m2"),
        )
    )
    assert facts.usage == Usage(input_tokens=80, output_tokens=3)
    assert (facts.cost_usd, facts.cost_known, facts.models) == (3.0, False, ("m1", "m2"))


def test_calls_are_counted_that_came_to_their_work_each_pass_once() -> None:
    tool = "1.tool.invoked.0"
    facts = facts_of(
        recorded(
            begun(),
            acting("1.llm.invoked.0"),
            entry("started", path="2.llm.invoked.0", **{"pass": 1}),
            acting(tool),
            acting(tool),
            acting(tool, 2),
        )
    )
    assert (facts.model_calls, facts.tool_calls) == (1, 2)


def test_what_a_sub_run_used_that_ended_is_in_it_once() -> None:
    result = {"usage": usage(5), "cost_usd": 0.5, "model_calls": 2, "tool_calls": 3}
    ends = [
        entry("finished", path="1.subtask.spawned.0", phase=phase, result={"result": result}, **{"pass": number})
        for phase, number in (("in", 2), ("post", 1))
    ]
    facts = facts_of(recorded(begun(), answered("1.llm.invoked.0", usage=usage(1), cost_usd=1.0), *ends))
    assert facts.usage == Usage(input_tokens=6, output_tokens=2)
    assert (facts.cost_usd, facts.cost_known, facts.model_calls, facts.tool_calls) == (1.5, True, 2, 3)


def test_limits_are_those_that_hooks_tightened() -> None:
    tightened = entry("finished", path="0.run.0", phase="pre", event={"limits": {"max_steps": 3}}, **{"pass": 1})
    for entries, steps in (((), 9), ((tightened,), 3)):
        limits = facts_of(recorded(begun(limits={"max_steps": 9}), *entries)).limits
        assert limits is not None
        assert limits["max_steps"] == steps


def test_what_a_record_does_not_tell_is_not_told() -> None:
    facts = facts_of(recorded(begun()))
    assert (facts.principal, facts.input, facts.limits) == (None, None, None)
    assert (facts.usage, facts.cost_usd, facts.cost_known) == (Usage(), 0.0, True)
    assert list(fact_lines(facts, str)) == []


def test_of_a_run_whose_content_was_erased_nothing_is_told() -> None:
    (record,) = recorded(begun(input="text"))
    assert facts_of([msgspec.structs.replace(record, erased=True)]) == Facts()


def test_a_cost_that_is_known_in_part_is_at_least_that() -> None:
    facts = Facts(usage=Usage(), model_calls=1, tool_calls=1, cost_usd=0.5, cost_known=False)
    assert list(fact_lines(facts, str)) == ["used:     0 + 0 tokens, at least $0.5000; 1 model call, 1 tool call"]
    unknown = msgspec.structs.replace(facts, cost_usd=0.0)
    assert list(fact_lines(unknown, str)) == ["used:     0 + 0 tokens; 1 model call, 1 tool call"]
