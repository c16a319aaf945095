import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from tests.kernel.workshop import (
    DRIP,
    FACT,
    REDACTOR,
    SECRET,
    WORK,
    After,
    Before,
    Grant,
    Op,
    Said,
    at,
    before,
    raising,
    runtime,
    saying,
    shout,
)

from tenter.kernel import (
    AfterEvent,
    Block,
    Blocked,
    Done,
    Escalate,
    Escalated,
    Event,
    Failed,
    Hook,
    HookFailure,
    OperationFailed,
    Policy,
    Retry,
    Stopped,
    Suspend,
    Suspended,
    Trace,
)

Log = list[object]


async def work(*hooks: object, event: Before | None = None) -> Done[After] | Stopped:
    return await runtime(*hooks).run(WORK, event if event is not None else before("a"), shout)


def result_of(ending: object) -> str:
    assert isinstance(ending, Done)
    return cast("Done[After]", ending).event.result


def teller(log: Log, name: str, *, pre: object = None, post: object = None, priority: int = 500) -> Hook:
    """A plugin that writes down what it hears; `pre` and `post` are what it answers, or raises."""

    def answer(what: object) -> object:
        if isinstance(what, BaseException) and not isinstance(what, Block | Suspend | Retry | Escalate):
            raise what
        return what

    class Teller(Hook):
        def on_work_before(self, event: Before) -> object:
            log.append(f"{name}.pre")
            return answer(pre)

        def on_work_after(self, event: After) -> object:
            log.append(f"{name}.post")
            return answer(post)

        def abandon(self, point: str, event: object, error: object) -> None:
            log.append((f"{name}.abandon", point, type(error).__name__))

    hook = Teller()
    hook.name, hook.priority = name, priority
    return hook


def left(log: Log) -> list[str]:
    told = [cast("tuple[str, str, str]", entry) for entry in log if isinstance(entry, tuple)]
    return [name.removesuffix(".abandon") for name, _, _ in told]


async def test_pre_gives_the_body_its_input_and_post_its_output() -> None:
    ending = await work(
        at("work.before", lambda e: e.replace(text=e.text + "b"), name="adds"),
        at("work.after", lambda e: e.replace(result=e.result + "!"), name="shouts"),
    )
    assert ending == Done(After(envelope="run", op=Op(id="op"), text="ab", result="AB!"))


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (Block("no", code="policy_denied", stop=True), Blocked(reason="no", code="policy_denied", hook="h", stop=True)),
        (Escalate("up", queue="ops"), Escalated(reason="up", queue="ops", hook="h")),
    ],
)
async def test_a_refusal_at_pre_ends_the_operation_before_its_body(answer: object, ending: object) -> None:
    ran: Log = []

    async def body(event: Before) -> str:
        ran.append(1)
        return ""

    assert await runtime(at("work.before", saying(answer), name="h")).run(WORK, before(), body) == ending
    assert ran == []


@pytest.mark.promise(10)
async def test_a_suspension_holds_the_call_as_it_stands_and_goes_on_once_it_is_approved() -> None:
    hooks = [
        at("work.before", lambda e: e.replace(text="b"), name="rewrites", priority=1),
        at("work.before", saying(Suspend("sure?", expires_in=60)), name="asks"),
    ]
    ending = await work(*hooks)
    assert isinstance(ending, Suspended)
    assert (cast(Before, ending.event).text, [r.expires_in for r in ending.requirements]) == ("b", [60])
    approved = before("a", approval=Grant(tuple(one.name for one in ending.requirements), ending.digest))
    assert result_of(await work(*hooks, event=approved)) == "B"


async def test_the_first_result_within_stands_for_the_work() -> None:
    ran: Log = []

    async def body(event: Before) -> str:
        ran.append("body")
        return ""

    kernel = runtime(
        at("work.done.in", lambda e: e.replace(text="b"), name="first"),
        at("work.done.in", lambda e: e.result(f"made of {e.text}"), name="second"),
        at("work.done.in", lambda e: ran.append("third"), name="third"),
    )
    assert result_of(await kernel.run(WORK, before("a"), body)) == "made of b"
    assert ran == []


async def test_observers_within_run_after_the_work() -> None:
    log: Log = []

    def looks(event: Before, ended: object) -> None:
        log.append(("looks", event.text, ended))

    async def body(event: Before) -> str:
        log.append("body")
        return "done"

    kernel = runtime(at("work.done.in", looks, observe=True))
    assert result_of(await kernel.run(WORK, before("a"), body)) == "done"
    assert log == ["body", ("looks", "a", None)]
    blocks = at("work.done.in", saying(Block("no")), name="blocks")
    await runtime(at("work.done.in", looks, observe=True), blocks).run(WORK, before("a"), body)
    assert log[2:] == [("looks", "a", Block("no"))]


