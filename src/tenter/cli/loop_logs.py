"""`tenter loop logs`: what a loop's agent has put out, from the loop's own file; with `--follow` to its end."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Generator, Iterator
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
    """Prints the output of a loop, masked and escaped: as it comes, so that it is never in memory as a whole."""
    from tenter.loop import place_of

    texts = map(found.mask, pieces(place_of(found.row).output, (lambda: _goes_on(found)) if follow else _never))
    if as_json:
        _print_json(found.row.loop_id, texts)
        return
    printed = False
    for text in texts:
        click.echo(escaped(text), nl=False)
        printed = True
    if not printed:
        click.echo("the loop's agent has put nothing out", err=True)


def _print_json(loop_id: str, texts: Iterator[str]) -> None:
    """One document, of which `output` is written piece by piece."""
    first = next(texts, "")  # what cannot be read says so before anything is printed
    click.echo(f'{{"loop_id":{json_text(loop_id)},"output":"', nl=False)
    for text in itertools.chain((first,), texts):
        click.echo(json_text(text)[1:-1], nl=False)
    click.echo('"}')


def pieces(path: Path, goes_on: Callable[[], bool]) -> Iterator[str]:
    """Whole lines of the log, as they come, while `goes_on` says that there may be more; the last one may be torn.

    What was put aside when the log was full comes first. Bytes that are no UTF-8 are escaped. Raises ClickException
    where a file cannot be read.
    """
    kept = b""
    for data in _chunks(path, goes_on):
        lines, end, kept = (kept + data).rpartition(b"\n")
        if len(kept) > PIECE:
            lines, kept = lines + end + kept, b""
            end = b""
        if lines or end:
            yield (lines + end).decode(errors="backslashreplace")
    if kept:
        yield kept.decode(errors="backslashreplace") + "\n"


def _chunks(path: Path, goes_on: Callable[[], bool]) -> Iterator[bytes]:
    from tenter.loop import earlier_log

    log, earlier = _File(path), _File(earlier_log(path))
    try:
        log.open()  # first: what is put aside from now on is not taken for what was before
        earlier.open()
        if earlier.identity != log.identity:
            yield from earlier.rest()
        while True:
            more = goes_on()  # asked before it is read: what was written before the end is not missed
            yield from log.rest()
            while log.is_replaced():
                yield from log.rest()  # to its end: nothing comes into it any more
                log.open()
                yield from log.rest()
            if not more:
                return
            time.sleep(STEP_SECONDS)
    finally:
        log.close()
        earlier.close()


class _File:
    """A file that is read as it grows. What is no file, such as a FIFO, makes nobody wait."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._offset = 0

    def open(self) -> None:
        """Opens what is at the path now, if anything is, to be read from its beginning."""
        self.close()
        self._offset = 0
        with contextlib.suppress(FileNotFoundError), self._told():
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Which file is open."""
        return None if self._descriptor is None else _identity(os.fstat(self._descriptor))

    def is_replaced(self) -> bool:
        """Whether another file is at the path than the one that is open."""
        with contextlib.suppress(FileNotFoundError), self._told():
            return _identity(self._path.stat()) != self.identity
        return False

    def rest(self) -> Iterator[bytes]:
        """What was not read yet, in chunks of PIECE bytes at most."""
        while self._descriptor is not None:
            with self._told():
                data = os.pread(self._descriptor, PIECE, self._offset)
            if not data:
                return
            self._offset += len(data)
            yield data

    @contextlib.contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise click.ClickException(f"{str(self._path)!r} cannot be read: {error.strerror}") from error


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _goes_on(found: Found) -> bool:
    """Whether the loop may put something out yet: a suspended one may, one whose process is gone does not."""
    from tenter.executors import is_alive

    row = found.registry.row(found.row.loop_id)
    return row is not None and row.ended_at is None and is_alive(row.process)


def _never() -> bool:
    return False
