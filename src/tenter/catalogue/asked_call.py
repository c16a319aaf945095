"""The tool call that a request holds, as data: it was read from a record, and is not an event any more. Pure."""

from collections.abc import Mapping
from typing import cast

from tenter.catalogue.agents import TOOL_INVOKED
from tenter.catalogue.contracts import ApprovalRequest
from tenter.catalogue.envelope import EMPTY


def arguments_of(request: ApprovalRequest) -> Mapping[str, object] | None:
    """The arguments of the tool call that is asked for, none where they are text; None of another operation."""
    call = request.call.get("call")
    if request.operation != TOOL_INVOKED.name or not isinstance(call, Mapping):
        return None
    arguments = cast("Mapping[str, object]", call).get("arguments")
    return cast("Mapping[str, object]", arguments) if isinstance(arguments, Mapping) else EMPTY
