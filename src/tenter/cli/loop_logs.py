"""`tenter loop logs`: what a loop's agent has put out, from the loop's own file; with `--follow` to its end."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from tenter.cli.loops import Found
from tenter.cli.texts import escaped, json_text

STEP_SECONDS: Final = 0.2
"""How often a file that is followed is looked at."""
PIECE: Final = 1 << 20
"""Bytes that are read at once, and of a line that does not end."""


def logs_verb(found: Found, *, follow: bool, as_json: bool) -> None:
    """Prints the output of a loop, masked and escaped."""
    from tenter.loop import place_of

    path = place_of(found.row).output
    if as_json:
        text = found.mask("".join(pieces(path, _never)))
        click.echo(json_text({"loop_id": found.row.loop_id, "output": text}))
        return
    printed = False
    for text in pieces(path, (lambda: _goes_on(found)) if follow else _never):
        click.echo(escaped(found.mask(text)), nl=False)
        printed = True
    if not printed:
        click.echo("the loop's agent has put nothing out", err=True)


def pieces(path: Path, goes_on: Callable[[], bool]) -> Iterator[str]:
    """Whole lines of the file, as they come, while `goes_on` says that there may be more; the last one may be torn.

    Bytes that are no UTF-8 are escaped. Raises ClickException where the file cannot be read.
    """
    offset, kept = 0, b""
    while True:
        more = goes_on()  # asked before it is read: what was written before the end is not missed
        while data := _read(path, offset):
            offset += len(data)
            lines, end, kept = (kept + data).rpartition(b"\n")
            if len(kept) > PIECE:
                lines, kept = lines + end + kept, b""
                end = b""
            if lines or end:
                yield (lines + end).decode(errors="backslashreplace")
        if not more:
            break
        time.sleep(STEP_SECONDS)
    if kept:
        yield kept.decode(errors="backslashreplace") + "\n"


def _read(path: Path, offset: int) -> bytes:
    """Up to PIECE bytes; none where there is no file (yet). What is no file, such as a FIFO, makes nobody wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        return os.pread(descriptor, PIECE, offset)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> click.ClickException:
    return click.ClickException(f"{str(path)!r} cannot be read: {error.strerror}")


def _goes_on(found: Found) -> bool:
    """Whether the loop may put something out yet: a suspended one may, one whose process is gone does not."""
    from tenter.loop import is_alive

    row = found.registry.row(found.row.loop_id)
    return row is not None and row.ended_at is None and is_alive(row.process)


def _never() -> bool:
    return False
