"""What a run that goes on does not do again (D§11): the recorded outcome of each pass, held against what the loop asks.

It decides nothing about the run and appends nothing. Where the record and the loop part, it raises `ReplayDiverged`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenter.catalogue import ACTIVITY_FAILED, SUBTASK_SPAWNED, TASK_STATE_CHANGED, ToolInfo
from tenter.harness.recalled import acted_event, acting_event, ending_of
from tenter.harness.record import Ending, Pass, Recorder
from tenter.harness.recording import RecordedPass, Recording
from tenter.kernel import Event, Redactor, TenterError
from tenter.wire import CanonicalError

TELLING: Final = frozenset({ACTIVITY_FAILED.name, TASK_STATE_CHANGED.name})
"""What may stand at the end of a record though nobody asks for it: who was told of an end that the process that told of
it did not live to see. Nothing was done by it."""


TOLD: Final = (SUBTASK_SPAWNED.name, "post")
"""What is not held against its record: a sub-run that ended with the run around it may be told of otherwise when that
is gone through again, since how it came to its end is on no record of this run."""


class ReplayDiverged(TenterError):
    """The run did something else than it does now. `path` is the first at which they part."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"replay_diverged at {path}: {why}; the run was left as it is. Bring back the configuration, hooks and "
            "tenter that it went on with, or cancel it with 'tenter runs cancel'"
        )
        self.path = path


class Incomplete(Exception):
    """A run that is over has an operation on record without its end: it cannot be gone through again."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is on record of a pass that the loop asks for, and the event that it asks with."""

    event: Event
    recorded: RecordedPass


class Replay:
    """The record of one run while its loop is run again.

    Every method that reads raises JournalError for a record that is not what was written.
    """

    def __init__(
        self,
        recording: Recording,
        recorder: Recorder,
        *,
        redactor: Redactor,
        tools: Mapping[str, ToolInfo],
        lenient: bool = False,
    ) -> None:
        self.recording = recording
        self.beside = 0
        """How many sets of branches run side by side: what one does not ask for, another may."""
        self.spared: dict[str, int] = {}
        """The passes that nobody asked for, as the highest number of each path: the next one is numbered after it."""
        self._recorder = recorder
        self._redactor = redactor
        self._tools = tools
        self._lenient = lenient
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the loop has asked for all that is on record, and the rest is new."""
        return self._over

    async def known(self, turn: Pass, event: Event) -> Known | None:
        """The pass as it was recorded; None where it was not begun. Raises ReplayDiverged.

        One that told of an end that did not come is passed over (`spared`), and the next one of its path is it.
        """
        if self._over:
            return None
        path, number = turn.op.path, turn.op.pass_
        while (recorded := await self.recording.next(path, number, turn.phase)) is not None:
            if recorded.operation != turn.operation.name:
                why = f"{recorded.operation} is on record there, and {turn.operation.name} is asked for"
                raise ReplayDiverged(path, why)
            if (given := await self._given(turn, event, recorded)) is not None:
                return Known(given, self._recorder.follow(turn, given, recorded))
            if recorded.operation not in TELLING:
                raise ReplayDiverged(path, f"{recorded.operation} is given something else than what is on record")
            self.spared[path] = number
            number += 1
        await self._go_beyond(turn)
        return None

    async def _given(self, turn: Pass, event: Event, recorded: RecordedPass) -> Event | None:
        """The event that the recorded pass was given, as the loop asks with it; None where that is another one."""
        if self._is_given(event, recorded) or self._lenient or (turn.operation.name, turn.phase) == TOLD:
            return event
        event = await self._redactor.apply(event)
        return event if self._is_given(event, recorded) else None

    def _is_given(self, event: Event, recorded: RecordedPass) -> bool:
        try:
            return self._recorder.input_digest(event) == recorded.input
        except CanonicalError:  # what no journal takes was not on record either
            return False

    def ending(self, turn: Pass, known: Known) -> Ending:
        """How the pass ended."""
        return ending_of(turn, known.event, known.recorded, tools=self._tools)

    def before(self, turn: Pass, known: Known) -> Event:
        """The event that the work of the pass was given."""
        return acting_event(known.event, known.recorded, tools=self._tools)

    def after(self, turn: Pass, known: Known) -> Event:
        """The result of the work of the pass, before its post chain."""
        return acted_event(turn, known.event, known.recorded, tools=self._tools)

    def leave(self) -> None:
        """What is on record is asked for no more."""
        self._over = True

    async def _go_beyond(self, turn: Pass) -> None:
        """The loop asks for what is not on record. Raises ReplayDiverged where other things are that it left out."""
        if self.beside:
            return
        rest = await self.recording.rest()
        if wrong := next((one for one in rest if one.operation not in TELLING and one.phase != "post"), None):
            raise ReplayDiverged(wrong.path, f"it is on record, and {turn.op.path} is asked for in its place")
        for one in rest:
            self.spared[one.path] = max(one.number, self.spared.get(one.path, 0))
        self._over = True
