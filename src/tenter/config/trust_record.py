"""The record that a person trusts a project: one file for each configuration, the user's own, outside the repository.

It holds what was trusted, so that a change can be shown, and no value of an environment variable. What does not belong
to the user alone, cannot be read, or is of a newer version is told of and counts for nothing.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tenter.config.footprint import FileFacts, Footprint, Setting
from tenter.kernel import TenterError
from tenter.wire import CanonicalError, Document, restore

RECORD_VERSION: Final = 1
LARGEST_RECORD: Final = 64 << 20


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was trusted, when (in seconds since the epoch). Large texts stand in it by their digest."""

    path: str
    digest: str
    trusted_at: float
    settings: tuple[Setting, ...]
    files: Mapping[str, FileFacts]


class _Envelope(msgspec.Struct, frozen=True):
    schema_version: int


class UnusableRecord(Exception):
    """A record is there and counts for nothing; the text says why."""


def trust_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where records are: `tenter/trust` in $XDG_STATE_HOME, or in `~/.local/state`; None without a home.

    A relative $XDG_STATE_HOME counts as none, as its specification says.
    """
    named, home = Path(environment.get("XDG_STATE_HOME", "")), Path(environment.get("HOME", ""))
    if named.is_absolute():
        return named / "tenter" / "trust"
    return home / ".local" / "state" / "tenter" / "trust" if home.is_absolute() else None


def read_record(path: str, environment: Mapping[str, str] = os.environ) -> TrustRecord | None:
    """The record for the configuration at the real path `path`; None where there is none. Raises UnusableRecord."""
    folder = trust_folder(environment)
    if folder is None:
        return None
    file = folder / _name(path)
    try:
        data = _read(file, folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableRecord(f"the record {str(file)!r} cannot be read: {error.strerror}") from error
    try:
        version = msgspec.json.decode(data, type=_Envelope).schema_version
        if version > RECORD_VERSION:
            raise UnusableRecord(f"the record {str(file)!r} is of version {version}, which a newer tenter wrote")
        record = msgspec.convert(restore(data, _nothing_apart), TrustRecord)
    except (msgspec.MsgspecError, CanonicalError) as error:
        raise UnusableRecord(f"the record {str(file)!r} is broken: {error}") from error
    if record.path != path:
        raise UnusableRecord(f"the record {str(file)!r} is of another configuration, {record.path!r}")
    return record


def write_record(now: Footprint, at: float, environment: Mapping[str, str] = os.environ) -> Path:
    """Records that `now` is trusted, in place of an earlier record; the file. Raises TenterError where it cannot be."""
    folder = trust_folder(environment)
    if folder is None:
        raise TenterError("there is no place for the record of trust: set HOME, or XDG_STATE_HOME to an absolute path")
    record = TrustRecord(path=now.path, digest=now.digest, trusted_at=at, settings=now.settings, files=now.files)
    data = Document({"schema_version": RECORD_VERSION, **msgspec.structs.asdict(record)}).data
    try:
        _make(folder)
        _replace(folder / _name(now.path), data)
    except OSError as error:
        raise TenterError(f"the record of trust cannot be written to {str(folder)!r}: {error.strerror}") from error
    return folder / _name(now.path)


def as_recorded(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """`settings` as a record has them, to be compared with one."""
    return msgspec.convert(restore(Document(settings).data, _nothing_apart), tuple[Setting, ...])


def _name(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:32] + ".json"


def _read(file: Path, folder: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        for place, status in ((folder, folder.stat()), (file, os.fstat(descriptor))):
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise UnusableRecord(f"{str(place)!r} can be written by others than you; remove it, or take that away")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return opened.read(LARGEST_RECORD)


def _nothing_apart(digest: str) -> None:
    """Large texts are kept by their digest alone."""


def _make(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_mode & 0o077 and folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)


def _replace(file: Path, data: bytes) -> None:
    """Writes beside it, and puts it in its place at once: whoever reads has the old one or the new one, whole."""
    beside = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(descriptor)
        beside.replace(file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
