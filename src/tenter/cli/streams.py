"""The three standard streams: all of them open, and standard output kept for the result."""

import contextlib
import io
import os
import sys
from collections.abc import Generator

IN, OUT, ERR = 0, 1, 2
"""The descriptors that every process should have."""


def prepare_streams() -> None:
    """Opens what whoever started us had closed, or the journal could be opened as descriptor 1 and be printed into.

    What the encoding of a terminal lacks is escaped, which is no bug.
    """
    for descriptor in (IN, OUT, ERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest descriptor that is free: this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123  # as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def output_kept() -> Generator[None]:
    """Within it, what hooks, tools and their children print to standard output comes out on standard error."""
    sys.stdout.flush()
    kept = os.dup(OUT)
    try:
        os.dup2(ERR, OUT)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, OUT)
        os.close(kept)
