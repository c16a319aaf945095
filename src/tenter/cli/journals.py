"""The journal of a project, for the verbs that read it: opened where it is, never made."""

import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import click

from tenter.cli.options import project_folder
from tenter.journal import JOURNAL_PLACE, JournalError, SqliteStore, Store, Stream, StreamSummary, journal_key
from tenter.kernel import TenterError

MOST_NAMED: Final = 5


def open_journal(config: Path) -> Store | None:
    """The journal beside the configuration; None where nothing ran yet.

    Raises TenterError where there is neither, and for what is no file, such as a folder.
    """
    path = project_folder(config) / JOURNAL_PLACE
    if path.exists():
        return SqliteStore(path, key=journal_key(os.environ))
    if not config.exists():
        raise TenterError(
            f"there is no configuration {str(config)!r}, and no journal beside it; go to the project's folder, or name "
            "its file with --config"
        )
    return None


@asynccontextmanager
async def journal_of(config: Path) -> AsyncGenerator[Store | None]:
    """`open_journal`, closed afterwards. A journal that cannot be read ends the verb with exit code 1."""
    store = open_journal(config)
    try:
        yield store
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if store is not None:
            await store.close()


async def find_run(store: Store | None, run_id: str) -> StreamSummary:
    """The run with that id, or the only one whose id begins so. Raises TenterError otherwise, naming what fits."""
    return await _find(store, "run", run_id)


async def find_loop(store: Store | None, loop_id: str) -> StreamSummary:
    """The same of a loop of which something is in the journal."""
    return await _find(store, "loop", loop_id)


async def outermost(store: Store, run: StreamSummary) -> StreamSummary:
    """The run that the given one is a part of, as a sub-run of its sub-runs; the run itself where it is none."""
    seen = {run.stream.id}
    while run.parent and run.parent not in seen:
        parent = await store.summary(Stream("run", run.parent))
        if parent is None:
            break
        seen.add(run.parent)
        run = parent
    return run


async def _find(store: Store | None, kind: Literal["run", "loop"], wanted: str) -> StreamSummary:
    known: Sequence[StreamSummary] = ()
    if store is not None:
        with contextlib.suppress(ValueError):  # what is no text is the id of nothing
            if (exact := await store.summary(Stream(kind, wanted))) is not None:
                return exact
        known = await store.streams(kind)
    matches = [summary for summary in known if wanted and summary.stream.id.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = [summary.stream.id for summary in matches]
        some = ", ".join(ids[:MOST_NAMED]) + (", …" if len(ids) > MOST_NAMED else "")
        raise TenterError(f"{wanted!r} begins {len(ids)} {kind} ids ({some}); give more of it")
    listed = "tenter runs list" if kind == "run" else "tenter loop list --all"
    raise TenterError(f"there is no {kind} {wanted!r}; {listed!r} prints them")
