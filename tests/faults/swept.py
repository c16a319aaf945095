"""What must hold of a run that was killed and gone on with: held against its journal and the log of what was touched.

It starts no process and knows no tool; it is handed what was there after each kill, and in the end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from tests.harness.world import of_kind

from tenter.journal import Recorded, verify

Journal = Mapping[str, Sequence[Recorded]]
"""The entries of every run, by its id, the outermost first."""

SPANS = ("run.", "subtask.spawned.")
OF_A_PASS = ("started", "acting", "acted", "finished")
MAY_ACT_TWICE = ("look", "flaky")


class Line(NamedTuple):
    """A touch of the world: a tool's place is `<run>/<path>`, a hook's the id of the op, a model's its conversation."""

    kind: str
    name: str
    place: str


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a case."""

    kills: int
    entries: int = 0
    broken: list[str]


class Place(NamedTuple):
    """A pass in the journal."""

    run: str
    path: str
    number: int
    phase: str | None

    @classmethod
    def of(cls, run: str, entry: Recorded) -> "Place | None":
        content = entry.entry.content
        if entry.entry.kind not in OF_A_PASS:
            return None
        phase = content.get("phase")
        return cls(run, str(content["path"]), int(str(content["pass"])), None if phase is None else str(phase))

    @property
    def op(self) -> str:
        return f"{self.run}/{self.path}#{self.number}"


@dataclass(frozen=True)
class Before:
    """What was there at some moment."""

    journal: Journal
    lines: Sequence[Line]

    def places(self, kind: str) -> list[Place]:
        """The passes that have an entry of that kind, each as often as it has."""
        return [
            place
            for run, entries in self.journal.items()
            for one in entries
            if one.entry.kind == kind and (place := Place.of(run, one)) is not None
        ]


def broken(killed: Sequence[Before], end: Before, output: str) -> list[str]:
    """What does not hold; empty where all is well."""
    wrong = [*_end(end, output), *_effects(end)]
    for index, moment in enumerate(killed):
        later = killed[index + 1] if index + 1 < len(killed) else end
        wrong += _kept(moment, later) + _not_again(moment, later)
    return wrong


def _end(end: Before, output: str) -> list[str]:
    """The same result as without a kill, told once, in journals that hold."""
    wrong = [f"the journal of {run} does not hold" for run, entries in end.journal.items() if verify(entries)]
    said = [(one["status"], one["output"]) for one in of_kind(next(iter(end.journal.values())), "result")]
    if said != [("completed", output)]:
        wrong.append(f"the results on record are {said}")
    for run in end.journal:
        told = [line.place for line in end.lines if line.name == "run.post" and line.place.startswith(f"{run}/")]
        if told != [f"{run}/0.run.0#1"]:
            wrong.append(f"run.end was heard as {told}")
    twice = [place for place, times in Counter(end.places("finished")).items() if times > 1]
    return wrong + [f"{place} has finished twice" for place in twice]


def _effects(end: Before) -> list[str]:
    """Each tool acted as often as its passes began to; one that is not idempotent once, unless a person was asked."""
    wrong: list[str] = []
    began = Counter(f"{place.run}/{place.path}" for place in end.places("acting"))
    acted = Counter(line for line in end.lines if line.kind == "tool")
    if missing := {"note", "pay", "look", "flaky"} - {line.name for line in acted}:
        wrong.append(f"{missing} never acted")
    for line, times in acted.items():
        if times > began[line.place]:
            wrong.append(f"{line} acted {times} times, and is on record with {began[line.place]}")
        if line.name not in MAY_ACT_TWICE and times > 1 + _asked(end.journal, line.place):
            wrong.append(f"{line} acted {times} times, and nobody was asked")
    repeated = Counter(end.places("acting"))
    for place, times in repeated.items():
        once = any(line.place == f"{place.run}/{place.path}" and line.name not in MAY_ACT_TWICE for line in acted)
        if once and times > 1:
            wrong.append(f"the work of {place} was begun {times} times in one pass")
    return wrong


def _asked(journal: Journal, place: str) -> int:
    """How often a person was asked about a call of which nobody knows whether it was made."""
    run, _, path = place.rpartition("/")
    requests = of_kind(journal[run], "approval_requested")
    return sum(one["path"] == path and any(why["code"] == "unknown" for why in one["reasons"]) for one in requests)


def _kept(moment: Before, later: Before) -> list[str]:
    """What was acknowledged is there, as it was."""
    return [
        f"the journal of {run} does not go on from where it was"
        for run, entries in moment.journal.items()
        if [one.hash for one in later.journal.get(run, ())][: len(entries)] != [one.hash for one in entries]
    ]


def _after(moment: Before, later: Before) -> list[tuple[str, Place]]:
    """What was recorded of passes after that moment: the kinds of their entries, and how those that finished did."""
    return [
        (str(one.entry.content.get("outcome", one.entry.kind)), place)
        for run, entries in later.journal.items()
        for one in entries[len(moment.journal.get(run, ())) :]
        if (place := Place.of(run, one)) is not None
    ]


def _not_again(moment: Before, later: Before) -> list[str]:
    """Nothing that had finished was begun, done or told again."""
    done = set(moment.places("finished"))
    ops = {(place.op, place.phase) for place in done}
    wrong = [f"{kind} of {place}, which had finished" for kind, place in _after(moment, later) if place in done]
    wrong += [
        f"{kind} of {place}, whose work had been done"
        for kind, place in _after(moment, later)
        if place in set(moment.places("acted")) and kind in ("acting", "unknown")
    ]
    new = later.lines[len(moment.lines) :]
    for line in new:
        phase = line.name.rpartition(".")[2] if line.name.startswith(SPANS) else None
        if line.kind == "hook" and (line.place, phase) in ops:
            wrong.append(f"{line} was heard again")
    began = Counter(later.places("acting")) - Counter(moment.places("acting"))
    works = Counter(f"{place.run}/{place.path}" for place in began.elements())
    for line, times in Counter(line for line in new if line.kind == "tool").items():
        if times > works[line.place]:
            wrong.append(f"{line} acted again after it had finished")
    models = sum(place.path.partition(".")[2].startswith("llm.invoked") for place in began.elements())
    if models < sum(line.kind == "model" for line in new):
        wrong.append("a model was asked again what it had answered")
    return wrong
