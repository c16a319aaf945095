"""Small files that are there whole or not at all, and that are read only where they are what they should be.

It knows bytes and errors of the operating system, and nothing of what the files say.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

LARGEST: Final = 4_000_000
"""Bytes of a file that is read."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""How a file system says that it has no hard links. There, two who write at once may both hear that they were first."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def put(path: Path, data: bytes) -> None:
    """Puts a file (0600) with `data` in place of what is there. It is on disk on return. Raises OSError."""
    temporary = _written(path, data)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    sync_folder(path.parent)


def put_new(path: Path, data: bytes) -> bool:
    """As `put`, where nothing is there; False, and nothing is changed, where something is. Raises OSError."""
    temporary = _written(path, data)
    try:
        _link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def read_regular(path: Path) -> bytes | None:
    """The content of a regular file of at most LARGEST bytes; None where nothing is there. It never waits.

    Raises OSError otherwise, for links too; its `strerror` says what is there.
    """
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link") from error
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is no regular file") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST} bytes")
    return data


def sync_folder(folder: Path) -> None:
    """Brings names that were put into a folder, or taken away, to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_name(path: Path) -> Path:
    """A name beside `path` that nobody else has or looks at."""
    return path.with_name(f".{path.name}-{os.urandom(8).hex()}.tmp")


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):  # a link that leads nowhere is there, too
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        temporary.replace(path)


def _written(path: Path, data: bytes) -> Path:
    """A file of its own beside `path`, with `data` on disk."""
    temporary = private_name(path)
    descriptor = os.open(temporary, _NEW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # somebody else removed it already
            temporary.unlink()
        raise
    return temporary
