"""What is recorded, and where (D§10): entries, the store and its two kinds, conversations."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.journal.conversation import (
        Continuation as Continuation,
        Conversation as Conversation,
        delta as delta,
        rebuild as rebuild,
    )
    from tenter.journal.entry import (
        Entry as Entry,
        EntryKind as EntryKind,
        Head as Head,
        OperationKind as OperationKind,
        Recorded as Recorded,
        Stream as Stream,
        StreamKind as StreamKind,
        genesis as genesis,
        microseconds as microseconds,
        verify as verify,
    )
    from tenter.journal.memory import (
        MemoryStore as MemoryStore,
    )
    from tenter.journal.sqlite import (
        SqliteStore as SqliteStore,
    )
    from tenter.journal.store import (
        JOURNAL_PLACE as JOURNAL_PLACE,
        HeadMoved as HeadMoved,
        JournalError as JournalError,
        Store as Store,
    )
    from tenter.journal.summary import (
        StreamSummary as StreamSummary,
    )

__all__ = [
    "Continuation",
    "Conversation",
    "Entry",
    "EntryKind",
    "Head",
    "HeadMoved",
    "JOURNAL_PLACE",
    "JournalError",
    "MemoryStore",
    "OperationKind",
    "Recorded",
    "SqliteStore",
    "Store",
    "Stream",
    "StreamKind",
    "StreamSummary",
    "delta",
    "genesis",
    "microseconds",
    "rebuild",
    "verify",
]

__getattr__ = opener(
    __name__,
    {
        "conversation": (
            "Continuation",
            "Conversation",
            "delta",
            "rebuild",
        ),
        "entry": (
            "Entry",
            "EntryKind",
            "Head",
            "OperationKind",
            "Recorded",
            "Stream",
            "StreamKind",
            "genesis",
            "microseconds",
            "verify",
        ),
        "memory": ("MemoryStore",),
        "sqlite": ("SqliteStore",),
        "store": (
            "HeadMoved",
            "JOURNAL_PLACE",
            "JournalError",
            "Store",
        ),
        "summary": ("StreamSummary",),
    },
)
