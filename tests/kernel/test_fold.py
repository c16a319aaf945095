from dataclasses import dataclass, replace
from typing import cast

import pytest
from hypothesis import given, strategies as st

from tenter.kernel import (
    BANDS,
    FOLD,
    AfterEvent,
    Allow,
    Band,
    BeforeEvent,
    Block,
    Catalogue,
    Declaration,
    Escalate,
    Event,
    Fail,
    Fold,
    Link,
    Operation,
    Outcome,
    Phase,
    Requirement,
    Result,
    Retry,
    Rule,
    Suspend,
    attach,
    compile_chain,
)


class Asked(BeforeEvent, frozen=True, kw_only=True):
    note: str = ""


class Answered(AfterEvent, frozen=True, kw_only=True):
    note: str = ""


EVERYTHING = frozenset({Allow, Block, Suspend, Escalate, Retry})

CATALOGUE = Catalogue(
    (
        cast(
            "Operation[Event, Event]",
            Operation(
                name="tool.invoked",
                shape="leaf",
                before=Asked,
                after=Answered,
                rules={
                    "pre": Rule("Before.", takes=EVERYTHING, replaces=True),
                    "in": Rule("There.", takes=EVERYTHING | {Result}, replaces=True),
                },
            ),
        ),
    )
)

START = Asked(note="start")


A, B = (f"tool.invoked.pre/{name}#approval_required" for name in "ab")
"""What `a` and `b` ask for, as an approval names it."""


@dataclass(frozen=True)
class Approval:
    asked: tuple[str, ...]
    digest: str


def nothing(event: Event) -> None:
    """A hook that has nothing to say."""


def link(name: str, band: Band = "app", phase: Phase = "pre", index: int = 0) -> Link:
    declared = Declaration(name=name, point=f"tool.invoked.{phase}", call=nothing, band=band)
    return attach(declared, CATALOGUE, reserved=True, index=index)


def started(phase: Phase = "pre") -> Fold:
    return Fold(phase, START, START)


Said = tuple[str, Outcome] | tuple[str, Outcome, Band]


def folded(*answers: Said) -> Fold:
    fold = started()
    for answer in answers:
        band = answer[2] if len(answer) == 3 else "app"
        fold = fold.take(link(answer[0], band), answer[1])
    return fold


def digest(event: Event) -> str:
    return f"digest of {cast(Asked, event).note}"


