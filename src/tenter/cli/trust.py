"""Trust in a project's code (D§3.14): what the verbs that run something ask, and what `tenter hooks trust` does."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import click

from tenter.cli.inside import inside_of, refuse_inside
from tenter.cli.masking import mask_of, masked
from tenter.cli.texts import json_text, one_line
from tenter.config import (
    MOST_CHANGES,
    TRUST_VARIABLE,
    ConfigError,
    Footprint,
    Trusted,
    Untrusted,
    judge,
    require_trust,
    short,
    trust_state,
    validate,
    write_record,
)
from tenter.harness import BUILTIN_TOOLS, load_script
from tenter.kernel import SYSTEM_CLOCK, TenterError

UNTRUSTED: Final = 6
"""The exit code of what is refused for want of trust (D§13)."""
MOST_NAMED: Final = 50
"""Lines of each list on a screen."""


def trusted_project(config: str) -> Trusted:
    """The project, for a verb that runs it. Raises ConfigError for a wrong file first, and then Untrusted."""
    try:
        return require_trust(config, builtin_tools=BUILTIN_TOOLS)
    except Untrusted:
        check_all(config)
        raise


def check_all(config: str) -> None:
    """Raises ConfigError with all that `hooks validate` finds wrong."""
    if problems := validate(config, builtin_tools=BUILTIN_TOOLS, check_script=load_script):
        raise ConfigError(problems)


def trust_note(state: Trusted | Untrusted) -> list[str]:
    """A line for who only looks at a project that is not trusted."""
    if isinstance(state, Trusted):
        return []
    why = {"new": "", "changed": ", it changed", "unusable record": ", its record does not count"}.get(state.why, "")
    file = state.now.pins.file
    return [one_line(f"untrusted{why}: nothing of {file} runs; '{state.verb}' shows what would", 300)]


def trust_verb(config: str, *, yes: bool, digest: bool, as_json: bool) -> int:
    """Shows what would run and records that the user trusts it; with `digest`, prints only that.

    Without a terminal there is nobody to ask: nothing is recorded then unless `yes` says it, and no stream is read.
    """
    check_all(config)
    now = trust_state(config, builtin_tools=BUILTIN_TOOLS).now
    # What the variable vouches for is to be recorded, too, if somebody asks for that.
    state = judge(now, {name: value for name, value in os.environ.items() if name != TRUST_VARIABLE})
    if isinstance(state, Untrusted) and state.why == "unreadable file":
        raise state
    if digest:
        click.echo(json_text({"digest": now.digest}) if as_json else now.digest)
        return 0
    refuse_inside("nobody vouches for themselves; trust the project from a shell of your own", config)
    is_asked = not yes and isinstance(state, Untrusted)
    asks = is_asked and sys.stdin.isatty()
    masking = mask_of(config)
    if asks or not as_json:
        for line in described(now, state):
            click.echo(masking(line), err=as_json)
    accepted = not is_asked or (asks and click.confirm("Trust this?", err=as_json))
    recorded = accepted and isinstance(state, Untrusted)
    if recorded:
        write_record(now, SYSTEM_CLOCK.now())
    if as_json:
        click.echo(json_text(masked(_document(now, state, accepted=accepted, recorded=recorded), masking)))
    if not (as_json and accepted):
        click.echo(masking(one_line(_ending(state, accepted=accepted, asked=asks), 500)), err=not accepted)
    if accepted:
        return 0
    return 1 if asks else UNTRUSTED


def trust_new(config: str) -> str:
    """Trusts what was written a moment ago, for `tenter init`; why it could not, empty where it did."""
    if (inside := inside_of()) is not None:
        return f"{inside} is set"
    try:
        write_record(trust_state(config, builtin_tools=BUILTIN_TOOLS).now, SYSTEM_CLOCK.now())
    except TenterError as error:
        return str(error)
    return ""


def described(now: Footprint, state: Trusted | Untrusted) -> Iterator[str]:
    """What a project would run, the files that this names, and what changed."""
    rows = [(code.kind, code.name, code.runs) for code in now.named]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    if rows:
        yield one_line(f"{now.path} names what runs:", 300)
    yield from _bounded(f"  {kind:{widths[0]}}  {one_line(name):{widths[1]}}  {runs}" for kind, name, runs in rows)
    if now.files:
        yield "and these files of the project for it:"
    yield from _bounded(
        f"  {short(facts.digest)}  {name}{f' -> {facts.link}' if facts.link else ''}"
        for name, facts in now.files.items()
    )
    if isinstance(state, Untrusted) and state.changes:
        yield "since you trusted it, this changed:"
        yield from _bounded((f"  {change}" for change in state.changes), MOST_CHANGES)


def _bounded(lines: Iterable[str], most: int = MOST_NAMED) -> Iterator[str]:
    every = list(lines)
    yield from (one_line(line, 200) for line in every[:most])
    if len(every) > most:
        yield f"  and {len(every) - most} more; --json has all"


def _ending(state: Trusted | Untrusted, *, accepted: bool, asked: bool) -> str:
    file = state.now.pins.file
    if isinstance(state, Trusted):
        is_empty = state.ground == "no code"
        return f"{file} names no code: there is nothing to trust" if is_empty else f"{file} is as you trusted it"
    if accepted:
        return f"trusted: {file} ({state.now.digest})"
    told = f"{file} is not trusted, and nothing was recorded"
    if asked:
        return told
    return (
        f"{told}: there is no terminal to ask on; '{state.verb} --yes' trusts it as it is now, '{state.verb} --digest' "
        f"prints what to set {TRUST_VARIABLE} to where no person can look (CI)"
    )


def _document(now: Footprint, state: Trusted | Untrusted, *, accepted: bool, recorded: bool) -> Mapping[str, object]:
    return {
        "path": now.path,
        "digest": now.digest,
        "trusted": accepted,
        "recorded": recorded,
        "named": [
            {"kind": code.kind, "name": code.name, "runs": code.runs, "files": [file.path for file in code.files]}
            for code in now.named
        ],
        "files": {name: {"digest": facts.digest, "link": facts.link} for name, facts in now.files.items()},
        "changes": [
            {"what": one.what, "name": one.name, "before": one.before, "after": one.after}
            for one in (state.changes if isinstance(state, Untrusted) else ())
        ],
    }
