"""What the dispatch of one point comes to, and what it keeps of the hooks that said something (D§16)."""

from typing import Literal

import msgspec

from tenter.kernel.declaration import Band
from tenter.kernel.ending import Requirement
from tenter.kernel.errors import ExecutionResult
from tenter.kernel.event import Event
from tenter.kernel.outcome import Outcome

Disposition = Literal["pass", "warn", "block", "suspend", "fail", "escalate", "retry"]
"""What a hook's execution means for the operation: seed 001's words, and three more."""

Lift = Literal["", "waived", "approved", "overruled"]
"""Why nobody is asked although a hook wanted a person: an Allow, a person's approval, or a weightier answer."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a hook that answered or failed; one that had nothing to say is only counted.

    `reason` is redacted; a failure's is for people and never shown to a model. `exception` is a type's name,
    `seconds` how long the execution took. `lifted` is what became of a Suspend that asks nobody, and `lifted_by` the
    hook that waived or overruled it.
    """

    hook: str
    band: Band
    point: str
    result: ExecutionResult
    disposition: Disposition
    code: str = ""
    reason: str = ""
    exception: str = ""
    modified: bool = False
    observed: bool = False
    shadow: bool = False
    recheck: bool = False
    lifted: Lift = ""
    lifted_by: str = ""
    seconds: float = 0.0


class Decision(msgspec.Struct, frozen=True):
    """One point, dispatched: the event that leaves its chain, the combined outcome, and who answered it.

    `failed` says that a failure policy speaks and not the hook. `requirements` are what the standing Suspends ask for,
    and `digest` names the event that a person's answer will be bound to.
    """

    event: Event
    outcome: Outcome | None = None
    hook: str = ""
    failed: bool = False
    requirements: tuple[Requirement, ...] = ()
    records: tuple[Record, ...] = ()
    digest: str = ""
