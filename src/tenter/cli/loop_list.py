"""`tenter loop list`: the loops of a repository, and what a person can do for those that wait."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.cli.command_line import TAKEN_BY_ITSELF, quoted
from tenter.cli.loops import loops_of
from tenter.cli.masking import Masking, mask_of, masked
from tenter.cli.texts import json_text, moment, one_line

if TYPE_CHECKING:
    from tenter.loop import LoopRow

LONGEST: Final = 1000
"""Characters of a line that somebody has to act on."""
PROMPT: Final = 60
"""Characters of a prompt."""
REASON: Final = 300
"""Characters of a reason, so that what to do about it has its place on the line."""
MOST_NAMED: Final = 10
"""Hooks that are named of those that suspended a loop."""


class HeldBy(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that suspended a loop."""

    hook_name: str
    reason: str
    code: str
    suspend_mode: str


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Why a loop is suspended: since when, where, by which hook, the first one where there are several."""

    suspension_id: str
    suspended_at: str
    phase_event: str
    hook_name: str
    reason: str
    suspend_mode: str
    suspensions: Sequence[HeldBy]
    """Every hook that suspended it, in their order."""


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """What a loop asks a person."""

    question_id: str
    question: str
    options: Sequence[str]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A loop as listed. Times are in UTC."""

    loop_id: str
    status: str
    """A `Standing`."""
    reason: str | None
    message: str
    primary: bool
    workspace: str
    branch: str | None
    pid: int
    process_alive: bool
    iteration: int
    prompt: str
    started_at: str
    ended_at: str | None
    suspension: Held | None
    question: Asks | None


def list_verb(config: str | None, *, every: bool, as_json: bool) -> None:
    """Lists the loops that have not ended, or every loop, the last registered first."""
    rows = loops_of(config).rows(every)
    masks = {row.config: mask_of(row.config) for row in rows}
    shown = [(listed(row), masks[row.config]) for row in rows]
    if as_json:
        click.echo(json_text({"loops": [masked(msgspec.to_builtins(row), mask) for row, mask in shown]}))
        return
    for row, mask in shown:
        for line in lines(row, mask, config or TAKEN_BY_ITSELF):
            click.echo(line)
    if not shown:
        click.echo(
            "no loop yet" if every else "no loop is running or suspended; --all lists those that have ended", err=True
        )


def listed(row: "LoopRow") -> Listed:
    """A row of the registry with what is known of its process."""
    from tenter.executors import is_alive
    from tenter.loop import status_of

    alive, held, question = is_alive(row.process), row.suspension, row.question
    return Listed(
        loop_id=row.loop_id,
        status=status_of(row, alive),
        reason=row.reason,
        message=row.message,
        primary=row.primary,
        workspace=row.workspace,
        branch=row.branch,
        pid=row.pid,
        process_alive=alive,
        iteration=row.iteration,
        prompt=row.prompt,
        started_at=moment(row.started_at),
        ended_at=None if row.ended_at is None else moment(row.ended_at),
        suspension=None if held is None else msgspec.convert(held, Held, from_attributes=True),
        question=None
        if question is None
        else Asks(question_id=question.question_id, question=question.asked.question, options=question.asked.options),
    )


def lines(row: Listed, mask: Masking, config: str) -> Iterator[str]:
    """A loop for people: a line of a table, and below it what it waits for or why it ended."""
    head = f"{row.loop_id}  {row.status:9}  {_since(row)}  iteration {row.iteration:<3}  "
    yield one_line(head, LONGEST).ljust(len(head)) + one_line(mask(row.prompt), PROMPT)
    for told in below(row, mask, config):
        yield f"  {one_line(mask(told), LONGEST)}"


def below(row: Listed, mask: Masking, config: str) -> Iterator[str]:
    """What it waits for, and what a person can do about it; or why it ended. To be masked and escaped as a whole.

    `config` is the configuration by which its repository was named.
    """
    held, asks = row.suspension, row.question
    resume = quoted(config, "loop", "resume", row.loop_id)
    gone = "; its process is gone" if row.ended_at is None and not row.process_alive else ""
    if held is not None:
        yield (
            f"suspended since {held.suspended_at} at {held.phase_event} by {held.hook_name}: "
            f"{_reason(held.reason, mask)}{gone}; {resume} continues it"
        )
        for one in held.suspensions[1:MOST_NAMED]:
            yield f"and by {one.hook_name}: {_reason(one.reason, mask)}"
        if (more := len(held.suspensions) - MOST_NAMED) > 0:
            yield f"and by {more} more; --json names all"
    elif gone:
        yield f"its process is gone; {resume} continues it"
    if asks is not None:
        options = f" ({' / '.join(asks.options)})" if asks.options else ""
        yield f"asks: {asks.question}{options}; {quoted(config, 'loop', 'answer', row.loop_id, 'TEXT')} answers it"
    if row.reason not in (None, "completed"):
        yield f"{row.reason}: {row.message}"


def _since(row: Listed) -> str:
    """Since when it has its status, as far as that is known: a crash is not noticed when it happens."""
    if row.suspension is not None:
        return row.suspension.suspended_at
    return row.started_at if row.ended_at is None else row.ended_at


def _reason(reason: str, mask: Masking) -> str:
    """Masked before it is cut, so that no half of a secret is left."""
    return one_line(mask(reason), REASON)
