"""The boundary as a playbook: stages go in, and who heard what comes out."""

import asyncio
from collections.abc import Collection
from typing import cast

import pytest
from tests.kernel.workshop import (
    DRIP,
    REDACTOR,
    SECRET,
    SPAN,
    STAGED,
    WORK,
    After,
    Before,
    Op,
    at,
    before,
    raising,
    runtime,
    saying,
)

from tenter.kernel import (
    Block,
    Blocked,
    Done,
    Escalate,
    Escalated,
    Event,
    Hook,
    Operation,
    Phase,
    RegistrationError,
    Requirement,
    Suspend,
    Suspended,
    TenterError,
    Trace,
)

Log = list[object]

INPUT = before("a")
OUTPUT = After(envelope="run", op=Op(id="op"), text="a", result="A")
DOWN = ValueError("the loop comes down")


def after(text: str = "a") -> After:
    return OUTPUT.replace(text=text)


def teller(
    log: Log, name: str, *, pre: object = None, post: object = None, priority: int = 500, text: str | None = None
) -> Hook:
    """A plugin that writes down what it hears; `pre` and `post` are what it answers. `text` is what it matches."""

    class Teller(Hook):
        def on_stage_before(self, event: Before) -> object:
            log.append(f"{name}.pre")
            return pre

        def on_stage_after(self, event: After) -> object:
            log.append(f"{name}.post")
            return post

        def abandon(self, point: str, event: object, error: object) -> None:
            log.append(f"{name} left {point}: {type(error).__name__}")

    hook = Teller()
    hook.name, hook.priority, hook.match = name, priority, {} if text is None else {"text": text}
    return hook


def teller_of_the_beginning(log: Log, name: str, *, priority: int = 500, pre: object = None) -> Hook:
    """The same without a post."""

    class Beginner(Hook):
        def on_stage_before(self, event: Before) -> object:
            log.append(f"{name}.pre")
            return pre

        def abandon(self, point: str, event: object, error: object) -> None:
            log.append(f"{name} left {point}: {type(error).__name__}")

    hook = Beginner()
    hook.name, hook.priority = name, priority
    return hook


def watching(log: Log, point: str) -> object:
    def watch(event: Event) -> None:
        log.append(f"watched {point}")

    return at(point, watch, observe=True)


async def test_each_stage_gives_what_goes_on_from_there() -> None:
    log: Log = []
    boundary = runtime(teller(log, "one"), teller(log, "two", priority=900)).boundary(STAGED)
    assert await boundary.pre(INPUT) == Done(INPUT)
    assert log == ["one.pre", "two.pre"]
    assert await boundary.post(OUTPUT) == Done(OUTPUT)
    boundary.leave(OUTPUT)
    assert log == ["one.pre", "two.pre", "two.post", "one.post"]


ANSWERS = [
    (Block("no"), Blocked(reason="no", code="blocked", hook="h")),
    (Escalate("up", queue="ops"), Escalated(reason="up", queue="ops", hook="h")),
]


@pytest.mark.parametrize(("answer", "stopped"), ANSWERS)
async def test_a_refusal_is_the_value_of_its_stage_at_either_end(answer: object, stopped: object) -> None:
    boundary = runtime(at("stage.before", saying(answer), name="h")).boundary(STAGED)
    assert await boundary.pre(INPUT) == stopped
    boundary = runtime(at("stage.after", saying(answer), name="h")).boundary(STAGED)
    assert await boundary.post(OUTPUT) == stopped


@pytest.mark.parametrize("phase", ["pre", "post"])
async def test_all_who_suspend_are_in_one_suspension_and_the_rest_of_the_chain_ran(phase: Phase) -> None:
    log: Log = []
    hooks = [
        at(f"stage.done.{phase}", saying(Suspend("first?")), name="first", priority=500),
        at(f"stage.done.{phase}", lambda e: log.append("between"), name="between"),
        at(f"stage.done.{phase}", saying(Suspend("second?")), name="second"),
        watching(log, f"stage.done.{phase}"),
    ]
    boundary = runtime(*hooks).boundary(STAGED)
    ending = await (boundary.pre(INPUT) if phase == "pre" else boundary.post(OUTPUT))
    assert isinstance(ending, Suspended)
    assert ending.requirements == (
        Requirement(hook="first", reason="first?", point=f"stage.done.{phase}"),
        Requirement(hook="second", reason="second?", point=f"stage.done.{phase}"),
    )
    assert log == ["between", f"watched stage.done.{phase}"]


