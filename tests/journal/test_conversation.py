from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.journal.conversation import START, Continuation, Conversation, delta, rebuild
from tenter.kernel import Growing
from tenter.wire.canonical import Document, Reference, digest, restore

_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "tool"]), "n": st.sampled_from([0, 1, True, False, 1.5, "1"])}
)
_histories = st.lists(st.lists(_messages, max_size=6), max_size=6)


def _journaled(step: Continuation) -> Continuation:
    """The step as it is read back from a journal."""
    document = Document(step.content())
    return msgspec.convert(restore(document.data, document.kept.get), Continuation)


@given(_histories)
def test_every_conversation_of_a_stream_is_rebuilt_from_its_steps(histories: list[list[object]]) -> None:
    conversation, steps = Conversation(), list[Continuation]()
    for messages in histories:
        step, conversation = delta(conversation, messages)
        steps.append(_journaled(step))
        assert conversation.head == step.head
        assert _exactly(rebuild(steps, step.head)) == _exactly(messages)
    for messages, step in zip(histories, steps, strict=True):
        assert _exactly(rebuild(reversed(steps), step.head)) == _exactly(messages)


def _exactly(messages: Sequence[object]) -> str:
    return digest(list(messages))  # True == 1 in Python


@given(st.lists(_messages, max_size=6), st.lists(_messages, max_size=6))
def test_two_conversations_have_the_same_rolling_digest_only_when_they_are_the_same(
    one: list[object], other: list[object]
) -> None:
    heads = [delta(Conversation(), messages)[0].head for messages in (one, other)]
    assert (heads[0] == heads[1]) == (_exactly(one) == _exactly(other))


def test_a_step_holds_only_what_was_added() -> None:
    messages = [{"n": number} for number in range(4)]
    first, conversation = delta(Conversation(), messages[:2])
    second, conversation = delta(conversation, messages)
    assert (first.base, len(first.added)) == (START, 2)
    assert (second.base, second.added) == (first.head, (Document({"n": 2}), Document({"n": 3})))
    same, conversation = delta(conversation, messages)
    assert (same.base, same.added, same.head) == (second.head, (), second.head)


def test_a_changed_history_continues_what_both_have_in_common() -> None:
    first, _ = delta(Conversation(), [{"n": 0}])
    _, conversation = delta(Conversation(), [{"n": 0}, {"n": 1}, {"n": 2}])
    step, _ = delta(conversation, [{"n": 0}, {"n": True}, {"n": 2}])
    assert step.base == first.head
    assert step.added == (Document({"n": True}), Document({"n": 2}))


def test_a_message_is_put_into_canonical_form_once() -> None:
    written: list[int] = []

    class Message(dict[str, object]):
        def values(self):  # counts who looks into it
            written.append(1)
            return super().values()

    messages = [Message(n=number) for number in range(50)]
    conversation = Conversation()
    for length in range(1, 51):
        _, conversation = delta(conversation, messages[:length])
    delta(conversation, [{"system": "rewritten"}, *messages])
    assert len(written) == 50


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(_messages, max_size=3)), max_size=8))
def test_a_conversation_that_grew_is_journaled_as_any_other(turns: list[tuple[int, list[object]]]) -> None:
    made, grown, plain = [Growing[object]()], Conversation(), Conversation()
    for place, messages in turns:  # now and then it goes on from an earlier one
        made.append(made[place % len(made)].grown(*messages))
        step, grown = delta(grown, made[-1])
        same, plain = delta(plain, list(made[-1]))
        assert step == same
        assert grown.messages is made[-1]


def test_a_missing_step_is_told() -> None:
    first, conversation = delta(Conversation(), [{"n": 0}])
    second, _ = delta(conversation, [{"n": 0}, {"n": 1}])
    assert rebuild([first, second], second.head) == (Document({"n": 0}), Document({"n": 1}))
    with pytest.raises(LookupError, match="no journaled request comes to the conversation"):
        rebuild([second], second.head)


def test_a_changed_message_is_told() -> None:
    step, _ = delta(Conversation(), [{"n": 0}])
    with pytest.raises(LookupError, match="the journal is incomplete"):
        rebuild([msgspec.structs.replace(step, added=({"n": 1},))], step.head)


def test_messages_that_were_not_fetched_are_told_by_their_digest() -> None:
    step, _ = delta(Conversation(), [{"n": 0}])
    reference = Reference(Document({"n": 0}).digest, "$document")
    assert rebuild([msgspec.structs.replace(step, added=(reference,))], step.head) == (reference,)
