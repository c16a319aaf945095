"""A file that must be what it was when its owner trusted it (D§3.14), looked at again before each use.

It knows no configuration and no record of trust: it is given a path and a digest, and maybe somebody to ask.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tenter.kernel import HookFailure
from tenter.wire import PREFIX

LARGEST: Final = 256 << 20
"""Bytes of a file above which it is not read: looking at it would take longer than anybody waits."""
SETTLED_NS: Final = 2_000_000_000
"""A file that changed less than this ago may change once more without a new time stamp, so it is not remembered."""
MOST_REMEMBERED: Final = 4096

Accepts = Callable[[str, str, str], bool]
"""Whether a file counts as trusted by now: its path, the digest that was pinned, and the one that was found."""

_Stamp = tuple[int, int, int, int, int]
_known: dict[_Stamp, str] = {}
"""Digests of files, by what changes with their content."""


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file and the digest (`sha256:…`) of its content. A relative path starts at the hook's working folder.

    An empty digest fits no content: it is that of a file which must not be there, since nobody trusted it. `accepts`
    decides where it is given, as trust may have been renewed since; else the digest alone does.
    """

    path: str
    digest: str
    accepts: Accepts | None = field(default=None, compare=False, repr=False)

    def check(self, cwd: str) -> None:
        """Raises HookFailure where the file is not what was trusted: `untrusted`, or `spawn_failed` where it is gone.

        Where the working folder itself is gone it says nothing: the start of the hook will.
        """
        path = Path(cwd, self.path)
        try:
            found = file_digest(path)
        except OSError as error:
            is_gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
            if is_gone and not (self.digest and Path(cwd).is_dir()):
                return
            raise self._unusable(error, path) from error
        is_trusted = found == self.digest if self.accepts is None else self.accepts(str(path), self.digest, found)
        if is_trusted:
            return
        what = "changed since it was trusted" if self.digest else "was not there when the project was trusted"
        then = ", and start again" if self.accepts is None else ": what still runs then takes it from there"
        raise HookFailure("untrusted", f"the file {str(path)!r} {what}; look at it, then 'tenter hooks trust'{then}")

    def _unusable(self, error: OSError, path: Path) -> HookFailure:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            code = errno.errorcode[error.errno]
            return HookFailure("spawn_failed", f"{code}: {str(path)!r} was trusted, and is not there any more")
        said = f"the file {str(path)!r} was trusted, and cannot be read any more: {error.strerror}"
        return HookFailure("untrusted", said)


def file_digest(path: Path | str) -> str:
    """`sha256:…` of a regular file's content; that of an unchanged file costs a look at its status.

    Raises OSError for what cannot be read, is no regular file, or is larger than LARGEST.
    """
    if not stat.S_ISREG((status := os.stat(path)).st_mode):  # noqa: PTH116  # it takes both kinds of path
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if (known := _known.get(_stamp(status))) is not None:
        return known
    # What took the file's place meanwhile may be a FIFO, which must not be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if before.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST >> 20} MB", str(path))
        digest = PREFIX + hashlib.file_digest(file, "sha256").hexdigest()
        _remember(before, os.fstat(descriptor), digest)
    return digest


def _remember(before: os.stat_result, after: os.stat_result, digest: str) -> None:
    settled = time.time_ns() - max(after.st_ctime_ns, after.st_mtime_ns) > SETTLED_NS
    if settled and _stamp(before) == _stamp(after):
        if len(_known) >= MOST_REMEMBERED:
            _known.clear()
        _known[_stamp(after)] = digest


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
