"""Whether the call that a person would edit could be made, told before the decision goes on record. Pure.

Which fields may be edited at all is the journal's to say. The checks before a tool acts judge an edited call once more.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from tenter.catalogue import EVERY_FIELD, ApprovalRequest, ToolInfo, arguments_of
from tenter.controls import check_arguments
from tenter.journal import DecisionRefused
from tenter.wire import CanonicalError, digest

MOST_PROBLEMS: Final = 5


def check_edits(request: ApprovalRequest, edits: Mapping[str, object]) -> None:
    """Raises DecisionRefused (`not_editable`) where the call with these edits does not fit its tool's JSON Schema.

    Also for a value that no record can hold. Nothing is said where nothing is edited, nor of what may not be edited.
    """
    if not edits or (EVERY_FIELD not in request.editable and not set(edits) <= set(request.editable)):
        return
    problems = _problems(request, edits)
    if problems:
        more = f" (and {len(problems) - MOST_PROBLEMS} more)" if len(problems) > MOST_PROBLEMS else ""
        raise _refused(request, f"the edit does not fit: {'; '.join(problems[:MOST_PROBLEMS])}{more}")


def check_unmasked(request: ApprovalRequest, edits: Mapping[str, object], recorded: Mapping[str, object]) -> None:
    """Raises DecisionRefused (`not_editable`) where `recorded`, the edits without secrets, is not what was said.

    The call would be made with the mask.
    """
    if edits != recorded:
        raise _refused(
            request, "the edit holds a secret, which would stand on record; give the call the name of a variable"
        )


def _problems(request: ApprovalRequest, edits: Mapping[str, object]) -> list[str]:
    try:
        digest(edits)
        msgspec.json.encode(edits)
    except CanonicalError as error:
        return [str(error)]
    except UnicodeEncodeError:
        return ["a value cannot be written as UTF-8"]
    if (own := arguments_of(request)) is None:
        return []
    return check_arguments(_schema(request.call.get("tool")), {**own, **edits})


def _schema(tool: object) -> Mapping[str, object]:
    """That of the tool of a request; one that fits everything where the request tells of none."""
    if isinstance(tool, ToolInfo):
        return tool.parameters
    parameters = cast("Mapping[str, object]", tool).get("parameters") if isinstance(tool, Mapping) else None
    return cast("Mapping[str, object]", parameters) if isinstance(parameters, Mapping) else {}


def _refused(request: ApprovalRequest, text: str) -> DecisionRefused:
    return DecisionRefused("not_editable", f"the request {request.id!r}: {text}; nothing was decided")