@pytest.mark.promise(5)
async def test_who_suspended_and_waited_hears_the_end_by_the_post_of_the_same_boundary() -> None:
    log: Log = []
    boundary = runtime(teller(log, "asks", pre=Suspend("sure?"))).boundary(STAGED)
    assert isinstance(await boundary.pre(INPUT), Suspended)
    assert isinstance(await boundary.post(OUTPUT), Done)
    boundary.leave(OUTPUT)
    assert log == ["asks.pre", "asks.post"]


@pytest.mark.promise(5)
async def test_a_block_at_pre_leaves_those_who_were_told_innermost_first() -> None:
    log: Log = []
    hooks = [
        teller(log, "one", priority=1),
        teller(log, "two", priority=2),
        teller(log, "three", pre=Block("no"), priority=3),
        teller(log, "never", priority=4),
    ]
    boundary = runtime(*hooks).boundary(STAGED)
    ending = await boundary.pre(INPUT)
    assert isinstance(ending, Blocked)
    assert log == ["one.pre", "two.pre", "three.pre"]
    boundary.leave(ending)
    assert log[3:] == [f"{name} left stage.done.pre: Blocked" for name in ("three", "two", "one")]


@pytest.mark.promise(5)
async def test_who_has_no_post_is_left_with_the_ending_and_no_other_is() -> None:
    log: Log = []
    boundary = runtime(teller_of_the_beginning(log, "opens", priority=1), teller(log, "both")).boundary(STAGED)
    await boundary.pre(INPUT)
    await boundary.post(OUTPUT)
    assert "opens left" not in repr(log)
    boundary.leave(OUTPUT)
    assert log == ["opens.pre", "both.pre", "both.post", "opens left stage.done.pre: After"]


@pytest.mark.promise(5)
async def test_a_post_that_does_not_match_is_no_end_that_was_heard() -> None:
    log: Log = []
    boundary = runtime(teller(log, "picky", text="a")).boundary(STAGED)
    await boundary.pre(INPUT)
    await boundary.post(after("b"))
    boundary.leave(OUTPUT)
    assert log == ["picky.pre", "picky left stage.done.pre: After"]


@pytest.mark.promise(5)
async def test_a_post_that_cuts_outer_hooks_off_leaves_them() -> None:
    log: Log = []
    hooks = [
        teller(log, "outer", priority=1),
        teller(log, "cuts", post=Block("no")),
        teller(log, "inner", priority=900),
    ]
    boundary = runtime(*hooks).boundary(STAGED)
    await boundary.pre(INPUT)
    ending = await boundary.post(OUTPUT)
    boundary.leave(ending)
    assert log[3:] == ["inner.post", "cuts.post", "outer left stage.done.pre: Blocked"]


@pytest.mark.promise(5)
async def test_leaving_twice_tells_once() -> None:
    log: Log = []
    boundary = runtime(teller(log, "one")).boundary(STAGED)
    await boundary.pre(INPUT)
    boundary.leave(DOWN)
    boundary.leave(OUTPUT)
    assert log == ["one.pre", "one left stage.done.pre: ValueError"]


@pytest.mark.promise(5)
async def test_what_fails_in_one_abandon_keeps_it_from_nobody() -> None:
    log: Log = []

    class Fails(Hook):
        def on_stage_before(self, event: Before) -> None: ...

        def abandon(self, point: str, event: object, error: object) -> None:
            raise SystemExit(3)

    kernel = runtime(teller(log, "outer", priority=1), Fails())
    boundary = kernel.boundary(STAGED)
    await boundary.pre(INPUT)
    boundary.leave(DOWN)
    assert log[1:] == ["outer left stage.done.pre: ValueError"]
    assert {link.name: link.failures for link in kernel.chain("stage.before").links} == {"outer": 0, "fails": 1}


@pytest.mark.promise(5)
async def test_a_boundary_that_goes_on_elsewhere_told_nobody_of_the_beginning() -> None:
    log: Log = []
    kernel = runtime(teller_of_the_beginning(log, "opens", priority=1), teller(log, "both"))
    boundary = kernel.boundary(STAGED)
    assert await boundary.post(OUTPUT) == Done(OUTPUT)
    boundary.leave(OUTPUT)
    assert log == ["both.post"]


