import dataclasses

import pytest
from tests.kernel.workshop import After, Op, before

from tenter.kernel import Blocked, Done, Ending, Escalated, Failed, Requirement, Suspended, Unknown

ENDINGS: list[Ending | Requirement] = [
    Done(After(envelope="run", op=Op(id="op"), result="r")),
    Blocked(reason="no", code="blocked", hook="h"),
    Requirement(hook="h", reason="sure?"),
    Suspended(requirements=(Requirement(hook="h", reason="sure?"),), event=before("a"), digest="d"),
    Escalated(reason="up", queue="ops", hook="h"),
    Failed(message="why"),
    Unknown(reason="its process died"),
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
def test_an_ending_is_a_frozen_value_equal_to_its_like(ending: Ending) -> None:
    field = dataclasses.fields(ending)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(ending, field, "changed")
    assert dataclasses.replace(ending) == ending


def test_a_failure_says_whose_it_is_only_where_a_hook_failed() -> None:
    assert Failed(message="why").hook is None
    assert not Blocked(reason="no", code="blocked", hook="h").failed
