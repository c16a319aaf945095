"""What a person sees of a run while it happens: its steps, and what the hooks decided at each (D§13)."""

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, assert_never, cast

import click

from tenter.agent import Waiting
from tenter.catalogue import (
    Envelope,
    ModelResponseEvent,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    ToolCall,
    ToolCallEvent,
    ToolResultEvent,
)
from tenter.cli.masking import Masking
from tenter.cli.report import told
from tenter.cli.texts import LINE, ends, escaped, one_line
from tenter.cli.words import Said, phrase
from tenter.kernel import Blocked, Done, Escalated, Failed, Retry, Suspended, TraceEvent, Unknown

if TYPE_CHECKING:
    from tenter.harness import RunResult, Step

LABEL: Final = 8
"""Characters of the column that says what a line is."""
NAME: Final = 100
"""Characters of who approved something."""
WHY: Final = 1000
"""Characters of why a hook failed."""


class Screen:
    """Prints to standard error, a line at a time. `mask` takes what looks like a secret out of a text.

    Where nothing can be written any more (a pipe was closed), the run goes on unseen.
    """

    def __init__(self, mask: Masking, *, shown: bool = True) -> None:
        self.run_id = ""
        """The run that is watched, once it began."""
        self.mask = mask
        """Of all that is shown."""
        self._shown = shown
        self._said: dict[tuple[str, int], Said] = {}
        """What hooks said in the steps, by the run and the number of the entry."""

    def said(self, result: "RunResult") -> tuple[Said, ...]:
        """What hooks said in the run, and in its sub-runs, in this process; with what no step of it told."""
        rest = (
            self._heard(entry)
            for entry in result.trace
            if _speaks(entry) and (result.run_id, entry.sequence) not in self._said
        )
        return (*self._said.values(), *rest)

    def show(self, step: "Step") -> None:
        """One operation that began or ended."""
        envelope = cast(Envelope, step.event.envelope)
        if not self.run_id:
            self.run_id = envelope.run_id
            self._line("run", f"{envelope.run_id} of the task {envelope.task.name!r}")
        if step.ending is None:
            self._begins(step)
            return
        approval = step.op.approval
        for entry in filter(_speaks, step.trace):
            said = self._heard(entry, by="" if approval is None else approval.by, why=step.reasons.get(entry.sequence))
            self._said[envelope.run_id, entry.sequence] = said
            if not _tells(step.ending, entry):
                self._decided(said, failed=entry.kind == "failure")
        self._ended(step)

    def _begins(self, step: "Step") -> None:
        if isinstance(step.event, ToolCallEvent):
            self._line("tool", self._call(step.event.call))
        elif isinstance(step.event, SubtaskSpawnEvent):
            task = step.event.task
            self._line("spawn", self._text(f"{task.id} of the task {task.name!r}: {step.event.input}"))

    def _heard(self, entry: TraceEvent, *, by: str = "", why: str | None = None) -> Said:
        return Said(
            hook=entry.source,
            point=str(entry.details.get("point")),
            phrase=phrase(entry, one_line(self.mask(by), NAME)),
            reason=one_line(self.mask(why or ""), WHY),
        )

    def _decided(self, said: Said, *, failed: bool) -> None:
        why = f": {said.reason}" if said.reason else ""
        self._line("  hook", f"{said.hook} {said.phrase}{why}", fg="yellow" if failed else "cyan")

    def _ended(self, step: "Step") -> None:
        match step.ending:
            case Done(event=ModelResponseEvent(response=response)):
                if response.text:
                    self._line("model", self._text(response.text))
            case Done(event=ToolResultEvent(call=call, result=result)):
                if isinstance(step.event, ToolCallEvent) and call != step.event.call:
                    self._line("  as", self._call(call), fg="cyan")
                label, colour = ("  failed", "red") if result.is_error else ("  ok", "green")
                self._line(label, ends(self.mask(result.output), _width() - LABEL - 1), fg=colour)
            case Done(event=SubtaskSpawnedEvent(result=came)):
                colour = "green" if came.status == "completed" else "red"
                self._line("  ended", f"{came.run_id}: {came.status}", fg=colour)
            case Done() | Waiting() | None:  # what a sub-run waits for, its own steps have told
                pass
            case _:
                for label, who, reason in _stopped(step.ending, step.operation):
                    # A reason is shown whole: it is what somebody has to act on.
                    self._line(label, told(who, self.mask(reason)), fg="red")

    def _call(self, call: ToolCall) -> str:
        """A call as one would write it in a program, its arguments in the order in which they are on record.

        Arguments that are no object as they came.
        """
        arguments = cast(object, call.arguments)
        if not isinstance(arguments, Mapping):
            return self._text(f"{call.name}({arguments})")
        pairs = sorted(call.arguments.items())
        said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
        return self._text(f"{call.name}({said})")

    def _text(self, text: str) -> str:
        return one_line(self.mask(text), _width() - LABEL - 1)

    def _line(self, label: str, text: str, fg: str | None = None) -> None:
        bold = None if label.startswith(" ") else True
        self._print(f"{click.style(label.ljust(LABEL), fg=fg, bold=bold)} {escaped(text)}")

    def _print(self, text: str) -> None:
        if self._shown:
            try:
                click.echo(text, err=True)
            except OSError:
                self._shown = False


def _stopped(
    stopped: Blocked | Suspended | Escalated | Retry | Failed | Unknown, operation: str
) -> Iterator[tuple[str, str, str]]:
    """Label, author and reason for each of those who stopped an operation."""
    match stopped:
        case Blocked():
            yield "  blocked", f"by {'the failure of ' if stopped.failed else ''}{stopped.hook}", stopped.reason
        case Suspended():
            for asked in stopped.requirements:
                yield "  waits", f"for a person, asked by {asked.hook}", asked.reason
        case Escalated():
            yield "  handed", f"to {stopped.queue} by {stopped.hook}", stopped.reason
        case Failed():
            yield "  failed", operation + (f", the hook {stopped.hook}" if stopped.hook else ""), stopped.message
        case Retry():
            yield "  again", operation, stopped.reason
        case Unknown():
            yield "  unknown", operation, stopped.reason
        case _:
            assert_never(stopped)


def _speaks(entry: TraceEvent) -> bool:
    return entry.kind in ("outcome", "failure")


def _tells(ending: object, entry: TraceEvent) -> bool:
    """Whether the line about the ending says what the hook of this entry did, and why."""
    disposition = entry.details.get("disposition")
    match ending:
        case Blocked(hook=hook):
            return disposition == "block" and entry.source == hook
        case Escalated(hook=hook):
            return disposition == "escalate" and entry.source == hook
        case Failed(hook=hook):
            return disposition == "fail" and entry.source == hook
        case Suspended(requirements=asked):
            return disposition == "suspend" and entry.source in {one.hook for one in asked}
        case _:
            return False


def _width() -> int:
    return shutil.get_terminal_size((LINE, 24)).columns
