import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given, settings, strategies as st
from tests.kernel.workshop import (
    CATALOGUE,
    REDACTOR,
    SECRET,
    WORK,
    Before,
    Grant,
    Op,
    at,
    before,
    dispatch,
    raising,
    runtime,
    saying,
    shout,
    text_of,
)

from tenter.kernel import (
    Allow,
    Band,
    Block,
    Declaration,
    Escalate,
    HookFailure,
    Outcome,
    Policy,
    Runtime,
    Suspend,
    Trace,
)

Seen = list[object]


async def test_a_replacement_feeds_the_next_hook_and_leaves_the_chain() -> None:
    seen: Seen = []

    async def second(event: Before) -> Before:
        seen.append(event.text)
        return event.replace(text=event.text + "c")

    decision = await dispatch(
        at("work.before", lambda e: e.replace(text="ab"), name="first"), at("work.before", second)
    )
    assert (seen, text_of(decision), decision.outcome) == (["ab"], "abc", None)
    assert [record.modified for record in decision.records] == [True, True]


async def test_the_first_block_ends_the_chain_and_the_observers_still_hear_it() -> None:
    seen: Seen = []

    def watcher(event: Before, ended: object) -> None:
        seen.append((event.text, ended))

    block = Block("no", code="policy_denied")
    decision = await dispatch(
        at("work.before", saying(block), name="blocks"),
        at("work.before", lambda e: seen.append("never"), name="later"),
        at("work.before", watcher, observe=True),
    )
    assert (decision.outcome, decision.hook, decision.failed) == (block, "blocks", False)
    assert seen == [("a", block)]


@pytest.mark.parametrize("answer", [Suspend("ask"), Escalate("up")])
async def test_suspend_and_escalate_let_the_rest_run_and_a_later_block_beats_them(answer: Outcome) -> None:
    seen: Seen = []
    hooks = [at("work.before", saying(answer), name="asks"), at("work.before", lambda e: seen.append(1), name="later")]
    decision = await dispatch(*hooks)
    assert (decision.outcome, decision.hook, seen) == (answer, "asks", [1])
    decision = await dispatch(*hooks, at("work.before", saying(Block("no")), name="blocks"))
    assert (decision.outcome, decision.hook) == (Block("no"), "blocks")


async def test_raising_an_outcome_is_the_same_as_returning_it_and_keeps_nothing_alive() -> None:
    def raises(event: Before) -> None:
        try:
            raise ValueError("a secret story")
        except ValueError:
            raise Block("no", code="policy_denied")  # noqa: B904  # the context is what is looked for

    raised = await dispatch(at("work.before", raises, name="h"))
    returned = await dispatch(at("work.before", saying(Block("no", code="policy_denied")), name="h"))
    assert (raised.outcome, raised.hook) == (returned.outcome, returned.hook)
    assert isinstance(raised.outcome, Block)
    assert (raised.outcome.__traceback__, raised.outcome.__context__) == (None, None)


class Own(BaseException):
    """A hook author's own, outside Exception."""


