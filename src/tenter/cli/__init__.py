"""The command line: arguments and printing only (D§13, D§14)."""

from tenter.cli.entry import main as main

__all__ = ["main"]