@pytest.mark.promise(11)
@pytest.mark.parametrize("band", ["baseline", "control"])
async def test_guards_judge_what_an_in_hook_hands_on_before_anything_else_sees_it(band: str) -> None:
    log: Log = []

    def guard(event: Before) -> Block | None:
        log.append(("guard", event.text))
        return Block("bad") if event.text == "bad" else None

    kernel = runtime(
        at("work.before", guard, band=band),  # pyright: ignore[reportArgumentType]  # a parameter
        at("work.done.in", lambda e: e.replace(text="bad"), name="rewrites"),
        at("work.done.in", lambda e: log.append(("next", e.text)), name="next"),
    )
    ending = await kernel.run(WORK, before("a"), shout)
    assert ending == Blocked(reason="bad", code="blocked", hook="guard")
    assert log == [("guard", "a"), ("guard", "bad")]


async def test_what_the_guards_let_through_goes_on_to_the_next_and_to_the_body() -> None:
    log: Log = []
    kernel = runtime(
        at("work.before", lambda e: log.append(("pre", e.text)), name="pre", band="control"),
        at("work.done.in", lambda e: log.append(("in", e.text)), name="within", band="control"),
        at("work.done.in", lambda e: e.replace(text=e.text + "!"), name="rewrites"),
        at("work.done.in", lambda e: e.replace(text=e.text + "?"), name="again"),
    )
    assert result_of(await kernel.run(WORK, before("a"), shout)) == "A!?"
    assert log == [("pre", "a"), ("in", "a"), ("pre", "a!"), ("in", "a!"), ("pre", "a!?"), ("in", "a!?")]


@pytest.mark.promise(10)
async def test_an_in_hook_cannot_change_a_call_that_a_person_approved() -> None:
    event = before("a", approval=Grant(("asks",), "sha256:x"))
    ending = await work(at("work.done.in", lambda e: e.replace(text="b"), name="h"), event=event)
    assert isinstance(ending, Blocked)
    assert ending.failed
    assert "a person approved the call as it was" in ending.reason


@pytest.mark.parametrize("answer", [Block("no"), Retry("again", feedback="do better")])
async def test_a_post_hook_may_withhold_the_result_or_ask_again(answer: Block | Retry) -> None:
    ending = await work(at("work.after", saying(answer), name="h"))
    assert ending == (answer if isinstance(answer, Retry) else Blocked(reason="no", code="blocked", hook="h"))


@pytest.mark.promise(5)
async def test_a_hook_whose_post_ran_is_not_told_again() -> None:
    log: Log = []
    await work(teller(log, "outer", priority=1), teller(log, "inner"))
    assert log == ["outer.pre", "inner.pre", "inner.post", "outer.post"]


BLOCK, SUSPEND, RETRY, ERROR = Block("no"), Suspend("ask"), Retry("again"), ValueError("x")


@pytest.mark.promise(5)
@pytest.mark.parametrize("answer", [BLOCK, SUSPEND, Escalate("up"), ERROR])
async def test_whoever_heard_of_the_beginning_hears_when_a_later_pre_hook_ends_it(answer: object) -> None:
    log: Log = []
    ending = await work(
        teller(log, "one", priority=1), teller(log, "two", priority=2), teller(log, "three", pre=answer, priority=3)
    )
    assert log[-3:] == [(f"{n}.abandon", "work.done.pre", type(ending).__name__) for n in ("three", "two", "one")]


@pytest.mark.promise(5)
async def test_a_hook_that_never_heard_of_the_beginning_hears_of_no_end() -> None:
    log: Log = []
    await work(teller(log, "one", pre=BLOCK, priority=1), teller(log, "never", priority=2))
    assert left(log) == ["one"]


@pytest.mark.promise(5)
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), asyncio.CancelledError(), GeneratorExit()])
async def test_the_failure_of_the_body_is_told_innermost_first(error: BaseException) -> None:
    log: Log = []

    async def body(event: Before) -> str:
        raise error

    kernel = runtime(teller(log, "outer", priority=1), teller(log, "inner"))
    ending = await kernel.run(WORK, before(), body)
    assert isinstance(ending, Failed)
    assert (ending.exception, left(log)) == (type(error).__name__, ["inner", "outer"])


@pytest.mark.promise(5)
@pytest.mark.parametrize("answer", [BLOCK, RETRY, ERROR])
async def test_a_post_hook_that_cuts_outer_hooks_off_leaves_them_told(answer: object) -> None:
    log: Log = []
    await work(teller(log, "outer", priority=1), teller(log, "cuts", post=answer), teller(log, "inner", priority=900))
    assert log[3:] == ["inner.post", "cuts.post", ("outer.abandon", "work.done.pre", log[-1][2])]  # pyright: ignore[reportIndexIssue]  # the last entry is a tuple


