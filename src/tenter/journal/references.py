"""What a canonical form names and does not hold: the digests in its marks (see `wire`). Pure, and bounded in memory."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tenter.wire import PREFIX

_MARK: Final = re.compile(rb'"\$(?:sha256|document)":"([0-9a-f]{64})"')
_LONGEST: Final = 84
"""Bytes of the longest mark, which may stand across two parts."""


def references(parts: Iterable[bytes]) -> Iterator[str]:
    """The digests that stand in the marks of a canonical form, cut into parts anywhere; one may come twice.

    Text is never taken for a mark, as its quotation marks are escaped. In a large text, which is no canonical form but
    the text itself, something may look like one.
    """
    rest = b""
    for part in parts:
        rest += part
        end = 0
        for found in _MARK.finditer(rest):
            yield PREFIX + found[1].decode()
            end = found.end()
        rest = rest[max(end, len(rest) - _LONGEST) :]
