"""How a conversation is journaled without writing it again at every step (D§10). Pure.

A conversation has a *rolling digest*: that of its messages before the last, and the last message's digest, digested
together. A request is recorded as a `Continuation`: the rolling digest of what it continues, the messages added, and
the rolling digest it comes to. Messages are `Document`s, so the journal stores each of them once. It knows nothing of
what a message is.
"""

from collections.abc import Iterable, Sequence
from itertools import starmap
from operator import is_
from typing import Final

import msgspec

from tenter.kernel import Growing
from tenter.wire import Document, Reference, digest, digest_of_bytes

START: Final = digest(["tenter conversation", 1])
"""The rolling digest of a conversation without messages."""

_encode = msgspec.json.Encoder().encode  # of two digests, which is their canonical form


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a conversation as it is journaled."""

    base: str
    """The rolling digest of the messages that it continues."""
    added: tuple[object, ...]
    """The messages after these: `Document`s when written, mappings when read."""
    head: str
    """The rolling digest of all of them."""

    def content(self) -> dict[str, object]:
        """The form in which it enters an entry; `msgspec.convert` brings it back."""
        return {"base": self.base, "added": list(self.added), "head": self.head}


class Conversation(msgspec.Struct, frozen=True):
    """The messages that were journaled last, with what was computed of them, so that a step costs what it adds."""

    messages: tuple[object, ...] = ()
    written: list[Document] = msgspec.field(default_factory=list[Document])
    """The canonical form of each message, and perhaps of those that a longer conversation has after them."""
    digests: list[str] = msgspec.field(default_factory=lambda: [START])
    """The rolling digests: of no message, of the first, of the first two, and so on; perhaps of more, too."""

    @property
    def documents(self) -> tuple[Document, ...]:
        """The canonical form of each message."""
        return tuple(self.written[: len(self.messages)])

    @property
    def head(self) -> str:
        """The rolling digest of all messages."""
        return self.digests[len(self.messages)]


def delta(previous: Conversation, messages: Sequence[object]) -> tuple[Continuation, Conversation]:
    """How `messages` continue `previous`, and the conversation that they are.

    Where a hook changed the history, or it was compacted, they continue the longest beginning that both have in common.
    Messages are compared by identity, then by digest (`True == 1` in Python, and not in a journal). Raises
    `CanonicalError` for a message without canonical form.
    """
    before = len(previous.messages)
    known = min(before, len(messages))
    if _goes_on(previous.messages, messages):
        added = [Document(message) for message in messages[known:]]
    else:
        documents = _documents(previous, messages)
        known = _common(previous.documents, documents)
        added = documents[known:]
    written, digests = previous.written, previous.digests
    if known < before or len(written) > before:  # else nobody else goes on from here: it grows in place
        written, digests = written[:known], digests[: known + 1]
    base = digests[known]
    for document in added:
        written.append(document)
        digests.append(digest_of_bytes(_encode([digests[-1], document.digest])))
    continuation = Continuation(base=base, added=tuple(added), head=digests[-1])
    kept = messages if isinstance(messages, tuple) else tuple(messages)
    return continuation, Conversation(kept, written, digests)


def rebuild(continuations: Iterable[Continuation], head: str) -> tuple[object, ...]:
    """The messages of the conversation with the rolling digest `head`.

    `continuations` are those of its stream, in any order. Raises `LookupError` when one is missing or was changed.
    """
    last: dict[str, tuple[str, object]] = {}
    for step in continuations:
        base = step.base
        for message in step.added:
            following = digest([base, _digest(message)])
            last[following] = (base, message)
            base = following
    messages: list[object] = []
    while head != START:
        if head not in last:
            raise LookupError(f"no journaled request comes to the conversation {head!r}; the journal is incomplete")
        head, message = last[head]
        messages.append(message)
    return tuple(reversed(messages))


def _goes_on(before: tuple[object, ...], messages: Sequence[object]) -> bool:
    """Whether both are the same, one by one, as far as the shorter goes."""
    return (isinstance(messages, Growing) and messages.continues(before)) or all(map(is_, before, messages))


def _digest(message: object) -> str:
    return message.digest if isinstance(message, Document | Reference) else digest(message)


def _documents(previous: Conversation, messages: Sequence[object]) -> list[Document]:
    known = {id(message): document for message, document in zip(previous.messages, previous.written, strict=False)}
    return [known.get(id(message)) or Document(message) for message in messages]


def _common(before: Sequence[Document], after: Sequence[Document]) -> int:
    same = list(starmap(Document.__eq__, zip(before, after, strict=False)))
    return same.index(False) if False in same else len(same)
