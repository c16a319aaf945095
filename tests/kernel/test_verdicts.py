from typing import cast

import pytest
from tests.kernel.workshop import (
    REDACTOR,
    SECRET,
    After,
    Before,
    Grant,
    Op,
    at,
    before,
    dispatch,
    raising,
    runtime,
    saying,
    text_of,
)

from tenter.kernel import (
    Allow,
    Block,
    Escalate,
    HookFailure,
    Outcome,
    Policy,
    Result,
    Retry,
    Suspend,
    Trace,
)

Seen = list[object]


@pytest.mark.parametrize("policy", ["warn", "block", "suspend", "fail"])
async def test_on_error_never_swallows_an_outcome(policy: Policy) -> None:
    decision = await dispatch(at("work.before", raising(Block("no")), name="h", on_error=policy))
    assert (decision.outcome, decision.failed) == (Block("no"), False)


@pytest.mark.parametrize(
    ("policy", "kind", "passed"),
    [("warn", None, 1), ("block", "Block", 0), ("suspend", "Suspend", 0), ("fail", "Fail", 0)],
)
@pytest.mark.promise(6)
@pytest.mark.promise(8)
async def test_a_failure_does_what_the_policy_says_and_nothing_else(
    policy: Policy, kind: str | None, passed: int
) -> None:
    kernel = runtime(at("work.before", raising(ValueError("x")), name="h", on_error=policy))
    decision = await kernel.dispatch("work.before", before("a"))
    assert (type(decision.outcome).__name__ if decision.outcome else None) == kind
    assert (decision.failed, text_of(decision)) == (kind is not None, "a")
    (link,) = kernel.links()
    assert (link.failures, link.passed_on_failure, link.results) == (1, passed, {"crashed": 1})
    (record,) = decision.records
    assert (record.result, record.disposition, record.exception) == ("crashed", policy, "ValueError")


@pytest.mark.promise(8)
async def test_a_control_that_fails_blocks_and_an_observer_that_fails_only_warns() -> None:
    control = await dispatch(at("work.before", raising(ValueError("x")), name="h"))
    assert isinstance(control.outcome, Block)
    assert control.failed
    observer = await dispatch(at("work.before", raising(ValueError("x")), name="h", observe=True))
    assert (observer.outcome, observer.records[0].disposition) == (None, "warn")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Retry("again"), "answered Retry, which work.before does not take"),
        (Result("x"), "answered Result, which work.before does not take"),
        ("yes", "answered a str, which is no outcome"),
        (False, "answered a bool, which is no outcome"),
        (After(envelope="run", op=Op(id="op"), result="x"), "must be of Before"),
        (Before(envelope="another", op=Op(id="op")), "keeps the envelope"),
        (Before(envelope="run", op=Op(id="other")), "keeps the op"),
        (Before(envelope="run", op=Op(id="op"), number=cast(int, "many")), "number"),
        (Before(envelope="run", op=Op(id="op"), approval=Grant(("h",), "d")), "a person's approval"),
    ],
)
@pytest.mark.promise(3)
async def test_an_answer_that_the_point_cannot_take_is_the_failure_of_its_hook(answer: object, why: str) -> None:
    decision = await dispatch(at("work.before", saying(answer), name="h"))
    assert isinstance(decision.outcome, Block)
    assert (decision.failed, text_of(decision)) == (True, "a")
    (record,) = decision.records
    assert record.result == "bad_output"
    assert why in record.reason


async def test_a_replacement_where_the_point_takes_none_is_a_failure() -> None:
    kernel = runtime(at("plain.done.pre", lambda e: e.replace(text="b"), name="h"))
    decision = await kernel.dispatch("plain.done.pre", before("a"))
    assert decision.records[0].reason.endswith("replaced the event, which plain.done.pre does not take")
    assert (decision.failed, text_of(decision)) == (True, "a")


async def test_post_replaces_the_result_and_nothing_else() -> None:
    event = After(envelope="run", op=Op(id="op"), result="r", text="a")
    good = runtime(at("work.after", lambda e: e.replace(result="s"), name="h"))
    assert (await good.dispatch("work.after", event)).event == event.replace(result="s")
    bad = runtime(at("work.after", lambda e: e.replace(text="b"), name="h"))
    decision = await bad.dispatch("work.after", event)
    assert "'text' is no part of the result" in decision.records[0].reason


async def test_a_coroutine_that_a_synchronous_hook_returns_is_a_failure_and_never_a_warning() -> None:
    async def forgotten(event: Before) -> Block:
        return Block("never awaited")

    decision = await dispatch(at("work.before", lambda e: forgotten(e), name="h"))  # noqa: PLW0108  # no async function
    assert "make it an async function" in decision.records[0].reason


class Hostile:
    """An object that raises wherever it is looked at."""

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]  # hostile on purpose
        raise ValueError("do not look")


@pytest.mark.parametrize("where", ["answer", "field"])
async def test_an_answer_that_nobody_can_look_into_is_a_failure(where: str) -> None:
    def hook(event: Before) -> object:
        return Hostile() if where == "answer" else event.replace(extra={"a": Hostile()})

    decision = await dispatch(at("work.before", hook, name="h"))
    assert isinstance(decision.outcome, Block)
    assert [record.result for record in decision.records] == ["crashed"]


async def test_a_rewrite_to_what_python_takes_for_equal_is_a_rewrite() -> None:
    event = before("a", extra={"force": 1})
    decision = await dispatch(at("work.before", lambda e: e.replace(extra={"force": True}), name="h"), event=event)
    assert cast(Before, decision.event).extra["force"] is True


async def test_an_allow_waives_what_inner_hooks_ask_for() -> None:
    allows = at("work.before", saying(Allow("fine")), name="allows", band="control")
    asks = at("work.before", saying(Suspend("sure?")), name="asks")
    decision = await dispatch(allows, asks)
    assert (decision.outcome, decision.hook) == (Allow("fine"), "allows")


@pytest.mark.promise(4)
@pytest.mark.parametrize(
    "answer",
    [
        Block(SECRET),
        Suspend("why", editable=(SECRET,)),
        Block("x", code="sk_abcdefghij"),
        Escalate("x", queue="sk_abcdefghij"),
    ],
)
async def test_no_secret_leaves_in_the_words_of_an_answer_or_of_a_failure(answer: Outcome) -> None:
    trace = Trace()
    failures = [raising(ValueError(SECRET)), raising(HookFailure("crashed", SECRET))]
    for call in (saying(answer), raising(answer), *failures):
        kernel = runtime(at("work.before", call, name="h"), redactor=REDACTOR)
        decision = await kernel.dispatch("work.before", before("a"), trace=trace)
        assert decision.failed is (call in failures)
        assert call in failures or type(decision.outcome) is type(answer)
        assert SECRET not in repr((decision, trace.events()))
        assert "sk_abcdefghij" not in repr((decision, trace.events()))


async def test_a_failure_that_an_executor_names_keeps_its_result_and_code() -> None:
    decision = await dispatch(at("work.before", raising(HookFailure("signal", "died", code="sigsegv")), name="h"))
    assert [(r.result, r.code, r.reason) for r in decision.records] == [("signal", "sigsegv", "died")]


@pytest.mark.parametrize("error", [ValueError("x: y " * 200_000), HookFailure("crashed", "x: y " * 200_000)])
async def test_a_reason_without_end_is_cut(error: Exception) -> None:
    decision = await dispatch(at("work.before", raising(error), name="h"))
    assert len(decision.records[0].reason) < 20_000
    assert decision.records[0].reason.endswith("(cut)")
