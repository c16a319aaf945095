"""The mechanism: points, events, outcomes, hooks, chains, the runner. It knows no agent words (D§14)."""

from typing import TYPE_CHECKING

from tenter.kernel.door import opener

if TYPE_CHECKING:
    from tenter.kernel.boundary import (
        Boundary as Boundary,
    )
    from tenter.kernel.chain import (
        Chain as Chain,
        Link as Link,
        compile_chain as compile_chain,
    )
    from tenter.kernel.clock import (
        SYSTEM_CLOCK as SYSTEM_CLOCK,
        SYSTEM_RANDOM as SYSTEM_RANDOM,
        Clock as Clock,
        Random as Random,
        SystemClock as SystemClock,
    )
    from tenter.kernel.decision import (
        Decision as Decision,
        Disposition as Disposition,
        Record as Record,
    )
    from tenter.kernel.declaration import (
        BANDS as BANDS,
        Band as Band,
        Declaration as Declaration,
        Hook as Hook,
        Mode as Mode,
        declared_of as declared_of,
        hook as hook,
        source_of as source_of,
    )
    from tenter.kernel.door import (
        opener as opener,
    )
    from tenter.kernel.ending import (
        Blocked as Blocked,
        Done as Done,
        Ending as Ending,
        Escalated as Escalated,
        Failed as Failed,
        Requirement as Requirement,
        Stopped as Stopped,
        Suspended as Suspended,
        Unknown as Unknown,
    )
    from tenter.kernel.errors import (
        RESULTS as RESULTS,
        ExecutionResult as ExecutionResult,
        HookFailure as HookFailure,
        OperationFailed as OperationFailed,
        RegistrationError as RegistrationError,
        TenterError as TenterError,
    )
    from tenter.kernel.event import (
        AfterEvent as AfterEvent,
        BeforeEvent as BeforeEvent,
        Event as Event,
        conforms as conforms,
    )
    from tenter.kernel.fold import (
        FOLD as FOLD,
        Answer as Answer,
        Fold as Fold,
    )
    from tenter.kernel.frame import (
        Frame as Frame,
        current_frame as current_frame,
    )
    from tenter.kernel.frozen import (
        FrozenDict as FrozenDict,
        FrozenStruct as FrozenStruct,
        Growing as Growing,
        freeze as freeze,
    )
    from tenter.kernel.masking import (
        MASK as MASK,
        FuzzyPair as FuzzyPair,
        KeyPattern as KeyPattern,
        TextMask as TextMask,
    )
    from tenter.kernel.match import (
        Matcher as Matcher,
        compile_match as compile_match,
    )
    from tenter.kernel.outcome import (
        Allow as Allow,
        Block as Block,
        Escalate as Escalate,
        Fail as Fail,
        OnTimeout as OnTimeout,
        Outcome as Outcome,
        Result as Result,
        Retry as Retry,
        Suspend as Suspend,
        check_code as check_code,
    )
    from tenter.kernel.point import (
        OUTCOMES as OUTCOMES,
        PHASES as PHASES,
        Catalogue as Catalogue,
        Operation as Operation,
        Phase as Phase,
        Point as Point,
        Policy as Policy,
        Rule as Rule,
        Shape as Shape,
    )
    from tenter.kernel.redaction import (
        Redactor as Redactor,
    )
    from tenter.kernel.regex import (
        Regex as Regex,
        RegexError as RegexError,
    )
    from tenter.kernel.registration import (
        attach as attach,
        compile_chains as compile_chains,
        declarations as declarations,
        described as described,
        is_slug as is_slug,
    )
    from tenter.kernel.runner import (
        Body as Body,
        Steps as Steps,
        stopped as stopped,
    )
    from tenter.kernel.runtime import (
        DEFAULT_TIMEOUT as DEFAULT_TIMEOUT,
        Runtime as Runtime,
    )
    from tenter.kernel.span import (
        Span as Span,
    )
    from tenter.kernel.trace import (
        Detail as Detail,
        Trace as Trace,
        TraceEvent as TraceEvent,
    )

