"""What a person decides on a request, as it goes on record: which fields, whose decision. It records nothing."""

import os
import pwd
from collections.abc import Mapping, Sequence
from typing import Final, cast

import click
import msgspec

from tenter.catalogue import EVERY_FIELD, TOOL_INVOKED, ApprovalRequest, arguments_of
from tenter.cli.masking import Masking, masked
from tenter.cli.texts import json_text, one_line
from tenter.wire import NotJson, one_value

LONGEST_NAME: Final = 60
"""Characters of a name in an error."""


def root_of(request: ApprovalRequest) -> str:
    """The run that is resumed when the request is decided."""
    return request.root_run_id or request.run_id


def fields_of(request: ApprovalRequest) -> Mapping[str, object]:
    """What could be edited, with its present value: the arguments of a tool call, or the fields of another event."""
    arguments = arguments_of(request)
    return request.call if arguments is None else arguments


def call_of(request: ApprovalRequest) -> Mapping[str, object]:
    """Exactly what is asked for: the tool call, its name first, or the fields of another event."""
    call = request.call.get("call")
    if not isinstance(call, Mapping):
        return request.call
    named = cast("Mapping[str, object]", call)
    first = [field for field in ("name", "arguments") if field in named]
    return {field: named[field] for field in (*first, *(field for field in named if field not in first))}


def editable_of(request: ApprovalRequest) -> tuple[str, ...]:
    """The names of what may be edited; where that is everything, of what is given and what the tool takes besides."""
    if EVERY_FIELD not in request.editable:
        return request.editable
    return tuple(dict.fromkeys((*fields_of(request), *_taken_by_tool(request))))


def _taken_by_tool(request: ApprovalRequest) -> Mapping[str, object]:
    """The arguments that the tool of a call takes, by its JSON Schema; none of another operation."""
    nothing: Mapping[str, object] = {}
    found = request.call if request.operation == TOOL_INVOKED.name else nothing
    for name in ("tool", "parameters", "properties"):
        inner = found.get(name)
        found = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else nothing
    return found


def edits_of(words: Sequence[str]) -> dict[str, object]:
    """The new values of `NAME=VALUE` words. Raises UsageError for another word, and a name twice."""
    edits: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--set wants NAME=VALUE, not {one_line(word, LONGEST_NAME)!r}")
        if name in edits:
            raise click.UsageError(f"--set names {one_line(name, LONGEST_NAME)!r} twice; say it once")
        edits[name] = value_of(text)
    return edits


def value_of(text: str) -> object:
    """What is meant by a value on a command line: JSON, or the text itself where it is none.

    Raises UsageError for JSON that no two readers take alike, such as an object with a key twice.
    """
    try:
        return one_value(text.encode())
    except UnicodeEncodeError:
        raise click.UsageError("a new value is not UTF-8; convert it first") from None
    except NotJson as error:
        if _is_json(text):
            raise click.UsageError(
                f"a new value is ambiguous: {error}; write it otherwise, or as a text in quotes"
            ) from None
        return text


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    except RecursionError:  # as deep as that it is nothing else, and no reader takes it
        return True
    return True


def refuse_secrets(edits: Mapping[str, object], mask: Masking) -> None:
    """Raises ClickException where a new value holds a told secret or a key, which no record may have.

    It is not masked instead: the call would be made with the mask.
    """
    for name, value in edits.items():
        whole = json_text(value)  # a secret may be a name in it, too
        if masked(value, mask) != value or mask(whole) != whole:
            raise click.ClickException(
                f"the new value of {one_line(name, LONGEST_NAME)!r} holds a secret, which would stand on record; "
                "nothing was decided. Give the call the name of a variable instead"
            )


def login_name() -> str:
    """Who this process belongs to, as the system knows it. Variables, which anybody sets, are not asked."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an entry, as in some containers
        return f"uid {os.getuid()}"
