"""What is recorded, and where (D§10): entries, the store and its two kinds, conversations."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.journal.approvals import (
        ApprovalRow as ApprovalRow,
        ApprovalState as ApprovalState,
        Standing as Standing,
        decision_in as decision_in,
        request_in as request_in,
    )
    from tenter.journal.conversation import (
        Continuation as Continuation,
        Conversation as Conversation,
        delta as delta,
        rebuild as rebuild,
    )
    from tenter.journal.deciding import (
        DecisionRefused as DecisionRefused,
        WhyRefused as WhyRefused,
    )
    from tenter.journal.entry import (
        VERSION as VERSION,
        Entry as Entry,
        EntryKind as EntryKind,
        Head as Head,
        OperationKind as OperationKind,
        Recorded as Recorded,
        Stream as Stream,
        StreamKind as StreamKind,
        genesis as genesis,
        link as link,
        microseconds as microseconds,
        verify as verify,
    )
    from tenter.journal.key import (
        KEY_VARIABLE as KEY_VARIABLE,
        journal_key as journal_key,
    )
    from tenter.journal.memory import (
        MemoryStore as MemoryStore,
    )
    from tenter.journal.paging import (
        every_request as every_request,
    )
    from tenter.journal.sqlite import (
        SqliteStore as SqliteStore,
    )
    from tenter.journal.store import (
        JOURNAL_PLACE as JOURNAL_PLACE,
        HeadMoved as HeadMoved,
        JournalError as JournalError,
        Pruned as Pruned,
        Store as Store,
        Strays as Strays,
    )
    from tenter.journal.summary import (
        TERMINAL as TERMINAL,
        StreamSummary as StreamSummary,
    )
    from tenter.journal.verification import (
        Verified as Verified,
        verified as verified,
    )

__all__ = [
    "ApprovalRow",
    "ApprovalState",
    "Continuation",
    "Conversation",
    "DecisionRefused",
    "Entry",
    "EntryKind",
    "Head",
    "HeadMoved",
    "JOURNAL_PLACE",
    "JournalError",
    "KEY_VARIABLE",
    "MemoryStore",
    "OperationKind",
    "Pruned",
    "Recorded",
    "SqliteStore",
    "Standing",
    "Store",
    "Strays",
    "Stream",
    "StreamKind",
    "StreamSummary",
    "TERMINAL",
    "VERSION",
    "Verified",
    "WhyRefused",
    "decision_in",
    "delta",
    "every_request",
    "genesis",
    "journal_key",
    "link",
    "microseconds",
    "rebuild",
    "request_in",
    "verified",
    "verify",
]

__getattr__ = opener(
    __name__,
    {
        "approvals": (
            "ApprovalRow",
            "ApprovalState",
            "Standing",
            "decision_in",
            "request_in",
        ),
        "conversation": (
            "Continuation",
            "Conversation",
            "delta",
            "rebuild",
        ),
        "deciding": (
            "DecisionRefused",
            "WhyRefused",
        ),
        "entry": (
            "Entry",
            "EntryKind",
            "Head",
            "OperationKind",
            "Recorded",
            "Stream",
            "StreamKind",
            "VERSION",
            "genesis",
            "link",
            "microseconds",
            "verify",
        ),
        "key": (
            "KEY_VARIABLE",
            "journal_key",
        ),
        "memory": ("MemoryStore",),
        "paging": ("every_request",),
        "sqlite": ("SqliteStore",),
        "store": (
            "HeadMoved",
            "JOURNAL_PLACE",
            "JournalError",
            "Pruned",
            "Store",
            "Strays",
        ),
        "summary": (
            "StreamSummary",
            "TERMINAL",
        ),
        "verification": (
            "Verified",
            "verified",
        ),
    },
)