@pytest.mark.fault(26)
@pytest.mark.promise(6)
@pytest.mark.parametrize("awaits", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("timeout", [None, 2.0], ids=["soft", "hard"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        ExceptionGroup("many", [ValueError("x"), Block("no")]),
        BaseExceptionGroup("worse", [SystemExit(1)]),
        SystemExit(3),
        StopIteration(),
        StopAsyncIteration(),
        GeneratorExit(),
        asyncio.CancelledError(),
        Own(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_hook_raises_is_its_crash(error: BaseException, timeout: float | None, awaits: bool) -> None:
    def hook(event: Before) -> object:
        raise error

    async def async_hook(event: Before) -> object:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        await done
        raise error

    decision = await dispatch(at("work.before", async_hook if awaits else hook, name="h", timeout=timeout))
    assert isinstance(decision.outcome, Block)
    assert [(record.result, record.disposition) for record in decision.records] == [("crashed", "block")]


@pytest.mark.fault(26)
async def test_the_keyboard_interrupt_of_the_user_passes() -> None:
    kernel = runtime(at("work.before", raising(KeyboardInterrupt()), name="h"))
    with pytest.raises(KeyboardInterrupt):
        await kernel.dispatch("work.before", before())


@pytest.mark.fault(26)
async def test_a_keyboard_interrupt_in_a_thread_of_a_hook_is_the_hooks_own() -> None:
    decision = await dispatch(at("work.before", raising(KeyboardInterrupt()), name="h", timeout=2.0))
    assert [record.result for record in decision.records] == ["crashed"]


@pytest.mark.fault(29)
@pytest.mark.promise(3)
async def test_a_hook_cannot_change_the_event_in_place_at_once_or_later() -> None:
    kept: list[Before] = []
    given_in = {"list": [1, {"a": 1}]}

    def meddles(event: Before) -> None:
        kept.append(event)
        cast("dict[str, object]", event.extra)["new"] = 1

    def reads(event: Before) -> None:
        kept.append(event)

    event = before("a", extra=given_in)
    decision = await dispatch(at("work.before", meddles, on_error="warn"), at("work.before", reads), event=event)
    assert [record.result for record in decision.records] == ["crashed"]
    with pytest.raises(AttributeError):
        kept[0].text = "changed"  # pyright: ignore[reportAttributeAccessIssue]  # what is tried
    cast("list[object]", given_in["list"]).append(2)
    assert kept[1].extra == cast(Before, decision.event).extra == {"list": (1, {"a": 1})}


@pytest.mark.promise(3)
async def test_a_replacement_is_frozen_all_the_way_down() -> None:
    inner = {"list": [1]}
    decision = await dispatch(at("work.before", lambda e: e.replace(extra={"inner": inner}), name="h"))
    inner["list"].append(2)
    assert cast(Before, decision.event).extra == {"inner": {"list": (1,)}}


async def test_an_observer_sees_the_event_that_left_the_chain_and_its_answer_is_a_failure() -> None:
    seen: Seen = []

    def says(event: Before) -> object:
        seen.append(event.text)
        return Block("no")

    decision = await dispatch(
        at("work.before", says, observe=True, band="baseline"),
        at("work.before", lambda e: e.replace(text="b"), name="h"),
    )
    assert (seen, decision.outcome) == (["b"], None)
    assert [(r.hook, r.result, r.observed) for r in decision.records] == [
        ("h", "ok", False),
        ("says", "bad_output", True),
    ]


@pytest.mark.parametrize("answer", [Block("no"), before("b"), Suspend("ask")])
async def test_a_shadow_hook_is_recorded_and_nothing_of_it_is_applied(answer: object) -> None:
    decision = await dispatch(at("work.before", saying(answer), name="h", mode="shadow", band="baseline"))
    assert (decision.outcome, text_of(decision)) == (None, "a")
    assert [record.shadow for record in decision.records] == [True]


def guard(seen: Seen) -> Callable[[Before], Block | None]:
    def hook(event: Before) -> Block | None:
        seen.append(event.text)
        return Block("bad") if "bad" in event.text else None

    return hook


@pytest.mark.promise(11)
@pytest.mark.parametrize("band", ["baseline", "control", "gate"])
async def test_a_guard_judges_a_later_rewrite_once_more(band: Band) -> None:
    seen: Seen = []
    guards = at("work.before", guard(seen), name="guard", band=band, priority=1)
    rewrites = at("work.before", lambda e: e.replace(text="bad"), name="h", band="app" if band != "gate" else "gate")
    kernel = Runtime(
        CATALOGUE, [] if band == "gate" else [guards, rewrites], gates=[guards, rewrites] if band == "gate" else []
    )
    decision = await kernel.dispatch("work.before", before("a"))
    assert seen == ["a", "bad"]
    assert (decision.outcome, decision.hook) == (Block("bad"), "guard")
    assert [record.recheck for record in decision.records] == [False, True]


@pytest.mark.promise(11)
async def test_a_guard_whose_match_did_not_fit_before_judges_the_rewrite() -> None:
    seen: Seen = []
    decision = await dispatch(
        at("work.before", guard(seen), name="guard", band="baseline", match={"text": "bad*"}),
        at("work.before", lambda e: e.replace(text="bad"), name="h"),
    )
    assert (seen, decision.outcome) == (["bad"], Block("bad"))


async def test_nothing_is_judged_twice_where_nothing_changed() -> None:
    seen: Seen = []
    back = at("work.before", lambda e: e.replace(text="a"), name="back")
    away = at("work.before", lambda e: e.replace(text="b"), name="away")
    await dispatch(at("work.before", guard(seen), name="guard", band="baseline"), away, back)
    assert seen == ["a"]


@pytest.mark.promise(11)
async def test_a_guard_that_rewrites_what_it_judges_once_more_is_a_block() -> None:
    grows = at("work.before", lambda e: e.replace(text=e.text + "!"), name="grows", band="control")
    decision = await dispatch(grows, at("work.before", lambda e: e.replace(text=e.text + "?"), name="asks"))
    assert isinstance(decision.outcome, Block)
    assert (decision.outcome.code, decision.hook, decision.failed) == ("unstable_rewrite", "grows", False)


REWRITES = st.sampled_from(["a", "b", "bad", None])


@pytest.mark.promise(11)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["baseline", "control", "app"]), REWRITES), max_size=6))
def test_what_leaves_the_chain_unrefused_is_what_every_guard_saw_last(hooks: list[tuple[Band, str | None]]) -> None:
    last: dict[str, str] = {}

    def hook(name: str, text: str | None) -> Callable[[Before], object]:
        def judge(event: Before) -> object:
            answer = event if text is None else event.replace(text=text)
            last[name] = answer.text
            return Block("bad") if event.text == "bad" else answer

        return judge

    declared = [at("work.before", hook(f"h{n}", text), name=f"h{n}", band=band) for n, (band, text) in enumerate(hooks)]
    decision = asyncio.run(dispatch(*declared, event=before("start")))
    if decision.outcome is None:
        for n, (band, _) in enumerate(hooks):
            assert band == "app" or last[f"h{n}"] == text_of(decision)


