"""`tenter emit`: how an agent inside a loop publishes an event. It loads no event loop, for an agent may emit often."""

import os
import sys
import time
from pathlib import Path
from typing import NoReturn

import click

from tenter.cli.options import json_option
from tenter.cli.texts import json_text, one_line
from tenter.kernel import TenterError
from tenter.loop import EVENTS_VARIABLE, MOST_PAYLOAD, event_document, is_topic, publish
from tenter.wire import NotJson, one_value


@click.command()
@click.argument("topic")
@click.argument("payload", required=False)
@json_option
def emit(topic: str, payload: str | None, *, as_json: bool) -> None:
    """Publish an event of a TOPIC, such as build.done, to the loop around this process.

    PAYLOAD is a text of at most 1 MiB, '-' for what comes on standard input (without its last line end), or nothing;
    write '--' before one that begins with a dash. With --json it is one JSON value, and the event is printed as one
    JSON document.
    """
    path = _events_file()
    if not is_topic(topic):
        _refuse(
            f"{one_line(topic)!r} is no topic; expected words of letters, digits, '_' and '-', joined by dots, at most"
            " 200 characters, such as build.done"
        )
    value, at = _value(_bytes(payload), as_json=as_json), time.time()
    try:
        publish(path, topic, value, at=at)
    except TenterError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json_text(event_document(topic, value, at=at)))


def _events_file() -> Path:
    name = os.environ.get(EVENTS_VARIABLE, "")
    if not name:
        _refuse(
            f"'tenter emit' works only inside a loop, whose agent has the variable {EVENTS_VARIABLE}; start one with"
            " 'tenter loop run'"
        )
    if not os.path.isabs(name):  # noqa: PTH117  # a text that may be anything
        _refuse(
            f"the variable {EVENTS_VARIABLE} must be an absolute path, not {one_line(name)!r}; leave it as it was set"
        )
    return Path(name)


def _bytes(payload: str | None) -> bytes | None:
    """The payload as it came."""
    if payload != "-":
        data = None if payload is None else os.fsencode(payload)
    else:
        data = sys.stdin.buffer.read(MOST_PAYLOAD + 2).removesuffix(b"\n")
    if data is not None and len(data) > MOST_PAYLOAD:
        _refuse(f"the payload has more than {MOST_PAYLOAD} bytes (1 MiB); put it into a file and publish its name")
    return data


def _value(data: bytes | None, *, as_json: bool) -> object:
    if data is None:
        return None
    if not as_json:
        return data.decode("utf-8", "backslashreplace")
    try:
        return one_value(data)
    except NotJson as error:
        _refuse(f"the payload is not one JSON value: {error}; without --json it is taken as a text")


def _refuse(why: str) -> NoReturn:
    raise TenterError(why)
