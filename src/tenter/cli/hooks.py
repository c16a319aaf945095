"""`tenter hooks`: what will run where, whether the configuration is right, the documents, and what ran (D§13).

`list` and `validate` import nothing that the configuration names, run nothing, and load no event loop.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import click
import msgspec

from tenter.catalogue import CATALOGUE
from tenter.cli.hook_table import POINTS, point_row, switched_off, table
from tenter.cli.masking import Masking, mask, mask_of, masked
from tenter.cli.options import config_option, json_option
from tenter.cli.texts import json_text, one_line
from tenter.cli.trust import trust_note, trust_verb
from tenter.config import (
    Listing,
    Problem,
    Spec,
    Trusted,
    Untrusted,
    list_hooks,
    load,
    load_user,
    trust_state,
    user_file,
    validate,
)
from tenter.harness import BUILTIN_TOOLS, load_script
from tenter.kernel import TenterError, TextMask

LONGEST = 1000
"""Characters of a problem's line."""
MOST_NOTES = 20
"""Lines about what may be wrong."""


@click.group()
def hooks() -> None:
    """What runs at each point, and what ran."""


@hooks.command(name="list")
@click.argument("point", default="")
@click.option("--all", "every", is_flag=True, help="Show the points without hooks, too, and when each fires.")
@config_option
@json_option
def list_(point: str, *, every: bool, config: str, as_json: bool) -> None:
    """List the hooks at POINT, or at every point, in the order in which they run."""
    wanted = [CATALOGUE.resolve(point, "the command line")] if point else list(POINTS)
    spec, user = load(config, builtin_tools=BUILTIN_TOOLS), load_user()
    found = list_hooks(spec, user)
    state = trust_state(config, builtin_tools=BUILTIN_TOOLS)
    if isinstance(state, Untrusted):
        found = list_hooks(spec, user, trusted=False)
    names = {row.full_name for row in found.rows}
    shown = [one for one in wanted if every or point or one.name in names]
    listing = Listing(tuple(row for row in found.rows if row.full_name in {one.name for one in shown}), found.unlisted)
    if as_json:
        told = {"switched_off": switched_off(spec, user), "trusted": isinstance(state, Trusted)}
        _print_json({"points": list(map(point_row, shown)), **_builtins(listing), **told}, _mask(spec, user))
        return
    masking = _mask(spec, user)
    for line in table(listing, shown, every=every, config=config):
        click.echo(masking(line))
    for line in (*switched_off(spec, user), *trust_note(state)):
        click.echo(one_line(masking(line), LONGEST))


@hooks.command(name="validate")
@config_option
@json_option
def validate_(*, config: str, as_json: bool) -> int:
    """Check the configuration, and all that it names, without running any of it."""
    problems = validate(config, builtin_tools=BUILTIN_TOOLS, check_script=load_script)
    off = [] if problems else switched_off(load(config, builtin_tools=BUILTIN_TOOLS), load_user())
    state = None if problems else trust_state(config, builtin_tools=BUILTIN_TOOLS)
    notes = [] if state is None else _unseen(state)
    if as_json:
        trusted = None if state is None else isinstance(state, Trusted)
        said = {"ok": not problems, "problems": list(map(_problem, problems)), "switched_off": off, "trusted": trusted}
        _print_json({**said, "notes": notes}, mask_of(config))
    else:
        masking = mask_of(config) if problems else str
        for problem in problems:
            click.echo(one_line(masking(str(problem)), LONGEST))
        click.echo(_verdict(len(problems), config), err=bool(problems))
        for line in (*off, *([] if state is None else trust_note(state))):
            click.echo(one_line(line, LONGEST))
        _print_notes(notes, config)
    return 2 if problems else 0


