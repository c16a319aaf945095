"""`tenter approvals approve`, `reject` and `edit`: records what a person decided, and says how the run goes on.

Only a request whose time is up is more than that: then the run is brought to its end at once.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click
import msgspec

from tenter.catalogue import ApprovalDecision
from tenter.cli.approvals_rows import done, request_row
from tenter.cli.approvals_show import requests_of
from tenter.cli.command_line import command_line, quoted
from tenter.cli.decisions import edits_of, login_name, refuse_secrets, root_of
from tenter.cli.foreground import Words
from tenter.cli.inside import refuse_inside
from tenter.cli.journals import journal_of
from tenter.cli.masking import Masking, mask_of, masked, told_mask_of
from tenter.cli.resume import resumed
from tenter.cli.texts import escaped, json_text, one_line
from tenter.journal import ApprovalRow, DecisionRefused, Store, Stream, every_request
from tenter.kernel import SYSTEM_CLOCK, TenterError

Answer = Literal["approve", "reject", "edit"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    run_id: str
    request_id: str
    """Empty where it is not said."""
    config: str
    workspace: str | None
    reason: str
    by: str | None
    as_json: bool
    words: tuple[str, ...] = ()
    """The new values of an edit."""


class Decided(msgspec.Struct, frozen=True):
    """The decision, as it is on record, and what was asked."""

    row: ApprovalRow
    decision: ApprovalDecision
    still_open: int
    """So many other requests of the run, and of those below it, wait."""

    @property
    def run_id(self) -> str:
        """The run that goes on with it."""
        return root_of(self.row.request)

    @property
    def ends_run(self) -> bool:
        """Whether all that is left of the run is its end, whatever is said to the others."""
        return self.decision.decision == "reject" and self.row.request.run_id == self.run_id


class Expired(msgspec.Struct, frozen=True):
    """The decision came too late, which is on record now."""

    run_id: str
    message: str


def decide_verb(answer: Answer, masks: list[Masking], options: Mapping[str, object]) -> int:
    """Records the decision. Of a run that waited too long the exit code is that of its end."""
    words = msgspec.convert(options, Options)
    refuse_inside("what needs a person is a person's to decide; decide it from a shell of your own", words.config)
    if words.by is not None and not words.by.strip():
        raise click.UsageError("--by is empty; say who decides, or leave it out")
    edits = edits_of(words.words)
    told = told_mask_of(words.config)
    refuse_secrets(edits, told)
    decided = asyncio.run(_decide(answer, words, edits))
    if isinstance(decided, Expired):
        return _end(decided, masks, words)
    _print(decided, words)
    return 0


async def _decide(answer: Answer, words: Options, edits: Mapping[str, object]) -> Decided | Expired:
    from tenter.harness import check_edits, said_by, said_why

    told = told_mask_of(words.config)
    async with journal_of(Path(words.config)) as store:
        row = _meant(await requests_of(store, words.run_id, words.request_id))
        request = row.request
        assert store is not None, "a request was found"
        decision = ApprovalDecision(
            request_id=request.id,
            run_id=root_of(request),
            decision=answer,
            by=told(said_by(words.by if words.by is not None else login_name())),
            reason=told(said_why(words.reason)),
            edits=edits,
            decided_at=SYSTEM_CLOCK.now(),
        )
        try:
            if row.state == "open":  # of any other the store says why nothing can be decided
                check_edits(request, edits)
            decided = await store.decide(decision)
            row = await store.request(request.run_id, request.id)
            assert row is not None, "it was decided"
            return Decided(row, decided, await _open_of(store, root_of(request)))
        except DecisionRefused as error:
            if error.why == "expired" and not await _is_over(store, root_of(request)):
                return Expired(root_of(request), str(error))
            raise click.ClickException(str(error)) from error


async def _open_of(store: Store, run_id: str) -> int:
    return sum(row.state == "open" for row in await every_request(store, run_id))


async def _is_over(store: Store, run_id: str) -> bool:
    summary = await store.summary(Stream("run", run_id))
    return summary is None or summary.is_over


def _meant(rows: list[ApprovalRow]) -> ApprovalRow:
    """The request that is decided: the only one, or the only one that waits; of none that waits, the last one.

    Of that the store tells why nothing can be decided. Raises TenterError where several wait.
    """
    waiting = [row for row in rows if row.state == "open"]
    if len(waiting) > 1:
        ids, run_id = ", ".join(row.request.id for row in waiting), root_of(waiting[0].request)
        raise TenterError(f"the run {run_id} waits for {len(waiting)} decisions ({ids}); name one")
    return waiting[0] if waiting else rows[-1]


def _print(decided: Decided, words: Options) -> None:
    mask, decision = mask_of(words.config), decided.decision
    resume = quoted(words.config, "resume", decided.run_id)
    if words.as_json:
        asked = msgspec.to_builtins(request_row(decided.row))
        document: dict[str, object] = {"approval": asked, "still_open": decided.still_open}
        document["next"] = command_line(words.config, "resume", decided.run_id)
        click.echo(json_text(masked(document, mask)))
        return
    click.echo(f"request {one_line(decision.request_id)}: {done(decision, mask)}")
    if decided.ends_run:
        click.echo(f"{resume} brings the run to its end, blocked")
        return
    if decided.still_open:
        waiting = "1 request more" if decided.still_open == 1 else f"{decided.still_open} requests more"
        show = quoted(words.config, "approvals", "show", decided.run_id)
        click.echo(f"the run waits for {waiting} ({show}); {resume} goes on with it then")
        return
    ended = f"; its sub-run {decided.row.request.run_id} ends blocked" if decision.decision == "reject" else ""
    click.echo(f"{resume} goes on with the run{escaped(ended)}")


def _end(expired: Expired, masks: list[Masking], words: Options) -> int:
    """Brings the run of a request whose time is up to its end, which the record has not yet, and shows it."""
    click.echo(escaped(mask_of(words.config)(expired.message)), err=True)
    click.echo(f"the run {expired.run_id} is brought to its end, which takes trust in the project", err=True)
    shown = Words(config=words.config, workspace=words.workspace, steps=None, as_json=words.as_json)
    return resumed(shown, masks, expired.run_id)
