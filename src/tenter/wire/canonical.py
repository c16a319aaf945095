"""The one byte form of a value, and the digest that names it (D§10; RFC 8785).

Everything that is digested (journal entries, messages, inputs, calls that a person approves) is digested over this
form, so two processes, two machines and two versions agree. It takes structs, mappings, tuples, lists, sets, text,
numbers, bytes and what msgspec can turn into these. JSON alone cannot say all of it, so four mappings with one key are
*marks*:

- `{"$sha256": hex}`: a string above 64 KB of UTF-8, by the SHA-256 of that UTF-8. The text is kept apart.
- `{"$document": hex}`: a `Document` (a value kept apart and stored once), by the SHA-256 of its canonical form.
- `{"$base64": text}`: bytes.
- `{"$text": text}`: a string with lone surrogates; in it a surrogate is `\\udXXX` and a backslash is doubled. As a key
  of a mapping such a string is `$text:` and that text.

A key that looks like a mark gets one more `$`, so nothing that a caller writes is taken for one. `restore` undoes all
of it. Tuples and sets come back as lists, structs as mappings, and a float without a fraction as the integer that RFC
8785 writes, which is equal to it. It knows nothing of events, entries or files.
"""

import base64
import functools
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import msgspec
import rfc8785

LARGE_TEXT: Final = 65_536
"""Bytes of UTF-8 above which a string enters as its SHA-256."""

MAX_LEVELS: Final = 200
"""How deep containers may nest."""

PART: Final = 1_000_000
"""Characters or bytes to a part. What is large is handled in parts, because no part may hold the interpreter lock for
long, and an event loop may run beside."""

PREFIX: Final = "sha256:"

Parts: TypeAlias = tuple[bytes, ...]
"""Bytes in parts; a text is cut between characters."""

Fetch: TypeAlias = Callable[[str], Parts | None]
"""Gives what was kept apart for a digest; None when it is not at hand."""

_MAX_INTEGER: Final = 2**53 - 1
_PLAIN_CHARACTERS: Final = LARGE_TEXT // 4  # of which no text can have more than 64 KB
_PLAIN_LEVELS: Final = 32
_NEVER_PLAIN: Final = (object(),)
_FAST_CHARACTERS: Final = 1_000_000  # msgspec holds the interpreter lock while it writes; the library goes in pieces
_LOOKS_LIKE_A_MARK: Final = re.compile(r"\$+(?:(?:sha256|document|base64|text)\Z|text:)")
_SURROGATE_OR_BACKSLASH: Final = re.compile(r"[\ud800-\udfff\\]")
_ESCAPED: Final = re.compile(r"\\(\\|u[0-9a-f]{4})")
_SEQUENCES: Final = (list, tuple)  # a union would be made anew at each look
_HOLDING: Final = frozenset({dict, list, int})  # what may have to be restored
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_decode = msgspec.json.Decoder().decode
_decode_whole = msgspec.json.Decoder(float_hook=lambda text: int(n) if (n := float(text)).is_integer() else n).decode


