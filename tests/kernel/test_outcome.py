import contextlib
import copy
import pickle
from collections.abc import Generator
from dataclasses import fields, replace
from typing import Any, cast

import pytest

from tenter.kernel import Allow, Block, Escalate, Fail, FrozenDict, Outcome, Result, Retry, Suspend, check_code

EVERY: tuple[Outcome, ...] = (
    Allow("seen"),
    Block("no", code="policy_denied", stop=True),
    Suspend("ask", editable=("call",), expires_in=60, on_timeout="escalate"),
    Escalate("help", queue="tier-2"),
    Retry("again", feedback="shorter"),
    Result({"rows": [1, 2]}),
    Fail("broken"),
)


@pytest.mark.parametrize("outcome", EVERY, ids=lambda outcome: type(outcome).__name__)
def test_an_outcome_survives_copy_and_pickle_equal_and_with_the_same_hash(outcome: Outcome) -> None:
    for other in (copy.copy(outcome), copy.deepcopy(outcome), pickle.loads(pickle.dumps(outcome))):
        assert other == outcome
        assert hash(other) == hash(outcome)
        assert type(other) is type(outcome)


@pytest.mark.parametrize("outcome", EVERY, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("name", ["reason", "value", "args", "anything"])
def test_an_outcome_cannot_be_changed_or_added_to(outcome: Outcome, name: str) -> None:
    before = repr(outcome)
    with pytest.raises(AttributeError, match="frozen"):
        setattr(outcome, name, "other")
    with pytest.raises(AttributeError, match="frozen"):
        delattr(outcome, name)
    assert repr(outcome) == before


def test_outcomes_differ_by_kind_and_by_what_they_say() -> None:
    assert Block("no") != Block("no", code="other")
    assert Allow("no") != Retry("no")
    assert len({Block("no"), Block("no"), Allow("no")}) == 2
    assert replace(Block("no"), stop=True) == Block("no", stop=True)


def test_a_raised_outcome_passes_a_context_manager_and_keeps_its_cause_and_notes() -> None:
    @contextlib.contextmanager
    def around() -> Generator[None]:
        with contextlib.ExitStack():
            yield

    outcome, cause = Block("no"), ValueError("why")
    outcome.add_note("seen by the guard")
    with pytest.raises(Block) as caught, around():
        raise outcome from cause
    assert caught.value is outcome
    assert caught.value.__cause__ is cause
    assert caught.value.__notes__ == ["seen by the guard"]
    assert caught.value == Block("no")


def test_a_raised_outcome_can_be_raised_again_with_another_traceback() -> None:
    outcome = Retry("again")
    for _ in range(2):
        with pytest.raises(Retry) as caught:
            raise outcome.with_traceback(None)
        assert caught.value is outcome


def test_the_text_of_an_outcome_says_what_it_is() -> None:
    assert str(Block("no")) == "Block(reason='no', code='blocked', stop=False)"


def test_a_result_freezes_its_value() -> None:
    rows = [1]
    result = Result({"rows": rows})
    rows.append(2)
    assert result.value == FrozenDict({"rows": (1,)})
    with pytest.raises(TypeError, match="cannot be frozen"):
        Result(object())


@pytest.mark.parametrize("code", ["Has Spaces", "", "UPPER", "a" * 65, "x\n", "password: hunter2", None, 7])
def test_a_code_is_a_word_so_that_it_carries_no_content(code: object) -> None:
    with pytest.raises(ValueError, match="must be a word"):
        check_code(code, "Block")
    with pytest.raises(ValueError, match="the code of Block"):
        Block("no", code=cast(Any, code))
    with pytest.raises(ValueError, match="the code of Suspend"):
        Suspend("ask", code=cast(Any, code))
    with pytest.raises(ValueError, match="queue"):
        Escalate("help", queue=cast(Any, code))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Allow, {"reason": None}),
        (Block, {"reason": 3}),
        (Block, {"reason": "no", "stop": "yes"}),
        (Suspend, {"reason": b"ask"}),
        (Suspend, {"reason": "ask", "editable": "call"}),
        (Suspend, {"reason": "ask", "editable": ("call", 3)}),
        (Suspend, {"reason": "ask", "editable": None}),
        (Suspend, {"reason": "ask", "expires_in": 0}),
        (Suspend, {"reason": "ask", "expires_in": True}),
        (Suspend, {"reason": "ask", "expires_in": "5"}),
        (Suspend, {"reason": "ask", "expires_in": float("nan")}),
        (Suspend, {"reason": "ask", "expires_in": float("inf")}),
        (Suspend, {"reason": "ask", "expires_in": 2**53}),
        (Suspend, {"reason": "ask", "expires_in": 10**400}),
        (Suspend, {"reason": "ask", "expires_in": -(10**5000)}),
        (Suspend, {"reason": "ask", "on_timeout": "allow"}),
        (Escalate, {"reason": None}),
        (Retry, {"reason": None}),
        (Retry, {"reason": "again", "feedback": 3}),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_naming_the_outcome(kind: Any, settings: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"of {kind.__name__}"):
        kind(**settings)


def test_the_editable_fields_are_kept_as_a_tuple() -> None:
    suspend = Suspend("ask", editable=cast(Any, ["call", "tool"]))
    assert suspend.editable == ("call", "tool")
    assert hash(suspend) == hash(Suspend("ask", editable=("call", "tool")))


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise SystemExit("said")

    def __format__(self, spec: str) -> str:
        raise SystemExit("formatted")


@pytest.mark.fault(26)
@pytest.mark.parametrize(
    "outcome",
    [
        Allow(Loud("a")),
        Block(Loud("a"), code=Loud("b")),
        Suspend(Loud("a"), code=Loud("b"), editable=(Loud("c"),), on_timeout=cast(Any, Loud("escalate"))),
        Escalate(Loud("a"), queue=Loud("b")),
        Retry(Loud("a"), feedback=Loud("b")),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_the_words_of_an_outcome_are_plain_text(outcome: Outcome) -> None:
    words = [getattr(outcome, field.name) for field in fields(cast(Any, outcome))]
    assert Loud not in {type(word) for word in (*words, *getattr(outcome, "editable", ()))}
    assert f"{words[0]}" == "a"
