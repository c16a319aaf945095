"""Shortens text without giving away half a secret: what is known as one is masked while it still stands there whole.

Pure; what is masked is the caller's to say (D§3.4).
"""

from collections.abc import Callable
from typing import Final

from tenter.kernel import MASK

Masking = Callable[[str], str]

MARGIN: Final = 128 * 1024
"""Characters beyond a cut that are looked at: no variable of an environment is longer (MAX_ARG_STRLEN of Linux)."""


def shortened(text: str, limit: int, mask: Masking, *, is_cut: bool = False) -> str:
    """At most `limit` characters of `text`, masked; of `is_cut` text, whose rest is lost, MARGIN less.

    What stood whole within MARGIN beyond the cut is masked, even where only its beginning would have been shown.
    """
    seen = text[: limit + MARGIN]
    masked = mask(seen)
    # Masks are shorter than secrets: without this, half of one at the end of what was seen could move up into view.
    whole = len(masked) - MARGIN if is_cut or len(seen) < len(text) else len(masked)
    return masked[: max(0, min(limit, whole))]


def line_masking(text: str, mask: Masking) -> Masking:
    r"""How to mask a line of `text` (ended by `\n` alone), in which a secret of several lines is not seen as one."""
    masked = mask(text)
    if masked == text:
        return str
    kept = frozenset(masked.split("\n"))

    def mask_line(line: str) -> str:
        inside = line.removesuffix("\n")
        if inside in kept:
            return line
        shown = mask(inside)
        return (MASK if shown == inside else shown) + line[len(inside) :]

    return mask_line
