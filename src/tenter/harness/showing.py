"""Shows whoever watches a run its steps, one by one. A watcher that raises is shown nothing more."""

from collections.abc import Callable

from tenter.catalogue import Op
from tenter.harness.parts import Run, Step
from tenter.harness.record import Ending, Pass
from tenter.kernel import Event, TraceEvent


class Showing:
    """The steps of one run for its watcher, if it has one. `time` says when, for the trace."""

    def __init__(self, run: Run, time: Callable[[], float]) -> None:
        self._watcher = run.watcher
        self._trace = run.trace
        self._time = time
        self._reasons: dict[int, str] = {}
        if run.watcher is not None:
            run.trace.heard = self._reasons.__setitem__

    def show(self, turn: Pass, event: Event, ending: Ending | None = None, *, since: int = 0) -> None:
        """That a pass begins, or how it ended. `since` is how many entries the trace had before it."""
        if self._watcher is None:
            return
        trace = () if ending is None else own_entries(self._trace.events(since), turn.op)
        reasons = {one.sequence: self._reasons.pop(one.sequence) for one in trace if one.sequence in self._reasons}
        step = Step(operation=turn.operation.name, op=turn.op, event=event, ending=ending, trace=trace, reasons=reasons)
        try:
            self._watcher(step)
        except Exception as error:
            self._watcher = None
            self._trace.note(self._time(), "watcher", "raised", exception=type(error).__name__)


def own_entries(entries: tuple[TraceEvent, ...], op: Op) -> tuple[TraceEvent, ...]:
    """Those of the entries that are of this call, or of none: not of another one of its run that went on beside it."""
    others = op.id.partition("/")[0] + "/"
    return tuple(
        entry
        for entry in entries
        if op.id in (entry.op, entry.details.get("parent")) or not entry.op.startswith(others)
    )
