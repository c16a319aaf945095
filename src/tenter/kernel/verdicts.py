"""What the dispatcher makes of an answer or a failure (D§6, D§7): is it legal here, what does the policy say, what is
recorded. Awaits nothing and runs no hook.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

from tenter.kernel.chain import Link
from tenter.kernel.clock import Clock
from tenter.kernel.decision import Disposition, Record
from tenter.kernel.errors import ExecutionResult, HookFailure
from tenter.kernel.event import Event, conforms, misfit
from tenter.kernel.fold import FOLD, Answer, Fold, Grant
from tenter.kernel.frame import Frame
from tenter.kernel.outcome import Allow, Block, Escalate, Fail, Outcome, Result, Retry, Suspend
from tenter.kernel.point import Policy
from tenter.kernel.redaction import Redactor
from tenter.kernel.trace import Detail, Raw

O = TypeVar("O", bound=Outcome)

DISPOSITIONS: Mapping[type[Outcome], Disposition] = {
    Allow: "pass",
    Result: "pass",
    Block: "block",
    Suspend: "suspend",
    Escalate: "escalate",
    Retry: "retry",
    Fail: "fail",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution that failed: what came of it, and why in words for people."""

    result: ExecutionResult
    reason: str
    code: str = "hook_failed"
    exception: str = ""


