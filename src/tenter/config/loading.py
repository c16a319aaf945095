"""Reads a configuration file into a `Spec`, or says everything that is wrong with it (D§12).

Reads that one file and touches nothing else; runs nothing and imports nothing that the file names.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, cast

import msgspec

from tenter.config.check import check
from tenter.config.document import LARGEST, parse
from tenter.config.keys import project_keys, user_keys
from tenter.config.problem import ConfigError, Position, Problem
from tenter.config.spec import Spec
from tenter.config.subtasks import subtask_problems
from tenter.config.usable import usable
from tenter.kernel import freeze

Level = Literal["project", "user"]

_USERS_HINT = "mend what stands there, or take it away; $XDG_CONFIG_HOME names another folder for the user's file"


class Draft(msgspec.Struct, frozen=True):
    """A file as far as it can be read. `spec` lacks whatever `problems` are about; None where nothing can be read."""

    spec: Spec | None
    problems: tuple[Problem, ...]


def load(path: Path | str, *, level: Level = "project", builtin_tools: Collection[str] = ()) -> Spec:
    """The file at `path`. A file of the `user` level holds `version`, `secrets` and `hooks` and nothing else.

    `builtin_tools` are the tools that tasks may name without declaring them. Raises ConfigError with every problem of
    the file, also where it cannot be read; positions name the file as `path` does.
    """
    return parse_spec(_read(Path(path), level), str(path), level=level, builtin_tools=builtin_tools)


def load_user(environment: Mapping[str, str] = os.environ) -> Spec | None:
    """The user's file, None where there is none. Raises ConfigError as `load` does."""
    path = user_file(environment)
    return None if path is None else load(path, level="user")


def user_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the user's file is: `tenter/tenter.yaml` in $XDG_CONFIG_HOME, or in `~/.config`; None without one.

    A relative $XDG_CONFIG_HOME counts as none, as its specification says.
    """
    named = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = environment.get("HOME")
    if not named.is_absolute() and not home:
        return None
    folder = named if named.is_absolute() else Path(cast(str, home), ".config")
    path = folder / "tenter" / "tenter.yaml"
    return None if _is_missing(path) else path


def secret_names(path: Path | str, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The variables that the file at `path` and the user's file name as `secrets`, as far as they can be read."""
    users = user_file(environment)
    drafts = [load_draft(path), *([] if users is None else [load_draft(users, level="user")])]
    return frozenset(name for draft in drafts if draft.spec is not None for name in draft.spec.secrets)


def _is_missing(path: Path) -> bool:
    """Whether nothing stands at `path` and nothing is in the way to it.

    Whatever cannot be looked at is for `load` to refuse: a guard must not be lost in silence.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        # A folder that is a link which leads nowhere is there: what it should hold may be not mounted yet.
        return not any(folder.is_symlink() and not folder.exists() for folder in path.parents)
    except (OSError, ValueError):
        return False
    return False


def parse_spec(data: bytes, file: str, *, level: Level = "project", builtin_tools: Collection[str] = ()) -> Spec:
    """What `load` makes of a file that holds `data` and is called `file`."""
    draft = parse_draft(data, file, level=level, builtin_tools=builtin_tools)
    if draft.spec is None or draft.problems:
        raise ConfigError(draft.problems)
    return draft.spec


def load_draft(path: Path | str, *, level: Level = "project", builtin_tools: Collection[str] = ()) -> Draft:
    """Like `load`, for who wants to look at the rest of a file that has problems. Raises nothing."""
    try:
        data = _read(Path(path), level)
    except ConfigError as error:
        return Draft(None, error.problems)
    return parse_draft(data, str(path), level=level, builtin_tools=builtin_tools)


def parse_draft(data: bytes, file: str, *, level: Level = "project", builtin_tools: Collection[str] = ()) -> Draft:
    """What `load_draft` makes of a file that holds `data` and is called `file`."""
    document = parse(data, file)
    if document.root is None:
        return Draft(None, document.problems)
    schema = user_keys() if level == "user" else project_keys(builtin_tools)
    checked = check(schema, document.root, {"tool": builtin_tools})
    problems = (*document.problems, *checked.problems)
    values = usable(checked.value) if problems else cast("Mapping[str, object]", checked.value)
    made = {
        "file": file,
        "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "positions": checked.positions,
    }
    # The schema has checked everything; this only gives the values their classes.
    spec = freeze(msgspec.convert({**values, **made}, Spec))
    return Draft(spec, (*problems, *subtask_problems(spec)))


def _read(path: Path, level: Level) -> bytes:
    """The bytes of a regular file, at most one more than may be read; what is no regular file is never opened."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unreadable(path, "this is not a regular file", "name a file")
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except FileNotFoundError:
        hint = _USERS_HINT if level == "user" else "make one with 'tenter init', or name another"
        raise _unreadable(path, "there is no such file", hint) from None
    except OSError as error:
        hint = _USERS_HINT if level == "user" else ""
        raise _unreadable(path, f"the file cannot be read: {error.strerror}", hint) from None
    except ValueError as error:
        raise _unreadable(path, f"this is not the name of a file: {error}", "") from None


def _unreadable(path: Path, message: str, hint: str) -> ConfigError:
    return ConfigError([Problem(where=Position(str(path)), message=message, hint=hint)])
