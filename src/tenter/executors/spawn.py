"""Starting a child process with three pipes in a session of its own, and saying why one could not start.

`subprocess.Popen` does it, because it uses vfork, which costs the same from a large parent as from a small one. The
event loop stands still until the kernel has executed the program (about 0.1 ms). It reads nothing and ends nothing.
"""

import asyncio
import errno
import os
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BUSY_SECONDS, BUSY_PAUSE = 0.1, 0.005
"""How long a program file that is open for writing is tried again, and how often."""
INTERPRETERS = 5
"""How many interpreters of interpreters the kernel follows."""
SHEBANG = 256
NOTHING = memoryview(b"")


@dataclass(slots=True)
class Spawned:
    """A started child and our ends of its pipes, none of which blocks. Whoever has it closes them and reaps it."""

    process: subprocess.Popen[bytes]
    stdin: int | None
    """None when all of it was there and fitted into the pipe, which is closed then."""
    stdout: int
    stderr: int
    unwritten: memoryview
    """What of stdin did not fit into the pipe."""


class SpawnFailed(Exception):
    """The child could not be started; the text names the errno and the path at fault."""


async def spawn(
    argv: tuple[str, ...], stdin: bytes | None, *, cwd: str, env: Mapping[str, str], until: float
) -> Spawned:
    """Start `argv` in `cwd` with exactly `env`; `stdin` goes into the pipe as far as there is room.

    With None, the pipe stays open for what comes later.

    A program that somebody is still writing ("text file busy") is tried again for 100 ms, at most to the time `until`
    of the event loop. Raises SpawnFailed.
    """
    loop = asyncio.get_running_loop()
    until = min(until, loop.time() + BUSY_SECONDS)
    while True:
        try:
            return _start(argv, stdin, cwd=cwd, env=env)
        except OSError as failure:
            if failure.errno != errno.ETXTBSY or loop.time() >= until:
                raise SpawnFailed(explain(failure, argv, cwd=cwd, env=env)) from failure
        except ValueError as failure:
            raise SpawnFailed(f"EINVAL: {failure} in the arguments or the environment of {argv[0]!r}") from failure
        await asyncio.sleep(BUSY_PAUSE)


def _start(argv: tuple[str, ...], stdin: bytes | None, *, cwd: str, env: Mapping[str, str]) -> Spawned:
    pipes: list[int] = []
    try:
        for _ in range(3):
            pipes += os.pipe()
        child_in, parent_in, parent_out, child_out, parent_err, child_err = pipes
        os.set_blocking(parent_in, False)
        # Before the child exists nobody can have closed the other end: a hook that ignores stdin breaks no pipe.
        unwritten = memoryview(stdin)[os.write(parent_in, stdin) :] if stdin else NOTHING
        process = subprocess.Popen(
            argv, stdin=child_in, stdout=child_out, stderr=child_err, cwd=cwd, env=env, start_new_session=True
        )
    except BaseException:
        for descriptor in pipes:
            os.close(descriptor)
        raise
    for theirs in (child_in, child_out, child_err):
        os.close(theirs)
    for ours in (parent_out, parent_err):
        os.set_blocking(ours, False)
    done = stdin is not None and not unwritten
    if done:
        os.close(parent_in)
    return Spawned(process, None if done else parent_in, parent_out, parent_err, unwritten)


def explain(failure: OSError, argv: tuple[str, ...], *, cwd: str, env: Mapping[str, str]) -> str:
    """Why the kernel refused to start `argv`: errno, the path at fault, what to do. Looks at the files once more."""
    code = errno.errorcode.get(failure.errno or 0, "EUNKNOWN")
    if failure.errno == errno.E2BIG:
        longest = max(len(os.fsencode(each)) for each in argv)
        size = sum(len(os.fsencode(each)) + 1 for each in (*argv, *env, *env.values()))
        return (
            f"{code}: arguments and environment of {argv[0]!r} have {size} bytes (the longest argument {longest}), "
            "more than the system takes; hand large values over on stdin"
        )
    if failure.filename is None:
        return f"{code}: {failure.strerror}, so {argv[0]!r} could not be started"
    if failure.filename == cwd:
        return f"{code}: {failure.strerror}: the working folder {cwd!r}"
    return f"{code}: {_program_fault(failure, argv[0], cwd)}"


def _program_fault(failure: OSError, program: str, cwd: str) -> str:
    if "/" not in program:
        return f"{failure.strerror}: {program!r}, looked for on PATH"
    path, role = program, ""
    for _ in range(INTERPRETERS):
        interpreter = _interpreter(Path(cwd, path)) if _goes_on(failure, Path(cwd, path)) else None
        if interpreter is None:
            break
        path, role = interpreter, f", the interpreter of {path!r},"
    return f"{path!r}{role} {_file_fault(failure, Path(cwd, path))}"


def _goes_on(failure: OSError, path: Path) -> bool:
    """Whether the kernel came past this file, so that the fault is its interpreter's."""
    if failure.errno == errno.EACCES:
        return os.access(path, os.X_OK)
    return failure.errno in {errno.ENOENT, errno.ENOEXEC}


def _interpreter(script: Path) -> str | None:
    """The program that the `#!` line of a file names, as the kernel reads it (a carriage return is part of it)."""
    try:
        if not script.is_file():
            return None
        with script.open("rb") as file:
            first = file.read(SHEBANG).split(b"\n", 1)[0]
    except OSError:
        return None
    words = first[2:].replace(b"\t", b" ").split(b" ") if first.startswith(b"#!") else []
    return next((os.fsdecode(word) for word in words if word), None)


def _file_fault(failure: OSError, path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except OSError as fault:
        return f"cannot be reached: {fault.strerror}"
    if stat.S_ISDIR(mode):
        return "is a folder and no program"
    match failure.errno:
        case errno.EACCES if os.access(path, os.X_OK):
            reason = "may not be executed although its mode allows it; is its file system mounted noexec?"
        case errno.EACCES:
            reason = (
                f"may not be executed (mode {stat.S_IMODE(mode):04o}); chmod +x it, or name its interpreter in front"
            )
        case errno.ENOEXEC:
            reason = "is no program and has no #! line; write one (#!/bin/sh), or name its interpreter in front"
        case errno.ENOENT:
            reason = "is there, but the loader that it needs is not"
        case _:
            reason = f"could not be executed: {failure.strerror}"
    return reason
