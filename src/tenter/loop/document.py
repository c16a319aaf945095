"""A loop's small documents as JSON and back, each with its version. It reads strictly and knows no files."""

from typing import TypeVar, cast

import msgspec

from tenter.wire import NotJson, one_value

T = TypeVar("T", bound=msgspec.Struct)


class Unreadable(ValueError):
    """Data that is not the document that was expected; the text says what is wrong."""


class NewerVersion(Unreadable):
    """A later version of tenter wrote it."""


def encode_document(document: msgspec.Struct) -> bytes:
    r"""The document as JSON, one field a line, for people too; half a surrogate pair stands as `\udc80`."""
    plain = _well_formed(msgspec.to_builtins(document))
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def decode_document(data: bytes, kind: type[T], *, version: int) -> T:
    """The document that `encode_document` made of a `kind`, of which `version` is the latest.

    Raises Unreadable for anything else: what is no JSON, keys that stand twice or are unknown, other types.
    """
    try:
        found = one_value(data)
    except NotJson as error:
        raise Unreadable(str(error)) from error
    newer = cast("dict[str, object]", found).get("schema_version") if isinstance(found, dict) else None
    if isinstance(newer, int) and newer > version:
        raise NewerVersion(f"it is of version {newer}, this version of tenter reads up to {version}")
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from error


def well_formed(text: str) -> str:
    r"""`text` as UTF-8 can hold it: half a surrogate pair stands as `\udc80`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _well_formed(value: object) -> object:
    match value:
        case str():
            return well_formed(value)
        case dict():
            return {name: _well_formed(one) for name, one in cast("dict[str, object]", value).items()}
        case list() | tuple():
            return [_well_formed(one) for one in cast("list[object]", value)]
        case _:
            return value
