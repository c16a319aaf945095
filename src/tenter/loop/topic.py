"""What an event of a loop is about: words joined by dots, and patterns of these. Knows no event."""

import re
from typing import Final

from tenter.config import TOPIC

CANCEL: Final = "loop.cancel"
"""Ends the loop."""
ASK: Final = "human.interact"
"""Puts a question to a person."""

_TOPIC: Final = re.compile(TOPIC)


def is_topic(text: str) -> bool:
    """Whether `text` can be the topic of an event."""
    return _TOPIC.fullmatch(text) is not None


def matches(pattern: str, topic: str) -> bool:
    """Whether `topic` is one of those that `pattern` means, in which `*` stands for any one word between dots."""
    if "*" not in pattern:
        return pattern == topic
    wanted, words = pattern.split("."), topic.split(".")
    return len(wanted) == len(words) and all(want in ("*", word) for want, word in zip(wanted, words, strict=True))
