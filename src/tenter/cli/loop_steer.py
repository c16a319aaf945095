"""`tenter loop stop`, `restart`, `resume` and `answer`: asks a loop in another process and tells what came of it.

A loop whose process is gone cannot be asked. It goes on in this process, which then is as `loop run`: it tells of the
loop as it goes, and its exit code is the loop's.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING

import click

from tenter.cli.loop_run import in_foreground
from tenter.cli.loops import Found
from tenter.cli.masking import masked
from tenter.cli.texts import escaped, json_text
from tenter.kernel import TenterError

if TYPE_CHECKING:
    from tenter.loop import Asking, Listener, LoopResult, Steered

Steering = Coroutine[object, object, "Steered"]


def resume_verb(found: Found, *, as_json: bool) -> int:
    """Lets the loop go on. The exit code is 1 when it was ended instead, and when its state cannot be read."""
    from tenter.loop import resume

    return _steer(found, resume(found.registry, found.row), as_json=as_json)


def stop_verb(found: Found, *, as_json: bool) -> int:
    """Ends the loop."""
    from tenter.loop import stop

    return _steer(found, stop(found.registry, found.row), as_json=as_json)


def restart_verb(found: Found, *, as_json: bool) -> int:
    """Ends the loop for a restart. The exit code is 1 when it ended in another way."""
    from tenter.loop import restart

    return _steer(found, restart(found.registry, found.row), as_json=as_json)


def answer_verb(found: Found, text: str, *, as_json: bool) -> int:
    """Answers the loop's question. The exit code is 1 when there is none."""
    from tenter.loop import answer

    return _steer(found, answer(found.registry, found.row, text), as_json=as_json)


def _steer(found: Found, steering: Steering, *, as_json: bool) -> int:
    from tenter.loop import StateUnreadable

    try:
        steered = asyncio.run(steering)
    except StateUnreadable as error:
        raise click.ClickException(str(error)) from error
    if steered.result == "continue":
        click.echo(escaped(found.mask(steered.message)), err=True)
        return _go_on_here(found, as_json=as_json)
    return _print(found, steered, as_json=as_json)


def _print(found: Found, steered: "Steered", *, as_json: bool) -> int:
    if as_json:
        document = {"loop_id": found.row.loop_id, "result": steered.result, "message": steered.message}
        click.echo(json_text(masked(document, found.mask)))
    else:
        click.echo(escaped(found.mask(steered.message)))
    return 0 if steered.done else 1


def _go_on_here(found: Found, *, as_json: bool) -> int:
    from tenter.loop import StateUnreadable, Steered

    async def start(tell: "Listener", asking: "Asking | None") -> "LoopResult":
        from tenter.loop import continue_loop

        return await continue_loop(found.row, tell=tell, asking=asking)

    try:
        return in_foreground(start, found.mask, as_json=as_json, head={"result": "continued"})
    except StateUnreadable as error:
        raise click.ClickException(str(error)) from error
    except TenterError as error:
        if not _taken_by_another(found):
            raise
        return _print(found, Steered(result="already_requested", message=str(error)), as_json=as_json)


def _taken_by_another(found: Found) -> bool:
    """Whether another process took the loop over since it was looked up: then it goes on all the same."""
    from tenter.loop import this_process

    row = found.registry.row(found.row.loop_id)
    return row is not None and row.process not in (found.row.process, this_process())
