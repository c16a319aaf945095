"""What a run may use: held before, counted once after, in the run and in those around it."""

import math

import pytest
from hypothesis import given, strategies as st

from tenter.catalogue import Budgets
from tenter.controls.account import Account, Used

CALL = Used(tool_calls=1)
ASK = Used(tokens=100, cost_usd=0.1, model_calls=1)


@pytest.mark.parametrize(
    ("budgets", "refused"),
    [
        (Budgets(), None),
        (Budgets(tokens=299), "tokens"),
        (Budgets(tokens=300), None),
        (Budgets(cost_usd=0.29), "cost_usd"),
        (Budgets(cost_usd=0.3), None),
        (Budgets(model_calls=2), "model_calls"),
        (Budgets(model_calls=3), None),
        (Budgets(tool_calls=0), None),
        (Budgets(wall_seconds=0.001), None),
        (Budgets(tokens=1, cost_usd=0.0, model_calls=0), "tokens"),
        (Budgets(cost_usd=0.0, model_calls=0), "cost_usd"),
    ],
)
def test_the_third_call_is_refused_by_the_first_budget_that_it_exceeds(budgets: Budgets, refused: str | None) -> None:
    account = Account(budgets)
    said = [account.reserve(f"r/{n}#1", ASK) for n in range(3)]
    assert said[-1] == refused


def test_a_budget_of_none_at_all_refuses_the_first_call() -> None:
    assert Account(Budgets(tool_calls=0)).reserve("r/1#1", CALL) == "tool_calls"


def test_what_parallel_calls_hold_counts_before_any_of_them_has_ended() -> None:
    account = Account(Budgets(tool_calls=1_000))
    said = [account.reserve(f"r/1.tool.invoked.{n}#1", CALL) for n in range(1_001)]
    assert said == [None] * 1_000 + ["tool_calls"]
    assert (account.reserved, account.used) == (Used(tool_calls=1_000), Used())
    account.settle("r/1.tool.invoked.7#1", Used())
    assert account.reserve("r/1.tool.invoked.1000#1", CALL) is None


def test_a_refused_call_holds_nothing_not_even_what_it_held_before() -> None:
    account = Account(Budgets(tokens=150))
    assert account.reserve("r/1#1", Used(tokens=100)) is None
    assert account.reserve("r/1#1", Used(tokens=151)) == "tokens"
    assert account.reserved == Used()


def test_a_call_that_is_judged_again_holds_what_it_needs_now_and_once() -> None:
    account = Account(Budgets(tokens=150))
    assert [account.reserve("r/1#1", Used(tokens=need)) for need in (100, 150, 120)] == [None] * 3
    assert account.reserved == Used(tokens=120)
    account.settle("r/1#1", Used(tokens=90))
    assert (account.reserved, account.used) == (Used(), Used(tokens=90))


def test_a_call_that_was_let_through_before_is_held_for_whatever_the_budget_says() -> None:
    outer = Account(Budgets(tool_calls=1))
    account = Account(Budgets(), outer)
    for op in ("r/1#1", "r/2#1", "r/2#1"):
        account.hold(op, CALL)
    assert (account.reserved, outer.reserved) == (Used(tool_calls=2), Used(tool_calls=2))
    account.settle("r/1#1", CALL)
    account.settle("r/2#1", Used())
    assert (outer.reserved, outer.used) == (Used(), Used(tool_calls=1))


def test_a_call_is_settled_once() -> None:
    account = Account(Budgets())
    for used in (Used(tokens=90, model_calls=1), Used(tokens=5, model_calls=1)):
        account.reserve("r/1#1", ASK)
        account.settle("r/1#1", used)
    assert (account.reserved, account.used) == (Used(), Used(tokens=90, model_calls=1))


def test_a_recorded_call_is_settled_without_having_been_held() -> None:
    account = Account(Budgets(tokens=100))
    account.settle("r/1#1", Used(tokens=60, model_calls=1))
    assert account.reserve("r/2#1", Used(tokens=41, model_calls=1)) == "tokens"
    assert account.used == Used(tokens=60, model_calls=1)


def test_a_call_that_used_more_than_it_held_leaves_no_room_for_the_next() -> None:
    account = Account(Budgets(cost_usd=1.0))
    account.reserve("r/1#1", ASK)
    account.settle("r/1#1", Used(cost_usd=1.5, model_calls=1))
    assert account.reserve("r/2#1", Used(model_calls=1)) == "cost_usd"
    assert account.reserve("r/3#1", CALL) is None, "a tool call costs nothing"


def test_a_sub_run_uses_up_what_the_run_around_it_may_use() -> None:
    outer = Account(Budgets(model_calls=3))
    first, second = Account(Budgets(), outer), Account(Budgets(model_calls=1), outer)
    assert [one.reserve(f"{n}/1#1", ASK) for n, one in enumerate((first, second))] == [None, None]
    assert second.reserve("1/2#1", ASK) == "model_calls", "of its own"
    assert outer.reserved == Used(tokens=200, cost_usd=0.2, model_calls=2), "what was refused is held nowhere"
    first.settle("0/1#1", ASK)
    assert (first.used, second.used, outer.used) == (ASK, Used(), ASK)
    inner = Account(Budgets(), first)
    assert inner.reserve("i/1#1", ASK) is None
    assert first.reserve("0/2#1", ASK) == "model_calls", "of the outermost"
    assert [one.reserved.model_calls for one in (inner, first, outer)] == [1, 1, 2]
    assert inner.lineage == (inner, first, outer)


