"""`tenter approvals`: what waits for a person, and the decision on it (D§6, D§13).

Deciding only records: `tenter resume` goes on with the run then. A gate that is meant for a person is opened by nobody
whom it holds up: inside a run, a hook, a tool or a loop nothing is decided (see `inside`).
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

import click

from tenter.cli.masking import Masking
from tenter.cli.options import config_option, json_option, workspace_option

P = ParamSpec("P")


def deciding(verb: Callable[Concatenate[list[Masking], P], int]) -> Callable[P, int]:
    """A verb that decides: what it takes from the command line beside what is its own."""
    named = json_option(workspace_option(config_option(click.pass_obj(verb))))
    for option in (
        click.option("--by", default=None, metavar="NAME", help="Who decides. [default: the login name]"),
        click.option("--reason", default="", help="Why; it goes on record."),
        click.argument("request_id", metavar="[ID]", default=""),
        click.argument("run_id", metavar="RUN"),
    ):
        named = option(named)
    return named


@click.group()
def approvals() -> None:
    """What waits for a person, and the decision on it.

    RUN and ID may be the beginnings of ids; ID is needed only where RUN asks for more than one decision.
    """


@approvals.command(name="list")
@click.option("--all", "every", is_flag=True, help="What was decided or withdrawn, too.")
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=50, show_default=True, help="At most so many.")
@click.option("--after", metavar="CURSOR", default=None, help="Go on behind the page that gave this cursor.")
@config_option
@json_option
def list_(*, every: bool, limit: int, after: str | None, config: str, as_json: bool) -> None:
    """List what waits for a person, the longest waiting first."""
    from tenter.cli.approvals_list import list_verb

    list_verb(config, every=every, limit=limit, after=after, as_json=as_json)


@approvals.command(short_help="Show what RUN asks for, and how to answer.")
@click.argument("run_id", metavar="RUN")
@click.argument("request_id", metavar="[ID]", default="")
@config_option
@json_option
def show(run_id: str, request_id: str, *, config: str, as_json: bool) -> None:
    """Show what RUN asks for: the exact call, every reason, what may be edited, until when, and how to answer."""
    from tenter.cli.approvals_show import show_verb

    show_verb(config, run_id, request_id, as_json=as_json)


@approvals.command(short_help="Let RUN do exactly what it asks for.")
@deciding
def approve(masks: list[Masking], **options: object) -> int:
    """Let RUN do exactly what it asks for; 'tenter resume RUN' goes on then.

    This is for people: inside a run or a loop it is refused. The exit code is 1 where nothing could be decided;
    where time was up, that of the run, which is brought to its end.
    """
    from tenter.cli.approvals_decide import decide_verb

    return decide_verb("approve", masks, options)


@approvals.command(short_help="Refuse what RUN asks for, which ends it.")
@deciding
def reject(masks: list[Masking], **options: object) -> int:
    """Refuse what RUN asks for; 'tenter resume RUN' brings it to its end, blocked.

    This is for people: inside a run or a loop it is refused. The exit code is 1 where nothing could be decided;
    where time was up, that of the run, which is brought to its end.
    """
    from tenter.cli.approvals_decide import decide_verb

    return decide_verb("reject", masks, options)


@approvals.command(short_help="Let RUN do what it asks for with other values.")
@click.option(
    "--set", "words", multiple=True, required=True, metavar="NAME=JSON", help="A new value; text where no JSON."
)
@deciding
def edit(masks: list[Masking], **options: object) -> int:
    """Let RUN do what it asks for with other values, which are checked as the first ones were.

    This is for people: inside a run or a loop it is refused. The exit code is 1 where nothing could be decided;
    where time was up, that of the run, which is brought to its end.
    """
    from tenter.cli.approvals_decide import decide_verb

    return decide_verb("edit", masks, options)
