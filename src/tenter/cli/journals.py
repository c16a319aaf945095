"""The journal of a project, for the verbs that read it: opened where it is, never made."""

from pathlib import Path

from tenter.journal import SqliteStore, Store, StreamSummary
from tenter.kernel import TenterError

JOURNAL = Path(".tenter", "journal.db")


def open_journal(config: Path) -> Store | None:
    """The journal beside the configuration; None where there is none."""
    path = config.resolve().parent / JOURNAL
    return SqliteStore(path) if path.exists() else None


async def find_run(store: Store | None, run_id: str) -> StreamSummary:
    """The run with that id, or the only one whose id begins so. Raises TenterError otherwise, naming what fits."""
    known = () if store is None else await store.streams("run")
    for summary in known:
        if summary.stream.id == run_id:
            return summary
    matches = [summary for summary in known if run_id and summary.stream.id.startswith(run_id)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        some = ", ".join(summary.stream.id for summary in matches[:5])
        raise TenterError(f"{run_id!r} begins {len(matches)} run ids ({some}, …); give more of it")
    raise TenterError(f"there is no run {run_id!r}; 'tenter runs list' prints them")
