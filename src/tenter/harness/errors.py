"""What a tool raises to tell the model something."""

LONGEST_SHOWN = 200


class ToolError(Exception):
    """Raised by a tool; its text goes to the model as the error result: the culprit, what was expected, what to do."""


def shown(text: str) -> str:
    """`text` in quotes on one line, escaped, and cut where it is long, as errors name a culprit."""
    return repr(text) if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]!r}… ({len(text)} characters)"
