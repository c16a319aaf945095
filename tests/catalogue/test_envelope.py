import json

import msgspec
import pytest

from tenter.catalogue import Approval, Envelope, LoopFacts, Op, Participant, TaskRef
from tenter.kernel import FrozenDict

ENVELOPE = Envelope(
    run_id="run-1",
    task=TaskRef(id="task-1", name="fix", version=2),
    correlation_id="corr-1",
    session_id="s-1",
    principal="ada",
    participants=(Participant(id="ada", kind="human", role="owner"), Participant(id="bot", kind="agent")),
    entities=("ticket:4711",),
    metadata={"team": ["a", "b"]},
    parent_run_id="run-0",
)
OP = Op(
    id="op-1",
    path="1.tool.0",
    pass_=2,
    attempt=3,
    parent="op-0",
    deadline=4.5,
    approval=Approval(id="ap-1", hooks=("guard",), digest="sha256:x", by="ada"),
    loop=LoopFacts(loop={"id": "l"}, iteration={"number": 1}, accumulated={"a": 1}),
)


@pytest.mark.parametrize("value", [ENVELOPE, OP])
def test_envelope_and_op_go_through_json_and_back(value: Envelope | Op) -> None:
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


def test_the_pass_of_an_op_is_called_pass_outside() -> None:
    assert json.loads(msgspec.json.encode(OP))["pass"] == 2


@pytest.mark.promise(3)
def test_what_an_envelope_was_made_of_can_change_without_it() -> None:
    teams = ["a"]
    envelope = msgspec.structs.replace(ENVELOPE, metadata={"team": teams})
    teams.append("b")
    assert envelope.metadata == FrozenDict({"team": ("a",)})
    with pytest.raises(TypeError, match="frozen"):
        envelope.metadata["team"] = ()  # pyright: ignore[reportIndexIssue]  # the point of the test


def test_an_envelope_says_who_a_run_is_in_the_words_of_the_design() -> None:
    assert Envelope.__struct_fields__ == (
        "run_id", "task", "correlation_id", "session_id", "principal", "participants", "entities", "metadata",
        "parent_run_id",
    )  # fmt: skip
    assert Op.__struct_fields__ == ("id", "path", "pass_", "attempt", "parent", "deadline", "approval", "loop")


def test_a_run_on_its_own_needs_an_id_a_task_and_a_correlation_id() -> None:
    bare = Envelope(run_id="r", task=TaskRef(id="t", name="fix"), correlation_id="c")
    assert (bare.session_id, bare.principal, bare.parent_run_id) == (None, None, None)
    assert (bare.participants, bare.entities, bare.metadata) == ((), (), {})
    assert (Op(id="o").pass_, Op(id="o").attempt, Op(id="o").loop) == (1, 1, None)
