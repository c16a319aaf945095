import pytest
from tests.kernel.workshop import at, before, dispatch, saying

from tenter.kernel import Block, Decision, Record


def test_a_decision_says_nothing_until_somebody_does() -> None:
    event = before("a")
    decision = Decision(event)
    assert (decision.event, decision.outcome, decision.hook, decision.failed) == (event, None, "", False)
    with pytest.raises(AttributeError):
        decision.outcome = Block("no")  # pyright: ignore[reportAttributeAccessIssue]  # what is tried


async def test_a_record_says_who_answered_what_where_and_for_how_long() -> None:
    hook = at("work.before", saying(Block("no", code="policy_denied")), name="h", band="baseline")
    (record,) = (await dispatch(hook)).records
    assert record == Record(
        hook="h",
        band="baseline",
        point="work.before",
        result="denied",
        disposition="block",
        code="policy_denied",
        reason="no",
        seconds=record.seconds,
    )
    assert 0 < record.seconds < 1
