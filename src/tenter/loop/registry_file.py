"""Opens the registry's SQLite file, creates its tables, and puts SQLite's troubles into words.

A look creates nothing. Where another process holds the file, the system is asked which. It knows no loops.
"""

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tenter.kernel import TenterError
from tenter.loop.place import check_state_folder, make_state_folder

FORMAT: Final = 1
"""The version of the tables, in the file's `user_version`."""

LOCK_SECONDS: Final = 3.0
"""How long another process's lock is waited for."""

LOCKS: Final = Path("/proc/locks")

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS loops (
    number INTEGER PRIMARY KEY,
    loop_id TEXT NOT NULL UNIQUE, "primary" INTEGER NOT NULL,
    project TEXT NOT NULL, workspace TEXT NOT NULL, config TEXT NOT NULL, branch TEXT,
    pid INTEGER NOT NULL, started TEXT NOT NULL, taken_at REAL NOT NULL,
    status TEXT NOT NULL, reason TEXT, message TEXT NOT NULL,
    prompt TEXT NOT NULL, iteration INTEGER NOT NULL, started_at REAL NOT NULL, ended_at REAL,
    suspension TEXT, released TEXT, question TEXT, backend TEXT NOT NULL, request TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS releases (
    loop_id TEXT NOT NULL, suspension_id TEXT NOT NULL, release TEXT NOT NULL, PRIMARY KEY (loop_id, suspension_id)
) STRICT;
PRAGMA user_version = {FORMAT};
COMMIT;
"""
_DISK: Final = "the operating system refused; check the disk, the folder and the file size limit (`ulimit -f`)"
_FULL: Final = "the disk is full; free some room and try again"
_READ_ONLY: Final = "it may not be written or read; check the permissions of the file and its folder"
_DAMAGED: Final = "the file is damaged; move it away when no loop runs, and a new one is begun"
_BY_CODE: Final[dict[int, str]] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
_BY_ERRNO: Final[dict[int | None, str]] = {
    errno.ENOSPC: _FULL,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
    errno.ENOTDIR: "something else stands where its folder should be; take it away",
}


class RegistryHeld(TenterError):
    """Another process held the registry for too long; nothing was done, and it can be tried again."""


def cannot(path: Path, detail: object, advice: str) -> TenterError:
    """The error that names the file, what is wrong with it, and what to do."""
    return TenterError(f"the registry of loops {str(path)!r} cannot be used ({detail}): {advice}")


@contextlib.contextmanager
def told(path: Path) -> Generator[None]:
    """Turns what SQLite and the operating system raise into TenterError, and what is no row of ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _held(path) from error
        raise cannot(path, error, _BY_CODE.get(code, _DISK)) from error
    except OSError as error:
        raise cannot(path, error.strerror, _BY_ERRNO.get(error.errno, _DISK)) from error
    except ValueError as error:
        raise cannot(path, error, _DAMAGED) from error


def connect(path: Path, *, create: bool) -> sqlite3.Connection | None:
    """A connection to the registry at `path`, for any thread; None where there is none and `create` is not asked for.

    It waits LOCK_SECONDS for another process. Raises TenterError, sqlite3.Error and OSError.
    """
    if path.is_symlink():
        raise cannot(path, "it is a link", "a repository may not say where it is; take it away")
    if not path.exists():
        if not create:
            return None
        make_state_folder(path.parent)
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    _check_owner(path)
    address = f"file:{quote(str(path.absolute()))}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=LOCK_SECONDS)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_owner(path: Path) -> None:
    """A repository may bring a registry along, or a link to one, and what it says is believed."""
    check_state_folder(path.parent)
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise cannot(path, f"it belongs to another user, {owner}", "run tenter as that user, or move it away")


def identity(path: Path) -> tuple[int, int] | None:
    """What tells the file from another one at its place; None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN")  # or the tables that another process makes just now look foreign
    version, tables = (
        int(connection.execute(f"SELECT {what}").fetchone()[0])
        for what in ("user_version FROM pragma_user_version", "count(*) FROM sqlite_schema")
    )
    connection.execute("ROLLBACK")
    if version > FORMAT:
        newer = f"its format is {version}, this version reads up to {FORMAT}"
        raise cannot(path, newer, "a newer version of tenter wrote it; upgrade tenter")
    if version == 0:
        if tables:
            raise cannot(path, "it holds other tables", "it is no registry of tenter; move it away")
        _make_tables(connection)
    connection.execute("PRAGMA synchronous = NORMAL")


def _make_tables(connection: sqlite3.Connection) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            return
        except sqlite3.OperationalError as error:
            # Switching to WAL does not wait for another process that does the same: SQLite reports it at once.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _held(path: Path) -> RegistryHeld:
    pids = sorted(writers((path, path.with_name(path.name + "-shm"))))
    who = ", ".join(f"process {pid}{_called(pid)}" for pid in pids) or "another process"
    return RegistryHeld(
        str(cannot(path, f"{who} held it for {LOCK_SECONDS:g} s", "let it finish, or end it, and try again"))
    )


def writers(paths: Iterable[Path]) -> set[int]:
    """The other processes that have one of the files locked for writing, as far as the system tells.

    A lock is never looked for by opening the file: closing it again would drop this process's own locks on it.
    """
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return set()
    wanted = {f"{os.major(at[0]):02x}:{os.minor(at[0]):02x}:{at[1]}" for at in map(identity, paths) if at is not None}
    found: set[int] = set()
    for line in lines:
        fields = line.split()
        if "WRITE" in fields and wanted.intersection(fields):
            found.add(int(fields[fields.index("WRITE") + 1]))
    return {pid for pid in found if pid > 0 and pid != os.getpid()}


def _called(pid: int) -> str:
    try:
        return f" ({Path(f'/proc/{pid}/comm').read_text().rstrip()!r})"
    except OSError:
        return ""