def grant_of(event: Event) -> Grant | None:
    """The approval that the event carries, in the event where it has the field, else in its op."""
    found = getattr(event, "approval", None) or getattr(event.op, "approval", None)
    return cast("Grant | None", found)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges answers for one runtime."""

    redactor: Redactor
    clock: Clock

    def replacement(self, frame: Frame, link: Link, new: Event, old: Event) -> Event | Failure:
        """`new` where it may stand for `old` at this point, else what is wrong with it."""
        point = frame.chain.point
        if not point.rule.replaces or link.hook.observe:
            return Failure(
                "bad_output", f"the hook {link.name!r} replaced the event, which {point.label} does not take"
            )
        if wrong := conforms(new, old):
            return Failure("bad_output", f"the hook {link.name!r} gave a bad replacement: {wrong}")
        if point.phase == "in" and new != old and grant_of(old) is not None:
            return Failure("bad_output", f"the hook {link.name!r} changed a call that a person approved")
        return new

    def crash(self, link: Link, error: BaseException) -> Failure:
        """A failure from whatever a hook raised."""
        if isinstance(error, HookFailure):
            return Failure(error.result, self.redactor.mask_fuzzy(error.reason), error.code)
        text = self.redactor.mask_exception_text(error)
        return Failure("crashed", f"the hook {link.name!r} failed: {text}", exception=type(error).__name__)

    def take(self, frame: Frame, fold: Fold, link: Link, answer: object) -> Fold:
        """The fold after an answer or failure of `link`; records it."""
        if not isinstance(answer, Event | Failure):
            answer = self._legal(frame, link, answer)
        if isinstance(answer, Failure):
            return self._failed(frame, fold, link, answer)
        if isinstance(answer, Event):
            return self._rewritten(frame, fold, link, answer)
        self._note(
            frame, link, _Said("denied" if isinstance(answer, Block) else "ok", DISPOSITIONS[type(answer)], answer)
        )
        return fold if link.shadow else fold.take(link, answer)

    def _legal(self, frame: Frame, link: Link, answer: object) -> Outcome | Failure:
        point = frame.chain.point
        if isinstance(answer, Outcome) and not link.hook.observe and point.takes(type(answer)):
            if isinstance(answer, Result) and (
                wrong := misfit(point.operation.after, point.operation.results, answer.value)
            ):
                return Failure("bad_output", f"the hook {link.name!r} gave a bad result: {wrong}")
            return self._masked(answer)
        if inspect.iscoroutine(answer):
            answer.close()
            return Failure("bad_output", f"the hook {link.name!r} returned a coroutine; make it an async function")
        if link.hook.observe:
            return Failure(
                "bad_output", f"the observer {link.name!r} answered {type(answer).__name__}; an observer says nothing"
            )
        if isinstance(answer, Outcome):
            return Failure(
                "bad_output",
                f"the hook {link.name!r} answered {type(answer).__name__}, which {point.label} does not take",
            )
        return Failure("bad_output", f"the hook {link.name!r} answered a {type(answer).__name__}, which is no outcome")

    def _rewritten(self, frame: Frame, fold: Fold, link: Link, event: Event) -> Fold:
        if event == fold.event:
            return fold
        self._note(frame, link, _Said("ok", "pass", None, modified=True))
        if link.shadow:
            return fold
        if frame.recheck:
            reason = f"the hook {link.name!r} changed the event again when it judged it once more"
            return fold.take(link, Block(reason, code="unstable_rewrite"))
        return fold.rewrite(link.place, event)

    def _failed(self, frame: Frame, fold: Fold, link: Link, failure: Failure) -> Fold:
        link.failures += 1
        policy: Policy = link.on_error
        self._note(frame, link, _Said(failure.result, policy, failure))
        match policy:
            case "warn":
                link.passed_on_failure += 1
                return fold
            case "block":
                return fold.take(link, Block(failure.reason, code=failure.code), failed=True)
            case "suspend":
                return fold.take(link, Suspend(failure.reason, code=failure.code), failed=True)
            case "fail":
                return fold.take(link, Fail(failure.reason, code=failure.code), failed=True)

    def cancelled(self, frame: Frame, link: Link) -> Record:
        """The record of a hook whose operation was cancelled while it ran."""
        return _record(frame, link, _Said("cancelled", "pass", None))

    def code(self, fold: Fold) -> str:
        """The one word that the trace says of a firing."""
        standing = max(fold.answers, key=lambda a: FOLD[type(a.outcome)].rank, default=None)
        return _code(standing) if standing is not None else ("replaced" if fold.versions else "")

    def traced(self, record: Record, op: str) -> Raw:
        """The record as the trace may hold it: no reason, no message."""
        details: dict[str, Detail] = {"band": record.band, "point": record.point, "disposition": record.disposition}
        details |= {name: True for name in ("modified", "observed", "shadow", "recheck") if getattr(record, name)}
        if record.result in ("ok", "denied"):
            return (self.clock.now(), "outcome", record.hook, record.code, op, details)
        if record.exception:
            details["exception"] = record.exception
        return (self.clock.now(), "failure", record.hook, record.result, op, details)

    def _note(self, frame: Frame, link: Link, said: "_Said") -> None:
        frame.records = (*frame.records, _record(frame, link, said))

    def _masked(self, outcome: O) -> O:
        """The outcome with its words redacted: they go to people, models and records."""
        changes: dict[str, Any] = {}
        for field in fields(cast(Any, outcome)):
            value = getattr(outcome, field.name)
            masked = self.redactor.mask_text(value) if isinstance(value, str) else self.redactor.redact(value)
            if masked is not value and masked != value:
                changes[field.name] = masked
        return replace(cast(Any, outcome), **changes) if changes else outcome


@dataclass(frozen=True, slots=True)
class _Said:
    result: ExecutionResult
    disposition: Disposition
    what: Outcome | Failure | None
    modified: bool = False


def _record(frame: Frame, link: Link, said: _Said) -> Record:
    what = said.what
    return Record(
        hook=link.name,
        band=link.hook.band,
        point=frame.chain.label,
        result=said.result,
        disposition=said.disposition,
        code=_word(what),
        reason=getattr(what, "reason", ""),
        exception=what.exception if isinstance(what, Failure) else "",
        modified=said.modified,
        observed=link.hook.observe,
        shadow=link.shadow,
        recheck=frame.recheck,
    )


def _code(answer: Answer) -> str:
    return _word(answer.outcome)


def _word(what: "Outcome | Failure | None") -> str:
    match what:
        case None:
            return ""
        case Block() | Suspend() | Fail() | Failure():
            return what.code
        case _:
            return type(what).__name__.lower()
