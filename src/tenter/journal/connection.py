"""Opens the journal's SQLite file, with the tables of `tables`, and puts SQLite's troubles into words.

A look creates nothing. The folder is made for its owner alone (0700), the file too (0600; SQLite gives its companions
the same). Two processes may open or create it at the same moment.
"""

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tenter.journal.rows import one
from tenter.journal.store import JournalError, JournalTrouble
from tenter.journal.tables import FORMAT, make, version
from tenter.wire import CanonicalError

LOCK_SECONDS: Final = 5.0
"""How long another process's lock is waited for."""

_TABLES: Final = "SELECT count(*) FROM sqlite_schema"
_ADVICE: Final[dict[JournalTrouble, str]] = {
    "full": "the disk is full; free some room and try again",
    "locked": f"another process held it for {LOCK_SECONDS:g} s; let that process finish, or end it",
    "read_only": "it may not be written or read; check the permissions of the file and its folder",
    "damaged": "the file is damaged; move it away to go on with a new journal, and keep it for `sqlite3 FILE .recover`",
    "foreign": "it is no journal of tenter; move it away",
    "newer": "a newer version of tenter wrote it; upgrade tenter",
    "removed": "it was removed or replaced while it was in use, and with it what was journaled; begin a new run",
    "io": "the operating system refused; check the disk, the folder and the file size limit (`ulimit -f`)",
}
_TROUBLES: Final[dict[int, JournalTrouble]] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_PERM: "read_only",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
}
_OTHER_TABLES: Final = ("no such table", "no such column", "no query solution", "Could not decode")
"""How messages begin of what the tables that tenter makes, and what it writes, never lead to."""
_ERRNOS: Final[dict[int | None, JournalTrouble]] = {
    errno.ENOSPC: "full",
    errno.EACCES: "read_only",
    errno.EPERM: "read_only",
    errno.EROFS: "read_only",
}


def trouble(path: Path, kind: JournalTrouble, detail: object) -> JournalError:
    """The error that names the file, what is wrong with it (`detail` in short) and what to do."""
    return JournalError(kind, f"the journal {str(path)!r} cannot be used ({detail}): {_ADVICE[kind]}")


@contextlib.contextmanager
def told(path: Path) -> Generator[None]:
    """Turns what SQLite, the operating system and an entry that cannot be read raise into `JournalError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise in_words(path, error) from error
    except CanonicalError as error:
        raise trouble(path, "damaged", error) from error
    except OverflowError as error:  # a stream's number that leaves no room for its entries
        raise trouble(path, "damaged", "a number in its tables is none that was ever given") from error


def in_words(path: Path, error: sqlite3.Error | OSError) -> JournalError:
    """What SQLite or the operating system raised, as the error that names the file."""
    if isinstance(error, OSError):
        return trouble(path, _ERRNOS.get(error.errno, "io"), error.strerror)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_ERROR and str(error).startswith(_OTHER_TABLES):
        return trouble(path, "damaged", error)
    return trouble(path, _TROUBLES.get(code & 0xFF, "io"), error)


def close_uncopied(connection: sqlite3.Connection, path: Path) -> None:
    """Close it without the copy of its log into the database that SQLite makes when the last connection is closed.

    The last one then is another that may not write.
    """
    try:
        last = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error:  # there is no such file any more
        connection.close()
        return
    with contextlib.closing(last):
        with contextlib.suppress(sqlite3.Error):
            last.execute(_TABLES).fetchone()  # it takes hold of the file, whatever it finds
        connection.close()


def connect(path: Path, *, create: bool, parents: bool = True) -> sqlite3.Connection | None:
    """A connection to the journal at `path`; None where there is no journal and `create` is not asked for.

    Its folder is made, too, and with `parents` those that this is in.
    Opening waits for another process's lock, the connection then does not. Raises `JournalError` (`foreign`, `newer`,
    `damaged`), sqlite3.Error and OSError.
    """
    is_new = not path.exists()
    if is_new and not create:
        return None
    if is_new:
        _make_folder_of(path, parents=parents)
    elif path.stat().st_size == 0 and _has_content(path.with_name(path.name + "-wal")):
        raise trouble(path, "damaged", "it is empty, but its write-ahead log is not")
    address = f"file:{quote(str(path.absolute()))}?mode={'rwc' if create else 'rw'}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        is_ready = _prepare(connection, path, is_new=is_new, create=create)
    except BaseException:
        connection.close()
        raise
    if is_ready:
        return connection
    connection.close()
    return None


def wait(connection: sqlite3.Connection, seconds: float) -> None:
    """Let the connection wait so long for another process's lock."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def identity(path: Path | str) -> tuple[int, int] | None:
    """What tells the file from another one at its place; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a third of the time of Path.stat, and every append asks
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _prepare(connection: sqlite3.Connection, path: Path, *, is_new: bool, create: bool) -> bool:
    """Whether the connection is to a journal with tables; they are made when `create`, and brought to `FORMAT`."""
    wait(connection, LOCK_SECONDS)
    connection.execute("BEGIN")  # or the tables that another process makes just now look foreign
    found, tables = version(connection), one(connection, _TABLES)
    connection.execute("ROLLBACK")
    if is_new:
        path.chmod(0o600)  # before anything is in it
    if found > FORMAT:
        raise trouble(path, "newer", f"its format is {found}, this version reads up to {FORMAT}")
    if found == 0:
        if tables:
            raise trouble(path, "foreign", "it holds other tables")
        if not create:
            return False
    if found < FORMAT:
        _make_tables(connection)
    # Copying the log to the database takes longer than an append may; the store asks for it when there is time.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA synchronous = NORMAL")
    wait(connection, 0)
    return True


def _make_tables(connection: sqlite3.Connection) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if version(connection) < FORMAT:  # another process may have done it meanwhile
                make(connection)
            connection.execute("COMMIT")
            return
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            # Switching to WAL does not wait for another process that does the same: SQLite reports it at once.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _make_folder_of(path: Path, *, parents: bool) -> None:
    folder = path.parent
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=0o700, parents=parents, exist_ok=True)
    except FileExistsError:
        what = "a link that leads nowhere" if folder.is_symlink() else "no folder"
        raise trouble(path, "io", f"{str(folder)!r} is {what}; take it away") from None
    parent = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(parent)  # or the folder is gone, with all that was synced in it, when the machine stops
    finally:
        os.close(parent)


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