@hooks.command(name="trust")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where there is no terminal.")
@click.option("--digest", is_flag=True, help="Only print the digest, for TENTER_TRUST; record nothing.")
@config_option
@json_option
def trust_(*, yes: bool, digest: bool, config: str, as_json: bool) -> int:
    """Show what the project would run, and record that you trust it as it is now."""
    if not digest:
        with contextlib.suppress(TenterError):  # what is wrong with the file is told in a moment
            _print_notes(_unseen(trust_state(config, builtin_tools=BUILTIN_TOOLS)), config, err=True)
    return trust_verb(config, yes=yes, digest=digest, as_json=as_json)


@hooks.command()
@click.argument("what", default="payload", metavar="[payload|verdict|POINT]")
@json_option
def schema(what: str, *, as_json: bool) -> None:
    """Print the JSON Schema of what a command gets on stdin, at any point or at POINT, or of its verdict."""
    from tenter.wire import event_schema, payload_schema, schema_text, verdict_schema

    match what:
        case "payload":
            made = payload_schema()
        case "verdict":
            made = verdict_schema()
        case _:
            made = event_schema(CATALOGUE.resolve(what, "the command line"))
    # A schema is JSON already; `--json` asks for nothing else.
    click.echo(json.dumps(made, sort_keys=True) if as_json else schema_text(made), nl=as_json)


@hooks.command()
@click.option("--run", "run_id", default="", help="Only of this run (its id, or the beginning of it).")
@click.option("--loop", "loop_id", default="", help="Only of this loop, all of them; with --json as its telemetry.")
@click.option("--last", type=click.IntRange(min=1), help="At most so many.  [default: 50, with --loop all]")
@config_option
@json_option
def log(*, run_id: str, loop_id: str, last: int | None, config: str, as_json: bool) -> None:
    """Show the runs of hooks outside the process, the last ones, in the order in which they began."""
    import asyncio

    from tenter.cli.hook_log import line, read_log, telemetry

    if run_id and loop_id:
        raise click.UsageError("--run and --loop exclude each other; give one of them")
    found = asyncio.run(read_log(Path(config), run_id=run_id, loop_id=loop_id, last=last))
    if as_json:
        click.echo(json_text(list(map(telemetry, found)) if loop_id else found))
        return
    for execution in found:
        click.echo(line(execution))
    if not found:
        click.echo("no hook ran outside the process yet", err=True)


def _verdict(problems: int, config: str) -> str:
    if problems:
        return f"{problems} problem{'s' if problems > 1 else ''}"
    files = [config, *([str(users)] if (users := user_file()) is not None else ())]
    return one_line(f"ok: {' and '.join(files)}", LONGEST)


def _unseen(state: Trusted | Untrusted) -> list[str]:
    """A line for each word that looks like a file of the project, and where trust finds none."""
    return [
        f"note: {code.kind} {code.name}: there is nothing at {word!r}; where that is a file that runs, name it as it "
        "is found from the working folder, or a change of it is not seen"
        for code in state.now.named
        for word in code.unseen
    ]


def _print_notes(notes: Sequence[str], config: str, *, err: bool = False) -> None:
    masking = mask_of(config)
    for note in notes[:MOST_NOTES]:
        click.echo(one_line(masking(note), LONGEST), err=err)
    if len(notes) > MOST_NOTES:
        click.echo(f"and {len(notes) - MOST_NOTES} more notes", err=err)


def _problem(problem: Problem) -> dict[str, object]:
    where = problem.where
    return {
        "file": where.file,
        "line": where.line,
        "column": where.column,
        "path": list(problem.path),
        "message": problem.message,
        "hint": problem.hint,
    }


def _builtins(listing: Listing) -> Mapping[str, object]:
    return cast("Mapping[str, object]", msgspec.to_builtins(listing))


def _mask(*specs: Spec | None) -> Masking:
    """Takes out of a text what is, or looks like, a secret; the files' own `secrets` are."""
    names = {name for spec in specs if spec is not None for name in spec.secrets}
    told, guessed = TextMask([os.environ[name] for name in sorted(names) if name in os.environ]), mask()
    return lambda text: guessed(told.mask(text))


def _print_json(value: object, masking: Masking) -> None:
    click.echo(json_text(masked(value, masking)))
