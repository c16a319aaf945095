"""The tools that look for files and text: glob, grep.

Both walk folders by descriptor, follow no link, pass over `.git`, `.tenter` and `.venv`, and give bounded, sorted
answers. Patterns are RE2's, which is linear in hostile text.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from tenter.config import printable
from tenter.harness.context import ToolContext
from tenter.harness.definition import tool
from tenter.harness.errors import ToolError, shown
from tenter.harness.files import MOST_BYTES
from tenter.harness.shortened import Masking, line_masking
from tenter.harness.workspace import FOLDER, Place, open_regular
from tenter.kernel import Regex, RegexError

SKIPPED = frozenset({".git", ".tenter", ".venv"})
DEEPEST = 64
"""Folders nested deeper are passed over."""
MOST_PATHS = 1000
MOST_HITS = 200
LONGEST_LINE = 300
LONGEST_PATTERN = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is no folder: its path from where the search began, and how to open it."""

    path: str
    folder: int
    name: str


@tool(idempotent=True, timeout_seconds=30)
def glob(
    context: ToolContext,
    pattern: Annotated[str, "Such as '**/*.py' or 'src/*.{js,ts}': '*' stops at '/', '**' does not."],
    path: Annotated[str, "Folder to search, to which the pattern is relative."] = ".",
) -> str:
    """Find files by name; one path a line, sorted. Folders .git, .tenter and .venv are passed over."""
    matches = compile_glob(pattern)
    with context.workspace.locate(path) as place:
        prefix = _prefix(place)
        paths = sorted(prefix + found.path for found in _files(place, context) if matches(found.path))
    lines = [printable(one) for one in paths[:MOST_PATHS]]
    if len(paths) > MOST_PATHS:
        lines.append(f"[cut here: {len(paths)} files match; narrow the pattern down]")
    return "\n".join(lines) or f"no file below {place.shown} matches {shown(pattern)}"


@tool(idempotent=True, timeout_seconds=30)
def grep(
    context: ToolContext,
    pattern: Annotated[str, "Regular expression in the syntax of RE2, matched within each line."],
    path: Annotated[str, "File or folder to search."] = ".",
    files: Annotated[str | None, "Search only files that match this glob, such as '**/*.py'."] = None,
    *,
    ignore_case: bool = False,
) -> str:
    """Find lines by a regular expression; each as 'path:line: text'.

    Binary files and the folders .git, .tenter and .venv are passed over.
    """
    regex = _regex(pattern, ignore_case=ignore_case)
    wanted = compile_glob(files) if files is not None else None
    hits: list[str] = []
    with context.workspace.locate(path) as place:
        for found in _files(place, context):
            if wanted is not None and not wanted(found.path):
                continue
            path = printable(_prefix(place) + found.path)
            hits += _shown(path, _hits(found, regex, MOST_HITS + 1 - len(hits)), context.mask)
            if len(hits) > MOST_HITS:
                hits[MOST_HITS:] = [f"[cut here: more than {MOST_HITS} lines match; narrow the search down]"]
                break
    return "\n".join(hits) or f"no line below {place.shown} matches {shown(pattern)}"


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Whether a relative path matches `pattern`: `*`, `?`, `[…]` within a name, `**` across folders, `{a,b}`.

    Raises ToolError for a pattern that is none or leads out of the folder.
    """
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolError(f"the pattern {shown(pattern)} must be relative, without '..'; name the folder in 'path'")
    if not 0 < len(pattern) <= LONGEST_PATTERN:
        raise ToolError(f"the pattern {shown(pattern)} must have 1 to {LONGEST_PATTERN} characters")
    try:
        return Regex(_glob_as_regex(pattern.removeprefix("./"))).fullmatch
    except RegexError as error:
        raise ToolError(f"the pattern {shown(pattern)} cannot be used: {error}") from None


def _glob_as_regex(pattern: str) -> str:
    out, at, depth = "(?s)", 0, 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] in "/{,"):
            out, at = out + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            out, at = out + ".*", at + 2
        elif char == "[" and (end := pattern.find("]", at + 2)) > 0:
            out, at = out + _glob_class(pattern[at + 1 : end]), end + 1
        elif char == "{" and "}" in pattern[at:]:
            out, at, depth = out + "(?:", at + 1, depth + 1
        elif char == "}" and depth:
            out, at, depth = out + ")", at + 1, depth - 1
        else:
            plain = {"*": "[^/]*", "?": "[^/]"} | ({",": "|"} if depth else {})
            out, at = out + plain.get(char, Regex.escape(char)), at + 1
    return out


def _glob_class(inside: str) -> str:
    negated = inside.startswith(("!", "^"))
    chars = inside[1:] if negated else inside
    return (
        "["
        + ("^/" if negated else "")
        + chars.replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
        + "]"
    )


def _regex(pattern: str, *, ignore_case: bool) -> Regex:
    if not 0 < len(pattern) <= LONGEST_PATTERN:
        raise ToolError(f"the pattern {shown(pattern)} must have 1 to {LONGEST_PATTERN} characters")
    try:
        return Regex(pattern, ignore_case=ignore_case)
    except RegexError as error:
        raise ToolError(f"the pattern {shown(pattern)} is not one that RE2 takes: {error}") from None


def _prefix(place: Place) -> str:
    """What stands before a path of `_files` to make it one from the workspace."""
    return "".join(f"{part}/" for part in (place.parts if place.is_folder else place.parts[:-1]))


def _files(place: Place, context: ToolContext) -> Iterator[Found]:
    """The files at or below a place, sorted by path, as far as the deadline allows."""
    if not place.is_folder:
        place.check_regular(must_exist=True)
        yield Found(place.name, place.folder, place.name)
        return
    folder = place.open_folder()
    try:
        for found in _below(folder, "", DEEPEST):
            # The thread may have been given up: then nobody wants the rest.
            if context.expired():
                raise ToolError(f"there was no time to search all of {place.shown}; narrow the search down")
            yield found
    finally:
        os.close(folder)


def _below(folder: int, prefix: str, depth: int) -> Iterator[Found]:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            if entry.is_file(follow_symlinks=False) or entry.is_symlink():
                yield Found(prefix + entry.name, folder, entry.name)
        elif entry.name not in SKIPPED and depth:
            try:
                inner = os.open(entry.name, FOLDER, dir_fd=folder)
            except OSError:  # it vanished, may not be read, or is a link by now
                continue
            try:
                yield from _below(inner, f"{prefix}{entry.name}/", depth - 1)
            finally:
                os.close(inner)


@dataclass(frozen=True, slots=True)
class Hits:
    """The lines of a text that match, each with its number."""

    text: str = ""
    lines: tuple[tuple[int, str], ...] = ()


def _hits(found: Found, regex: Regex, most: int) -> Hits:
    try:
        with open_regular(found.folder, found.name) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError:  # it vanished, may not be read, or is a link: what that leads to is found where it is
        return Hits()
    if len(data) > MOST_BYTES or b"\0" in data:
        return Hits()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Hits()
    numbered = enumerate(text.split("\n"), start=1)
    return Hits(text, tuple(islice(((number, line) for number, line in numbered if regex.search(line)), most)))


def _shown(path: str, hits: Hits, mask: Masking) -> list[str]:
    if not hits.lines:
        return []
    mask_line = line_masking(hits.text, mask)
    return [f"{path}:{number}: {_cut(mask_line(line))}" for number, line in hits.lines]


def _cut(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
