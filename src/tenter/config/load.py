"""Reads a configuration file into a `Spec`, or says everything that is wrong with it (D§12).

Reads that one file and touches nothing else; runs nothing and imports nothing that the file names.
"""

import stat
from collections.abc import Collection
from pathlib import Path
from typing import Literal, cast

import msgspec

from tenter.config.check import check
from tenter.config.document import LARGEST, parse
from tenter.config.keys import project_keys, user_keys
from tenter.config.problem import ConfigError, Position, Problem
from tenter.config.spec import Spec
from tenter.kernel import freeze

Level = Literal["project", "user"]


def load(path: Path | str, *, level: Level = "project", builtin_tools: Collection[str] = ()) -> Spec:
    """The file at `path`. A file of the `user` level holds `version`, `secrets` and `hooks` and nothing else.

    `builtin_tools` are the tools that tasks may name without declaring them. Raises ConfigError with every problem of
    the file, also where it cannot be read; positions name the file as `path` does.
    """
    return parse_spec(_read(Path(path)), str(path), level=level, builtin_tools=builtin_tools)


def parse_spec(data: bytes, file: str, *, level: Level = "project", builtin_tools: Collection[str] = ()) -> Spec:
    """What `load` makes of a file that holds `data` and is called `file`."""
    document = parse(data, file)
    if document.root is None:
        raise ConfigError(document.problems)
    schema = user_keys() if level == "user" else project_keys(builtin_tools)
    checked = check(schema, document.root, {"tool": builtin_tools})
    if problems := (*document.problems, *checked.problems):
        raise ConfigError(problems)
    values = cast("dict[str, object]", checked.value)
    # The schema has checked everything; this only gives the values their classes.
    return freeze(msgspec.convert({**values, "file": file, "positions": checked.positions}, Spec))


def _read(path: Path) -> bytes:
    """The bytes of a regular file, at most one more than may be read; what is no regular file is never opened."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unreadable(path, "this is not a regular file", "name a file")
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file", "make one with 'tenter init', or name another") from None
    except OSError as error:
        raise _unreadable(path, f"the file cannot be read: {error.strerror}", "") from None
    except ValueError as error:
        raise _unreadable(path, f"this is not the name of a file: {error}", "") from None


def _unreadable(path: Path, message: str, hint: str) -> ConfigError:
    return ConfigError([Problem(where=Position(str(path)), message=message, hint=hint)])
