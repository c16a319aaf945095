"""The tools that read and change files: read_file, write_file, edit, list_dir.

Text is UTF-8 and comes and goes exactly as it is, line ends included. What a model knows only as the mask of a secret
is never written or looked for (D§3.4).
"""

import fcntl
import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Annotated

from tenter.config import printable
from tenter.harness.context import ToolContext
from tenter.harness.definition import tool
from tenter.harness.errors import ToolError, shown
from tenter.harness.shortened import line_masking
from tenter.harness.workspace import FOLDER, Place, Workspace
from tenter.kernel import MASK

MOST_BYTES = 10 * 1024 * 1024
"""The largest file that is read or edited as a whole."""
MOST_ENTRIES = 1000
MOST_MATCHES = 1000
MOST_LINES = 10

_in_this_process = threading.Lock()

PathArgument = Annotated[str, "Path as seen from the workspace."]


@tool(idempotent=True, timeout_seconds=30)
def read_file(
    context: ToolContext,
    path: PathArgument,
    first_line: Annotated[int, "Number of the first line to read, from 1."] = 1,
    lines: Annotated[int | None, "How many lines to read; all when left out."] = None,
) -> str:
    """Read a UTF-8 text file, or some of its lines, exactly as it is written."""
    if first_line < 1 or (lines is not None and lines < 1):
        raise ToolError(f"first_line is {first_line} and lines is {lines}; both count from 1")
    with context.workspace.locate(path) as place:
        text = read_text(place)
    if first_line == 1 and lines is None:
        return text
    numbered = _lines(text)
    if first_line > max(1, len(numbered)):
        raise ToolError(f"{shown(path)} has {len(numbered)} lines; line {first_line} is past its end")
    mask = line_masking(text, context.mask)
    return "".join(map(mask, numbered[first_line - 1 :][:lines]))


@tool(timeout_seconds=30)
def write_file(context: ToolContext, path: PathArgument, content: Annotated[str, "The whole new text."]) -> str:
    """Write a text file as a whole, with the folders that it needs; what stood there is replaced."""
    refuse_mask(path=path, content=content)
    data = _encoded(content, "content")
    with _changing(context.workspace), context.workspace.locate(path, create=True) as place:
        place.write(data)
    return f"wrote {len(data)} bytes to {place.shown}"


@tool(timeout_seconds=30)
def edit(
    context: ToolContext,
    path: PathArgument,
    old: Annotated[str, "The text to replace, exactly as it stands in the file; it must occur once."],
    new: Annotated[str, "The text to put in its place."],
    *,
    replace_all: Annotated[bool, "Replace every occurrence instead."] = False,
) -> str:
    """Replace a text in a file by another one."""
    refuse_mask(path=path, old=old, new=new)
    if not old:
        raise ToolError("'old' is empty; give the text to replace, or use write_file for a new file")
    if old == new:
        raise ToolError("'old' and 'new' are the same; nothing would change")
    with _changing(context.workspace), context.workspace.locate(path) as place:
        text = read_text(place)
        found = _occurrences(text, old)
        if not found:
            raise ToolError(f"'old' does not occur in {place.shown}; {_hint(text, old)}")
        if len(found) > 1 and not replace_all:
            raise ToolError(
                f"'old' occurs {_count(found)} times in {place.shown}, at {_line_numbers(text, found)}; "
                "give more of the text around it, or set replace_all"
            )
        count = text.count(old)
        place.write(_encoded(text.replace(old, new), "new"))
    return f"replaced {count} occurrence{'s' * (count != 1)} in {place.shown}, at {_line_numbers(text, found)}"


@tool(idempotent=True, timeout_seconds=30)
def list_dir(context: ToolContext, path: PathArgument = ".") -> str:
    """List a folder, sorted by name: folders end in '/', links show where they lead."""
    with context.workspace.locate(path) as place:
        folder = place.open_folder()
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208  # a descriptor is no path
            listed = [_entry(name, folder) for name in names[:MOST_ENTRIES]]
        finally:
            os.close(folder)
    if len(names) > MOST_ENTRIES:
        listed.append(f"[cut here: the folder has {len(names)} entries; use glob to narrow them down]")
    return "\n".join(listed) or f"{place.shown} is empty"


@contextmanager
def _changing(workspace: Workspace) -> Generator[None]:
    """Two edits of one file at once would lose one of the two, also where each is made in a process of its own."""
    with _in_this_process:
        folder = os.open(workspace.root, FOLDER)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def read_text(place: Place) -> str:
    """The text of a regular file. Raises ToolError for one that is too large or is no UTF-8 text."""
    data = place.read(MOST_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        at = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise ToolError(f"{place.shown} is not UTF-8 text ({at}); look at it with the shell if you must") from None
    if (at := text.find("\0")) >= 0:
        raise ToolError(f"{place.shown} is binary (NUL after {at} characters); look at it with the shell if you must")
    return text


def refuse_mask(**texts: str) -> None:
    """Raises ToolError where one of the `texts` holds the mask: the model has not seen what really stands there."""
    for name, text in texts.items():
        if MASK in text:
            raise ToolError(
                f"{name!r} holds {MASK!r}, which stands for a secret that you were not shown; nothing was changed. "
                "Leave the secret out of the text, and edit around it"
            )


def _lines(text: str) -> list[str]:
    r"""The lines with their ends; only `\n` ends one, as for grep."""
    pieces = [f"{piece}\n" for piece in text.split("\n")]
    pieces[-1] = pieces[-1][:-1]
    return pieces if pieces[-1] else pieces[:-1]


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{name!r} holds half a character at position {error.start} and cannot be written") from None


def _occurrences(text: str, old: str) -> list[int]:
    """Where `old` begins, also where it overlaps itself; at most MOST_MATCHES + 1."""
    found: list[int] = []
    at = text.find(old)
    while at >= 0 and len(found) <= MOST_MATCHES:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _count(found: list[int]) -> str:
    return str(len(found)) if len(found) <= MOST_MATCHES else f"more than {MOST_MATCHES}"


def _line_numbers(text: str, found: list[int]) -> str:
    numbers = list(dict.fromkeys(text.count("\n", 0, at) + 1 for at in found[:MOST_LINES]))
    more = ", …" if len(found) > MOST_LINES else ""
    return f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}{more}"


def _hint(text: str, old: str) -> str:
    if "\r\n" in text and old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return r"it would with the file's line ends: this file has '\r\n'"
    if _squeezed(old) and _squeezed(old) in _squeezed(text):
        return "it would with other spaces or line breaks: read the file and copy the text exactly"
    return "read the file and copy the text exactly"


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _entry(name: str, folder: int) -> str:
    printed = printable(name)
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return f"{printed} -> {printable(os.readlink(name, dir_fd=folder))}"
    except OSError:  # it vanished meanwhile
        return printed
    return f"{printed}/" if stat.S_ISDIR(status.st_mode) else printed