@pytest.mark.promise(5)
@pytest.mark.parametrize("phase", ["pre", "post"])
async def test_a_cancelled_stage_leaves_those_who_were_told_by_its_caller(phase: Phase) -> None:
    log: Log = []
    reached = asyncio.Event()

    async def waits(event: Event) -> None:
        reached.set()
        await asyncio.Event().wait()

    hooks = [teller(log, "outer", priority=1), at(f"stage.done.{phase}", waits)]
    boundary = runtime(*hooks).boundary(STAGED)

    async def whole() -> None:
        try:
            await boundary.pre(INPUT)
            await boundary.post(OUTPUT)
        except BaseException as error:
            boundary.leave(error)
            raise

    task = asyncio.create_task(whole())
    await asyncio.wait_for(reached.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert log == ["outer.pre", "outer left stage.done.pre: CancelledError"]


@pytest.mark.promise(5)
async def test_who_heard_the_end_before_it_was_cancelled_is_not_told_again() -> None:
    log: Log = []
    boundary = runtime(
        teller(log, "inner", priority=900), at("stage.after", raising(KeyboardInterrupt()), name="h")
    ).boundary(STAGED)
    await boundary.pre(INPUT)
    with pytest.raises(KeyboardInterrupt):
        await boundary.post(OUTPUT)
    boundary.leave(DOWN)
    assert log == ["inner.pre", "inner.post"]


@pytest.mark.parametrize("phase", ["pre", "post"])
async def test_again_asks_only_the_named_hooks_in_their_order_and_no_observer(phase: Phase) -> None:
    log: Log = []
    hooks = [
        at(f"stage.done.{phase}", lambda e, name=name: log.append(name), name=name, priority=priority)
        for name, priority in (("a", 3), ("b", 2), ("c", 1))
    ]
    boundary = runtime(*hooks, watching(log, f"stage.done.{phase}")).boundary(STAGED)
    event: Event = INPUT if phase == "pre" else OUTPUT
    assert await boundary.again(phase, event, {"a", "c"}) == Done(event)
    assert log == (["c", "a"] if phase == "pre" else ["a", "c"])


async def test_a_hook_that_is_asked_again_may_stop_it_again_and_in_the_end_let_it_pass() -> None:
    answers: list[object] = [Suspend("one"), Suspend("two"), None]
    boundary = runtime(at("stage.before", lambda e: answers.pop(0), name="gate")).boundary(STAGED)
    assert isinstance(await boundary.pre(INPUT), Suspended)
    ending = await boundary.again("pre", INPUT, ["gate"])
    assert isinstance(ending, Suspended)
    assert [one.reason for one in ending.requirements] == ["two"]
    assert await boundary.again("pre", INPUT, ["gate"]) == Done(INPUT)


@pytest.mark.promise(5)
async def test_a_hook_that_was_asked_twice_is_left_once() -> None:
    log: Log = []
    boundary = runtime(teller(log, "gate")).boundary(STAGED)
    await boundary.pre(INPUT)
    await boundary.again("pre", INPUT, ["gate"])
    boundary.leave(DOWN)
    assert log == ["gate.pre", "gate.pre", "gate left stage.done.pre: ValueError"]


@pytest.mark.promise(5)
async def test_a_hook_that_was_asked_again_in_another_process_is_told_of_the_end() -> None:
    log: Log = []
    kernel = runtime(teller(log, "gate"), teller(log, "other"))
    boundary = kernel.boundary(STAGED)
    await boundary.again("pre", INPUT, ["gate"])
    boundary.leave(DOWN)
    assert log == ["gate.pre", "gate left stage.done.pre: ValueError"]
    boundary = kernel.boundary(STAGED)
    await boundary.pre(INPUT)
    await boundary.again("post", OUTPUT, ["gate"])
    boundary.leave(DOWN)
    assert log[2:] == ["gate.pre", "other.pre", "gate.post", "other left stage.done.pre: ValueError"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["gone"], "no hook 'gone' answers at 'stage.before' (any more); those that do: 'here'"),
        (["here", "gone"], "no hook 'gone' answers"),
        (["watch"], "no hook 'watch' answers"),
        (["elsewhere"], "no hook 'elsewhere' answers"),
    ],
)
async def test_a_hook_that_is_not_there_is_refused_before_any_is_asked(names: Collection[str], says: str) -> None:
    log: Log = []
    kernel = runtime(
        at("stage.before", log.append, name="here"),
        watching(log, "stage.before"),
        at("stage.after", log.append, name="elsewhere"),
    )
    with pytest.raises(TenterError) as caught:
        await kernel.boundary(STAGED).again("pre", INPUT, names)
    assert says in str(caught.value)
    assert log == []
    with pytest.raises(TenterError, match="those that do: none"):
        await runtime().boundary(STAGED).again("pre", INPUT, names)


