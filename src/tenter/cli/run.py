"""`tenter run`: one run of a task, with what its hooks decided (D§13)."""

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from tenter.cli.foreground import Words, in_foreground, trusted
from tenter.cli.masking import Masking
from tenter.cli.options import config_option, finite, steps_option, workspace_option

if TYPE_CHECKING:
    from tenter.harness import Harness, RunResult, Watcher


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is run, and within which limits."""

    task: str
    text: str
    principal: str | None
    timeout: float | None
    max_steps: int | None


@click.command()
@click.argument("task")
@click.argument("text", metavar="[INPUT]", default="")
@config_option
@workspace_option
@click.option(
    "--principal", metavar="NAME", default=None, help="For whom it runs; it goes on record. Tools may be for some only."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite("seconds"),
    help="Seconds until the run ends failed.",
)
@click.option("--max-steps", type=click.IntRange(min=1, max=2**53 - 1), help="Model calls until the run ends failed.")
@steps_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.pass_obj
def run(masks: list[Masking], **options: object) -> int:
    """Run TASK on INPUT ("-": from standard input)."""
    words, request = msgspec.convert(options, Words), msgspec.convert(options, Request)
    pins = trusted(words.config)
    if request.text == "-":
        request = msgspec.structs.replace(request, text=_standard_input())

    async def start(harness: "Harness", watcher: "Watcher") -> "RunResult":
        from tenter.catalogue import Limits
        from tenter.kernel import SYSTEM_CLOCK

        deadline = None if request.timeout is None else SYSTEM_CLOCK.now() + request.timeout
        max_steps = Limits().max_steps if request.max_steps is None else request.max_steps
        return await harness.run(
            request.task,
            request.text,
            principal=request.principal,
            deadline=deadline,
            max_steps=max_steps,
            watcher=watcher,
        )

    return in_foreground(words, masks, pins, start)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 (byte {error.start}); convert it first") from None
