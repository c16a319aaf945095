"""Keeps standard output for the result: whatever hooks, tools and their children print meanwhile goes beside it."""

import contextlib
import os
import sys
from collections.abc import Generator

OUT, ERR = 1, 2
"""The descriptors that every process has."""


@contextlib.contextmanager
def output_kept() -> Generator[None]:
    """Within it, what this process and its children write to standard output comes out on standard error.

    Where one of the two is closed, only what Python code prints is led there.
    """
    with _descriptor_led(), contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def _descriptor_led() -> Generator[None]:
    sys.stdout.flush()
    try:
        kept = os.dup(OUT)
    except OSError:  # closed by whoever started us: nothing can be written to it
        yield
        return
    try:
        with contextlib.suppress(OSError):  # standard error is closed: what is printed stays where it was
            os.dup2(ERR, OUT)
        yield
    finally:
        os.dup2(kept, OUT)
        os.close(kept)