async def test_a_guard_that_allows_what_an_in_hook_hands_on_does_not_end_the_chain() -> None:
    seen: Seen = []
    kernel = runtime(
        at("work.before", lambda e: Allow() if e.text == "b" else None, name="guard", band="control"),
        at("work.done.in", lambda e: e.replace(text="b"), name="rewrites"),
        at("work.done.in", lambda e: seen.append(e.text), name="next"),
    )
    await kernel.run(WORK, before("a"), shout)
    assert seen == ["b"]


@pytest.mark.promise(10)
async def test_a_requirement_of_an_approving_hook_is_dropped_for_exactly_that_call() -> None:
    asks = at("work.before", saying(Suspend("sure?")), name="asks")
    kernel = runtime(asks)
    first = await kernel.dispatch("work.before", before("a"))
    assert isinstance(first.outcome, Suspend)
    (asked,) = first.requirements
    assert asked.hook == "asks"
    for grant, left in [
        (Grant((asked.name,), first.digest), None),
        (Grant((asked.name.replace("asks", "other"),), first.digest), "asks"),
        (Grant((asked.name,), "sha256:other"), "asks"),
    ]:
        for event in (before("a", approval=grant), before("a", op=Op(id="op", approval=grant))):
            decision = await kernel.dispatch("work.before", event)
            assert (decision.hook or None) == left
            assert decision.digest in ("", first.digest)


async def test_what_became_of_a_suspend_stands_in_the_record_and_in_the_trace() -> None:
    trace = Trace()
    asks = at("work.before", saying(Suspend("sure?")), name="asks")
    unheard = at("work.before", saying(Suspend("sure?")), name="unheard", mode="shadow")
    allows = at("work.before", saying(Allow("fine")), name="allows", band="control")
    decision = await runtime(asks, unheard, allows).dispatch("work.before", before("a"), trace=trace)
    told = {record.hook: (record.disposition, record.lifted, record.lifted_by) for record in decision.records}
    assert told == {
        "allows": ("pass", "", ""),
        "asks": ("suspend", "waived", "allows"),
        "unheard": ("suspend", "", ""),
    }
    fired, *said = trace.events()
    assert (fired.kind, fired.code) == ("hook", "allow")
    lifted = {one.source: (one.details.get("lifted"), one.details.get("lifted_by")) for one in said}
    assert lifted == {"allows": (None, None), "asks": ("waived", "allows"), "unheard": (None, None)}


async def test_the_trace_says_of_a_point_that_a_person_approved_nothing_of_the_suspend() -> None:
    trace = Trace()
    kernel = runtime(at("work.before", saying(Suspend("sure?")), name="asks"))
    first = await kernel.dispatch("work.before", before("a"), trace=trace)
    grant = Grant(tuple(one.name for one in first.requirements), first.digest)
    await kernel.dispatch("work.before", before("a", approval=grant), trace=trace)
    fired, asked, fired_again, approved = trace.events()
    assert (fired.code, fired_again.code) == ("approval_required", "")
    assert (asked.details.get("lifted"), approved.details.get("lifted")) == (None, "approved")


