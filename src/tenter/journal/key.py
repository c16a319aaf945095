"""The key under which new streams are chained (D§10): where it comes from, and how a stream tells which one is its own.

Without a key whoever can write the journal can also write a chain that holds; with it, only who has the key. It hides
nothing of the entries.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from tenter.journal.entry import Stream
from tenter.journal.store import JournalError
from tenter.kernel import TenterError

KEY_VARIABLE: Final = "TENTER_JOURNAL_KEY"
"""The environment variable that holds the key."""

KEY_CHARACTERS: Final = 16
"""A key has at least so many: whoever has the journal can try short ones."""

_NUMBER_BYTES: Final = 6


def journal_key(environ: Mapping[str, str]) -> bytes | None:
    """The key that the environment names; None without one. Raises TenterError for one that is too short."""
    text = environ.get(KEY_VARIABLE)
    if text is None:
        return None
    if len(text) < KEY_CHARACTERS:
        raise TenterError(
            f"{KEY_VARIABLE} has {len(text)} characters and needs at least {KEY_CHARACTERS}; "
            "give a longer key (`openssl rand -hex 32` makes one), or unset it to journal without a key"
        )
    return text.encode(errors="surrogateescape")


def key_number(key: bytes | None) -> int:
    """What a stream keeps of its key, to tell it from another one: below 2^48; 0 for a stream without a key."""
    if key is None:
        return 0
    return int.from_bytes(hmac.digest(key, b"tenter journal key", "sha256")[:_NUMBER_BYTES]) or 1


def key_of(stream: Stream, kept: int, key: bytes | None) -> bytes | None:
    """The key of a stream that keeps the number `kept`: `key`, or None where the stream has none.

    Raises JournalError (`key`) when the stream is chained under a key and `key` is not that.
    """
    if not kept:
        return None
    if key_number(key) != kept:
        given = "another one" if key else "none"
        raise JournalError("key", f"{stream} was journaled under a key, {given} was given; set {KEY_VARIABLE} to it")
    return key
