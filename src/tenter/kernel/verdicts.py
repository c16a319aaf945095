"""What the dispatcher makes of an answer or a failure (D§6, D§7): is it legal here, what does the policy say, what is
recorded. Awaits nothing and runs no hook.
"""

import contextlib
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from tenter.kernel.chain import Link
from tenter.kernel.clock import Clock
from tenter.kernel.decision import Disposition, Record
from tenter.kernel.declaration import function_of
from tenter.kernel.errors import ExecutionResult, HookFailure, TenterError
from tenter.kernel.event import Event, conforms, misfit
from tenter.kernel.fold import FOLD, NOT_LIFTED, Fold, Grant, Lifted
from tenter.kernel.frame import Frame
from tenter.kernel.frozen import freeze
from tenter.kernel.outcome import Allow, Block, Escalate, Fail, Outcome, Result, Retry, Suspend
from tenter.kernel.point import OUTCOMES, Point
from tenter.kernel.redaction import Redactor
from tenter.kernel.sameness import same
from tenter.kernel.trace import Detail, Raw

Said = TypeVar("Said", bound=Outcome)

DISPOSITIONS: Mapping[type[Outcome], Disposition] = {
    Allow: "pass",
    Result: "pass",
    Block: "block",
    Suspend: "suspend",
    Escalate: "escalate",
    Retry: "retry",
    Fail: "fail",
}

LONGEST_REASON = 16_384
"""Characters that are kept of why a hook failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution that failed: what came of it, and why in words for people."""

    result: ExecutionResult
    reason: str
    code: str = "hook_failed"
    exception: str = ""


_TRACEBACK: Any = vars(BaseException)["__traceback__"]

Verdict = Event | Outcome | Failure
"""What an answer is, once it was judged."""


