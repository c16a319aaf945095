"""Which loops there are, where each works, and in whose hands it is: one SQLite file a repository, for all processes.

Whatever two processes may want at once is decided in one transaction. It blocks for microseconds, and for as long as
another process holds the file, at most LOCK_SECONDS. It starts, stops and asks no loop.
"""

import contextlib
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Unpack

import msgspec

from tenter.executors import ProcessId, is_alive, this_process
from tenter.kernel import TenterError
from tenter.loop.document import decode_document
from tenter.loop.loop_row import COLUMNS, Changes, LoopRow, Question, column, has_ended, holds, row_of, status_of
from tenter.loop.place import STATE_FOLDER, is_loop_id
from tenter.loop.reason import Standing
from tenter.loop.registry_file import cannot, connect, identity, told
from tenter.loop.release import Release
from tenter.loop.state import Asked
from tenter.loop.suspension import SuspendState
from tenter.loop.waiting import unheard

REGISTRY_PLACE: Final = Path(STATE_FOLDER, "loops.db")
"""Where a repository's loops are registered, seen from the top of its main worktree."""

MOST_NAMED: Final = 20
"""Loops that an error names."""

_ALL: Final = ", ".join(f'"{name}"' for name in COLUMNS)
_GOES_ON: Final = "status IN ('running', 'suspended')"
_CHANGEABLE: Final = Changes.__annotations__.keys()


def registry_path(root: Path) -> Path:
    """Where the loops of a repository, or of a project without one, are registered."""
    return root / REGISTRY_PLACE


def standing_of(row: LoopRow) -> Standing:
    """How the loop is listed now; asks whether its process lives."""
    return status_of(row, is_alive(row.process))


def believed(_: LoopRow) -> None:
    """That a row can be so."""


class UnknownLoop(TenterError):
    """No loop has that id, or an id that begins so."""


class AmbiguousLoop(TenterError):
    """More than one id begins so; the text lists them, and `matches` has them all."""

    def __init__(self, text: str, matches: tuple[str, ...]) -> None:
        super().__init__(text)
        self.matches = matches


class Taken(msgspec.Struct, frozen=True):
    """Another process was first: it has the loop, had it until its end, or works in the loop's workspace."""

    holder: LoopRow
    """The row as it stands; of another loop where that one works in the workspace now."""

    @property
    def by(self) -> ProcessId:
        return self.holder.process

    @property
    def at(self) -> float:
        """When that process took it, in seconds since the epoch."""
        return self.holder.taken_at


