"""The runs of hooks outside the process, from the journal (D§10): each start with its end. It changes nothing."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tenter.catalogue import CATALOGUE
from tenter.cli.journals import find_run, journal_of
from tenter.cli.texts import one_line, seconds
from tenter.journal import Store, StreamSummary

Execution = Mapping[str, object]
"""The fields of `hook_started` and of `hook_ended`, if it ended; `run_id`, None outside a run; `finished`."""

LINE = 240


async def read_log(config: Path, run_id: str, last: int) -> list[Execution]:
    """The last executions of a run, or of all that began last. Raises TenterError for a run that is not there."""
    async with journal_of(config) as store:
        summaries = await _streams(store, run_id)
        found: list[Execution] = []
        for summary in summaries:
            if store is None or len(found) >= last:
                break
            found += await _executions(store, summary)
    return sorted(found, key=_begin)[-last:]


def line(execution: Execution) -> str:
    """One execution for people; whatever its texts hold, on one line."""
    began = datetime.fromtimestamp(_begin(execution), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = execution["run_id"] or "-"
    point = execution.get("point")
    label = CATALOGUE[point].label if isinstance(point, str) and point in CATALOGUE else point
    head = f"{began}  {run}  {label}  {execution.get('hook')}  "
    if not execution["finished"]:
        return one_line(f"{head}no end on record: it was running when its process ended, or still is", LINE)
    took = execution.get("duration_ms")
    took = seconds(took / 1000) if isinstance(took, int | float) else "-"
    said = [str(execution.get("result"))]
    if execution.get("exit_code") is not None:
        said.append(f"exit {execution['exit_code']}")
    said += [f"{execution['signal']}"] if execution.get("signal") else []
    said.append(f"-> {execution.get('disposition')}")
    error = execution.get("error") or execution.get("stderr_tail")
    return one_line(f"{head}{' '.join(said)} in {took}{f': {error}' if error else ''}", LINE)


async def _streams(store: Store | None, run_id: str) -> Sequence[StreamSummary]:
    """The stream of a run, or all streams, the last begun first."""
    if run_id:
        return [await find_run(store, run_id)]
    return [] if store is None else await store.streams()


async def _executions(store: Store, summary: StreamSummary) -> list[Execution]:
    """Those of one stream; a start and its end have the same `id`."""
    run_id = summary.stream.id if summary.stream.kind == "run" else None
    found: dict[object, dict[str, object]] = {}
    async for record in store.read(summary.stream):
        content = record.entry.content
        if record.entry.kind == "hook_started":
            found[content.get("id")] = {**content, "run_id": run_id, "started_at": content.get("at"), "finished": False}
        elif record.entry.kind == "hook_ended":
            start = found.setdefault(content.get("id"), {"run_id": run_id})
            start.update({**content, "finished": True})
    for execution in found.values():
        execution.pop("at", None)
    return list(found.values())


def _begin(execution: Execution) -> float:
    began = execution.get("started_at")
    return began if isinstance(began, int | float) else 0.0