def said(fold: Fold, grant: Approval | None = None) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Who speaks for the chain, with what, and whose requirements stand."""
    combined = fold.combined(grant, digest)
    answer = combined.answer
    return (
        answer and answer.hook,
        answer and type(answer.outcome).__name__,
        tuple(one.hook for one in combined.requirements),
    )


def test_nobody_answered_and_so_there_is_no_answer() -> None:
    assert said(started()) == (None, None, ())


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([("a", Allow("ok"))], ("a", "Allow", ())),
        ([("a", Suspend("ask"))], ("a", "Suspend", ("a",))),
        ([("a", Suspend("ask")), ("b", Suspend("too"))], ("a", "Suspend", ("a", "b"))),
        ([("a", Escalate("help")), ("b", Suspend("ask"))], ("a", "Escalate", ("b",))),
        ([("a", Suspend("ask")), ("b", Escalate("help"))], ("b", "Escalate", ("a",))),
        ([("a", Escalate("help")), ("b", Escalate("more"))], ("a", "Escalate", ())),
        ([("a", Escalate("help")), ("b", Retry("again"))], ("a", "Escalate", ())),
        ([("a", Suspend("ask")), ("b", Retry("again"))], ("b", "Retry", ("a",))),
        ([("a", Suspend("ask")), ("b", Block("no"))], ("b", "Block", ("a",))),
        ([("a", Escalate("help")), ("b", Block("no"))], ("b", "Block", ())),
        ([("a", Allow("ok")), ("b", Block("no"))], ("b", "Block", ())),
        ([("a", Block("no")), ("b", Block("never"))], ("a", "Block", ())),
        ([("a", Retry("again")), ("b", Block("no"))], ("a", "Retry", ())),
        ([("a", Block("no")), ("b", Fail("broken"))], ("a", "Block", ())),
        ([("a", Escalate("help")), ("b", Fail("broken"))], ("b", "Fail", ())),
    ],
)
def test_the_answers_of_a_chain_become_one(
    answers: list[tuple[str, Outcome]], expected: tuple[str, str, tuple[str, ...]]
) -> None:
    assert said(folded(*answers)) == expected


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [
        (Block("no"), True),
        (Retry("again"), True),
        (Fail("broken"), True),
        (Suspend("ask"), False),
        (Escalate("help"), False),
        (Allow("ok"), False),
    ],
)
def test_the_first_block_or_retry_ends_a_chain_and_the_rest_let_it_run(outcome: Outcome, ends: bool) -> None:
    assert folded(("a", outcome)).ended is ends
    assert started("in").take(link("a", phase="in"), outcome).ended


def test_the_first_result_is_the_works() -> None:
    fold = started("in")
    for name in ("a", "b"):
        fold = fold.take(link(name, phase="in"), Result(name))
    combined = fold.combined(None, digest)
    assert combined.answer is not None
    assert (combined.answer.hook, combined.answer.outcome) == ("a", Result("a"))


def test_the_table_has_a_line_for_every_outcome_and_each_its_own_rank() -> None:
    assert set(FOLD) == {Allow, Block, Escalate, Fail, Result, Retry, Suspend}
    assert len({row.rank for row in FOLD.values()}) == len(FOLD)
    assert all(row.means for row in FOLD.values())


def test_a_requirement_shows_what_its_suspend_asks() -> None:
    asked = Suspend("ask", code="two_eyes", editable=("call",), expires_in=60, on_timeout="escalate")
    assert folded(("a", asked)).combined(None, digest).requirements == (
        Requirement(
            hook="a",
            reason="ask",
            code="two_eyes",
            point="tool.invoked.pre",
            editable=("call",),
            expires_in=60,
            on_timeout="escalate",
        ),
    )


@pytest.mark.parametrize("allowing", BANDS)
@pytest.mark.parametrize("suspending", BANDS)
def test_an_allow_waives_the_suspends_of_its_own_band_and_of_inner_ones_but_never_a_baselines(
    allowing: Band, suspending: Band
) -> None:
    waives = suspending != "baseline" and BANDS.index(allowing) <= BANDS.index(suspending)
    expected = ("a", "Allow", ()) if waives else ("s", "Suspend", ("s",))
    allow: Said = ("a", Allow(), allowing)
    suspend: Said = ("s", Suspend("ask"), suspending)
    assert said(folded(allow, suspend)) == said(folded(suspend, allow)) == expected


@pytest.mark.parametrize("outcome", [Block("no"), Escalate("help"), Retry("again"), Fail("broken")])
def test_an_allow_waives_nothing_but_suspends(outcome: Outcome) -> None:
    assert said(folded(("a", Allow(), "baseline"), ("b", outcome, "app")))[1] == type(outcome).__name__


@pytest.mark.promise(11)
def test_an_allow_does_not_count_for_a_rewrite_of_what_its_hook_judged() -> None:
    fold = folded(("a", Allow(), "control"), ("s", Suspend("ask"), "app"))
    assert said(fold) == ("a", "Allow", ())
    rewritten = fold.rewrite(2, Asked(note="other"))
    assert said(rewritten) == ("s", "Suspend", ("s",))
    again = rewritten.take(link("a", "control"), Allow())
    assert said(again) == ("a", "Allow", ())
    assert said(fold.rewrite(2, Asked(note="other")).rewrite(3, Asked(note="start"))) == ("a", "Allow", ())


@pytest.mark.promise(11)
def test_an_allow_does_not_count_for_what_python_takes_for_equal() -> None:
    fold = (
        Fold("pre", one := Asked(envelope=1), one).take(link("a", "control"), Allow()).take(link("s"), Suspend("ask"))
    )
    assert said(fold.rewrite(1, Asked(envelope=True))) == ("s", "Suspend", ("s",))
    assert said(fold.rewrite(1, Asked(envelope=1))) == ("a", "Allow", ())


@pytest.mark.promise(11)
def test_an_allow_of_a_rewritten_event_alone_says_nothing() -> None:
    assert said(folded(("a", Allow())).rewrite(1, Asked(note="other"))) == (None, None, ())


def test_what_a_hook_says_when_it_judges_again_takes_the_place_of_what_it_said() -> None:
    fold = folded(("a", Suspend("first"), "control"), ("b", Suspend("ask"))).rewrite(2, Asked(note="other"))
    again = fold.take(link("a", "control"), Suspend("second"))
    assert [(one.hook, one.reason) for one in again.combined(None, digest).requirements] == [
        ("b", "ask"),
        ("a", "second"),
    ]


@pytest.mark.promise(10)
@pytest.mark.parametrize(
    ("asked", "bound_to", "standing"),
    [
        ((A, B), "digest of start", ()),
        ((A,), "digest of start", ("b",)),
        ((), "digest of start", ("a", "b")),
        ((A, B), "digest of other", ("a", "b")),
        (("tool.invoked.pre/c#approval_required",), "digest of start", ("a", "b")),
        (("tool.invoked.in/a#approval_required", "tool.invoked.pre/a#risk", "a"), "digest of start", ("a", "b")),
    ],
)
def test_an_approval_drops_the_requirements_that_it_names_for_the_call_that_it_is_bound_to(
    asked: tuple[str, ...], bound_to: str, standing: tuple[str, ...]
) -> None:
    fold = folded(("a", Suspend("ask")), ("b", Suspend("too")))
    assert said(fold, Approval(asked, bound_to))[2] == standing


@pytest.mark.promise(10)
def test_an_approval_is_held_against_the_event_that_leaves_the_chain() -> None:
    fold = folded(("a", Suspend("ask"))).rewrite(1, Asked(note="other"))
    assert said(fold, Approval((A,), "digest of start")) == ("a", "Suspend", ("a",))
    assert said(fold, Approval((A,), "digest of other")) == (None, None, ())


@pytest.mark.promise(10)
@pytest.mark.parametrize("outcome", [Block("no"), Escalate("help"), Retry("again"), Fail("broken")])
def test_an_approval_drops_nothing_but_requirements(outcome: Outcome) -> None:
    fold = folded(("a", Suspend("ask")), ("b", outcome))
    assert said(fold, Approval((A, B), "digest of start")) == ("b", type(outcome).__name__, ())


@pytest.mark.parametrize(
    ("answers", "lifted"),
    [
        ((("a", Suspend("ask")),), {}),
        ((("c", Allow("fine"), "control"), ("a", Suspend("ask"))), {"a": ("waived", "c")}),
        ((("c", Allow("fine")), ("a", Suspend("ask"), "control")), {}),
        ((("a", Suspend("ask")), ("b", Block("no"))), {"a": ("overruled", "b")}),
        (
            (("a", Suspend("ask")), ("b", Suspend("too")), ("c", Escalate("help"))),
            dict.fromkeys("ab", ("overruled", "c")),
        ),
        ((("c", Allow("fine")), ("a", Suspend("ask")), ("b", Block("no"))), {"a": ("waived", "c")}),
    ],
)
def test_why_a_suspend_asks_nobody_is_told_and_who_saw_to_that(
    answers: tuple[Said, ...], lifted: dict[str, tuple[str, str]]
) -> None:
    assert folded(*answers).combined(None, digest).lifted == lifted


def test_of_a_suspend_that_a_person_approved_that_is_told() -> None:
    fold = folded(("a", Suspend("ask")), ("b", Suspend("too")))
    first, _ = fold.combined(None, digest).requirements
    assert fold.combined(Approval((first.name,), "digest of start"), digest).lifted == {"a": ("approved", "")}
    assert fold.combined(Approval((first.name,), "digest of other"), digest).lifted == {}


def test_the_digest_is_not_taken_where_no_approval_could_use_it() -> None:
    def refuse(event: Event) -> str:
        raise AssertionError(f"nobody needs the digest of {event}")

    grant = Approval((A,), "digest of start")
    assert folded(("a", Block("no"))).combined(grant, refuse).answer is not None
    assert folded(("a", Suspend("ask"))).combined(None, refuse).answer is not None


def test_each_hook_let_through_the_last_version_up_to_its_own() -> None:
    one, two = Asked(note="one"), Asked(note="two")
    fold = started().rewrite(1, one).rewrite(3, two)
    assert fold.event is two
    assert [fold.let_through(place) for place in range(5)] == [START, one, one, two, two]


hooks = st.lists(
    st.tuples(
        st.sampled_from(BANDS),
        st.sampled_from(
            [
                None,
                Allow("ok"),
                Suspend("ask"),
                Retry("again"),
                Escalate("help"),
                Block("no"),
                Fail("broken"),
                "rewrite",
            ]
        ),
    ),
    max_size=10,
)

Script = list[tuple[Band, Outcome | str | None]]


def run(script: Script) -> Fold:
    """The fold of a chain of such hooks in running order, as the dispatcher would drive it."""
    made = [link(f"h{n}", band, index=n) for n, (band, _) in enumerate(script)]
    says = {one.name: outcome for one, (_, outcome) in zip(made, script, strict=True)}
    fold = started()
    for one in compile_chain(CATALOGUE["tool.invoked.pre"], made).links:
        answer = says[one.name]
        if answer == "rewrite":
            fold = fold.rewrite(one.place, Asked(note=f"by {one.name}"))
        elif isinstance(answer, Outcome):
            fold = fold.take(one, answer)
        if fold.ended:
            break
    return fold


def ranked(fold: Fold) -> list[int]:
    return [FOLD[type(answer.outcome)].rank for answer in fold.answers]


@given(hooks)
def test_a_chain_ends_at_its_first_ending_answer_which_only_an_escalation_outranks(script: Script) -> None:
    fold = run(script)
    endings = [answer for answer in fold.answers if FOLD[type(answer.outcome)].ends]
    assert len(endings) <= 1
    assert fold.ended is bool(endings)
    combined = fold.combined(None, digest)
    if endings:
        assert fold.answers[-1] is endings[0]
        assert combined.answer is not None
        outranked = isinstance(endings[0].outcome, Retry) and isinstance(combined.answer.outcome, Escalate)
        assert combined.answer is endings[0] or outranked


@given(hooks)
def test_the_answer_is_the_first_of_the_highest_rank_that_stands(script: Script) -> None:
    fold = run(script)
    answer = fold.combined(None, digest).answer
    strong = [one for one in fold.answers if FOLD[type(one.outcome)].rank > FOLD[Suspend].rank]
    if strong:
        assert answer is next(one for one in fold.answers if FOLD[type(one.outcome)].rank == max(ranked(fold)))
    else:
        assert answer is None or isinstance(answer.outcome, Suspend | Allow)


@given(hooks)
def test_the_requirements_are_the_suspends_that_no_allow_of_this_very_event_waives(script: Script) -> None:
    fold = run(script)
    allows = [one for one in fold.answers if isinstance(one.outcome, Allow) and one.judged == fold.event]
    expected = [
        one.hook
        for one in fold.answers
        if isinstance(one.outcome, Suspend)
        and (one.band == "baseline" or not any(BANDS.index(allow.band) <= BANDS.index(one.band) for allow in allows))
    ]
    assert [one.hook for one in fold.combined(None, digest).requirements] == expected


@given(hooks, st.sets(st.integers(0, 9)), st.booleans())
def test_an_approval_leaves_exactly_what_it_does_not_name_or_does_not_fit(
    script: Script, named: set[int], fits: bool
) -> None:
    fold = run(script)
    without = fold.combined(None, digest).requirements
    names = tuple(one.name for one in without if int(one.hook.removeprefix("h")) in named)
    grant = Approval(names, digest(fold.event) if fits else "another")
    left = tuple(one for one in without if not (fits and one.name in names))
    assert fold.combined(grant, digest).requirements == left


@given(hooks, st.lists(st.tuples(st.integers(0, 10), st.sampled_from(BANDS)), max_size=4))
def test_hooks_that_say_nothing_change_nothing(script: Script, silent: list[tuple[int, Band]]) -> None:
    more: list[tuple[str, Band, Outcome | str | None]] = [(f"h{n}", *one) for n, one in enumerate(script)]
    for at, band in silent:
        more.insert(at, ("silent", band, None))
    names = [name for name, _, _ in more]
    with_silent = run([(band, outcome) for _, band, outcome in more])
    alone = run(script)
    told = [(names[int(answer.hook[1:])], answer.outcome) for answer in with_silent.answers]
    assert told == [(answer.hook, answer.outcome) for answer in alone.answers]
    assert with_silent.ended == alone.ended
    mine, theirs = alone.combined(None, digest), with_silent.combined(None, digest)
    assert (mine.answer and mine.answer.outcome) == (theirs.answer and theirs.answer.outcome)
    assert [replace(one, hook="") for one in mine.requirements] == [
        replace(one, hook="") for one in theirs.requirements
    ]


@given(hooks)
def test_a_fold_is_a_value_and_folding_twice_gives_the_same(script: Script) -> None:
    first, second = run(script), run(script)
    assert first == second
    before = first.answers
    first.take(link("late"), Suspend("ask"))
    first.rewrite(99, Asked(note="late"))
    assert first.answers == before
    assert first == second