class CanonicalError(ValueError):
    """A value that has no canonical form. The text names the place in the value, the reason and the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"at {'.'.join(self.path)!r}: {self.reason}" if self.path else self.reason


class OversizeError(Exception):
    """The value holds more than the caller allows; raised before anything large was hashed or written."""


@final
class Document:
    """A value in canonical form. Inside another value it is written by its digest, and its bytes are kept apart."""

    __slots__ = ("data", "digest", "kept")

    data: bytes
    """The canonical form."""
    digest: str
    """`sha256:` and the hex SHA-256 of `data`."""
    kept: Mapping[str, Parts]
    """What `data` names and does not hold: large texts and documents within it, by digest, all levels down."""

    def __init__(self, value: object, *, at_most: int | None = None) -> None:
        """Raises `CanonicalError`; and `OversizeError` when `value` holds more than `at_most` characters and items."""
        documents: list[Document] = []
        data = _plain_form(value, _room_of(at_most), documents)
        if data is None:
            walk = _Walk(at_most)
            data = walk.write(value)
            self.kept = walk.kept
        else:
            self.kept = _kept_by(documents)
        self.data = data
        self.digest = digest_of_bytes(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Document({self.digest!r})"


@final
class Reference:
    """What stands in a restored value for content that was not fetched. Its canonical form is the mark it came from."""

    __slots__ = ("digest", "marks")

    def __init__(self, digest: str, *marks: str) -> None:
        """`marks` from the outside in: `$sha256` or `$document`, with `$base64` or `$text` around it where it was."""
        self.digest = digest
        self.marks = marks

    def mark(self) -> object:
        """The mark as it stands in the canonical form."""
        mark: object = self.digest.removeprefix(PREFIX)
        for name in reversed(self.marks):
            mark = {name: mark}
        return mark

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and (other.digest, other.marks) == (self.digest, self.marks)

    def __hash__(self) -> int:
        return hash((self.digest, self.marks))

    def __repr__(self) -> str:
        return f"Reference({', '.join(map(repr, (self.digest, *self.marks)))})"


def _mark_of(value: object) -> object:
    if isinstance(value, Document):
        return {"$document": value.digest.removeprefix(PREFIX)}
    raise NotImplementedError(type(value).__qualname__)


_encode_sorted = msgspec.json.Encoder(order="sorted", enc_hook=_mark_of).encode


def canonical(value: object) -> bytes:
    """The canonical form of `value`, with the marks above.

    Raises `CanonicalError` for integers past 2^53-1 (never rounded), NaN and infinities, keys that are not text, more
    than 200 levels, and objects of classes that msgspec does not know.
    """
    return _plain_form(value, _PLAIN_CHARACTERS, []) or _Walk(None).write(value)


def digest(value: object) -> str:
    """`sha256:` and the hex SHA-256 of `canonical(value)`. Raises as `canonical` does."""
    return digest_of_bytes(canonical(value))


def digest_of_bytes(*parts: bytes) -> str:
    """`sha256:` and the hex SHA-256 of the bytes themselves."""
    found = hashlib.sha256(parts[0] if parts else b"")
    for part in parts[1:]:
        found.update(part)
    return PREFIX + found.hexdigest()


def restore(data: bytes, fetch: Fetch, known: dict[str, object] | None = None) -> object:
    """The value that `data`, a canonical form, was made of; where `fetch` gives None, a `Reference` stands.

    What `known` holds by its digest is not fetched, and it takes the documents that are: one value then stands in many
    places, and nobody may change it. Raises `CanonicalError` when `data` is no canonical form.
    """
    try:
        value = _decode(data)
        return _Restoring(fetch, known).unmark(value) if _may_hold_marks(data) else value
    except CanonicalError:
        raise
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CanonicalError(f"these bytes are no canonical form ({error})") from error


def plain_form(value: object, *, at_most: int | None = None) -> bytes | None:
    """The canonical form of a short list, mapping or struct that needs no mark; None leaves any other value to a walk.

    Most of what a journal writes is like that, and this takes a fraction of a walk's time. `at_most` is that of
    `Document`.
    """
    return _plain_form(value, _room_of(at_most), None)


def _room_of(at_most: int | None) -> int:
    return _PLAIN_CHARACTERS if at_most is None else min(_PLAIN_CHARACTERS, at_most)


def _plain_form(value: object, room: int, documents: list[Document] | None) -> bytes | None:
    """As `plain_form`, within `room` characters; also of what holds documents where there is a list for them."""
    try:
        data = _encode_sorted(value) if _room_after(value, room, _PLAIN_LEVELS, documents) >= 0 else None
        return data if data is None or b".0" not in data else _encode_sorted(_decode_whole(data))
    except (TypeError, UnicodeEncodeError):  # a key that is no text; lone surrogates
        return None


def _room_after(value: object, room: int, levels: int, documents: list[Document] | None) -> int:
    """How many of `room` characters are left after a container; below 0 where there are none, or where anything in it
    is not written by msgspec as RFC 8785 does. What it holds of documents comes into the list."""
    items: Iterable[object]
    if isinstance(value, dict):
        mapping = cast("dict[str, object]", value)
        keys = "".join(mapping)
        room -= len(keys) + len(mapping)
        items = mapping.values() if keys.isascii() and "$" not in keys else _NEVER_PLAIN
    elif isinstance(value, _SEQUENCES):
        sequence = cast("Sequence[object]", value)
        items, room = sequence, room - len(sequence)
    elif isinstance(value, msgspec.Struct):
        items = msgspec.structs.astuple(value) if (names := _names_of(type(value))) >= 0 else _NEVER_PLAIN
        room -= names
    elif documents is not None and isinstance(value, Document):
        documents.append(value)
        return room
    else:
        return -1
    for item in cast("Iterable[Any]", items if levels else _NEVER_PLAIN):  # a cast of each takes longer than the look
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]  # of whatever stands there
        if kind is str:
            room -= len(item)
        elif kind is int:
            room = room if -_MAX_INTEGER <= item <= _MAX_INTEGER else -1
        elif kind is float:
            room = room if _has_common_form(item) else -1
        elif item is not None and kind is not bool:
            room = _room_after(item, room, levels - 1, documents)
        if room < 0:
            return -1
    return room


@functools.lru_cache(1024)
def _names_of(cls: type[msgspec.Struct]) -> int:
    """How long the names of its fields are; below 0 for a struct that may need a walk."""
    names = "".join(cls.__struct_encode_fields__)
    return len(names) + len(cls.__struct_fields__) if names.isascii() and "$" not in names else -1


def _has_common_form(value: float) -> bool:
    """Whether msgspec and RFC 8785 write the same digits, a last `.0` apart; hypothesis tests hold this line to it."""
    return 1e-4 <= abs(value) < 1e15 or not value


class _Walk:
    """One pass over a value: replaces what needs a mark, refuses what has no form, sees which writer is exact."""

    __slots__ = ("characters", "exact", "kept", "left", "levels")

    def __init__(self, at_most: int | None) -> None:
        self.kept: dict[str, Parts] = {}
        self.exact = False
        self.characters = 0
        self.left = at_most
        self.levels = 0

    def write(self, value: object) -> bytes:
        try:
            marked = self.mark(value)
            if self.exact or self.characters > _FAST_CHARACTERS:
                return rfc8785.dumps(marked)  # pyright: ignore[reportArgumentType]  # mark() leaves JSON values only
            return _encode_sorted(marked)
        except RecursionError as error:
            raise CanonicalError(f"nested more than {MAX_LEVELS} levels; flatten it") from error

    def mark(self, value: object) -> object:
        kind = type(value)
        if kind is str:
            return self.text(cast(str, value))
        if kind is int or kind is float:
            return self.number(cast(float, value))
        if value is None or kind is bool:
            return value
        if isinstance(value, dict):
            return self.mapping(cast(dict[object, object], value))
        if isinstance(value, list | tuple):
            return self.items(cast(Sequence[object], value))
        return self.other(value)

    def text(self, value: str) -> object:
        self.count(len(value))
        ascii_only = value.isascii()
        if len(value) <= LARGE_TEXT // 4 or (ascii_only and len(value) <= LARGE_TEXT):
            return value if ascii_only or not _has_surrogates(value) else {"$text": _escape(value)}
        try:
            parts = tuple([value[start : start + PART].encode() for start in range(0, len(value), PART)])
        except UnicodeEncodeError:
            return {"$text": self.text(_escape(value))}
        if sum(map(len, parts)) <= LARGE_TEXT:
            return value
        digest = digest_of_bytes(*parts)
        self.kept[digest] = parts
        return {"$sha256": digest.removeprefix(PREFIX)}

    def number(self, value: float) -> float:
        if type(value) is int:
            if -_MAX_INTEGER <= value <= _MAX_INTEGER:
                return value
            raise CanonicalError("an integer past 2^53-1 would be rounded by other readers; write it as text")
        if not math.isfinite(value):
            raise CanonicalError(f"{value} is no JSON number; write it as text or leave it out")
        if value.is_integer() and abs(value) <= _MAX_INTEGER:
            return int(value)  # as RFC 8785 writes it
        self.exact = self.exact or not _has_common_form(value)
        return value

    def mapping(self, value: dict[object, object]) -> object:
        self.enter(len(value))
        changed: dict[str, object] = {}
        key: object = None
        try:
            for key, item in value.items():
                name = self.key(key)
                marked = self.mark(item)
                if marked is not item or name is not key:
                    changed[name] = marked
        except CanonicalError as error:
            error.path = (str(key), *error.path)
            raise
        self.levels -= 1
        if not changed:
            return value
        return {name: changed.get(name, item) for key, item in value.items() for name in (_safe_key(cast(str, key)),)}

    def key(self, key: object) -> str:
        if not isinstance(key, str):
            raise CanonicalError(f"a key must be text, not {type(key).__qualname__!r}")
        self.count(len(key))
        if not key.isascii():
            self.exact = True  # RFC 8785 sorts by UTF-16, msgspec by UTF-8
        elif type(key) is str and "$" not in key:
            return key
        return _safe_key(key)

    def items(self, value: Sequence[object]) -> object:
        self.enter(len(value))
        items: list[object] = []
        same = True
        try:
            for item in value:
                marked = self.mark(item)
                same = same and marked is item
                items.append(marked)
        except CanonicalError as error:
            error.path = (str(len(items)), *error.path)
            raise
        self.levels -= 1
        return value if same else items

    def other(self, value: object) -> object:
        if isinstance(value, Document):
            self.kept |= _kept_by((value,))
            return _mark_of(value)
        if isinstance(value, Reference):
            return value.mark()
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(cast(bytes, value))
            self.count(len(data))
            return {"$base64": self.text(base64.b64encode(data).decode())}
        try:
            plain = msgspec.to_builtins(value, builtin_types=(bytes,), order="deterministic", enc_hook=_plain_text)
        except (TypeError, NotImplementedError, ValueError) as error:
            reason = (
                f"a value of {type(value).__qualname__!r} has no canonical form; use structs, mappings, lists, text"
            )
            raise CanonicalError(reason) from error
        return self.mark(plain)

    def count(self, characters: int) -> None:
        self.characters += characters
        if self.left is not None and self.characters > self.left:
            raise OversizeError(f"more than {self.left} characters")

    def enter(self, items: int) -> None:
        self.count(items)
        self.levels += 1
        if self.levels > MAX_LEVELS:
            raise CanonicalError(f"nested more than {MAX_LEVELS} levels; flatten it")


def _kept_by(documents: Iterable[Document]) -> dict[str, Parts]:
    """What is kept apart where these stand."""
    kept: dict[str, Parts] = {}
    for document in documents:
        kept |= document.kept
        kept[document.digest] = tuple(_cut(document.data))
    return kept


def _cut(data: bytes) -> Iterable[bytes]:
    return (data[start : start + PART] for start in range(0, len(data), PART))


def _plain_text(value: object) -> str:
    if isinstance(value, str):  # msgspec refuses subclasses of str
        return str.__str__(value)
    raise NotImplementedError(type(value).__qualname__)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _escape(text: str) -> str:
    return _SURROGATE_OR_BACKSLASH.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)


def _safe_key(key: str) -> str:
    if _has_surrogates(key):
        return "$text:" + _escape(key)
    return "$" + key if _LOOKS_LIKE_A_MARK.match(key) else str.__str__(key)


def _original_key(key: str) -> str:
    if key.startswith("$text:"):
        return _unescape(key.removeprefix("$text:"))
    return key[1:] if key.startswith("$$") and _LOOKS_LIKE_A_MARK.match(key) else key


def _may_hold_marks(data: bytes) -> bool:
    """Whether anything in a canonical form may have to be undone: a mark, a key like one, or a float past 2^53-1."""
    return b'"$' in data or b"0000000000000000" in data.translate(_DIGITS)


class _Restoring:
    """Undoes the marks of one value, in place: it was just decoded, and nobody else has it."""

    __slots__ = ("fetch", "known")

    def __init__(self, fetch: Fetch, known: dict[str, object] | None) -> None:
        self.fetch = fetch
        self.known = known

    def unmark(self, value: Any) -> object:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # of whatever stands there
        if kind is dict:
            return self.marked(value) if "$" in "".join(value) else self.inside(value, value.items())
        if kind is list:
            return self.inside(value, enumerate(cast("list[object]", value)))
        if kind is int and abs(value) > _MAX_INTEGER:
            return float(value)  # an integer of this size is refused on the way in, so it was a float
        return value

    def inside(self, value: Any, items: Iterable[tuple[Any, Any]]) -> object:
        for place, item in items:
            if type(item) in _HOLDING and (unmarked := self.unmark(item)) is not item:
                value[place] = unmarked
        return value

    def marked(self, value: dict[str, object]) -> object:
        """A mapping with a key that is a mark, or may look like one."""
        if len(value) == 1:
            ((key, item),) = value.items()
            if key in ("$sha256", "$document") and isinstance(item, str):
                return self.fetched(PREFIX + item, key)
            if key in ("$base64", "$text"):
                text = self.unmark(item)
                if isinstance(text, Reference):
                    return Reference(text.digest, key, *text.marks)
                if isinstance(text, str):
                    return base64.b64decode(text) if key == "$base64" else _unescape(text)
        return {
            key if key[:1] != "$" else _original_key(key): item if type(item) is str else self.unmark(item)
            for key, item in value.items()
        }

    def fetched(self, digest: str, mark: str) -> object:
        if self.known is not None and digest in self.known:
            return self.known[digest]
        parts = self.fetch(digest)
        if parts is None:
            return Reference(digest, mark)
        if mark == "$sha256":
            return "".join([part.decode() for part in parts])
        value = restore(b"".join(parts), self.fetch, self.known)
        if self.known is not None:
            self.known[digest] = value
        return value
