import functools
import json
import types
from collections.abc import Callable, Generator
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, cast

import pytest
from tests.kernel.workshop import (
    REDACTOR,
    SECRET,
    WORK,
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
    Failed,
    HookFailure,
    OperationFailed,
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
        ("yes", "a str, which is no outcome; work.before takes None, Allow(…), Block(…), Suspend(…), Escalate(…) or"),
        ("yes", "Escalate(…) or event.replace(…)"),
        (Block, "answered the class Block; return Block(…), not the class"),
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
    assert [record.result for record in decision.records] == ["bad_output" if where == "answer" else "crashed"]


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
        Suspend("why", editable=(f"extra.{SECRET}",)),
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


async def test_a_person_may_change_fields_of_the_event_and_what_is_in_them_alone() -> None:
    for editable, result in (
        (("text", "extra.a.b"), "ok"),
        (("*",), "ok"),
        (("text.*", "*.text"), "bad_output"),
        (("text", "argumnets"), "bad_output"),
        (("op",), "bad_output"),
    ):
        asks = Suspend("sure?", editable=editable)
        (record,) = (await dispatch(at("work.before", saying(asks), name="h", on_error="warn"))).records
        assert (record.result, "which the event does not have" in record.reason) == (result, result != "ok")
    (record,) = (
        await runtime(
            at("work.before", saying(Suspend("?", editable=(SECRET,))), name="h"), redactor=REDACTOR
        ).dispatch("work.before", before())
    ).records
    assert SECRET not in record.reason


@pytest.mark.promise(11)
async def test_an_approval_is_not_changed_to_what_python_takes_for_equal() -> None:
    granted = Op(id="op", approval=Grant(asked=("a",), digest="d"))
    event = Before(envelope=1, op=granted)
    for other in (Before(envelope=True, op=granted), Before(envelope=1.0, op=granted)):
        decision = await dispatch(at("work.before", saying(other), name="h"), event=event)
        assert [record.result for record in decision.records] == ["bad_output"]
    after = After(result="r", extra={"n": 1})
    (record,) = (
        await runtime(at("work.after", lambda e: e.replace(extra={"n": True}), name="h")).dispatch("work.after", after)
    ).records
    assert record.result == "bad_output"


class Alike(Enum):
    """Equal to nothing without a fight."""

    ONE = "one"

    def __eq__(self, other: object) -> bool:
        raise SystemExit(3)

    __hash__ = Enum.__hash__


@pytest.mark.fault(26)
@pytest.mark.parametrize("value", [2**70, "\ud800", 1.5, Alike.ONE, (Alike.ONE, 1)], ids=repr)
async def test_an_echo_of_the_event_just_works_whatever_it_holds(value: object) -> None:
    event = before("\ud800", extra={"n": value})
    decision = await dispatch(at("work.before", lambda e: e.replace(extra={"n": value}), name="h"), event=event)
    assert (decision.records, decision.outcome) == ((), None)
    decision = await dispatch(at("work.before", lambda e: e.replace(extra={"n": Alike.ONE}), name="h"))
    assert [record.modified for record in decision.records] == [True]


class Nameless(type):
    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  # hostile on purpose
        raise SystemExit(4)


class Untold(Exception, metaclass=Nameless):
    """It does not say its name."""


class Denies(Exception):
    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]  # hostile on purpose
        raise SystemExit(5)


def untold() -> Exception:
    return Untold("x")


def denies() -> Exception:
    return Denies()


def bad_syntax() -> SyntaxError:
    error = SyntaxError("x")
    error.text, error.lineno, error.filename = cast(str, 5), 1, "f"
    return error


def changed_failure() -> HookFailure:
    error = HookFailure("crashed", "x")
    error.reason, error.code = cast(str, 5), "no word at all"
    return error


def changed_operation() -> OperationFailed:
    error = OperationFailed("x")
    error.code = "no word at all"
    return error


