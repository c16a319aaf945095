"""What is recorded of requests suffices to make them again, and a step costs what it adds or edits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import given, strategies as st

from tenter.catalogue import Message, ModelRequest, ToolSpec
from tenter.harness.requests import Listed, Requests, splice_of
from tenter.journal import Continuation, rebuild
from tenter.wire import Document

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
    requests, reader, own = Requests(), Reader(), tuple[Message, ...]()
    for number, (added, edit) in enumerate(steps):
        own = (*own, *map(said, added))
        requests.asked(request(own))
        sent = edit(own)
        found = reader.read(requests.sent(request(sent), f"{number}#1"), f"{number}#1")
        assert found == tuple(map(Document, sent))


def test_an_unchanged_request_records_what_it_adds() -> None:
    requests = Requests()
    requests.asked(request([said("a")]))
    first = requests.sent(request([said("a")]), "1")
    own = [said("a"), said("b")]
    requests.asked(request(own))
    second: Any = requests.sent(request(own), "2")
    assert "sent" not in first
    assert second["messages"]["added"] == [Document(said("b"))]


def test_a_request_that_came_to_nothing_leaves_what_it_added_to_the_next() -> None:
    requests, own = Requests(), [said("a")]
    requests.asked(request(own))  # blocked, say: nothing is recorded
    requests.asked(request(own))
    content: Any = requests.sent(request(own), "1")
    assert content["messages"]["added"] == [Document(said("a"))]


def test_the_input_is_named_by_its_conversation_and_not_by_how_it_came_about() -> None:
    at_once, step_by_step, own = Requests(), Requests(), [said("a"), said("b")]
    step_by_step.asked(request(own[:1]))
    step_by_step.sent(request(own[:1]), "1")
    assert at_once.asked(request(own)) == step_by_step.asked(request(own))


def test_a_hook_that_edits_the_history_at_each_step_costs_what_it_edits() -> None:
    for number_of_edit, edit in enumerate(LOCAL):
        requests, own, sizes = Requests(), [said("0")], list[int]()
        for number in range(1, 60):
            own += [said(f"{number}")]
            requests.asked(request(own))
            sizes.append(len(Document(requests.sent(request(edit(tuple(own))), str(number))).data))
        assert sizes[-1] < 1.2 * sizes[20], f"edit {number_of_edit}: {sizes}"


def test_the_tools_are_made_a_document_once() -> None:
    requests = Requests()
    contents = [requests.asked(request([said("a")])), requests.sent(request([said("a")]), "1")]
    assert contents[0]["tools"] is contents[1]["tools"]


def test_a_splice_finds_what_is_shared_by_identity_and_by_content() -> None:
    messages = tuple(map(said, "abcd"))
    listed = Listed(messages, tuple(map(Document, messages)), "1#1")
    splice, documents = splice_of([messages[0], said("b"), said("x"), said("d")], listed)
    assert (splice.of, splice.kept, splice.added, splice.rest) == ("1#1", 2, (Document(said("x")),), 1)
    assert [document.digest for document in documents] == [Document(said(text)).digest for text in "abxd"]