async def test_whoever_watches_hears_why_a_hook_failed_and_the_trace_does_not_say_it() -> None:
    trace, heard = Trace(), dict[int, str]()
    trace.heard = heard.__setitem__
    broken = at("work.before", raising(ValueError("opensesame")), name="broken", on_error="warn")
    await runtime(broken, at("work.before", saying(Suspend("sure?")))).dispatch("work.before", before(), trace=trace)
    (number,) = [entry.sequence for entry in trace.events() if entry.kind == "failure"]
    assert list(heard) == [number]
    assert heard[number].endswith("ValueError: opensesame")
    assert "opensesame" not in repr(trace.events())


@pytest.mark.promise(10)
async def test_a_call_that_has_no_digest_cannot_be_approved_and_is_refused() -> None:
    decision = await dispatch(at("work.before", saying(Suspend("sure?")), name="asks"), event=before(extra={"n": 1j}))
    assert isinstance(decision.outcome, Block)
    assert (decision.outcome.code, decision.hook, decision.failed) == ("no_digest", "asks", True)


@pytest.mark.promise(4)
async def test_hooks_get_the_event_redacted_and_so_is_every_replacement() -> None:
    seen: Seen = []

    def tells(event: Before) -> Before:
        seen.append(event.text)
        return event.replace(text=f"{event.text} {SECRET}")

    def reads(event: Before) -> None:
        seen.append(event.text)

    kernel = runtime(at("work.before", tells), at("work.before", reads), redactor=REDACTOR)
    decision = await kernel.dispatch("work.before", before(f"x {SECRET}"))
    assert SECRET not in repr((seen, decision))
    empty = await runtime(redactor=REDACTOR).dispatch("work.before", before(SECRET))
    assert SECRET not in repr(empty)


async def test_the_points_of_a_nested_operation_share_one_entry() -> None:
    trace = Trace()
    kernel = runtime(at("drip.done.pre", lambda e: e.replace(text=e.text + "!"), name="h"))
    for _ in range(5):
        await kernel.dispatch("drip.done.pre", before(), trace=trace)
    assert [(e.kind, e.source, e.details["firings"]) for e in trace.events()] == [("hook", "drip.done.pre", 5)]


@pytest.mark.promise(13)
async def test_a_point_without_hooks_leaves_no_entry_and_the_same_event() -> None:
    event, trace = before("a"), Trace()
    decision = await runtime().dispatch("work.before", event, trace=trace)
    assert decision.event is event
    assert (decision.outcome, decision.records, len(trace)) == (None, (), 0)


@pytest.mark.promise(6)
async def test_what_the_caller_asks_for_while_an_answer_is_redacted_is_kept() -> None:
    def grows(event: Before) -> Before:
        asyncio.get_running_loop().call_soon(run.cancel)
        return event.replace(text="x" * 2_000_000)

    kernel = runtime(at("work.before", grows, on_error="warn"), redactor=REDACTOR)
    run = asyncio.create_task(kernel.dispatch("work.before", before()))
    await asyncio.wait((run,), timeout=5)
    assert run.cancelled()


MARK = "«marked content»"
CONTENT = st.text(max_size=20).map(lambda text: f"{text}{MARK}")


@pytest.mark.promise(12)
@settings(max_examples=60, deadline=None)
@given(
    text=CONTENT,
    policy=st.sampled_from(["warn", "block", "suspend", "fail"]),
    how=st.sampled_from(["block", "suspend", "escalate", "allow", "replace", "raise", "note", "answer", "failure"]),
)
def test_the_trace_never_holds_content(text: str, policy: Policy, how: str) -> None:
    def hook(event: Before) -> object:
        match how:
            case "block":
                return Block(text)
            case "suspend":
                raise Suspend(text, editable=(text,))
            case "escalate":
                return Escalate(text)
            case "allow":
                return Allow(text)
            case "replace":
                return event.replace(text=text + "!", extra={text: [text]})
            case "raise":
                raise ValueError(text)
            case "note":
                raise HookFailure("crashed", text, code=text)
            case "answer":
                return text
            case _:
                error = RuntimeError(text)
                error.add_note(text)
                raise error

    trace = Trace()
    event = Before(envelope=text, op=Op(id="op"), text=text, extra={text: text})
    hooks: list[Declaration] = [
        at("work.before", hook, name="h", on_error=policy),
        at("work.before", hook, observe=True),
    ]
    asyncio.run(runtime(*hooks).dispatch("work.before", event, trace=trace))
    assert trace.events()
    assert MARK not in repr(trace.events())