@pytest.mark.fault(26)
@pytest.mark.parametrize(
    "make", [untold, denies, bad_syntax, changed_failure, changed_operation], ids=lambda make: make.__name__
)
async def test_an_exception_that_does_not_let_itself_be_told_is_a_crash(make: Callable[[], Exception]) -> None:
    decision = await dispatch(at("work.before", raising(make()), name="h"))
    assert isinstance(decision.outcome, Block)
    assert [record.result for record in decision.records] == ["crashed"]

    async def body(event: Before) -> str:
        raise make()

    ending = await runtime().run(WORK, before(), body)
    assert isinstance(ending, Failed)
    assert ending.code in ("internal", "crashed")


class ToldOnce(Exception):
    """Its text is looked for where nobody expects an end of the process."""

    @property
    def __cause__(self) -> BaseException:  # pyright: ignore[reportIncompatibleVariableOverride]  # hostile on purpose
        raise SystemExit(6)


@pytest.mark.fault(26)
async def test_an_exception_whose_telling_ends_the_process_is_a_crash() -> None:
    decision = await dispatch(at("work.before", raising(ToldOnce("x")), name="h"))
    assert [(record.result, record.exception) for record in decision.records] == [("crashed", "ToldOnce")]


@pytest.mark.fault(26)
async def test_a_coroutine_that_raises_when_it_is_closed_is_a_bad_answer() -> None:
    @types.coroutine
    def once() -> Generator[None, None, None]:
        yield

    async def begun() -> None:
        try:
            await once()
        finally:
            raise SystemExit(9)

    def hook(event: Before) -> object:
        answer = begun()
        answer.send(None)
        return answer

    (record,) = (await dispatch(at("work.before", hook, name="h"))).records
    assert (record.result, "raised SystemExit when it was closed" in record.reason) == ("bad_output", True)


@pytest.mark.fault(26)
async def test_an_answer_that_was_changed_after_it_was_made_is_judged_again() -> None:
    for field, value in (("reason", 5), ("code", "no word"), ("stop", "yes")):
        block = Block("no")
        object.__setattr__(block, field, value)
        decision = await dispatch(at("work.before", saying(block), name="h"))
        assert ([record.result for record in decision.records], decision.failed) == (["crashed"], True)


class EndsAll(PurePosixPath):
    def __str__(self) -> str:
        raise SystemExit(4)


@pytest.mark.fault(26)
async def test_a_replacement_that_ends_the_process_when_it_is_redacted_is_a_crash() -> None:
    hook = at("work.before", lambda e: e.replace(extra={"p": EndsAll("/a")}), name="h")
    decision = await runtime(hook, redactor=REDACTOR).dispatch("work.before", before())
    assert [record.result for record in decision.records] == ["crashed"]


async def test_a_crash_is_told_with_the_line_of_the_hooks_own_file() -> None:
    def careless(event: Before) -> None:
        json.loads("{")

    async def later(event: Before) -> None:
        careless(event)

    line = careless.__code__.co_firstlineno + 1
    for hook in (careless, later):
        for timeout in (None, 10.0):
            decision = await dispatch(at("work.before", hook, name="h", timeout=timeout))
            said = decision.records[0].reason
            assert said.startswith(f"the hook 'h' failed at test_verdicts.py:{line}: json.decoder.JSONDecodeError: ")


async def test_a_crash_in_code_without_a_file_of_its_own_is_told_without_a_place() -> None:
    decision = await dispatch(at("work.before", cast(Any, functools.partial(int, "x")), name="h"))
    assert decision.records[0].reason.startswith("the hook 'h' failed: ")


async def test_a_hook_that_changes_its_event_in_place_is_told_to_replace_it() -> None:
    def changes(event: Before) -> None:
        cast(Any, event).text = "b"

    decision = await dispatch(at("work.before", changes, name="h"))
    assert decision.records[0].reason.endswith(
        "immutable type: 'Before'; nothing in an event is changed in place: return event.replace(field=value)"
    )
