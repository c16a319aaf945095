"""How text reaches a terminal: escaped, so that nothing in it is obeyed, and cut to a line."""

import json

from tenter.config import printable

LINE = 100


def escaped(text: str) -> str:
    """`text` with control characters and direction marks escaped; line ends stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def one_line(value: object, length: int = LINE) -> str:
    """A value on one line, escaped, cut to `length` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = printable(" ".join(text.split()))
    return text if len(text) <= length else text[: length - 1] + "…"


def seconds(duration: float) -> str:
    """A duration for people."""
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.1f} s"