def grant_of(event: Event) -> Grant | None:
    """The approval that the event carries, in the event where it has the field, else in its op."""
    found = getattr(event, "approval", None) or getattr(event.op, "approval", None)
    return cast("Grant | None", found)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges answers for one runtime."""

    redactor: Redactor
    clock: Clock

    def legal(self, link: Link, answer: object, event: Event) -> Verdict:
        """What `answer` counts as at the point of `link`, where `event` was handed out."""
        if wrong := _unanswerable(link, answer):
            return self._bad(wrong)
        if isinstance(answer, Event):
            wrong = _misplaced(link, answer, event)
            return self._bad(f"the hook {link.name!r} gave a bad replacement: {wrong}") if wrong else answer
        if isinstance(answer, Result):
            operation, value = link.point.operation, freeze(answer.value)
            wrong = misfit(operation.after, operation.results, value, before=operation.before)
            return self._bad(f"the hook {link.name!r} gave a bad result: {wrong}") if wrong else Result(value)
        outcome = cast(Outcome, answer)
        if isinstance(outcome, Suspend) and (wrong := _uneditable(outcome, event)):
            return self._bad(f"the hook {link.name!r} lets a person change {wrong}")
        return outcome

    def _bad(self, reason: str) -> Failure:
        return Failure("bad_output", self.reason(reason))

    def crash(self, link: Link, error: BaseException) -> Failure:
        """A failure from whatever a hook raised."""
        if type(error) is HookFailure:
            with contextlib.suppress(Exception):  # somebody changed it: it is told as any other
                named = HookFailure(error.result, _plain(error.reason), code=_plain(error.code))
                return Failure(named.result, self.reason(named.reason), named.code)
        told = self.told(error)
        return Failure(
            "crashed",
            f"the hook {link.name!r} failed{self._place(link, error)}: {told}{_advice(told)}",
            exception=self.redactor.mask_exception_name(error),
        )

    def _place(self, link: Link, error: BaseException) -> str:
        """Where in its own file a hook failed, as far as that can be told."""
        with contextlib.suppress(Exception):  # a hook's author may have put anything there
            own = inspect.unwrap(cast(Any, function_of(link.hook.call))).__code__.co_filename
            trace, line = cast("types.TracebackType | None", _TRACEBACK.__get__(error)), 0
            while trace is not None:
                line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == own else line
                trace = trace.tb_next
            return self.redactor.mask_fuzzy(f" at {Path(own).name}:{line}") if line else ""
        return ""

    def told(self, error: BaseException) -> str:
        """What an exception says, masked; of one that does not let itself be told, its class."""
        try:
            return self.redactor.mask_exception_text(error)
        except KeyboardInterrupt:
            raise
        except BaseException:  # its text is whatever its author's code gives
            return self.redactor.mask_fuzzy(f"{kind_of(error)}, which cannot be told")

    def reason(self, reason: str) -> str:
        """Why something failed, masked and of bounded length."""
        if len(reason) <= LONGEST_REASON:
            return self.redactor.mask_fuzzy(reason)
        return self.redactor.mask_cut(reason[:LONGEST_REASON]) + "… (cut)"

    def take(self, frame: Frame, fold: Fold, link: Link, verdict: Verdict) -> Fold:
        """The fold after `link` was judged; records it."""
        match verdict:
            case Failure():
                return self._failed(frame, fold, link, verdict)
            case Event():
                return self._rewritten(frame, fold, link, verdict)
            case Outcome():
                result: ExecutionResult = "denied" if isinstance(verdict, Block) else "ok"
                self._note(frame, link, _Said(result, DISPOSITIONS[type(verdict)], verdict))
                return fold if link.shadow else fold.take(link, verdict)

    def cancelled(self, frame: Frame, link: Link) -> None:
        """Records a hook whose operation was cancelled while it ran."""
        self._note(frame, link, _Said("cancelled", "pass", None))

    def lift(self, frame: Frame, lifted: Mapping[str, Lifted]) -> None:
        """Records why nobody is asked, of each hook that wanted a person."""
        frame.lifted = lifted
        frame.records = tuple(
            msgspec.structs.replace(record, lifted=lifted[record.hook][0], lifted_by=lifted[record.hook][1])
            if record.hook in lifted and record.disposition == "suspend"
            else record
            for record in frame.records
        )

    def code(self, fold: Fold, lifted: Mapping[str, Lifted] = NOT_LIFTED) -> str:
        """The one word that the trace says of a firing."""
        answers = [a for a in fold.answers if a.hook not in lifted]
        standing = max(answers, key=lambda a: FOLD[type(a.outcome)].rank, default=None)
        return _word(standing.outcome) if standing is not None else ("replaced" if fold.versions else "")

    def traced(self, record: Record, op: str) -> Raw:
        """The record as the trace may hold it: no reason, no message."""
        details: dict[str, Detail] = {"band": record.band, "point": record.point, "disposition": record.disposition}
        details |= {name: True for name in ("modified", "observed", "shadow", "recheck") if getattr(record, name)}
        details |= {name: value for name in ("lifted", "lifted_by") if (value := getattr(record, name))}
        if record.result in ("ok", "denied"):
            return (self.clock.now(), "outcome", record.hook, record.code, op, details)
        if record.exception:
            details["exception"] = record.exception
        return (self.clock.now(), "failure", record.hook, record.result, op, details)

    def _rewritten(self, frame: Frame, fold: Fold, link: Link, event: Event) -> Fold:
        if same(event, fold.event):
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
        self._note(frame, link, _Said(failure.result, link.on_error, failure))
        match link.on_error:
            case "warn":
                link.passed_on_failure += 1
                return fold
            case "block":
                return fold.take(link, Block(failure.reason, code=failure.code), failed=True)
            case "suspend":
                return fold.take(link, Suspend(failure.reason, code=failure.code), failed=True)
            case "fail":
                return fold.take(link, Fail(failure.reason, code=failure.code), failed=True)

    def _note(self, frame: Frame, link: Link, said: "_Said") -> None:
        what = said.what
        record = Record(
            hook=link.name,
            band=link.hook.band,
            point=link.point.label,
            result=said.result,
            disposition=said.disposition,
            code=_word(what),
            reason=getattr(what, "reason", ""),
            exception=what.exception if isinstance(what, Failure) else "",
            modified=said.modified,
            observed=link.hook.observe,
            shadow=link.shadow,
            recheck=frame.recheck,
            seconds=frame.seconds,
        )
        frame.records = (*frame.records, record)
        link.results[said.result] = link.results.get(said.result, 0) + 1

    async def masked(self, outcome: Said) -> Said:
        """The outcome with its words redacted: they go to people, models and records.

        It is made anew, so that what a hook did to it after it was made is judged as well.
        """
        values: dict[str, Any] = {}
        for field in fields(cast(Any, outcome)):
            given = getattr(outcome, field.name)
            value = await self.redactor.apply(given)
            # a word of the trace cannot hold the mask
            masked_word = value is not given and field.name in ("code", "queue")
            values[field.name] = field.default if masked_word else value
        return cast(Any, type(outcome))(**values)


@dataclass(frozen=True, slots=True)
class _Said:
    result: ExecutionResult
    disposition: Disposition
    what: Outcome | Failure | None
    modified: bool = False


def _unanswerable(link: Link, answer: object) -> str | None:
    """What is wrong with an answer of this kind at the point of `link`, or None."""
    name, kind, label, cls = link.name, kind_of(answer), link.point.label, type(answer)
    if cls is types.CoroutineType:
        left = _closed(cast("types.CoroutineType[object, object, object]", answer))
        return f"the hook {name!r} returned a coroutine{left}; make it an async function"
    if link.hook.observe:
        return f"the observer {name!r} answered {kind}; an observer says nothing"
    if issubclass(cls, Event):
        return (
            None if link.point.rule.replaces else f"the hook {name!r} replaced the event, which {label} does not take"
        )
    if not issubclass(cls, Outcome):
        if any(answer is one for one in OUTCOMES.values()):
            word = cast("type[Outcome]", answer).__name__
            return f"the hook {name!r} answered the class {word}; return {word}(…), not the class"
        return f"the hook {name!r} answered a {kind}, which is no outcome; {label} takes {_taken(link.point)}"
    return None if link.point.takes(cls) else f"the hook {name!r} answered {kind}, which {label} does not take"


def _taken(point: Point) -> str:
    """What a hook can return at `point`, as it would be written."""
    words = {cls: f"{cls.__name__}(…)" for cls in OUTCOMES.values() if point.takes(cls)}
    if Result in words:
        words[Result] = "event.result(…)"
    listed = ["None", *words.values(), *(["event.replace(…)"] if point.rule.replaces else [])]
    return " or ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def _advice(told: str) -> str:
    """What to do about an exception whose own text does not say it."""
    if told.startswith("AttributeError: immutable type:"):
        return "; nothing in an event is changed in place: return event.replace(field=value)"
    return ""


def _misplaced(link: Link, new: Event, old: Event) -> str | None:
    """Why `new` cannot take the place of `old` at the point of `link`, or None."""
    wrong, point = conforms(new, old), link.point
    if wrong is None and point.outbound:
        kept = [name for name in old.own_fields() if name not in point.operation.results]
        changed = [name for name in kept if not same(getattr(new, name), getattr(old, name))]
        wrong = f"{changed[0]!r} is no part of the result" if changed else None
    granted = grant_of(old)
    if wrong is None and not same(grant_of(new), granted):
        wrong = "a person's approval is not for a hook to change"
    if wrong is None and granted is not None and point.phase == "in" and not same(new, old):
        wrong = "a person approved the call as it was"
    return wrong


def _closed(coroutine: "types.CoroutineType[object, object, object]") -> str:
    """Closes what nobody will await, and says what came of it: it may have begun."""
    try:
        coroutine.close()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a `finally` of the hook's
        return f", which raised {kind_of(error)} when it was closed"
    return ""


def _uneditable(asked: Suspend, event: Event) -> str | None:
    """The first name in `editable` that does not begin with a field of the event, and what does, or None.

    `*` stands for all that a person can change there.
    """
    known = event.editable_fields()
    for name in asked.editable:
        if name != "*" and name.partition(".")[0] not in known:
            return f"{name!r}, which the event does not have; it has {', '.join(map(repr, sorted(known)))}"
    return None


def kind_of(value: object) -> str:
    """The name of a value's class, as Python itself knows it: a class of a hook's may give another, or raise."""
    return _plain(vars(type)["__name__"].__get__(type(value)))


def strange(event: object, wanted: type[Event], where: str) -> TenterError:
    """For an event that is none of those which `where` takes."""
    return TenterError(f"{where} takes a {wanted.__name__}, not {kind_of(event)}")


def _plain(text: object) -> str:
    """Text without what a subclass of str may do. Raises TypeError for anything else."""
    return str.__str__(cast(str, text))


def _word(what: Outcome | Failure | None) -> str:
    match what:
        case None:
            return ""
        case Block() | Suspend() | Fail() | Failure():
            return what.code
        case _:
            return type(what).__name__.lower()
