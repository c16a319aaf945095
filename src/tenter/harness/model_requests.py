"""How requests to models are recorded (D§10), so that a step costs what it adds to the conversation. No I/O.

A request is the reference of the conversation that it continues and the messages that it adds. Where hooks changed the
messages, what was sent stands beside it as a *splice* of a list that is on record already: the first `kept` messages of
it, the `added` ones, and its last `rest`. That list is the request's own conversation (`of` is null) or what was sent
in an earlier pass (`of` names it), whichever leaves less to add: so a hook that edits the history at each step costs
what it edits.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any, cast

import msgspec

from tenter.catalogue import Message, ModelRequest
from tenter.harness.recording import RecordedPass
from tenter.harness.thawed import thawed
from tenter.journal import Continuation, Conversation, JournalError, delta
from tenter.wire import Document


class Listed(msgspec.Struct, frozen=True):
    """A list of messages that is on record, each with its canonical form."""

    messages: tuple[object, ...]
    documents: tuple[Document, ...]
    name: str | None = None
    """The pass in which it was sent, as `path#pass`; None for the loop's own conversation."""


class Splice(msgspec.Struct, frozen=True, kw_only=True):
    """A list of messages, made of a part of another, of new ones, and of a part of the other again."""

    of: str | None
    kept: int
    added: tuple[Document, ...]
    rest: int


class ModelRequests:
    """The requests to models of one run, in the order in which they are made.

    What it gives out must be recorded in that order: the next request continues the one that was recorded last.
    """

    def __init__(self) -> None:
        self._recorded = Conversation()
        self._asked: tuple[Continuation, Conversation] | None = None
        self._sent: Listed | None = None
        self._tools: tuple[object, Document] | None = None

    def asked(self, request: ModelRequest) -> dict[str, object]:
        """A request as the loop makes it, as its digest sees it: the conversation by its own digest, however it was
        come to. Raises CanonicalError, as the other does."""
        if self._asked is None or self._asked[1].messages is not request.messages:
            self._asked = delta(self._recorded, request.messages)
        return self._fields(request) | {"messages": self._asked[0].head}

    def sent(self, request: ModelRequest, name: str) -> dict[str, object]:
        """The request that was asked for last, as it is to be recorded: as hooks left it. `name` is of its pass."""
        continuation, conversation = self._asked or delta(self._recorded, request.messages)
        self._go_on(conversation)
        content = self._fields(request) | {"messages": continuation.content()}
        if request.messages is conversation.messages:
            return content
        own = Listed(conversation.messages, conversation.documents)
        splice, documents = splice_of(request.messages, own)
        if not splice.added and splice.kept + splice.rest == len(own.messages):
            return content
        if self._sent is not None:
            other, others = splice_of(request.messages, self._sent)
            if len(other.added) < len(splice.added):
                splice, documents = other, others
        self._sent = Listed(request.messages, documents, name)
        return content | {"sent": {field: getattr(splice, field) for field in splice.__struct_fields__}}

    def follow(self, name: str, recorded: RecordedPass) -> RecordedPass:
        """Takes what was recorded of the request that was asked for last, in the pass `name`, as given out here.

        Gives the pass without what names another: see `Recorder.follow`, also for what it raises.
        """
        changed: dict[str, Mapping[str, Any]] = {}
        for kind, content in (("acting", recorded.acting), ("finished", recorded.finished)):
            event = None if content is None else content.get("event")
            if content is not None and event is not None:
                request = self._followed(event["request"], name)
                if request is not event["request"]:
                    changed[kind] = {**content, "event": {**event, "request": request}}
        return msgspec.structs.replace(recorded, **changed) if changed else recorded

    def _followed(self, request: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        own = self._asked[1] if self._asked is not None else self._recorded
        self._go_on(own)
        if (splice := request.get("sent")) is None:
            return request
        of = Listed(own.messages, own.documents) if splice["of"] is None else self._sent
        if of is None or of.name != splice["of"]:
            text = f"the request of {name!r} goes on with what {splice['of']!r} sent, which is not on record before it"
            raise JournalError("damaged", text)
        added = cast("tuple[Message, ...]", thawed(splice["added"], tuple[Message, ...]))
        kept, rest = splice["kept"], len(of.messages) - splice["rest"]
        documents = (*of.documents[:kept], *map(Document, added), *of.documents[rest:])
        self._sent = Listed((*of.messages[:kept], *added, *of.messages[rest:]), documents, name)
        if splice["of"] is None:
            return request
        return {**request, "sent": {"of": None, "kept": 0, "added": self._sent.messages, "rest": 0}}

    def _go_on(self, conversation: Conversation) -> None:
        """The conversation that was asked for is on record: a further entry of its pass continues it with nothing."""
        self._asked = (Continuation(base=conversation.head, added=(), head=conversation.head), conversation)
        self._recorded = conversation

    def _fields(self, request: ModelRequest) -> dict[str, object]:
        if self._tools is None or self._tools[0] is not request.tools:
            self._tools = (request.tools, Document(request.tools))
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        return {**fields, "tools": self._tools[1]}


def splice_of(messages: Sequence[object], of: Listed) -> tuple[Splice, tuple[Document, ...]]:
    """How `messages` are made of a list, and the canonical forms of all of them.

    What they share is found by identity first, then by canonical form. Raises CanonicalError.
    """
    room = min(len(messages), len(of.messages))
    kept = _alike(map(is_, messages, of.messages), room)
    rest = _alike(map(is_, reversed(messages), reversed(of.messages)), room - kept)
    between = [Document(message) for message in messages[kept : len(messages) - rest]]
    theirs = of.documents[kept : len(of.documents) - rest]
    room = min(len(between), len(theirs))
    more = _alike(map(Document.__eq__, between, theirs), room)
    later = _alike(map(Document.__eq__, reversed(between), reversed(theirs)), room - more)
    splice = Splice(of=of.name, kept=kept + more, added=tuple(between[more : len(between) - later]), rest=later + rest)
    documents = (*of.documents[:kept], *between, *of.documents[len(of.documents) - rest :])
    return splice, documents


def _alike(same: Iterable[bool], room: int) -> int:
    """How many hold before the first that does not, at most `room`."""
    flags = list(same)[:room]
    return flags.index(False) if False in flags else len(flags)
