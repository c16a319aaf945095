"""`tenter loop`: runs an agent again and again, and looks at and steers loops from other processes (D§13).

The words of the command line are here; what each verb does is in a file of its own, loaded when it is used.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import click

from tenter.cli.command_line import TAKEN_BY_ITSELF
from tenter.cli.masking import Masking
from tenter.cli.options import config_option, json_option

loops_option = click.option(
    "--config",
    "-c",
    default=None,
    help="A configuration of the repository whose loops are meant. [default: the working folder's repository]",
)
P = ParamSpec("P")
R = TypeVar("R")


def about_a_loop(verb: Callable[Concatenate[list[Masking], P], R]) -> Callable[P, R]:
    """A verb about one loop: what it takes from the command line beside what is its own."""
    return click.argument("loop_id", metavar="LOOP")(loops_option(json_option(click.pass_obj(verb))))


@click.group()
def loop() -> None:
    """Run an agent again and again until it is done, with hooks at each boundary."""


@loop.command()
@config_option
@click.option("--task", default=None, help="Work on this task of the configuration.")
@click.option("--prompt", default=None, help="Work on this.")
@click.option("--prompt-file", default=None, help='Work on what this file says ("-": standard input).')
@click.option("--max-iterations", type=click.IntRange(min=1, max=2**53 - 1), help="Iterations until it ends.")
@click.option("--exclusive", is_flag=True, help="Wait while another loop has the project, and work in place.")
@click.option("--skip-preflight", is_flag=True, help="Start without the checks.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and start nothing.")
@json_option
@click.pass_obj
def run(masks: list[Masking], **options: object) -> int:
    """Run a loop: its exit code says how it ended.

    0 completed or cancelled, 1 any other reason, 2 a limit was reached (or a mistake, and nothing was started),
    3 a restart was asked for, 5 escalated, 6 untrusted, 130 interrupted.
    """
    from tenter.cli.loop_run import run_verb

    return run_verb(options, masks[-1])


@loop.command(name="list")
@click.option("--all", "every", is_flag=True, help="Those that have ended, too.")
@loops_option
@json_option
def list_(*, every: bool, config: str | None, as_json: bool) -> None:
    """List the loops of the repository that run, are suspended, or crashed."""
    from tenter.cli.loop_list import list_verb

    list_verb(config, every=every, as_json=as_json)


@loop.command()
@about_a_loop
def show(masks: list[Masking], loop_id: str, *, config: str | None, as_json: bool) -> None:
    """Show where LOOP (its id, or the beginning of it) stands."""
    from tenter.cli.loop_show import show_verb
    from tenter.cli.loops import named_loop

    show_verb(named_loop(config, loop_id, masks), as_json=as_json)


@loop.command()
@click.option("--follow", "-f", is_flag=True, help="Go on until the loop has ended.")
@about_a_loop
def logs(masks: list[Masking], loop_id: str, *, follow: bool, config: str | None, as_json: bool) -> None:
    """Print what the agent of LOOP has put out."""
    from tenter.cli.loop_logs import logs_verb
    from tenter.cli.loops import named_loop

    if follow and as_json:
        raise click.UsageError("--follow prints lines as they come, --json one document at the end; take one of them")
    logs_verb(named_loop(config, loop_id, masks), follow=follow, as_json=as_json)


@loop.command()
@about_a_loop
def stop(masks: list[Masking], loop_id: str, *, config: str | None, as_json: bool) -> int:
    """End LOOP, wherever it is; exit code 1 where it has not ended within 30 seconds."""
    from tenter.cli.loop_steer import stop_verb
    from tenter.cli.loops import named_loop

    return stop_verb(named_loop(config, loop_id, masks), as_json=as_json)


@loop.command()
@about_a_loop
def restart(masks: list[Masking], loop_id: str, *, config: str | None, as_json: bool) -> int:
    """End LOOP with exit code 3, which asks whoever started it to start it again."""
    from tenter.cli.loop_steer import restart_verb
    from tenter.cli.loops import named_loop

    return restart_verb(named_loop(config, loop_id, masks), as_json=as_json)


@loop.command()
@about_a_loop
def resume(masks: list[Masking], loop_id: str, *, config: str | None, as_json: bool) -> int:
    """Let a suspended LOOP go on; where its process is gone, it goes on in this one.

    This is for people: inside a run or a loop it is refused. The exit code is 1 then, and where LOOP has not gone on
    within 5 seconds, or ended instead.
    """
    from tenter.cli.loop_steer import resume_verb
    from tenter.cli.loops import named_loop

    return resume_verb(named_loop(config, loop_id, masks), as_json=as_json)


@loop.command()
@about_a_loop
@click.argument("text")
def answer(masks: list[Masking], loop_id: str, text: str, *, config: str | None, as_json: bool) -> int:
    """Answer the question of LOOP with TEXT. This is for people: inside a run or a loop it is refused."""
    from tenter.cli.loop_steer import answer_verb
    from tenter.cli.loops import named_loop

    return answer_verb(named_loop(config, loop_id, masks), text, as_json=as_json)


@loop.command()
@config_option
@click.option("--check", default=None, help="Only this check.")
@json_option
def preflight(*, config: str, check: str | None, as_json: bool) -> int:
    """Check all that a loop needs, and start nothing."""
    from tenter.cli.loop_preflight import preflight_verb

    return preflight_verb(config, check, as_json=as_json)


@loop.command()
@click.argument("loop_ids", metavar="[LOOP]...", nargs=-1)
@loops_option
@json_option
@click.pass_obj
def prune(masks: list[Masking], loop_ids: tuple[str, ...], *, config: str | None, as_json: bool) -> int:
    """Remove what loops that are over left: all of them, or only LOOP; commits and changed files are kept.

    A loop that crashed could be resumed, so it is removed only where it is named.
    """
    from tenter.cli.loop_prune import prune_verb
    from tenter.cli.loops import loops_of, named_loop

    found = [named_loop(config, loop_id, masks) for loop_id in loop_ids]
    rows = [one.row for one in found]
    return prune_verb(loops_of(config), rows, config=config or TAKEN_BY_ITSELF, as_json=as_json)
