"""`tenter run`: one run of a task, with what its hooks decided (D§13)."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tenter.catalogue import Status
from tenter.cli.texts import escaped, one_line, seconds

if TYPE_CHECKING:
    from tenter.harness import RunResult

EXIT_CODES: Mapping[Status, int] = {
    "completed": 0,
    "failed": 1,
    "cancelled": 1,
    "blocked": 3,
    "awaiting_approval": 4,
    "escalated": 5,
    "pending": 1,
    "running": 1,
}


@click.command()
@click.argument("task")
@click.argument("input_", metavar="[INPUT]", default="")
@click.option("--config", "-c", default="tenter.yaml", show_default=True, help="The configuration file.")
@click.option("--workspace", "-w", default=None, help="The folder that the agent works in. [default: the file's]")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds until the run ends failed.")
@click.option("--steps/--no-steps", default=None, help="Show the steps as they happen. [default: on a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
def run(
    task: str,
    input_: str,
    *,
    config: str,
    workspace: str | None,
    timeout: float | None,  # noqa: ASYNC109  # seconds for the run, an option of the command line
    steps: bool | None,
    as_json: bool,
) -> int:
    """Run TASK on INPUT ("-": from standard input)."""
    text = sys.stdin.read() if input_ == "-" else input_
    show = not as_json and (sys.stderr.isatty() if steps is None else steps)
    result = asyncio.run(_run(Request(task, text, Path(config), workspace, timeout), show=show, as_json=as_json))
    return EXIT_CODES[result.status]


class Request(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    task: str
    text: str
    config: Path
    workspace: str | None
    timeout: float | None


async def _run(request: Request, *, show: bool, as_json: bool) -> "RunResult":
    from tenter.cli.screen import Screen, summary
    from tenter.harness import Harness
    from tenter.kernel import SYSTEM_CLOCK

    harness = Harness.from_file(request.config, workspace=request.workspace)
    async with harness:
        screen = Screen(harness.mask) if show else None
        deadline = None if request.timeout is None else SYSTEM_CLOCK.now() + request.timeout
        result = await harness.run(
            request.task, request.text, deadline=deadline, watcher=None if screen is None else screen.show
        )
        if as_json:
            click.echo(msgspec.json.encode(result))
        else:
            _tell(result, harness.mask(_said(result)))
            click.echo(summary(harness.runtime.links(), result.trace))
    return result


def _said(result: "RunResult") -> str:
    match result.status:
        case "awaiting_approval":
            asked = [f"  {reason.hook}: {reason.reason}" for request in result.approvals for reason in request.reasons]
            head = f"waiting for a person: {result.approvals[0].operation} ({result.approvals[0].id})"
            return "\n".join([head, *asked, "Answering a request comes with a later version; the request is on record."])
        case "completed":
            return str(result.output)
        case _:
            error = result.error
            hook = f" by the hook {error.details['hook']!r}" if error is not None and error.details.get("hook") else ""
            return f"{result.status}{hook}: {'' if error is None else error.message}"


def _tell(result: "RunResult", said: str) -> None:
    click.echo(escaped(said), err=result.status not in ("completed",))
    usage = f"{result.usage.input_tokens} + {result.usage.output_tokens} tokens"
    cost = f", ${result.cost_usd:.4f}" if result.cost_known else ""
    took = seconds(result.ended_at - result.started_at)
    click.echo(one_line(f"run {result.run_id}: {result.status} in {took}, {usage}{cost}"), err=True)