def test_a_cost_that_is_not_known_ends_the_model_calls_of_whoever_has_a_budget_for_it() -> None:
    outer = Account(Budgets(cost_usd=5.0))
    one, other = Account(Budgets(), outer), Account(Budgets(), outer)
    one.settle("r/1#1", Used(model_calls=1), cost_known=False)
    assert [each.cost_known for each in (one, other, outer)] == [False, True, False]
    assert other.reserve("s/1#1", Used(model_calls=1)) == "cost_usd"
    assert other.reserve("s/2#1", CALL) is None
    assert other.blind
    free = Account(Budgets(tokens=1_000))
    free.settle("f/1#1", Used(model_calls=1), cost_known=False)
    assert (free.reserve("f/2#1", ASK), free.blind) == (None, False)


def test_a_cost_that_is_told_later_does_not_make_the_first_one_known() -> None:
    account = Account(Budgets())
    account.settle("r/1#1", Used(model_calls=1), cost_known=False)
    account.settle("r/2#1", ASK, cost_known=True)
    assert not account.cost_known


def test_budgets_are_lowered_and_never_raised() -> None:
    account = Account(Budgets(tokens=100, model_calls=5))
    account.tighten(Budgets(tokens=200, cost_usd=1.0, model_calls=2, wall_seconds=9.0))
    assert account.budgets == Budgets(tokens=100, cost_usd=1.0, model_calls=2, wall_seconds=9.0)
    account.tighten(Budgets())
    assert account.budgets == Budgets(tokens=100, cost_usd=1.0, model_calls=2, wall_seconds=9.0)
    assert account.reserve("r/1#1", Used(model_calls=3)) == "model_calls"


@pytest.mark.parametrize("cost", [math.nan, -math.inf, -1.0, 0.0])
def test_a_budget_that_allows_nothing_or_is_no_number_allows_no_cost(cost: float) -> None:
    account = Account(Budgets(cost_usd=2.0))
    account.tighten(Budgets(cost_usd=cost))
    assert account.reserve("r/1#1", ASK) == "cost_usd"
    account.tighten(Budgets(cost_usd=3.0))
    assert account.reserve("r/1#1", ASK) == "cost_usd"


def test_an_endless_budget_is_none() -> None:
    assert Account(Budgets(cost_usd=math.inf)).reserve("r/1#1", Used(cost_usd=1e12, model_calls=1)) is None


def test_ten_times_a_tenth_of_a_dollar_is_a_dollar() -> None:
    account = Account(Budgets(cost_usd=1.0))
    for n in range(10):
        assert account.reserve(f"r/{n}#1", ASK) is None
        account.settle(f"r/{n}#1", ASK)
    assert account.used.cost_usd == 1.0
    assert account.reserve("r/10#1", ASK) == "cost_usd"


def test_it_is_told_when_the_size_of_a_model_call_matters() -> None:
    outer = Account(Budgets(tokens=1))
    assert [Account(Budgets()).counts_tokens, Account(Budgets(tool_calls=1)).counts_tokens] == [False, False]
    assert [Account(Budgets(cost_usd=1.0)).counts_tokens, Account(Budgets(), outer).counts_tokens] == [True, True]


def test_the_same_call_with_the_same_result_is_counted_as_long_as_nothing_comes_between() -> None:
    account = Account(Budgets())
    for digest, result, times in (("a", "1", 1), ("a", "1", 2), ("a", "2", 1), ("a", "2", 2), ("b", "2", 1)):
        account.called(digest, result)
        assert (account.repeats(digest), account.streak) == (times, times)
    assert account.repeats("a") == 0


def test_a_refused_call_goes_on_with_the_count_and_another_result_begins_anew() -> None:
    account = Account(Budgets())
    for result, times in (("1", 1), ("1", 2), (None, 3), (None, 4), ("1", 5), ("2", 1), (None, 2)):
        if result is None:
            account.refused()
        else:
            account.called("a", result)
        assert (account.repeats("a"), account.repeats("b"), account.streak) == (times, 0, times)


def test_calls_that_cannot_be_told_apart_are_no_repetition() -> None:
    account = Account(Budgets())
    assert account.repeats("") == 0
    for _ in range(9):
        account.called("", "")
    assert (account.repeats(""), account.streak) == (0, 1)


STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.sampled_from(("hold", "settle")), st.integers(0, 9))
)


@given(STEPS)
def test_whatever_happens_in_whatever_order_the_sums_are_those_of_the_calls(
    steps: list[tuple[str, int, str, int]],
) -> None:
    outer = Account(Budgets(tokens=40))
    runs = {"a": Account(Budgets(tokens=20), outer), "b": Account(Budgets(), outer)}
    held: dict[str, int] = {}
    used: dict[str, int] = {}
    for run, call, what, tokens in steps:
        op_id = f"{run}/{call}"
        if what == "settle":
            runs[run].settle(op_id, Used(tokens=tokens))
            held.pop(op_id, None)
            used.setdefault(op_id, tokens)
            continue
        held.pop(op_id, None)
        spent = {name: sum(n for key, n in (*held.items(), *used.items()) if key[0] in name) for name in ("a", "ab")}
        over = tokens and (spent["ab"] + tokens > 40 or (run == "a" and spent["a"] + tokens > 20))
        assert runs[run].reserve(op_id, Used(tokens=tokens)) == ("tokens" if over else None)
        if not over:
            held[op_id] = tokens
    for name, account in (("a", runs["a"]), ("b", runs["b"]), ("ab", outer)):
        assert account.used.tokens == sum(n for key, n in used.items() if key[0] in name)
        assert account.reserved.tokens == sum(n for key, n in held.items() if key[0] in name)