@pytest.mark.promise(5)
async def test_a_hook_whose_post_does_not_match_is_told() -> None:
    log: Log = []

    class Picky(Hook):
        name = "picky"

        def on_work_before(self, event: Before) -> None:
            log.append("pre")

        def abandon(self, point: str, event: object, error: object) -> None:
            log.append((point, error))

    ending = await work(Picky())
    assert log == ["pre", ("work.done.pre", ending)]


@pytest.mark.promise(5)
async def test_a_guard_that_first_judges_a_rewrite_is_told_as_well() -> None:
    log: Log = []

    class Guard(Hook):
        name, band, match = "guard", "baseline", {"text": "b"}

        def on_work_before(self, event: Before) -> None:
            log.append(f"saw {event.text}")

        def abandon(self, point: str, event: Before, error: object) -> None:
            log.append(f"left with {event.text}")

    await work(Guard(), at("work.before", lambda e: e.replace(text="b"), name="h"))
    assert log == ["saw b", "left with b"]


@pytest.mark.promise(5)
async def test_a_hook_at_two_phases_is_told_once() -> None:
    told: Log = []

    class Both(Hook):
        def on_work_before(self, event: Before) -> None: ...

        def on_work_done_in(self, event: Before) -> None: ...

        def abandon(self, point: str, event: object, error: object) -> None:
            told.append(point)

    await work(Both())
    assert told == ["work.done.pre"]


@pytest.mark.promise(5)
async def test_what_fails_in_one_abandon_is_contained_and_counted() -> None:
    log: Log = []

    async def late() -> None:
        log.append("never")

    def plugin(name: str, fails: Callable[[], object]) -> Hook:
        class Fails(Hook):
            def on_work_before(self, event: Before) -> None:
                log.append(name)

            def abandon(self, point: str, event: object, error: object) -> object:
                log.append(f"{name} left")
                return fails()

        hook = Fails()
        hook.name = name
        return hook

    def leaves() -> None:
        raise SystemExit(3)

    kernel = runtime(plugin("one", lambda: None), plugin("two", leaves), plugin("three", late))
    assert result_of(await kernel.run(WORK, before("a"), shout)) == "A"
    assert log == ["one", "two", "three", "three left", "two left", "one left"]
    assert [link.failures for link in kernel.links()] == [0, 1, 1]


async def never_ends(event: object) -> None:
    await asyncio.Event().wait()


@pytest.mark.promise(5)
@pytest.mark.parametrize("where", ["pre", "in", "body", "post"])
@pytest.mark.parametrize("timeout", [None, 30.0], ids=["soft", "hard"])
async def test_cancellation_passes_after_everybody_was_told(where: str, timeout: float | None) -> None:
    log: Log = []
    reached = asyncio.Event()

    async def waits(event: Event) -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    hooks = [at(f"work.done.{where}", waits, name="waits", timeout=timeout)] if where != "body" else []
    kernel = runtime(teller(log, "outer", priority=1), *hooks)
    body = cast("Callable[[Before], Awaitable[object]]", waits if where == "body" else shout)
    run = asyncio.create_task(kernel.run(WORK, before(), body))
    await asyncio.wait_for(reached.wait(), 5)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 5)
    assert log[-1] == ("outer.abandon", "work.done.pre", "CancelledError")
    if where != "body":
        failures = [(e.source, e.code) for e in kernel.trace.events() if e.kind == "failure"]
        assert failures == [("waits", "cancelled")]


async def test_the_keyboard_interrupt_passes_and_everybody_is_told() -> None:
    log: Log = []

    async def body(event: Before) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await runtime(teller(log, "outer")).run(WORK, before(), body)
    assert log[-1] == ("outer.abandon", "work.done.pre", "KeyboardInterrupt")


@pytest.mark.promise(4)
async def test_the_body_and_its_output_are_redacted_and_so_is_what_post_replaces() -> None:
    seen: Log = []

    async def leaks(event: Before) -> str:
        seen.append(event)
        return SECRET

    hooks = [
        at("work.after", lambda e: seen.append(e) or e.replace(result=f"{SECRET}!"), name="leaks", priority=900),
        at("work.after", seen.append, name="reads"),
    ]
    ending = await runtime(*hooks, redactor=REDACTOR).run(WORK, before(SECRET), leaks, steps=Recorded(seen))
    assert len(seen) == 5
    assert SECRET not in repr((seen, ending))


