"""JSON Schemas (draft 2020-12) of the payload and the verdict, made from their types and the catalogue's (D§9, D§4.6).

They say what JSON Schema can say. That a key stands once, that a number is not rounded, and what a point takes is not
among it: `verdict` and the kernel judge these.
"""

import json
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta

from tenter.kernel import Event, Point
from tenter.wire.payload import SCHEMA_VERSION, Payload
from tenter.wire.verdict_document import Passing, Undecided, VerdictDocument

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def payload_schema() -> Schema:
    """Of what every hook outside the process gets on stdin, whatever the point."""
    return _schema(Payload, "payload")


def event_schema(point: Point) -> Schema:
    """Of what a hook gets at `point`: the payload, with the point's own names and its event's own fields."""
    names = {
        "point": point.name,
        "alias": point.portable,
        "phase": point.phase,
        "event": point.operation.name,
        "phase_event": f"{point.phase}.{point.operation.name}",
    }
    types: dict[str, Any] = {name: _only(value) for name, value in names.items()}
    types["payload"] = _own_fields(point.event)
    fields = [
        (field.name, types.get(field.name, field.type), *([] if field.required else [field.default]))
        for field in msgspec.structs.fields(Payload)
    ]
    narrowed = msgspec.defstruct("Payload", fields, kw_only=True, namespace={"__doc__": point.rule.fires})
    return _schema(narrowed, f"payload:{point.name}")


def verdict_schema() -> Schema:
    """Of what a hook with `verdict: json` answers on stdout."""
    kinds = get_args(VerdictDocument)
    documents, defs = msgspec.json.schema_components(kinds, schema_hook=_of_object, ref_template="#/$defs/{name}")
    for kind in (Undecided, Passing):
        defs[kind.__name__]["not"] = {"required": ["replace", "result"]}
    defs[Undecided.__name__]["minProperties"] = 1
    return {**_head("verdict"), "anyOf": list(documents), "$defs": defs}


def schema_text(schema: Schema) -> str:
    """`schema` as it is printed and shipped: the same bytes every time, keys sorted, with a line end."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _schema(kind: type, name: str) -> Schema:
    return {**_head(name), **msgspec.json.schema(kind, schema_hook=_of_object)}


def _own_fields(event: type[Event]) -> type[msgspec.Struct]:
    """A struct with the event's own fields, none of which is left out of a payload."""
    fields = [(f.name, f.type) for f in msgspec.structs.fields(event) if f.name not in ("envelope", "op")]
    return msgspec.defstruct(event.__name__, fields, kw_only=True, namespace={"__doc__": event.__doc__})


def _only(value: str | None) -> object:
    return None if value is None else Annotated[str, Meta(extra_json_schema={"const": value})]


def _head(name: str) -> Schema:
    return {"$schema": DIALECT, "$id": f"urn:tenter:{name}:{SCHEMA_VERSION}"}


def _of_object(kind: type) -> Schema:
    if kind is object:
        return {"$comment": "any JSON value"}
    raise NotImplementedError(kind)
