"""`tenter resume`: goes on with a run that waits for a person, or whose process is gone (D§3.9, D§13).

As with `tenter run`, standard output gets the result and nothing else.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tenter.cli.foreground import Words, in_foreground, trusted
from tenter.cli.inside import refuse_inside
from tenter.cli.masking import Masking
from tenter.cli.options import config_option, steps_option, workspace_option

if TYPE_CHECKING:
    from tenter.harness import Harness, RunResult, Watcher


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="Go on although this changed: task, models, tools, hooks, policy, workspace, loop_version. Or 'holder': the "
    "process that has the run is of another machine, and gone.",
)
@config_option
@workspace_option
@steps_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.pass_obj
def resume(masks: list[Masking], run_id: str, *, accept: tuple[str, ...], **options: object) -> int:
    """Go on with RUN (its id, or the beginning of it): one that waits and was answered, or whose process is gone.

    This is for people: inside a run or a loop it is refused. What was done already is not done again.
    """
    words = msgspec.convert(options, Words)
    refuse_inside(
        "what waits for a person is a person's to go on with; resume it from a shell of your own", words.config
    )
    return resumed(words, masks, run_id, accept=accept)


def resumed(words: Words, masks: list[Masking], run_id: str, *, accept: tuple[str, ...] = ()) -> int:
    """Goes on with the run in this process, shows what comes of it and gives its exit code."""
    from tenter.cli.decisions import login_name
    from tenter.harness import ReplayDiverged, RunHeld

    pins = trusted(words.config)
    whole, workspace = asyncio.run(_whole(Path(words.config), run_id))
    words = msgspec.structs.replace(words, workspace=words.workspace or workspace)

    async def start(harness: "Harness", watcher: "Watcher") -> "RunResult":
        return await harness.resume(whole, by=login_name(), accept=accept, watcher=watcher)

    try:
        return in_foreground(words, masks, pins, start)
    except (RunHeld, ReplayDiverged) as error:
        raise click.ClickException(str(error)) from error


async def _whole(config: Path, named: str) -> tuple[str, str | None]:
    """The id and the workspace of the outermost run that the one with that name belongs to: a sub-run goes on with it
    alone. The workspace is None for the folder of the file.
    """
    from tenter.cli.journals import find_run, journal_of, outermost
    from tenter.harness import begun_in

    async with journal_of(config) as store:
        found = await find_run(store, named)
        assert store is not None, "a run was found"
        whole = await outermost(store, found)
        workspace = await begun_in(store, whole.stream)
    if whole != found:
        click.echo(f"the run {found.stream.id} is a part of the run {whole.stream.id}, which goes on", err=True)
    return whole.stream.id, workspace
