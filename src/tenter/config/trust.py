"""Whether a project's code may run (D§3.14): its owner recorded that they trust exactly this, or names its digest.

Reads files, runs and imports nothing. `hooks trust` makes the record; the verbs that run something ask here.
"""

import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, assert_never

from tenter.config.footprint import Footprint, footprint
from tenter.config.pins import Pins
from tenter.config.problem import printable
from tenter.config.trust_changes import MOST_CHANGES, Change, changes
from tenter.config.trust_record import TrustRecord, UnusableRecord, as_recorded, read_record
from tenter.config.trusted_since import TrustedSince
from tenter.kernel import TenterError

TRUST_VARIABLE = "TENTER_TRUST"
"""The variable that holds the digest of what is trusted, where nobody made a record (CI)."""

Ground = Literal["record", "digest", "no code"]
"""Why a project is trusted: a record, the variable, or that it names nothing that runs."""
Reason = Literal["new", "changed", "unusable record", "unreadable file"]


@dataclass(frozen=True, slots=True)
class Trusted:
    """The project may run, as it was looked at."""

    now: Footprint
    ground: Ground
    since: TrustedSince | None = None
    """Who knows what is trusted anew later; only where a record is the ground. A digest vouches for one state alone."""

    @property
    def pins(self) -> Pins:
        """They hold whoever runs the project to what was looked at, or to what is trusted by then."""
        return self.now.pins if self.since is None else replace(self.now.pins, since=self.since.at)


class Untrusted(TenterError):
    """Nothing of the project may run, and nothing that it sets is in force. The text says why, and what to do."""

    def __init__(
        self, now: Footprint, why: Reason, *, detail: str = "", changed: tuple[Change, ...] = (), wrong: bool = False
    ) -> None:
        self.now = now
        self.why: Reason = why
        self.changes = changed
        self.detail = detail
        self.wrong_digest = wrong
        super().__init__("\n".join([_told(self), *_hints(self)]))

    @property
    def headline(self) -> str:
        """Why nothing of it runs, on one line: of several changes the first, and how many more there are."""
        first, *others = _told(self).split("\n")
        if not others:
            return first.removesuffix(":")
        more = f", and {len(self.changes) - 1} more" if len(self.changes) > 1 else ""
        return f"{first} {others[0].strip()}{more}"

    @property
    def hint(self) -> str:
        """What to do, on one line."""
        return " ".join(_hints(self))

    @property
    def verb(self) -> str:
        """The command that trusts it."""
        file = printable(self.now.pins.file)
        return "tenter hooks trust" + ("" if file == "tenter.yaml" else f" --config {shlex.quote(file)}")


def trust_state(
    path: Path | str, *, builtin_tools: Collection[str] = (), environment: Mapping[str, str] = os.environ
) -> Trusted | Untrusted:
    """Whether the project whose file is at `path` is trusted, as it is now. Raises ConfigError where that is wrong."""
    return judge(footprint(path, builtin_tools=builtin_tools, environment=environment), environment)


def require_trust(
    path: Path | str, *, builtin_tools: Collection[str] = (), environment: Mapping[str, str] = os.environ
) -> Trusted:
    """`trust_state`, for who will run something of it. Raises Untrusted, and ConfigError."""
    state = trust_state(path, builtin_tools=builtin_tools, environment=environment)
    if isinstance(state, Untrusted):
        raise state
    return state


def judge(now: Footprint, environment: Mapping[str, str] = os.environ) -> Trusted | Untrusted:
    """Whether `now` is trusted."""
    given = environment.get(TRUST_VARIABLE, "").strip()
    if not now.named:
        return Trusted(now, "no code")
    if now.unreadable:
        return Untrusted(now, "unreadable file", detail=", ".join(map(repr, now.unreadable[:5])))
    if given == now.digest:
        return Trusted(now, "digest")
    return _by_record(now, environment, wrong=bool(given))


def _by_record(now: Footprint, environment: Mapping[str, str], *, wrong: bool) -> Trusted | Untrusted:
    try:
        record = read_record(now.path, environment)
    except UnusableRecord as error:
        return Untrusted(now, "unusable record", detail=str(error), wrong=wrong)
    if record is None:
        return Untrusted(now, "new", wrong=wrong)
    if record.digest == now.digest:
        return Trusted(now, "record", TrustedSince(now.path, environment))
    return Untrusted(now, "changed", changed=changes_since(record, now), wrong=wrong)


def changes_since(record: TrustRecord, now: Footprint) -> tuple[Change, ...]:
    """What is not as it was when the record was made."""
    return changes((record.settings, as_recorded(now.settings)), (record.files, now.files))


def _told(error: Untrusted) -> str:
    file = printable(error.now.pins.file)
    match error.why:
        case "new":
            why = f"it names code ({_counted(error.now)}) that you have not trusted"
        case "changed":
            shown = [*map(str, error.changes[:MOST_CHANGES])]
            more = [f"and {len(error.changes) - MOST_CHANGES} more"] if len(error.changes) > MOST_CHANGES else []
            why = "\n  ".join(["it changed since you trusted it:", *shown, *more])
        case "unusable record":
            why = error.detail
        case "unreadable file":
            why = f"what it names cannot be read: {error.detail}"
        case _:
            assert_never(error.why)
    return f"{file} is not trusted, so nothing of it runs: {why}"


def _hints(error: Untrusted) -> Iterator[str]:
    if error.wrong_digest:
        yield f"{TRUST_VARIABLE} is set, and is not the digest of what is there now."
    yield (
        f"'{error.verb}' shows what it would run and trusts that; where no person can (CI), set "
        f"{TRUST_VARIABLE}={error.now.digest}"
    )


def _counted(now: Footprint) -> str:
    kinds = Counter(code.kind for code in now.named)
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.items())
