"""`tenter loop stop`, `restart`, `resume` and `answer`: asks a loop in another process and tells what came of it.

A loop whose process is gone cannot be asked. It goes on in this process, which then is as `loop run`: it tells of the
loop as it goes, and its exit code is the loop's, or 0 where it ends as it was asked to. What is a person's to decide,
no agent, hook or tool does.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.cli.command_line import completed
from tenter.cli.inside import refuse_inside
from tenter.cli.loop_run import exit_code, in_foreground, naming
from tenter.cli.loops import Found
from tenter.cli.masking import masked
from tenter.cli.texts import escaped, json_text, one_line

if TYPE_CHECKING:
    from tenter.loop import Asking, Listener, LoopResult, Reason, ReleaseHow, Steered

QUIET_SECONDS: Final = 2.0
"""How long a loop may be silent before it is said that it is waited for."""
LONGEST: Final = 1000
"""Characters of a line."""

Steering = Coroutine[object, object, "Steered"]


def resume_verb(found: Found, *, as_json: bool) -> int:
    """Lets the loop go on. The exit code is 1 when it has not gone on, and when its state cannot be read."""
    from tenter.loop import PATIENCE_SECONDS, resume

    refuse_inside("what holds a loop up is a person's to decide; resume it from a shell of your own")
    return _steer(found, resume(found.registry, found.row), within=PATIENCE_SECONDS, as_json=as_json)


def stop_verb(found: Found, *, as_json: bool) -> int:
    """Ends the loop. The exit code is 1 when it has not ended."""
    from tenter.loop import END_SECONDS, stop

    return _steer(found, stop(found.registry, found.row), within=END_SECONDS, as_json=as_json, asked="stop")


def restart_verb(found: Found, *, as_json: bool) -> int:
    """Ends the loop for a restart. The exit code is 1 when it has not ended, or in another way."""
    from tenter.loop import END_SECONDS, restart

    return _steer(found, restart(found.registry, found.row), within=END_SECONDS, as_json=as_json, asked="restart")


def answer_verb(found: Found, text: str, *, as_json: bool) -> int:
    """Answers the loop's question, also with what is none of its options. The exit code is 1 when there is none."""
    from tenter.loop import PATIENCE_SECONDS, answer

    refuse_inside("a question to a person is a person's to answer; answer it from a shell of your own")
    options = () if found.row.question is None else found.row.question.asked.options
    if options and text not in options:
        told = found.mask(f"{text!r} is none of the options: {' / '.join(options)}")
        click.echo(one_line(told, LONGEST), err=True)
    return _steer(found, answer(found.registry, found.row, text), within=PATIENCE_SECONDS, as_json=as_json)


def _steer(found: Found, steering: Steering, *, within: float, as_json: bool, asked: "ReleaseHow" = "resume") -> int:
    from tenter.loop import StateUnreadable

    try:
        steered = asyncio.run(_heard(found, steering, within))
    except StateUnreadable as error:
        raise click.ClickException(str(error)) from error
    if steered.result == "continue":
        click.echo(escaped(found.mask(completed(steered.message, found.config))), err=True)
        return _go_on_here(found, asked, as_json=as_json)
    return _print(found, steered, as_json=as_json)


async def _heard(found: Found, steering: Steering, within: float) -> "Steered":
    """What the loop decides; where that takes its time, it is told how long it may take."""
    asked = asyncio.ensure_future(steering)
    done, _ = await asyncio.wait([asked], timeout=QUIET_SECONDS)
    if not done:
        click.echo(f"waiting for the loop {found.row.loop_id}, up to {within:g} s", err=True)
    return await asked


def _print(found: Found, steered: "Steered", *, as_json: bool) -> int:
    message = completed(steered.message, found.config)
    if as_json:
        document = {"loop_id": found.row.loop_id, "result": steered.result, "message": message}
        click.echo(json_text(masked(document, found.mask)))
    else:
        click.echo(escaped(found.mask(message)))
    return 0 if steered.done else 1


def _go_on_here(found: Found, asked: "ReleaseHow", *, as_json: bool) -> int:
    from tenter.loop import StateUnreadable, Steered, TakenOver

    async def start(tell: "Listener", asking: "Asking | None") -> "LoopResult":
        from tenter.loop import continue_loop

        return await continue_loop(found.row, tell=naming(found.config, tell), asking=asking, asked=asked)

    def code(reason: "Reason") -> int:
        return _code(asked, reason)

    try:
        return in_foreground(start, found.mask, as_json=as_json, head={"result": "continued"}, code=code)
    except StateUnreadable as error:
        raise click.ClickException(str(error)) from error
    except TakenOver as error:
        if asked == "resume":  # it goes on all the same
            return _print(found, Steered(result="already_requested", message=str(error)), as_json=as_json)
    now = msgspec.structs.replace(found, row=found.registry.row(found.row.loop_id) or found.row)
    return (stop_verb if asked == "stop" else restart_verb)(now, as_json=as_json)  # whoever has it can be asked


def _code(asked: "ReleaseHow", reason: "Reason") -> int:
    """The exit code of a loop that came to its end here: 0 where that is what it was asked for."""
    if (asked, reason) in (("stop", "stopped"), ("restart", "restart_requested")):
        return 0
    return exit_code(reason) or (1 if asked == "restart" else 0)
