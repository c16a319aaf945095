"""What is recorded of requests suffices to make them again, and a step costs what it adds or edits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.catalogue import Message, ModelRequest, ToolSpec
from tenter.harness.model_requests import Listed, ModelRequests, splice_of
from tenter.harness.recording import RecordedPass
from tenter.journal import Continuation, Conversation, JournalError, delta, rebuild
from tenter.wire import Document, restore

Messages = tuple[Message, ...]

TOOLS = (ToolSpec(name="shell"),)


def request(messages: Sequence[Message]) -> ModelRequest:
    return ModelRequest(alias="default", model="m", messages=tuple(messages), tools=TOOLS)


def said(text: str) -> Message:
    return Message(role="user", content=text)


class Reader:
    """Makes the messages of each recorded request again, as whoever continues a run will have to."""

    def __init__(self) -> None:
        self.continuations: list[Continuation] = []
        self.sent: dict[str, tuple[object, ...]] = {}

    def read(self, content: Mapping[str, Any], name: str) -> tuple[object, ...]:
        self.continuations.append(msgspec.convert(content["messages"], Continuation))
        own = rebuild(self.continuations, self.continuations[-1].head)
        if (splice := content.get("sent")) is None:
            return own
        base = own if splice["of"] is None else self.sent[splice["of"]]
        rest = base[len(base) - splice["rest"] :]
        self.sent[name] = (*base[: splice["kept"]], *splice["added"], *rest)
        return self.sent[name]


Edit = Callable[[Messages], Messages]

LOCAL: Sequence[Edit] = (
    lambda messages: messages,
    lambda messages: (said("be brief"), *messages),
    lambda messages: (*messages, said("and now?")),
    lambda messages: messages[1:],
    lambda messages: messages[:-1],
    lambda messages: (*messages[: len(messages) // 2], said("cut"), *messages[len(messages) // 2 + 1 :]),
    lambda messages: tuple(said(one.content.upper()) for one in messages),
    lambda messages: msgspec.convert(msgspec.to_builtins(messages), tuple[Message, ...]),
    lambda messages: (),
)
"""What hooks do with the messages of a request: the next step brings them little that is new."""

WILD: Sequence[Edit] = (
    lambda messages: tuple(reversed(messages)),
    lambda messages: messages * 2,
)
"""What no hook should do, and what must be on record all the same."""


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), st.sampled_from([*LOCAL, *WILD])), max_size=8))
def test_whatever_hooks_do_what_was_sent_can_be_made_again(steps: list[tuple[list[str], Edit]]) -> None:
    requests, reader, own = ModelRequests(), Reader(), tuple[Message, ...]()
    for number, (added, edit) in enumerate(steps):
        own = (*own, *map(said, added))
        requests.asked(request(own))
        sent = edit(own)
        found = reader.read(requests.sent(request(sent), f"{number}#1"), f"{number}#1")
        assert found == tuple(map(Document, sent))


@given(
    st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), st.sampled_from([*LOCAL, *WILD])), max_size=8),
    st.integers(0, 8),
    st.booleans(),
)
def test_who_follows_what_is_on_record_goes_on_as_who_made_it(
    steps: list[tuple[list[str], Edit]], followed: int, again: bool
) -> None:
    maker, follower, reader, own = ModelRequests(), ModelRequests(), Reader(), tuple[Message, ...]()
    for number, (added, edit) in enumerate(steps):
        own, name = (*own, *map(said, added)), f"{number}#1"
        assert follower.asked(request(own)) == maker.asked(request(own))
        sent = edit(own)
        if number >= followed:
            assert reader.read(read_back(follower.sent(request(sent), name)), name) == written(sent)
            continue
        content = read_back(maker.sent(request(sent), name))
        assert reader.read(content, name) == written(sent)
        acting: Any = follower.follow(name, passed(content)).acting
        assert acting["event"]["request"].get("sent", {"of": None})["of"] is None
        if again and number == followed - 1:  # its work is begun once more
            assert reader.read(read_back(follower.sent(request(sent), name)), name) == written(sent)


def written(messages: Messages) -> tuple[object, ...]:
    """The messages as they are read back."""
    return cast("tuple[object, ...]", tuple(read_back({"messages": list(map(Document, messages))})["messages"]))


def read_back(content: dict[str, object]) -> dict[str, Any]:
    document = Document(content)
    return cast("dict[str, Any]", restore(document.data, document.kept.get))


def passed(content: Mapping[str, Any]) -> RecordedPass:
    """A pass whose work was given the request."""
    return RecordedPass(
        path="1.llm.invoked.0",
        number=1,
        phase=None,
        operation="llm.invoked",
        op="",
        input="",
        acting={"event": {"request": content}},
        acted=None,
        finished=None,
        executions=1,
        at=0.0,
    )


def test_a_request_that_goes_on_with_what_nobody_sent_is_damage() -> None:
    requests = ModelRequests()
    requests.asked(request([said("a")]))
    content: dict[str, Any] = {"sent": {"of": "9#1", "kept": 0, "added": [], "rest": 0}}
    with pytest.raises(JournalError, match="goes on with what '9#1' sent") as caught:
        requests.follow("1#1", passed(content))
    assert caught.value.trouble == "damaged"


def test_asking_twice_for_the_same_compares_messages_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(previous: Conversation, messages: Sequence[object]) -> tuple[Continuation, Conversation]:
        compared.append(len(messages))
        return delta(previous, messages)

    monkeypatch.setattr("tenter.harness.model_requests.delta", counted)
    requests, asked = ModelRequests(), request([said("a")])
    contents = [requests.asked(asked) for _ in range(2)]
    first: Any = requests.sent(asked, "1")
    contents.append(requests.asked(asked))
    second: Any = requests.sent(asked, "2")
    assert contents[0] == contents[1] == contents[2]
    assert [first["messages"]["added"], second["messages"]["added"]] == [[Document(said("a"))], []]
    assert compared == [1]


def test_who_followed_a_request_records_of_the_next_what_it_adds() -> None:
    maker, follower, own = ModelRequests(), ModelRequests(), (said("a"), said("b"))
    for requests in (maker, follower):
        requests.asked(request(own))
    follower.follow("1#1", passed(read_back(maker.sent(request(own), "1#1"))))
    own = (*own, said("c"))
    follower.asked(request(own))
    content: Any = follower.sent(request(own), "2#1")
    assert content["messages"]["added"] == [Document(said("c"))]


def test_a_second_entry_of_a_pass_adds_no_message_again() -> None:
    requests, own = ModelRequests(), [said("a")]
    requests.asked(request(own))
    requests.sent(request(own), "1")
    content: Any = requests.sent(request([said("b")]), "1")
    assert content["messages"]["added"] == []
    assert content["sent"]["added"] == (Document(said("b")),)


def test_an_unchanged_request_records_what_it_adds() -> None:
    requests = ModelRequests()
    requests.asked(request([said("a")]))
    first = requests.sent(request([said("a")]), "1")
    own = [said("a"), said("b")]
    requests.asked(request(own))
    second: Any = requests.sent(request(own), "2")
    assert "sent" not in first
    assert second["messages"]["added"] == [Document(said("b"))]


def test_a_request_that_came_to_nothing_leaves_what_it_added_to_the_next() -> None:
    requests, own = ModelRequests(), [said("a")]
    requests.asked(request(own))  # blocked, say: nothing is recorded
    requests.asked(request(own))
    content: Any = requests.sent(request(own), "1")
    assert content["messages"]["added"] == [Document(said("a"))]


def test_the_input_is_named_by_its_conversation_and_not_by_how_it_came_about() -> None:
    at_once, step_by_step, own = ModelRequests(), ModelRequests(), [said("a"), said("b")]
    step_by_step.asked(request(own[:1]))
    step_by_step.sent(request(own[:1]), "1")
    assert at_once.asked(request(own)) == step_by_step.asked(request(own))


def test_a_hook_that_edits_the_history_at_each_step_costs_what_it_edits() -> None:
    for number_of_edit, edit in enumerate(LOCAL):
        requests, own, sizes = ModelRequests(), [said("0")], list[int]()
        for number in range(1, 60):
            own += [said(f"{number}")]
            requests.asked(request(own))
            sizes.append(len(Document(requests.sent(request(edit(tuple(own))), str(number))).data))
        assert sizes[-1] < 1.2 * sizes[20], f"edit {number_of_edit}: {sizes}"


def test_the_tools_are_made_a_document_once() -> None:
    requests = ModelRequests()
    contents = [requests.asked(request([said("a")])), requests.sent(request([said("a")]), "1")]
    assert contents[0]["tools"] is contents[1]["tools"]


def test_a_splice_finds_what_is_shared_by_identity_and_by_content() -> None:
    messages = tuple(map(said, "abcd"))
    listed = Listed(messages, tuple(map(Document, messages)), "1#1")
    splice, documents = splice_of([messages[0], said("b"), said("x"), said("d")], listed)
    assert (splice.of, splice.kept, splice.added, splice.rest) == ("1#1", 2, (Document(said("x")),), 1)
    assert [document.digest for document in documents] == [Document(said(text)).digest for text in "abxd"]