__all__ = [
    "AfterEvent",
    "Allow",
    "Answer",
    "BANDS",
    "Band",
    "BeforeEvent",
    "Block",
    "Blocked",
    "Body",
    "Boundary",
    "Catalogue",
    "Chain",
    "Clock",
    "DEFAULT_TIMEOUT",
    "Decision",
    "Declaration",
    "Detail",
    "Disposition",
    "Done",
    "Ending",
    "Escalate",
    "Escalated",
    "Event",
    "ExecutionResult",
    "FOLD",
    "Fail",
    "Failed",
    "Fold",
    "Frame",
    "FrozenDict",
    "FrozenStruct",
    "FuzzyPair",
    "Growing",
    "Hook",
    "HookFailure",
    "KeyPattern",
    "Link",
    "MASK",
    "Matcher",
    "Mode",
    "OUTCOMES",
    "OnTimeout",
    "Operation",
    "OperationFailed",
    "Outcome",
    "PHASES",
    "Phase",
    "Point",
    "Policy",
    "RESULTS",
    "Random",
    "Record",
    "Redactor",
    "Regex",
    "RegexError",
    "RegistrationError",
    "Requirement",
    "Result",
    "Retry",
    "Rule",
    "Runtime",
    "SYSTEM_CLOCK",
    "SYSTEM_RANDOM",
    "Shape",
    "Span",
    "Steps",
    "Stopped",
    "Suspend",
    "Suspended",
    "SystemClock",
    "TenterError",
    "TextMask",
    "Trace",
    "TraceEvent",
    "Unknown",
    "attach",
    "check_code",
    "compile_chain",
    "compile_chains",
    "compile_match",
    "conforms",
    "current_frame",
    "declarations",
    "declared_of",
    "described",
    "freeze",
    "hook",
    "is_slug",
    "opener",
    "source_of",
    "stopped",
]

__getattr__ = opener(
    __name__,
    {
        "boundary": ("Boundary",),
        "chain": (
            "Chain",
            "Link",
            "compile_chain",
        ),
        "clock": (
            "Clock",
            "Random",
            "SYSTEM_CLOCK",
            "SYSTEM_RANDOM",
            "SystemClock",
        ),
        "decision": (
            "Decision",
            "Disposition",
            "Record",
        ),
        "declaration": (
            "BANDS",
            "Band",
            "Declaration",
            "Hook",
            "Mode",
            "declared_of",
            "hook",
            "source_of",
        ),
        "door": ("opener",),
        "ending": (
            "Blocked",
            "Done",
            "Ending",
            "Escalated",
            "Failed",
            "Requirement",
            "Stopped",
            "Suspended",
            "Unknown",
        ),
        "errors": (
            "ExecutionResult",
            "HookFailure",
            "OperationFailed",
            "RESULTS",
            "RegistrationError",
            "TenterError",
        ),
        "event": (
            "AfterEvent",
            "BeforeEvent",
            "Event",
            "conforms",
        ),
        "fold": (
            "Answer",
            "FOLD",
            "Fold",
        ),
        "frame": (
            "Frame",
            "current_frame",
        ),
        "frozen": (
            "FrozenDict",
            "FrozenStruct",
            "Growing",
            "freeze",
        ),
        "masking": (
            "FuzzyPair",
            "KeyPattern",
            "MASK",
            "TextMask",
        ),
        "match": (
            "Matcher",
            "compile_match",
        ),
        "outcome": (
            "Allow",
            "Block",
            "Escalate",
            "Fail",
            "OnTimeout",
            "Outcome",
            "Result",
            "Retry",
            "Suspend",
            "check_code",
        ),
        "point": (
            "Catalogue",
            "OUTCOMES",
            "Operation",
            "PHASES",
            "Phase",
            "Point",
            "Policy",
            "Rule",
            "Shape",
        ),
        "redaction": ("Redactor",),
        "regex": (
            "Regex",
            "RegexError",
        ),
        "registration": (
            "attach",
            "compile_chains",
            "declarations",
            "described",
            "is_slug",
        ),
        "runner": (
            "Body",
            "Steps",
            "stopped",
        ),
        "runtime": (
            "DEFAULT_TIMEOUT",
            "Runtime",
        ),
        "span": ("Span",),
        "trace": (
            "Detail",
            "Trace",
            "TraceEvent",
        ),
    },
)
