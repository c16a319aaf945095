"""What a person sees of a run while it happens: its steps, and what the hooks decided at each (D§13)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import click

from tenter.catalogue import ModelResponseEvent, ToolCallEvent, ToolResultEvent
from tenter.cli.texts import one_line, seconds
from tenter.harness import Step
from tenter.kernel import Blocked, Done, Escalated, Failed, Link, Suspended, TraceEvent


class Screen:
    """Prints to standard error, a line at a time. `mask` takes what looks like a secret out of a text."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask

    def show(self, step: Step) -> None:
        """One operation that began or ended."""
        if step.ending is None:
            self._begins(step)
            return
        for entry in step.trace:
            self._decided(entry)
        self._ended(step)

    def _begins(self, step: Step) -> None:
        if isinstance(step.event, ToolCallEvent):
            call = step.event.call
            self._line(f"  {click.style(call.name, bold=True)} {self._text(dict(call.arguments))}")

    def _decided(self, entry: TraceEvent) -> None:
        if entry.kind == "outcome":
            what = "rewrote it" if entry.details.get("modified") else entry.code
            shadow = " (shadow)" if entry.details.get("shadow") else ""
            self._line(f"    hook {entry.source}: {what}{shadow}", fg="cyan")
        elif entry.kind == "failure":
            what = f"{entry.code}, {entry.details.get('disposition')}"
            self._line(f"    hook {entry.source} failed: {what}", fg="yellow")

    def _ended(self, step: Step) -> None:
        match step.ending:
            case Done(event=ModelResponseEvent(response=response)):
                if response.text:
                    self._line(f"{click.style('model', bold=True)} {self._text(response.text)}")
            case Done(event=ToolResultEvent(result=result)):
                mark, colour = ("failed", "red") if result.is_error else ("ok", "green")
                self._line(f"    {click.style(mark, fg=colour)} {self._text(result.output)}")
            case Blocked() as blocked:
                self._line(f"    blocked by {blocked.hook}: {self._text(blocked.reason)}", fg="red")
            case Suspended():
                self._line("    a person is asked", fg="yellow")
            case Escalated() as escalated:
                self._line(f"    escalated to {escalated.queue}: {self._text(escalated.reason)}", fg="yellow")
            case Failed() as failed:
                self._line(f"    {step.operation} failed: {self._text(failed.message)}", fg="red")
            case _:
                pass

    def _text(self, value: object) -> str:
        return one_line(self._mask(value) if isinstance(value, str) else value)

    def _line(self, text: str, fg: str | None = None) -> None:
        click.echo(click.style(text, fg=fg) if fg else text, err=True)


def summary(links: Sequence[Link], trace: Sequence[TraceEvent]) -> str:
    """What each hook did in the run, a line each; nothing where there is none."""
    said: dict[tuple[str, str], Counter[str]] = {}
    for entry in trace:
        if entry.kind in ("outcome", "failure"):
            counter = said.setdefault((entry.source, cast(str, entry.details.get("point", ""))), Counter())
            counter[_word(entry)] += 1
    lines = [_summed(link, said.get((link.name, link.point.label), Counter())) for link in _reported(links)]
    return "\n".join(["hooks:", *lines]) if lines else ""


def _reported(links: Sequence[Link]) -> list[Link]:
    return [link for link in links if link.hook.band != "gate" or link.failures]


def _summed(link: Link, said: Counter[str]) -> str:
    words = ", ".join(f"{word} {count}x" for word, count in sorted(said.items())) or "passed all"
    mean = seconds(link.seconds / link.calls) if link.calls else "-"
    failed_open = f"; {link.passed_on_failure} passed because it failed" if link.passed_on_failure else ""
    return one_line(f"  {link.name} at {link.point.label}: called {link.calls}x ({mean}), {words}{failed_open}", 200)


def _word(entry: TraceEvent) -> str:
    if entry.kind == "failure":
        return f"failed ({entry.code})"
    return "rewrote" if entry.details.get("modified") else str(entry.details.get("disposition", entry.code))