async def test_the_work_is_the_callers_and_no_phase_to_be_asked_again() -> None:
    with pytest.raises(ValueError, match="its work is the caller's"):
        await runtime().boundary(STAGED).again("in", INPUT, [])


@pytest.mark.parametrize("operation", [WORK, SPAN, DRIP], ids=["work", "span", "nested"])
def test_an_operation_that_hooks_may_stand_for_or_that_is_no_leaf_has_no_boundary(
    operation: Operation[Before, After],
) -> None:
    with pytest.raises(ValueError, match="is no leaf of only 'pre' and 'post'"):
        runtime().boundary(operation)


def test_what_is_no_operation_has_no_boundary() -> None:
    with pytest.raises(TenterError, match=r"expected an Operation, got 'stage\.done'"):
        runtime().boundary(cast("Operation[Before, After]", "stage.done"))


async def test_an_event_of_another_stage_is_refused() -> None:
    boundary = runtime().boundary(STAGED)
    with pytest.raises(TenterError, match=r"stage\.done\.pre takes a Before, not After"):
        await boundary.pre(cast(Before, OUTPUT))
    with pytest.raises(TenterError, match=r"stage\.done\.post takes a After, not Before"):
        await boundary.post(cast(After, INPUT))
    with pytest.raises(TenterError, match=r"stage\.done\.post takes a After, not Before"):
        await boundary.again("post", INPUT, [])


@pytest.mark.promise(4)
async def test_what_a_stage_hands_out_and_gives_is_redacted() -> None:
    seen: Log = []
    boundary = runtime(at("stage.before", seen.append, name="reads"), redactor=REDACTOR).boundary(STAGED)
    ending = await boundary.pre(before(SECRET))
    assert isinstance(ending, Done)
    again = await boundary.again("pre", before(SECRET), ["reads"])
    assert len(seen) == 2
    assert SECRET not in repr((seen, ending, again))


async def test_a_stage_goes_to_the_trace_that_the_caller_names() -> None:
    kernel, trace = runtime(at("stage.before", saying(Block("no")), name="h")), Trace()
    await kernel.boundary(STAGED, trace=trace).pre(INPUT)
    assert len(kernel.trace) == 0
    await kernel.boundary(STAGED).pre(INPUT)
    for one in (trace, kernel.trace):
        assert [(entry.kind, entry.source) for entry in one.events()] == [("hook", "stage.before"), ("outcome", "h")]


@pytest.mark.promise(8)
@pytest.mark.parametrize("phase", ["pre", "post"])
async def test_a_failed_hook_blocks_where_nothing_may_fail_and_its_policy_cannot_be_fail(phase: Phase) -> None:
    boundary = runtime(at(f"stage.done.{phase}", raising(ValueError("x")), name="h")).boundary(STAGED)
    ending = await (boundary.pre(INPUT) if phase == "pre" else boundary.post(OUTPUT))
    assert isinstance(ending, Blocked)
    assert (ending.hook, ending.failed) == ("h", True)
    with pytest.raises(RegistrationError, match="has on_error 'fail'; this point takes 'warn', 'block', 'suspend'"):
        runtime(at(f"stage.done.{phase}", saying(None), name="h", on_error="fail"))


async def test_nothing_is_replaced_where_the_point_takes_no_replacement() -> None:
    boundary = runtime(at("stage.before", lambda e: e.replace(text="b"), name="h", on_error="warn")).boundary(STAGED)
    assert await boundary.pre(INPUT) == Done(INPUT)