@pytest.mark.promise(4)
@pytest.mark.parametrize("kind", [ValueError, OperationFailed])
async def test_the_text_of_a_failure_is_masked(kind: type[Exception]) -> None:
    async def fails(event: Before) -> str:
        raise kind(f"with {SECRET}")

    ending = await runtime(redactor=REDACTOR).run(WORK, before(), fails)
    assert isinstance(ending, Failed)
    assert "with" in ending.message
    assert SECRET not in ending.message


async def test_a_body_names_its_failure() -> None:
    async def fails(event: Before) -> str:
        raise OperationFailed("too slow", code="timeout", retryable=True)

    ending = await runtime().run(WORK, before(), fails)
    assert ending == Failed(message="too slow", code="timeout", exception="OperationFailed", retryable=True)


async def test_a_result_that_is_no_data_is_the_failure_of_the_body() -> None:
    async def code(event: Before) -> object:
        return lambda: None

    ending = await runtime().run(WORK, before(), code)
    assert isinstance(ending, Failed)
    assert "'function' cannot be frozen" in ending.message


@pytest.mark.parametrize(("policy", "kind"), [("fail", Failed), ("block", Blocked), ("suspend", Suspended)])
async def test_a_failed_hook_ends_the_operation_as_its_policy_says(policy: Policy, kind: type[object]) -> None:
    ending = await work(at("work.before", raising(HookFailure("crashed", "why")), name="h", on_error=policy))
    assert type(ending) is kind
    if isinstance(ending, Failed):
        assert (ending.message, ending.hook) == ("why", "h")


async def test_a_fact_keeps_its_event_and_nothing_refuses_it() -> None:
    seen: Log = []
    event = Said(text="a")

    async def body(event: Said) -> None:
        seen.append("body")

    crashes = at("fact.told.pre", raising(ValueError("x")), name="h")
    kernel = runtime(crashes, at("fact.told.post", seen.append, name="t"))
    ending = await kernel.run(FACT, event, body)
    assert isinstance(ending, Done)
    assert ending.event is event
    assert seen == ["body", event]
    assert [link.passed_on_failure for link in kernel.links()] == [1, 0]


async def test_a_nested_operation_is_traced_once() -> None:
    kernel = runtime(at("drip.done.pre", lambda e: None, name="h"))
    for _ in range(3):
        assert result_of(await kernel.run(DRIP, before("a"), shout)) == "A"
    assert [(e.source, e.details["firings"]) for e in kernel.trace.events()] == [("drip.done.pre", 3)]


@pytest.mark.promise(13)
async def test_an_operation_is_the_same_with_no_hooks_and_with_hooks_that_say_nothing() -> None:
    bare = runtime()
    silent = runtime(at("work.before", lambda e: None, name="one"), at("work.after", lambda e: None, name="two"))
    event = before("a", extra={"n": 1})
    endings = [await kernel.run(WORK, event, shout) for kernel in (bare, silent)]
    assert endings[0] == endings[1] == Done(After(envelope="run", op=Op(id="op"), text="a", extra={"n": 1}, result="A"))
    assert bare.trace.events() == ()


class Recorded:
    """Steps that an engine would journal."""

    def __init__(self, log: Log, fails: str = "") -> None:
        self.log = log
        self.fails = fails

    async def acting(self, event: Event) -> None:
        self.log.append(("acting", event))
        if self.fails == "acting":
            raise OSError("disk full")

    async def acted(self, event: Event) -> None:
        self.log.append(("acted", cast(AfterEvent, event)))


async def test_the_steps_are_told_before_the_body_and_after_it() -> None:
    log: Log = []
    rewrites = at("work.before", lambda e: e.replace(text="b"), name="h")
    await runtime(rewrites).run(WORK, before("a"), shout, steps=Recorded(log))
    after = After(envelope="run", op=Op(id="op"), text="b", result="B")
    assert log == [("acting", before("b")), ("acted", after)]


@pytest.mark.promise(5)
async def test_a_step_that_cannot_be_recorded_stops_the_operation_and_everybody_is_told() -> None:
    log: Log = []
    with pytest.raises(OSError, match="disk full"):
        await runtime(teller(log, "h")).run(WORK, before("a"), shout, steps=Recorded([], fails="acting"))
    assert left(log) == ["h"]


async def test_finish_runs_the_post_chain_alone() -> None:
    after = After(envelope="run", op=Op(id="op"), result="r")
    before_it = at("work.before", raising(ValueError()), name="h")
    kernel = runtime(before_it, at("work.after", lambda e: e.replace(result="s"), name="p"))
    assert await kernel.finish(WORK, after, trace=Trace()) == Done(after.replace(result="s"))
