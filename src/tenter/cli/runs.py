"""`tenter runs`: what the journal has of runs (D§13). What each verb does is in a file of its own.

`list`, `show` and `verify` read and change nothing.
"""

import click

from tenter.cli.masking import Masking
from tenter.cli.options import config_option, finite, json_option, workspace_option


@click.group()
def runs() -> None:
    """What ran, and how it ended."""


@runs.command(name="list")
@config_option
@json_option
@click.option("--last", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
def list_(config: str, *, as_json: bool, last: int) -> None:
    """List the runs of the project, the last one first."""
    from tenter.cli.runs_list import list_verb

    list_verb(config, last, as_json=as_json)


@runs.command()
@click.argument("run_id", metavar="RUN")
@config_option
@json_option
def show(run_id: str, *, config: str, as_json: bool) -> None:
    """Show what happened in RUN (its id, or the beginning of it)."""
    from tenter.cli.runs_show import show_verb

    show_verb(config, run_id, as_json=as_json)


@runs.command(short_help="End RUN cancelled.")
@click.argument("run_id", metavar="RUN")
@click.option("--reason", default="", help="Why; it goes on record.")
@click.option(
    "--accept",
    multiple=True,
    type=click.Choice(["holder"]),
    help="The process that has the run is of another machine, and gone.",
)
@config_option
@workspace_option
@json_option
@click.pass_obj
def cancel(masks: list[Masking], *, as_json: bool, **options: object) -> int:
    """End RUN cancelled, whether it runs, in whatever process, or waits for a person.

    The hooks of the project hear of it. Where the project is not trusted or cannot be used, the run is ended on record
    alone. Inside a run or a loop it is refused. The exit code is 1 where the run has not ended within 10 seconds.
    """
    from tenter.cli.runs_cancel import cancel_verb

    return cancel_verb(options, masks, as_json=as_json)


@runs.command(short_help="Check that records are as they were written.")
@click.argument("run_id", metavar="[RUN]", default="")
@click.option("--expect", metavar="HEAD", default=None, help="The journal head that RUN ended with, kept elsewhere.")
@config_option
@json_option
def verify(run_id: str, *, expect: str | None, config: str, as_json: bool) -> int:
    """Check that the record of RUN, or all that the journal holds, is as it was written, and listed as it stands there.

    The exit code is 1 where something is not, or cannot be checked. That the end of a record was cut off, and the
    listing changed with it, only --expect finds. Where a record was chained under a key, the variable
    TENTER_JOURNAL_KEY must hold it.
    """
    from tenter.cli.runs_verify import verify_verb

    return verify_verb(config, run_id, expect, as_json=as_json)


@runs.command(short_help="Remove the records of runs that ended long ago.")
@click.option(
    "--older-than",
    "days",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    callback=finite("days"),
    required=True,
    help="What ended more than so many days ago.",
)
@click.option(
    "--erase", is_flag=True, help="Take away what stands in the records, and keep the chain that proves them."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and take nothing away.")
@config_option
@json_option
def prune(*, days: float, erase: bool, dry_run: bool, config: str, as_json: bool) -> int:
    """Remove the records of runs that ended more than so many days ago; never of one that runs or waits.

    Inside a run or a loop it is refused. To --erase what was chained under a key, the variable TENTER_JOURNAL_KEY must
    hold that key: the record says at its end that it was erased. Where a run is left for that the exit code is 1.
    """
    from tenter.cli.runs_prune import prune_verb

    return prune_verb(config, days, erase=erase, dry=dry_run, as_json=as_json)
