"""The orchestrator (D§14): iterations of an agent, which hooks can warn, block and suspend."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.loop.claim import (
        place_of as place_of,
        registry_of as registry_of,
    )
    from tenter.loop.events_file import (
        EVENTS_VARIABLE as EVENTS_VARIABLE,
        MOST_PAYLOAD as MOST_PAYLOAD,
        event_document as event_document,
        publish as publish,
    )
    from tenter.loop.loop_row import (
        LoopRow as LoopRow,
        status_of as status_of,
    )
    from tenter.loop.outlook import (
        DryRun as DryRun,
        dry_run as dry_run,
    )
    from tenter.loop.output_log import (
        earlier_log as earlier_log,
    )
    from tenter.loop.parts import (
        Asking as Asking,
        Listener as Listener,
        Told as Told,
    )
    from tenter.loop.place import (
        Place as Place,
    )
    from tenter.loop.preflight import (
        Finding as Finding,
        PreflightFailed as PreflightFailed,
        run_preflight as run_preflight,
    )
    from tenter.loop.pruning import (
        Pruned as Pruned,
        prune as prune,
    )
    from tenter.loop.reason import (
        Reason as Reason,
        ReleaseHow as ReleaseHow,
        Standing as Standing,
    )
    from tenter.loop.record import (
        last_state as last_state,
    )
    from tenter.loop.registry import (
        AmbiguousLoop as AmbiguousLoop,
        Registry as Registry,
        Taken as Taken,
        UnknownLoop as UnknownLoop,
        standing_of as standing_of,
    )
    from tenter.loop.release import (
        By as By,
    )
    from tenter.loop.request import (
        LoopRequest as LoopRequest,
        LoopResult as LoopResult,
    )
    from tenter.loop.resuming import (
        TakenOver as TakenOver,
        continue_loop as continue_loop,
    )
    from tenter.loop.signal_file import (
        Answer as Answer,
    )
    from tenter.loop.starting import (
        run_loop as run_loop,
    )
    from tenter.loop.state import (
        Asked as Asked,
        LoopState as LoopState,
    )
    from tenter.loop.steering import (
        END_SECONDS as END_SECONDS,
        PATIENCE_SECONDS as PATIENCE_SECONDS,
        Steered as Steered,
        answer as answer,
        restart as restart,
        resume as resume,
        stop as stop,
    )
    from tenter.loop.summary import (
        LoopSummary as LoopSummary,
    )
    from tenter.loop.suspension import (
        StateUnreadable as StateUnreadable,
    )
    from tenter.loop.topic import (
        is_topic as is_topic,
    )
    from tenter.loop.work import (
        Work as Work,
    )
    from tenter.loop.worktree import (
        repo_root as repo_root,
    )

__all__ = [
    "AmbiguousLoop",
    "Answer",
    "Asked",
    "Asking",
    "By",
    "DryRun",
    "END_SECONDS",
    "EVENTS_VARIABLE",
    "Finding",
    "Listener",
    "LoopRequest",
    "LoopResult",
    "LoopRow",
    "LoopState",
    "LoopSummary",
    "MOST_PAYLOAD",
    "PATIENCE_SECONDS",
    "Place",
    "PreflightFailed",
    "Pruned",
    "Reason",
    "Registry",
    "ReleaseHow",
    "Standing",
    "StateUnreadable",
    "Steered",
    "Taken",
    "TakenOver",
    "Told",
    "UnknownLoop",
    "Work",
    "answer",
    "continue_loop",
    "dry_run",
    "earlier_log",
    "event_document",
    "is_topic",
    "last_state",
    "place_of",
    "prune",
    "publish",
    "registry_of",
    "repo_root",
    "restart",
    "resume",
    "run_loop",
    "run_preflight",
    "standing_of",
    "status_of",
    "stop",
]

__getattr__ = opener(
    __name__,
    {
        "claim": (
            "place_of",
            "registry_of",
        ),
        "events_file": (
            "EVENTS_VARIABLE",
            "MOST_PAYLOAD",
            "event_document",
            "publish",
        ),
        "loop_row": (
            "LoopRow",
            "status_of",
        ),
        "outlook": (
            "DryRun",
            "dry_run",
        ),
        "output_log": ("earlier_log",),
        "parts": (
            "Asking",
            "Listener",
            "Told",
        ),
        "place": ("Place",),
        "preflight": (
            "Finding",
            "PreflightFailed",
            "run_preflight",
        ),
        "pruning": (
            "Pruned",
            "prune",
        ),
        "reason": (
            "Reason",
            "ReleaseHow",
            "Standing",
        ),
        "record": ("last_state",),
        "registry": (
            "AmbiguousLoop",
            "Registry",
            "Taken",
            "UnknownLoop",
            "standing_of",
        ),
        "release": ("By",),
        "request": (
            "LoopRequest",
            "LoopResult",
        ),
        "resuming": (
            "TakenOver",
            "continue_loop",
        ),
        "signal_file": ("Answer",),
        "starting": ("run_loop",),
        "state": (
            "Asked",
            "LoopState",
        ),
        "steering": (
            "END_SECONDS",
            "PATIENCE_SECONDS",
            "Steered",
            "answer",
            "restart",
            "resume",
            "stop",
        ),
        "summary": ("LoopSummary",),
        "suspension": ("StateUnreadable",),
        "topic": ("is_topic",),
        "work": ("Work",),
        "worktree": ("repo_root",),
    },
)
