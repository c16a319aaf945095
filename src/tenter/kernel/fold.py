"""How the answers of a chain combine into one (D§6). Pure: values in, values out.

`FOLD` is the table; the documentation prints it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tenter.kernel.chain import Link
from tenter.kernel.decision import Lift
from tenter.kernel.declaration import BANDS, Band
from tenter.kernel.ending import Requirement
from tenter.kernel.event import Event
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.outcome import Allow, Block, Escalate, Fail, Outcome, Result, Retry, Suspend
from tenter.kernel.point import Phase
from tenter.kernel.sameness import same


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the fold table. Of several answers the one with the highest `rank` is the chain's."""

    ends: bool
    rank: int
    means: str


FOLD: Mapping[type[Outcome], Row] = {
    Allow: Row(False, 0, "waives Suspends of its own and inner bands, but a baseline's; the rest of the chain runs"),
    Suspend: Row(False, 1, "a requirement: the rest of the chain runs, all requirements become one request"),
    Retry: Row(True, 2, "ends the chain; the model is asked again"),
    Escalate: Row(False, 3, "the rest of the chain runs; beats Suspend and Retry"),
    Block: Row(True, 4, "ends the chain; beats all that was answered before"),
    Fail: Row(True, 5, "a hook failed under `on_error: fail`; ends the chain, and the operation fails"),
    Result: Row(True, 6, "at `in` only: the first result is the work's, nothing after it runs"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What one hook of a chain answered, replacements apart. `failed`: its failure policy speaks, not the hook."""

    hook: str
    band: Band
    outcome: Outcome
    judged: Event
    """The event that the hook looked at."""
    failed: bool = False
    point: str = ""


class Grant(Protocol):
    """A person's approval, as far as the fold looks into it."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of the requirements that the person saw."""
        ...

    @property
    def digest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Fold:
    """A chain half way: the event as it stands, its versions with the place of the link that made each, the answers."""

    phase: Phase
    original: Event
    event: Event
    versions: tuple[tuple[int, Event], ...] = ()
    answers: tuple[Answer, ...] = ()
    ended: bool = False

    def take(self, link: Link, outcome: Outcome, *, failed: bool = False) -> "Fold":
        """The fold after `link` answered `outcome`, in place of what it answered before it judged again.

        At `in` everything ends the chain: what is next in it may act. One that has ended takes nothing more.
        """
        if self.ended:
            return self
        answer = Answer(link.name, link.hook.band, outcome, self.event, failed, link.point.name)
        return replace(
            self,
            answers=(*(a for a in self.answers if a.hook != answer.hook), answer),
            ended=FOLD[type(outcome)].ends or self.phase == "in",
        )

    def rewrite(self, position: int, event: Event) -> "Fold":
        """The fold after the link at `position` replaced the event."""
        return replace(self, event=event, versions=(*self.versions, (position, event)))

    def let_through(self, position: int) -> Event:
        """The event that the link at `position` let through, its own replacement included."""
        return next((event for at, event in reversed(self.versions) if at <= position), self.original)

    def combined(self, grant: Grant | None, digest: Callable[[Event], str]) -> "Combined":
        """The chain's one answer. `digest` names the event that it leaves with, to hold against `grant`.

        An Allow counts for the event that its hook judged, and for no rewrite of it.
        """
        allows = [a for a in self.answers if isinstance(a.outcome, Allow) and same(a.judged, self.event)]
        asking = [a for a in self.answers if isinstance(a.outcome, Suspend)]
        lifted: dict[str, Lifted] = {a.hook: ("waived", by) for a in asking if (by := _waiver(a, allows))}
        if grant is not None and len(asking) > len(lifted) and digest(self.event) == grant.digest:
            lifted |= {a.hook: ("approved", "") for a in asking if a.hook not in lifted and _is_granted(a, grant)}
        standing = [a for a in self.answers if not isinstance(a.outcome, Allow) and a.hook not in lifted]
        if not standing:
            return Combined(allows[0] if allows else None, lifted=lifted)
        answer = max(standing, key=_rank)
        if not isinstance(answer.outcome, Suspend):
            lifted |= {a.hook: ("overruled", answer.hook) for a in asking if a.hook not in lifted}
        return Combined(answer, _requirements(standing), lifted)


Lifted = tuple[Lift, str]
"""Why a Suspend asks nobody, and the hook that saw to that; empty where a person did."""

NOT_LIFTED: Mapping[str, Lifted] = FrozenDict()


@dataclass(frozen=True, slots=True)
class Combined:
    """The chain's one answer, None where nobody answered, and what its Suspends require.

    `lifted` tells of each hook whose Suspend asks nobody why, and which hook waived or overruled it.
    """

    answer: Answer | None = None
    requirements: tuple[Requirement, ...] = ()
    lifted: Mapping[str, Lifted] = NOT_LIFTED


def _rank(answer: Answer) -> int:
    return FOLD[type(answer.outcome)].rank


def _waiver(answer: Answer, allows: list[Answer]) -> str:
    """The hook of the same or an outer band whose Allow waives this Suspend, or none. A baseline's is never waived."""
    if answer.band == "baseline":
        return ""
    mine = BANDS.index(answer.band)
    return next((allow.hook for allow in allows if BANDS.index(allow.band) <= mine), "")


def _requirements(standing: list[Answer]) -> tuple[Requirement, ...]:
    return tuple(_requirement(answer, asked) for answer in standing if isinstance(asked := answer.outcome, Suspend))


def _requirement(answer: Answer, asked: Suspend) -> Requirement:
    return Requirement(
        hook=answer.hook,
        reason=asked.reason,
        code=asked.code,
        point=answer.point,
        editable=asked.editable,
        expires_in=asked.expires_in,
        on_timeout=asked.on_timeout,
    )


def _is_granted(answer: Answer, grant: Grant) -> bool:
    return isinstance(answer.outcome, Suspend) and _requirement(answer, answer.outcome).name in grant.asked
