"""Where a command's program is, looked up once, when a configuration is loaded (D§12).

Looks at the file system and runs nothing. What may still go wrong when the program is started is the executor's to say.
"""

import errno
import os
import stat
from pathlib import Path

from tenter.config.problem import Unresolved

TEXT_AHEAD = 256
"""Bytes of a program that are looked at: what Linux reads of a `#!` line."""


def resolve_program(program: str, *, folder: Path, search: str) -> str | Unresolved:
    """The absolute path of `program`: seen from `folder` where it has a slash, else found on `search` ($PATH).

    Relative and empty entries of `search` are passed over: what they mean depends on where tenter was started.
    """
    if not program:
        return Unresolved("expected a program, got ''", "name it first: [program, argument, …]")
    if "/" in program:
        path = folder / program
        return _trouble(program, path) or str(path)
    places = [Path(place, program) for place in search.split(os.pathsep) if Path(place).is_absolute()]
    for path in places:
        if _is_file(path) and os.access(path, os.X_OK):
            return _trouble(program, path) or str(path)
    beside = f"write './{program}' for the file beside the configuration"
    hint = beside if _is_file(folder / program) else "install it, or name its path, such as ./hooks/guard.sh"
    if (refused := next(filter(_is_file, places), None)) is not None:
        hint = f"{refused} is not executable: chmod +x {refused}"
    return Unresolved(f"the program {program!r} is not on PATH", hint)


def _is_file(path: Path) -> bool:
    """Whether a regular file is there; not so, too, where that cannot be found out."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _trouble(program: str, path: Path) -> Unresolved | None:
    """Why the file at `path` cannot be run, if it cannot."""
    named = f"the program {program!r}"
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return _absent(named, path, error)
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        return Unresolved(f"{named} is {what}", "name a file that can be run")
    if not os.access(path, os.X_OK):
        return Unresolved(f"{named} is not executable", f"chmod +x {path}")
    try:
        with path.open("rb") as file:
            start = file.read(TEXT_AHEAD)
    except OSError:  # a program may be run and not read
        return None
    return _start_trouble(named, start)


def _absent(named: str, path: Path, error: OSError) -> Unresolved:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        missing = path
        while not os.path.lexists(missing.parent):
            missing = missing.parent
        if missing.is_symlink():
            return Unresolved(
                f"{named} is a link to {str(missing.readlink())!r}, which does not exist", "mend the link"
            )
        what = "folder" if missing != path else "file"
        return Unresolved(f"{named} does not exist: there is no {what} {str(missing)!r}", "a path starts at this file")
    return Unresolved(f"{named} cannot be looked at: {error.strerror}", "")


def _start_trouble(named: str, start: bytes) -> Unresolved | None:
    if b"\0" not in start and not start.startswith(b"#!"):
        return Unresolved(f"{named} is a text without a '#!' line", "begin it with a line such as #!/bin/sh")
    if not start.startswith(b"#!"):
        return None
    line = start[2:].split(b"\n", 1)[0]
    interpreter = os.fsdecode(line.strip(b" \t").split(b" ", 1)[0].split(b"\t", 1)[0])
    if interpreter and Path(interpreter).exists():
        return None
    hint = "save it with Unix line ends" if line.endswith(b"\r") else "mend its first line"
    return Unresolved(f"{named} names the interpreter {interpreter!r}, which does not exist", hint)
