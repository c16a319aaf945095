"""What ends a suspension, or a loop before its time: a decision, who asked for it, and when. Data alone."""

import os
import pwd

import msgspec

from tenter.loop.reason import ReleaseHow


class By(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks: a process and the user that it belongs to."""

    pid: int
    user: str


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a loop was asked for and does: go on, stop, or end to be started anew."""

    how: ReleaseHow
    by: By
    at: str
    """When it was asked for, as `2026-02-28T15:31:00Z`."""
    suspension_id: str | None = None
    """The suspension that it ended; None where there was none."""

    @property
    def who(self) -> str:
        """Who asked for it, for people; not escaped."""
        return f"{self.by.user} (process {self.by.pid})"


def by_this_process() -> By:
    """This process and its user; the number of the user where it has no name."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # common in containers
        name = str(number)
    return By(os.getpid(), name)
