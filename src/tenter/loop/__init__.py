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
        Question as Question,
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
        SignalKind as SignalKind,
    )
    from tenter.loop.preflight import (
        CHECKS as CHECKS,
        Finding as Finding,
        PreflightFailed as PreflightFailed,
        run_preflight as run_preflight,
    )
    from tenter.loop.process_id import (
        ProcessId as ProcessId,
        is_alive as is_alive,
        this_process as this_process,
    )
    from tenter.loop.pruning import (
        Pruned as Pruned,
        prune as prune,
    )
    from tenter.loop.reason import (
        REASONS as REASONS,
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
        registry_path as registry_path,
        standing_of as standing_of,
    )
    from tenter.loop.release import (
        By as By,
        Release as Release,
        by_this_process as by_this_process,
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
        SetAside as SetAside,
        Signal as Signal,
        take_answer as take_answer,
        take_signal as take_signal,
        write_signal as write_signal,
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
        summary_lines as summary_lines,
    )
    from tenter.loop.suspension import (
        StateUnreadable as StateUnreadable,
        Suspender as Suspender,
        SuspendState as SuspendState,
        clear_state as clear_state,
        read_state as read_state,
        write_state as write_state,
    )
    from tenter.loop.topic import (
        is_topic as is_topic,
    )
    from tenter.loop.waiting import (
        stop_asked as stop_asked,
        wait_for_answer as wait_for_answer,
        wait_for_release as wait_for_release,
    )
    from tenter.loop.work import (
        Backend as Backend,
        Work as Work,
        Worked as Worked,
    )
    from tenter.loop.worktree import (
        Worktree as Worktree,
        add_worktree as add_worktree,
        remove_worktree as remove_worktree,
        repo_root as repo_root,
    )

__all__ = [
    "AmbiguousLoop",
    "Answer",
    "Asked",
    "Asking",
    "Backend",
    "By",
    "CHECKS",
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
    "ProcessId",
    "Pruned",
    "Question",
    "REASONS",
    "Reason",
    "Registry",
    "Release",
    "ReleaseHow",
    "SetAside",
    "Signal",
    "SignalKind",
    "Standing",
    "StateUnreadable",
    "Steered",
    "SuspendState",
    "Suspender",
    "Taken",
    "TakenOver",
    "Told",
    "UnknownLoop",
    "Work",
    "Worked",
    "Worktree",
    "add_worktree",
    "answer",
    "by_this_process",
    "clear_state",
    "continue_loop",
    "dry_run",
    "earlier_log",
    "event_document",
    "is_alive",
    "is_topic",
    "last_state",
    "place_of",
    "prune",
    "publish",
    "read_state",
    "registry_of",
    "registry_path",
    "remove_worktree",
    "repo_root",
    "restart",
    "resume",
    "run_loop",
    "run_preflight",
    "standing_of",
    "status_of",
    "stop",
    "stop_asked",
    "summary_lines",
    "take_answer",
    "take_signal",
    "this_process",
    "wait_for_answer",
    "wait_for_release",
    "write_signal",
    "write_state",
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
            "Question",
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
        "place": (
            "Place",
            "SignalKind",
        ),
        "preflight": (
            "CHECKS",
            "Finding",
            "PreflightFailed",
            "run_preflight",
        ),
        "process_id": (
            "ProcessId",
            "is_alive",
            "this_process",
        ),
        "pruning": (
            "Pruned",
            "prune",
        ),
        "reason": (
            "REASONS",
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
            "registry_path",
            "standing_of",
        ),
        "release": (
            "By",
            "Release",
            "by_this_process",
        ),
        "request": (
            "LoopRequest",
            "LoopResult",
        ),
        "resuming": (
            "TakenOver",
            "continue_loop",
        ),
        "signal_file": (
            "Answer",
            "SetAside",
            "Signal",
            "take_answer",
            "take_signal",
            "write_signal",
        ),
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
        "summary": (
            "LoopSummary",
            "summary_lines",
        ),
        "suspension": (
            "StateUnreadable",
            "SuspendState",
            "Suspender",
            "clear_state",
            "read_state",
            "write_state",
        ),
        "topic": ("is_topic",),
        "waiting": (
            "stop_asked",
            "wait_for_answer",
            "wait_for_release",
        ),
        "work": (
            "Backend",
            "Work",
            "Worked",
        ),
        "worktree": (
            "Worktree",
            "add_worktree",
            "remove_worktree",
            "repo_root",
        ),
    },
)
