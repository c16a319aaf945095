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
        Head as Head,
        Recorded as Recorded,
        Stream as Stream,
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
    "Head",
    "HeadMoved",
    "JournalError",
    "MemoryStore",
    "Recorded",
    "SqliteStore",
    "Store",
    "Stream",
    "StreamSummary",
    "delta",
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
            "Head",
            "Recorded",
            "Stream",
            "microseconds",
            "verify",
        ),
        "memory": ("MemoryStore",),
        "sqlite": ("SqliteStore",),
        "store": (
            "HeadMoved",
            "JournalError",
            "Store",
        ),
        "summary": ("StreamSummary",),
    },
)
