"""The words of a command or script by which it may name a file, and where each starts. Pure: looks at no file.

An argument names a file as a whole, or after `=`. A text for a shell names files by its words: the ones that are
programs, and those that an interpreter is given.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_TOKENS: Final = re.compile(r"[<>]|[^\s;|&()<>'\"`,=]+")
_SHELL: Final = re.compile(r"[\s;|&`]|\$\(")
_READERS: Final = re.compile(
    r"(?:.*/)?(?:\.|source|exec|env|(?:ba|da|z|k|a)?sh|python[0-9.]*|node|deno|bun|ruby|perl|php|lua|awk)"
)
_PLACES: Final = re.compile(r"\$\{?(TENTER_PROJECT_DIR|TENTER_WORKSPACE)\}?/")


@dataclass(frozen=True, slots=True)
class Word:
    """A word that names a file, if one is there. A relative `path` starts at the working folder."""

    path: str
    is_read: bool
    """Whether that file is surely used as it is; else only where it looks like a program."""


def words_of_arguments(arguments: Sequence[str], *, project: str, cwd: str | None = None) -> Iterator[Word]:
    """The words of a program's arguments. `project` is its folder; `cwd` the hook's own, as the file says it."""
    for argument in arguments:
        yield Word(argument, is_read=True)
        if "=" in argument:
            yield Word(argument.partition("=")[2], is_read=True)
        if _SHELL.search(argument):
            yield from words_of_script(argument, project=project, cwd=cwd)


def words_of_script(text: str, *, project: str, cwd: str | None = None) -> Iterator[Word]:
    """The words of a text for a shell, but for what it writes to."""
    before, reader = "", False
    for token in _TOKENS.findall(text):
        if before != ">" and token not in "<>":
            yield Word(_placed(token, project=project, cwd=cwd), is_read=reader or before == "<")
        if not token.startswith("-"):
            reader = _READERS.fullmatch(token) is not None
        before = token


def _placed(token: str, *, project: str, cwd: str | None) -> str:
    """`token` with the two folders that hooks are told of by variables in place of those."""
    found = _PLACES.match(token)
    if found is None:
        return token
    rest = token[found.end() :]
    if found[1] == "TENTER_PROJECT_DIR":
        return f"{project}/{rest}"
    # As seen from the working folder, which starts at the workspace.
    return rest if cwd is None else os.path.relpath(os.path.join("/", rest), os.path.join("/", cwd))  # noqa: PTH118
