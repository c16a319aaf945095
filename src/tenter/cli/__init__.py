"""The command line: arguments and printing only (D§13, D§14)."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The entry point. Who interrupts it while it loads gets the ending of every other moment."""
    try:
        from tenter.cli.entry import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run()
