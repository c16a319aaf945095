"""What entries belong to: a run, a session, a loop or the process."""

from typing import Literal

import msgspec

StreamKind = Literal["run", "session", "loop", "process"]


class Stream(msgspec.Struct, frozen=True):
    """One numbered, chained series of entries. `id` is unique within its `kind`."""

    kind: StreamKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r}"
