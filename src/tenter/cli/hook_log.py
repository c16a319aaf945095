"""The runs of hooks outside the process, from the journal (D§10): each start with its end. It changes nothing."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tenter.catalogue import CATALOGUE
from tenter.cli.journals import find_loop, find_run, journal_of
from tenter.cli.texts import YEAR_10000, one_line, seconds
from tenter.journal import Store, StreamSummary

Execution = Mapping[str, object]
"""The fields of `hook_started` and of `hook_ended`, if it ended; `run_id` and `loop_id`, None outside a run or loop;
`finished`; `attempt`, also where a version wrote it that did not know of several."""

LINE = 240
LAST: Final = 50
"""So many are shown where nobody says otherwise."""


async def read_log(config: Path, *, run_id: str = "", loop_id: str = "", last: int | None = None) -> list[Execution]:
    """The last executions of a run or a loop, or of all that began last, in the order in which they began.

    Of a loop all, unless `last` says otherwise. Raises TenterError for a run or loop that is not there.
    """
    async with journal_of(config) as store:
        summaries = await _streams(store, run_id, loop_id)
        most = LAST if last is None and not loop_id else last
        found: list[Execution] = []
        for summary in summaries:
            # A loop that began long ago may be the one that ran a hook last.
            if store is not None and (most is None or len(found) < most or summary.stream.kind == "loop"):
                found = _latest([*found, *await _executions(store, summary)], most)
    return found


def telemetry(execution: Execution) -> dict[str, object]:
    """One attempt of a hook of a loop as seed 001's record, with what came of it, its number and the cut-off flags.

    `timestamp` is when it was put on record. One that has no end on record, since it runs still or its process ended,
    has null for `ended_at`, `duration_ms`, `exit_code` and `disposition`, and the result `unknown`.
    """
    event, _, phase = str(execution.get("point")).rpartition(".")
    began, ended = _instant(execution.get("started_at")), _instant(execution.get("ended_at"))
    took = execution.get("duration_ms")
    return {
        "timestamp": ended or began,
        "loop_id": execution["loop_id"],
        "phase_event": f"{phase}.{event}",
        "hook_name": execution.get("hook"),
        "started_at": began,
        "ended_at": ended,
        "duration_ms": round(took) if isinstance(took, int | float) else None,
        "exit_code": execution.get("exit_code"),
        "timed_out": execution.get("timed_out", False),
        "stdout": execution.get("stdout", ""),
        "stderr": execution.get("stderr", ""),
        "disposition": execution.get("disposition"),
        "result": execution.get("result", "unknown"),
        "attempt": execution["attempt"],
        "stdout_truncated": execution.get("stdout_truncated", False),
        "stderr_truncated": execution.get("stderr_truncated", False),
    }


def line(execution: Execution) -> str:
    """One execution for people; whatever its texts hold, on one line."""
    began = datetime.fromtimestamp(_begin(execution), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whose = execution["run_id"] or execution["loop_id"] or "-"
    point = execution.get("point")
    label = CATALOGUE[point].label if isinstance(point, str) and point in CATALOGUE else point
    head = f"{began}  {whose}  {label}  {execution.get('hook')}  "
    if not execution["finished"]:
        return one_line(f"{head}no end on record: it was running when its process ended, or still is", LINE)
    took = execution.get("duration_ms")
    took = seconds(took / 1000) if isinstance(took, int | float) else "-"
    said = [str(execution.get("result"))]
    if execution.get("exit_code") is not None:
        said.append(f"exit {execution['exit_code']}")
    said += [f"{execution['signal']}"] if execution.get("signal") else []
    said += [f"attempt {execution['attempt']}"] if execution["attempt"] != 1 else []
    said.append(f"-> {execution.get('disposition')}")
    error = execution.get("error") or execution.get("stderr_tail")
    return one_line(f"{head}{' '.join(said)} in {took}{f': {error}' if error else ''}", LINE)


async def _streams(store: Store | None, run_id: str, loop_id: str) -> Sequence[StreamSummary]:
    """The stream of a run or loop, or all streams, the last begun first."""
    if run_id:
        return [await find_run(store, run_id)]
    if loop_id:
        return [await find_loop(store, loop_id)]
    return [] if store is None else await store.streams()


async def _executions(store: Store, summary: StreamSummary) -> list[Execution]:
    """Those of one stream; a start and its end have the same `id`."""
    kind, id = summary.stream.kind, summary.stream.id
    owner = {"run_id": id if kind == "run" else None, "loop_id": id if kind == "loop" else None, "attempt": 1}
    found: dict[object, dict[str, object]] = {}
    async for record in store.read(summary.stream):
        content = record.entry.content
        if record.entry.kind == "hook_started":
            found[content.get("id")] = {**owner, **content, "started_at": content.get("at"), "finished": False}
        elif record.entry.kind == "hook_ended":
            start = found.setdefault(content.get("id"), {**owner})
            start.update({**content, "finished": True})
    for execution in found.values():
        execution.pop("at", None)
    return list(found.values())


def _latest(executions: list[Execution], most: int | None) -> list[Execution]:
    ordered = sorted(executions, key=_begin)
    return ordered if most is None else ordered[-most:]


def _begin(execution: Execution) -> float:
    began = execution.get("started_at")
    return began if isinstance(began, int | float) else 0.0


def _instant(at: object) -> str | None:
    """A time in seconds since the epoch, in UTC, to the millisecond."""
    if not isinstance(at, int | float) or not 0 <= at < YEAR_10000:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
