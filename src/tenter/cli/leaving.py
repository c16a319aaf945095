"""Ends the process in time, with the code that was decided, whatever is left in it."""

import contextlib
import os
import sys
import threading
from typing import Final, NoReturn

FAREWELL_SECONDS: Final = 0.5
"""So long what hooks left behind may take to end."""


def leave(code: int) -> NoReturn:
    """Ends the process with `code`; threads and exit handlers that are left get FAREWELL_SECONDS."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # whoever read it went away: the interpreter says so, as ever
            stream.flush()
    alarm = threading.Timer(FAREWELL_SECONDS, os._exit, (code,))
    alarm.daemon = True
    with contextlib.suppress(RuntimeError):  # no thread is to be had: then the end is waited for
        alarm.start()
    sys.exit(code)
