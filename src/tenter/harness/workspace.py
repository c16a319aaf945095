"""Path confinement: what a tool names is inside the workspace, links included, or it is refused.

A path is walked component by component. Each folder is opened relative to the descriptor of the one before, never
through a link; a link is read, and what it says is walked in the same way from where it stands. So nothing can be
swapped between check and use: whoever puts a link where a folder was, makes the walk fail or has the link checked.
What the walk cannot see is a folder that somebody moves out of the workspace while it is open.

It knows no tool. What a program does that a tool starts is not confined here.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from tenter.harness.errors import ToolError, shown
from tenter.kernel import TenterError

LONGEST_PATH = 4096
OWN: Final = ".tenter"
"""The folder of a project that is tenter's: its journal is in it, and with that every approval."""
MOST_LINKS = 40
"""As many links are followed in one path, as the kernel does."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened."""
_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path led, with every link followed. Valid while its `locate` is open."""

    shown: str
    """The path as it was asked for, in quotes, for texts."""
    parts: tuple[str, ...]
    """The way from the workspace, with no link and no `..` in it."""
    folder: int
    """Descriptor of the folder that holds it, or of itself where it is a folder."""
    name: str
    """Its name in `folder`; empty where it is a folder."""
    status: os.stat_result | None
    """None where nothing is there."""

    @property
    def is_folder(self) -> bool:
        return not self.name

    def open_folder(self) -> int:
        """A descriptor to list the folder with, for the caller to close. Raises ToolError for anything else."""
        if not self.is_folder:
            raise ToolError(f"{self.shown} {_missing(self.status) or 'is not a folder'}")
        return os.open(".", FOLDER, dir_fd=self.folder)

    def read(self, limit: int) -> bytes:
        """The bytes of a regular file of at most `limit` bytes. Raises ToolError for anything else; never waits."""
        self.check_regular(must_exist=True)
        with open_regular(self.folder, self.name) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ToolError(f"{self.shown} has more than {limit} bytes; use grep, or read a part of it with the shell")
        return data

    def write(self, data: bytes) -> None:
        """Puts a file with `data` there at once: whole or not at all, with the mode bits of what stood there."""
        self.check_regular()
        if self.status is not None and not os.access(self.name, os.W_OK, dir_fd=self.folder):
            raise ToolError(f"{self.shown} may not be written (mode {stat.S_IMODE(self.status.st_mode):04o})")
        temporary = f".tenter-{os.urandom(8).hex()}.tmp"
        descriptor = os.open(temporary, _CREATE, 0o666, dir_fd=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if self.status is not None:
                    os.fchmod(descriptor, stat.S_IMODE(self.status.st_mode))
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.rename(temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(FileNotFoundError):  # somebody else removed it already
                os.unlink(temporary, dir_fd=self.folder)
            raise

    def check_regular(self, *, must_exist: bool = False) -> None:
        """Raises ToolError unless a regular file is there, or nothing where that will do."""
        if self.is_folder:
            raise ToolError(f"{self.shown} is a folder; name a file")
        if self.status is None:
            if must_exist:
                raise ToolError(f"{self.shown} {_missing(None)}")
        elif not stat.S_ISREG(self.status.st_mode):
            raise ToolError(f"{self.shown} is {_kind(self.status)}; only regular files are read and written")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that tools work in."""

    root: Path
    """Absolute, with its own links followed."""
    alias: Path
    """Absolute, as the owner wrote it; paths that begin like this are inside, too."""

    @classmethod
    def at(cls, folder: Path | str) -> Self:
        """The workspace at an existing folder. Raises TenterError where there is none."""
        alias = Path(os.path.abspath(folder))  # noqa: PTH100  # Path.absolute keeps '..'
        try:
            root = alias.resolve(strict=True)
        except OSError as error:
            raise TenterError(f"the workspace {str(folder)!r} cannot be used: {error.strerror}") from None
        if not root.is_dir():
            raise TenterError(f"the workspace {str(folder)!r} is not a folder; name the folder of the project")
        return cls(root, alias)

    @contextmanager
    def locate(self, path: str, *, create: bool = False) -> Generator[Place]:
        """Where `path` leads; relative paths start at the workspace. `create` makes missing folders on the way.

        Raises ToolError for a path that is none, leads outside or cannot be walked. An OSError in the body becomes a
        ToolError about `path`.
        """
        name = shown(path)
        try:
            with _opened(self._walk(path, name)) as walk:
                yield walk.go(self, name, create=create, wants_folder=path.endswith(("/", "/.")))
        except OSError as error:
            raise ToolError(f"{name} cannot be used: {_reason(error)}") from error

    def resolve(self, path: str) -> Path:
        """The absolute path that `path` leads to, links followed; it need not exist. Raises ToolError as `locate`.

        By the time it is used, somebody may have put a link there; what must be sure uses `locate`.
        """
        with self.locate(path) as place:
            return self.root.joinpath(*place.parts)

    def inside(self, path: str) -> str | None:
        """An absolute `path` as one from the workspace, going by its text alone; None where it lies outside."""
        for top in (self.root, self.alias):
            prefix = str(top).rstrip("/")
            if path == prefix or path.startswith(f"{prefix}/"):
                return path[len(prefix) + 1 :]
        return None

    def _walk(self, path: str, name: str) -> "_Walk":
        """The walk that `path` asks for. Raises ToolError for what is no path."""
        if not path:
            raise ToolError("the path is empty; write '.' for the workspace itself")
        if "\0" in path:
            raise ToolError(f"the path {name} holds a NUL character; remove it")
        if path.startswith("~"):
            raise ToolError(f"in {name} the '~' stands for no folder; write the path as seen from the workspace")
        try:
            length = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"the path {name} is not valid text") from None
        if length >= LONGEST_PATH:
            raise ToolError(f"the path {name} is too long; at most {LONGEST_PATH - 1} bytes are taken")
        relative = self.inside(path) if path.startswith("/") else path
        if relative is None:
            raise outside(name)
        return _Walk(deque(_split(relative)), [os.open(self.root, _STEP)])


