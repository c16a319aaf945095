"""The words of a command or script by which it may name a file, and where each starts. Pure: looks at no file.

An argument names a file as a whole, or after `=`. A text for a shell names files by its words: the ones that are
programs, and those that an interpreter is given. It is no shell: what a variable, a pattern or a command in the text
comes to is not known here.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

MOST_FOLDERS: Final = 32
"""Folders that a script goes to; the words of one with more are looked for in the first."""

_JOINED: Final = re.compile(r"\\\n")
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_BREAKS: Final = "\n;|&()`"
"""What ends a command, so that the word behind it is of the next."""
_TO_SPACES: Final = str.maketrans(dict.fromkeys(_BREAKS, " "))
_TOKENS: Final = re.compile(r"[<>\n;|&()`]|[^\s;|&()<>'\"`,=]+")
_SHELL: Final = re.compile(r"[\s;|&`]|\$\(")
_READERS: Final = re.compile(
    r"(?:.*/)?(?:\.|source|exec|env|(?:ba|da|z|k|a)?sh|python[0-9.]*|node|deno|bun|ruby|perl|php|lua|awk)"
)
_FILE_READERS: Final = re.compile(r"(?:.*/)?(?:[gbp]?make|jq|[gmn]?awk|g?sed|(?:ba|da|z|k|a)?sh)")
"""What reads a file behind an option; the others write to it, or remove it."""
_FILE_OPTION: Final = re.compile(r"-[A-Za-z]*f|--(?:make|from-|init-|rc)?file")
_GOERS: Final = frozenset({"cd", "pushd"})
_PLACES: Final = re.compile(r"\$\{?(TENTER_PROJECT_DIR|TENTER_WORKSPACE)\}?(?:/|$)")
_PLACE_IN_QUOTES: Final = re.compile(r"\"(\$\{?(?:TENTER_PROJECT_DIR|TENTER_WORKSPACE)\}?/?)\"(?=[\w./])")
"""As in `"$TENTER_PROJECT_DIR"/check.sh`."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word that names a file, if one is there. A relative `path` starts at the working folder."""

    path: str
    is_read: bool
    """Whether that file is surely used as it is; else only where it looks like a program."""
    folders: tuple[str, ...] = ()
    """The folders that its script goes to, where a relative path may start as well; seen from the working folder."""


def words_of_arguments(arguments: Sequence[str], *, project: str, cwd: str | None = None) -> Iterator[Word]:
    """The words of a program's arguments. `project` is its folder; `cwd` the hook's own, as the file says it."""
    for argument in arguments:
        yield Word(argument, is_read=True)
        if "=" in argument:
            yield Word(argument.partition("=")[2], is_read=True)
        if argument.startswith("-f") and len(argument) > 2:
            yield Word(argument[2:], is_read=True)
        if _SHELL.search(argument):
            yield from words_of_script(argument, project=project, cwd=cwd)


def words_of_script(text: str, *, project: str, cwd: str | None = None) -> Iterator[Word]:
    """The words of a text for a shell, but for what it writes to."""
    found = [(replace(word, path=_placed(word.path, project=project, cwd=cwd)), goes) for word, goes in _words(text)]
    folders = _folders(word.path for word, goes in found if goes)
    for word, _ in found:
        yield replace(word, folders=folders)


def _words(text: str) -> Iterator[tuple[Word, bool]]:
    """Each word as it is written; True with one that the script goes to, as to a folder."""
    joined = _PLACE_IN_QUOTES.sub(r"\1", _JOINED.sub(" ", text))
    plain = _QUOTED.sub(lambda quoted: quoted[0].translate(_TO_SPACES), joined)
    before, reads, goes, takes_files = "", False, False, False
    for token in _TOKENS.findall(plain):
        if token in _BREAKS:
            reads = goes = takes_files = False
            continue
        if before != ">" and token not in "<>":
            yield Word(token, is_read=reads or before == "<"), goes and not token.startswith("-")
        if takes_files and token.startswith("-f") and len(token) > 2:
            yield Word(token[2:], is_read=True), False
        if token.startswith("-"):
            reads = reads or (takes_files and _FILE_OPTION.fullmatch(token) is not None)
            goes = goes or token in ("-C", "--directory")
        else:
            reads, goes = _READERS.fullmatch(token) is not None, token in _GOERS
            takes_files = takes_files or _FILE_READERS.fullmatch(token) is not None
        before = token


def _folders(gone_to: Iterable[str]) -> tuple[str, ...]:
    """Where a script may be that goes to these one after the other, or to each in a shell of its own."""
    folders: dict[str, None] = {}
    here = ""
    for folder in gone_to:
        here = os.path.join(here, folder)  # noqa: PTH118  # as it is written
        folders |= {folder: None, here: None}
        if len(folders) >= MOST_FOLDERS:
            break
    return tuple(folders)


def _placed(token: str, *, project: str, cwd: str | None) -> str:
    """`token` with the two folders that hooks are told of by variables in place of those."""
    found = _PLACES.match(token)
    if found is None:
        return token
    rest = token[found.end() :]
    if found[1] == "TENTER_PROJECT_DIR":
        return f"{project}/{rest}"
    # As seen from the working folder, which starts at the workspace.
    return rest or "." if cwd is None else os.path.relpath(os.path.join("/", rest), os.path.join("/", cwd))  # noqa: PTH118