class Registry:
    """The loops registered at `path`; the file is made when the first one is. Safe to use from several threads.

    Every method raises TenterError, naming the file, where it cannot be used: held by another process (told which),
    damaged, of a newer version, not writable, a full disk; and, for changes, where it was removed meanwhile.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], float] = time.time,
        *,
        strange: Callable[[LoopRow], str | None] = believed,
        told: Callable[[str], object] = unheard,
    ) -> None:
        """`now`, in seconds since the epoch, dates who took what.

        A row of which `strange` says why it cannot be is as if it were not there; `told` hears so, once.
        """
        self.path = path
        self._now = now
        self._strange = strange
        self._told = told
        self._is_told = False
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closing: weakref.finalize[[], Registry] | None = None
        self._file: tuple[int, int] | None = None

    def add(self, row: LoopRow, *, hold: bool) -> LoopRow | None:
        """Registers a loop, unless `hold` is asked for and another one holds its workspace: then that one is returned.

        A loop holds its workspace while it runs and, when it is suspended, even after its process is gone. `taken_at`
        is set here.
        """
        for text in (row.project, row.workspace, row.config):
            if text != column(text):
                raise TenterError(f"the path {text!r} is no UTF-8 text, and a loop can only be registered where it is")
        if not is_loop_id(row.loop_id):
            raise TenterError(f"{row.loop_id!r} is no id of a loop; one looks like 'loop-12ab-34cd'")
        if (why := self._strange(row)) is not None:
            raise TenterError(f"the loop {row.loop_id!r} cannot be registered in {str(self.path)!r}: {why}")
        row = row.but(taken_at=self._now())
        with self._transaction(create=True) as connection:
            if hold and (holder := self._holder(connection, row.workspace)) is not None:
                return holder
            if self._row(connection, row.loop_id) is not None:
                raise TenterError(f"a loop {row.loop_id!r} is registered already; choose another id")
            values = [column(getattr(row, name)) for name in COLUMNS]
            marks = ", ".join("?" for _ in COLUMNS)
            connection.execute(f"INSERT INTO loops ({_ALL}) VALUES ({marks})", values)
        return None

    def row(self, loop_id: str) -> LoopRow | None:
        """What is known of that loop; None where it is not registered."""
        with self._look() as connection:
            return None if connection is None else self._row(connection, loop_id)

    def rows(self, everything: bool = False) -> Sequence[LoopRow]:
        """The loops that have not ended, or all, the last registered first."""
        where = "" if everything else f"WHERE {_GOES_ON}"
        with self._look() as connection:
            return () if connection is None else self._rows(connection, f"{where} ORDER BY number DESC")

    def resolve(self, text: str) -> LoopRow:
        """The loop with that id, or the only one whose id begins so. Raises UnknownLoop and AmbiguousLoop."""
        rows = self.rows(everything=True)
        exact = [row for row in rows if row.loop_id == text]
        matches = exact or [row for row in rows if text and row.loop_id.startswith(text)]
        if len(matches) == 1:
            return matches[0]
        if not matches:
            raise UnknownLoop(f"there is no loop {text!r} in {str(self.path)!r}; 'tenter loop list --all' prints them")
        ids = tuple(row.loop_id for row in matches)
        some = ", ".join(ids[:MOST_NAMED]) + (", …" if len(ids) > MOST_NAMED else "")
        raise AmbiguousLoop(f"{text!r} begins the ids of {len(ids)} loops ({some}); give more of it", ids)

    def update(self, loop_id: str, **changes: Unpack[Changes]) -> None:
        """Changes what is known of a loop. Raises TenterError where it is registered no more."""
        unknown = changes.keys() - _CHANGEABLE
        if unknown or not changes:
            raise TypeError(f"what changes of a loop is one of {', '.join(_CHANGEABLE)}; this is {sorted(unknown)}")
        with self._transaction() as connection:
            self._change(connection, loop_id, changes)

    def iteration(self, loop_id: str, number: int) -> None:
        """The iteration that the loop is in."""
        self.update(loop_id, iteration=number)

    def suspend(self, loop_id: str, state: SuspendState) -> None:
        """The loop is suspended."""
        self.update(loop_id, status="suspended", suspension=state)

    def go_on(self, loop_id: str) -> None:
        """The loop is suspended no more."""
        self.update(loop_id, status="running", suspension=None)

    def ask(self, loop_id: str, *, question_id: str, asked: Asked) -> None:
        """The loop waits for an answer."""
        self.update(loop_id, question=Question(question_id, asked))

    def asked_no_more(self, loop_id: str) -> None:
        """The loop waits for no answer."""
        self.update(loop_id, question=None)

    def release(self, loop_id: str, suspension_id: str, release: Release) -> Release:
        """Records what ends a suspension, once: a second decision changes nothing, and the first is returned."""
        release = msgspec.structs.replace(release, suspension_id=suspension_id)
        with self._transaction() as connection:
            if (first := _released(connection, loop_id, suspension_id)) is not None:
                return first
            values = (loop_id, suspension_id, column(release))
            connection.execute("INSERT INTO releases (loop_id, suspension_id, release) VALUES (?, ?, ?)", values)
            self._change(connection, loop_id, {"released": release})
        return release

    def released(self, loop_id: str, suspension_id: str) -> Release | None:
        """What ended that suspension of the loop, however long ago; None while nothing did."""
        with self._look() as connection:
            return None if connection is None else _released(connection, loop_id, suspension_id)

    def take_over(self, loop_id: str, by: ProcessId) -> LoopRow | Taken:
        """Gives a loop whose process is gone to the process `by`, and returns the row as it then is.

        Of two that try one gets it (FAULTS 45); the other hears by whom and when. Nothing is taken of a loop that runs,
        has ended, or whose workspace another one holds. Raises UnknownLoop.
        """
        with self._transaction() as connection:
            row = self._row(connection, loop_id)
            if row is None:
                raise UnknownLoop(f"there is no loop {loop_id!r} in {str(self.path)!r}")
            if row.process == by:
                return row
            if has_ended(row) or is_alive(row.process):
                return Taken(row)
            if (holder := self._holder(connection, row.workspace, other_than=loop_id)) is not None:
                return Taken(holder)
            changes = {"pid": by.pid, "started": by.started, "taken_at": self._now()}
            self._change(connection, loop_id, changes)
            return row.but(**changes)

    def remove(self, loop_ids: Iterable[str]) -> Sequence[str]:
        """Forgets those of the loops that hold nothing, or are this process's own. Returns which these are.

        What runs in another process, or is suspended, stays.
        """
        removed: list[str] = []
        own = this_process()
        if not self.path.exists():
            return removed
        with self._transaction() as connection:
            for loop_id in loop_ids:
                row = self._row(connection, loop_id)
                if row is None or (row.process != own and holds(row, is_alive(row.process))):
                    continue
                for table in ("loops", "releases"):
                    connection.execute(f"DELETE FROM {table} WHERE loop_id = ?", (loop_id,))
                removed.append(loop_id)
        return removed

    def close(self) -> None:
        """Lets go of the file, as does a registry that nobody keeps any more. The next use opens it again."""
        with self._lock:
            self._let_go()

    def _row(self, connection: sqlite3.Connection, loop_id: str) -> LoopRow | None:
        return next(iter(self._rows(connection, "WHERE loop_id = ?", loop_id)), None)

    def _rows(self, connection: sqlite3.Connection, rest: str, *values: object) -> Sequence[LoopRow]:
        found = [row_of(columns) for columns in connection.execute(f"SELECT {_ALL} FROM loops {rest}", values)]
        return tuple(row for row in found if self._is_believed(row))

    def _is_believed(self, row: LoopRow) -> bool:
        why = self._strange(row)
        if why is not None and not self._is_told:
            self._is_told = True
            self._told(
                f"the registry of loops {str(self.path)!r} has rows that are not believed, as that of the loop "
                f"{row.loop_id!r}: {why}; move it away when no loop runs, and a new one is begun"
            )
        return why is None

    def _holder(self, connection: sqlite3.Connection, workspace: str, *, other_than: str = "") -> LoopRow | None:
        """The loop that holds the workspace."""
        wanted = f"WHERE {_GOES_ON} AND workspace = ? AND loop_id != ? ORDER BY number DESC"
        rows = self._rows(connection, wanted, workspace, other_than)
        return next((row for row in rows if holds(row, is_alive(row.process))), None)

    def _change(self, connection: sqlite3.Connection, loop_id: str, changes: Mapping[str, object]) -> None:
        names = ", ".join(f'"{name}" = ?' for name in changes)
        values = [column(value) for value in changes.values()]
        changed = connection.execute(f"UPDATE loops SET {names} WHERE loop_id = ?", (*values, loop_id)).rowcount
        if not changed:
            raise cannot(self.path, f"the loop {loop_id!r} is registered there no more", _REMOVED)

    @contextlib.contextmanager
    def _look(self, *, create: bool = False) -> Generator[sqlite3.Connection | None]:
        """A connection to the file that is there now; None where there is none. After an error it is opened anew."""
        with self._lock, told(self.path):
            if self._connection is None or identity(self.path) != self._file:
                self._let_go()
                self._keep(connect(self.path, create=create))
                self._file = identity(self.path)
            try:
                yield self._connection
            except (sqlite3.Error, OSError):
                self._let_go()
                raise

    @contextlib.contextmanager
    def _transaction(self, *, create: bool = False) -> Generator[sqlite3.Connection]:
        """All that is done within it happens at once, or nothing of it."""
        with self._look(create=create) as connection:
            if connection is None:
                raise cannot(self.path, "it is gone", _REMOVED)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _keep(self, connection: sqlite3.Connection | None) -> None:
        """Who asks once and keeps no registry has nothing to close: from Python 3.13 on SQLite would warn of that."""
        self._connection = connection
        if connection is not None:
            self._closing = weakref.finalize(self, connection.close)
            self._closing.atexit = False  # a thread may still be at it

    def _let_go(self) -> None:
        self._connection = None
        if self._closing is not None:
            self._closing()


_REMOVED: Final = "it was removed or replaced while the loop ran; leave it where it is as long as a loop runs"


def _released(connection: sqlite3.Connection, loop_id: str, suspension_id: str) -> Release | None:
    values = (loop_id, suspension_id)
    query = "SELECT release FROM releases WHERE loop_id = ? AND suspension_id = ?"
    found = connection.execute(query, values).fetchone()
    return None if found is None else decode_document(str(found[0]).encode(), Release, version=1)
