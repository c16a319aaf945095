"""Asks a person on the terminal for what a run in this process waits for, and records what they decide.

A gate that is meant for a person is opened by nobody whom it holds up: nothing is asked without a terminal, nor in what
a run, a hook or a tool started (see `inside`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, assert_never

import click
import msgspec

from tenter.catalogue import ApprovalRequest
from tenter.cli.approvals_rows import done
from tenter.cli.command_line import quoted
from tenter.cli.decisions import editable_of, fields_of, login_name, refuse_secrets, root_of, value_of
from tenter.cli.inside import inside_of
from tenter.cli.masking import Masking
from tenter.cli.report import request_text
from tenter.cli.terminal import asks_here, typed_line
from tenter.cli.texts import escaped, json_text, one_line

if TYPE_CHECKING:
    from tenter.catalogue import ApprovalDecision
    from tenter.harness import Harness

Choice = Literal["approve", "reject", "edit", "later"]
Turn = Literal["decided", "later", "over"]
"""What came of asking for one request. `over`: the run can go on whatever is said to the others, which it asks anew."""
CHOICES: Final[Sequence[Choice]] = ("approve", "reject", "edit", "later")
QUESTION: Final = "a(pprove), r(eject), e(dit) or l(ater)?"
WITHOUT_EDIT: Final = "a(pprove), r(eject) or l(ater)?"
UNDERSTOOD: Final = "understood are: approve (a, y, yes), reject (r, n, no), edit (e), later (l, Ctrl-D)"
WITHOUT_EDIT_UNDERSTOOD: Final = "understood are: approve (a, y, yes), reject (r, n, no), later (l, Ctrl-D)"
WHY: Final = "why? (Enter: no reason)"
_WORDS: Final[Mapping[str, Choice]] = {"y": "approve", "yes": "approve", "n": "reject", "no": "reject"}
LONGEST: Final = 1000
"""Characters of a line."""


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """What a person typed. `edits` are of an edit."""

    choice: Choice
    reason: str = ""
    edits: dict[str, object] = {}


LATER: Final = Typed(choice="later")


def asks_for_decisions() -> bool:
    """Whether there is a person to ask: a terminal, and nobody between it and this process whom a gate may hold up."""
    return asks_here() and inside_of() is None


class Asker:
    """Asks whoever sits at the terminal, and records what is decided through the harness that has the run."""

    def __init__(self, harness: "Harness", mask: Masking, *, told_mask: Masking, config: str) -> None:
        """`mask` is for what is shown, `told_mask` for what is recorded. `config` is the project's file."""
        self.by = login_name()
        """Who decides."""
        self._harness = harness
        self._mask = mask
        self._told_mask = told_mask
        self._config = config

    async def decided(self, requests: Sequence[ApprovalRequest]) -> bool:
        """Asks for each request in turn; whether the run can go on. Whoever wants to decide later leaves them open."""
        try:
            for request in requests:
                turn = await self._answered(request)
                if turn == "later":
                    return False
                if turn == "over":
                    break
        except asyncio.CancelledError:
            run_id = root_of(requests[0])
            again = quoted(self._config, "resume", run_id)
            click.echo(f"run {run_id}: it waits; nothing more was decided; {again} asks again", err=True)
            raise
        return True

    async def _answered(self, request: ApprovalRequest) -> Turn:
        """Records the answer, the first one that can be recorded."""
        from tenter.journal import DecisionRefused

        self._tell(request_text(request, self._mask, config=self._config))
        while True:
            answer = await self._typed(request)
            if answer.choice == "later":
                return "later"
            try:
                self._tell(done(await self._recorded(request, answer), self._mask))
                return "over" if answer.choice == "reject" else "decided"
            except DecisionRefused as error:
                self._tell(self._mask(str(error)))
                if error.why != "not_editable":  # somebody else decided, or nobody can any more: the run finds out
                    return "over"
            except click.ClickException as error:
                self._tell(error.format_message())

    async def _recorded(self, request: ApprovalRequest, answer: Typed) -> "ApprovalDecision":
        run_id, reason = root_of(request), self._told_mask(answer.reason)
        match answer.choice:
            case "approve":
                return await self._harness.approve(run_id, request.id, by=self.by, reason=reason)
            case "edit":
                refuse_secrets(answer.edits, self._told_mask)
                return await self._harness.approve(run_id, request.id, by=self.by, reason=reason, edits=answer.edits)
            case "reject":
                return await self._harness.reject(run_id, request.id, by=self.by, reason=reason)
            case "later":
                raise AssertionError("nothing was decided")
            case _:
                assert_never(answer.choice)

    async def _typed(self, request: ApprovalRequest) -> Typed:
        """What a person says to one request; `later` where the input is closed."""
        is_editable = bool(editable_of(request))
        while True:
            line = await self._asked(QUESTION if is_editable else WITHOUT_EDIT, blank=True)
            choice = "later" if line is None else _choice(line)
            match choice:
                case None:
                    self._tell(UNDERSTOOD if is_editable else WITHOUT_EDIT_UNDERSTOOD)
                    continue
                case "later":
                    return LATER
                case "approve" | "reject":
                    edits: dict[str, object] | None = {}
                case "edit":
                    edits = await self._edits(request)
                case _:
                    assert_never(choice)
            if edits is None or (reason := await self._asked(WHY, blank=True)) is None:
                return LATER
            if choice != "edit" or edits:
                return Typed(choice=choice, reason=reason, edits=edits)
            self._tell("nothing was edited")

    async def _edits(self, request: ApprovalRequest) -> dict[str, object] | None:
        """The new value of each field that may be edited and got one; None where the input is closed."""
        present, edits = fields_of(request), dict[str, object]()
        for name in editable_of(request):
            now = f"is {json_text(present[name])}" if name in present else "is not given"
            told = one_line(self._mask(f"{name} {now}; its new value, JSON or text? (Enter: as it is)"), LONGEST)
            while True:
                line = await self._asked(told, blank=True)
                if line is None:
                    return None
                try:
                    if line:
                        edits[name] = value_of(line)
                    break
                except click.UsageError as error:
                    self._tell(error.format_message())
        return edits

    async def _asked(self, question: str, *, blank: bool = False) -> str | None:
        self._tell(question)
        return await typed_line(lambda text: click.echo(text, nl=False, err=True), blank=blank)

    def _tell(self, text: str) -> None:
        click.echo(escaped(text), err=True)


def _choice(line: str) -> Choice | None:
    """What a word means, or the beginning of one; None for what means nothing."""
    word = line.lower()
    if word in _WORDS:
        return _WORDS[word]
    return next((choice for choice in CHOICES if word and choice.startswith(word)), None)