class _Walk:
    """A walk from the workspace down: what is left of the way, and the open folders behind it."""

    __slots__ = ("_links", "_open", "_parts", "_pending")

    def __init__(self, pending: deque[str], opened: list[int]) -> None:
        self._pending = pending
        self._open = opened
        self._parts: list[str] = []
        self._links = 0

    def go(self, workspace: Workspace, name: str, *, create: bool, wants_folder: bool) -> Place:
        while self._pending:
            part = self._pending.popleft()
            if part == OWN:
                raise ToolError(f"{name} leads into {OWN!r}, where tenter keeps its records: no tool works there")
            if part == "..":
                self._up(name)
                continue
            status = _status(part, self._open[-1])
            if status is None and self._pending and create:
                with suppress(FileExistsError):  # somebody made it meanwhile; what it is, opening it tells
                    os.mkdir(part, dir_fd=self._open[-1])
                self._down(part)
            elif status is not None and stat.S_ISDIR(status.st_mode):
                self._down(part)
            elif status is not None and stat.S_ISLNK(status.st_mode):
                self._follow(part, workspace, name)
            elif self._pending or wants_folder:
                stopped = "/".join((*self._parts, part))
                raise ToolError(f"in {name}, {shown(stopped)} {_missing(status) or 'is not a folder'}")
            else:
                return Place(name, (*self._parts, part), self._open[-1], part, status)
        return Place(name, tuple(self._parts), self._open[-1], "", os.fstat(self._open[-1]))

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def _down(self, part: str) -> None:
        self._open.append(os.open(part, _STEP, dir_fd=self._open[-1]))
        self._parts.append(part)

    def _up(self, name: str) -> None:
        if len(self._open) == 1:
            raise outside(name)
        os.close(self._open.pop())
        self._parts.pop()

    def _follow(self, part: str, workspace: Workspace, name: str) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise ToolError(f"{name} leads through more than {MOST_LINKS} links, or through a link to itself")
        target = os.readlink(part, dir_fd=self._open[-1])
        if target.startswith("/"):
            inner = workspace.inside(target)
            if inner is None:
                raise outside(name, f": {shown('/'.join((*self._parts, part)))} is a link to {shown(target)}")
            while len(self._open) > 1:
                self._up(name)
            target = inner
        self._pending.extendleft(reversed(_split(target)))


@contextmanager
def _opened(walk: _Walk) -> Generator[_Walk]:
    try:
        yield walk
    finally:
        walk.close()


def open_regular(folder: int, name: str) -> BinaryIO:
    """The regular file `name` of an open folder, to be read. Raises OSError, for anything else too; never waits."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it was swapped for something that is not a regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def outside(name: str, why: str = "") -> ToolError:
    """The refusal of a path (`name`, in quotes) that leaves the workspace."""
    return ToolError(f"{name} leads out of the workspace{why}; name something inside it")


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _status(part: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(part, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _missing(status: os.stat_result | None) -> str:
    return "does not exist; look with list_dir or glob what does" if status is None else ""


def _kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something special")


def _reason(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a folder on the way was swapped for something else; look at it again"
    return error.strerror or type(error).__name__
