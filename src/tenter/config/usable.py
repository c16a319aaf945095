"""What can be used of the values of a file that has problems, so that the rest is looked at as well.

Takes what `check` read, in which None stands for whatever was not as the schema says. Reports nothing.
"""

from collections.abc import Mapping
from types import UnionType
from typing import cast

import msgspec

from tenter.config.loop_spec import BackendSpec, HatSpec, LoopSpec
from tenter.config.spec import HookSpec, ModelSpec, RuleSpec, TaskSpec, ToolSpec
from tenter.kernel import FrozenDict

Values = Mapping[str, object]

_SECTIONS: Mapping[str, type[msgspec.Struct]] = {"models": ModelSpec, "tasks": TaskSpec, "tools": ToolSpec}


def usable(value: object) -> Values:
    """`value` without what is broken or incomplete; a `Spec` can be made of it and the file's own facts."""
    whole = _mapping(value)
    values: dict[str, object] = {"version": 1}
    if (secrets := _whole(whole.get("secrets"))) is not None:
        values["secrets"] = secrets
    for section, kind in _SECTIONS.items():
        values[section] = {
            name: one for name, raw in _mapping(whole.get(section)).items() if (one := _made(kind, raw)) is not None
        }
    if "policy" in whole:
        values["policy"] = _sound(whole["policy"], RuleSpec)
    if "hooks" in whole:
        values["hooks"] = _hooks(_mapping(whole["hooks"]))
    if "loop" in whole:
        values["loop"] = _loop(_mapping(whole["loop"]))
    return values


def _loop(whole: Values) -> Values:
    hats = {name: one for name, raw in _mapping(whole.get("hats")).items() if (one := _made(HatSpec, _backed(raw)))}
    values = FrozenDict({**_backed(whole), "hats": FrozenDict(hats)})
    return _mapping(_made(LoopSpec, values))


def _backed(raw: object) -> Values:
    """`raw` without its backend, where none can be made of it."""
    values = _mapping(raw)
    backend = _made(BackendSpec, values.get("backend"))
    rest = {key: value for key, value in values.items() if key != "backend"}
    return FrozenDict({**rest, "backend": backend} if backend is not None else rest)


def _hooks(whole: Values) -> Values:
    events = {point: _sound(hooks, HookSpec) for point, hooks in _mapping(whole.get("events")).items()}
    rest = {key: _whole(value) for key, value in whole.items() if key != "events"}
    return {**{key: value for key, value in rest.items() if value is not None}, "events": events}


def _sound(items: object, kind: type[HookSpec] | type[RuleSpec]) -> tuple[object, ...]:
    """The hooks of a point, or the rules, that are there and complete."""
    if not isinstance(items, tuple):
        return ()
    return tuple(one for raw in cast("tuple[object, ...]", items) if (one := _made(kind, raw)) is not None)


def _made(kind: "type[msgspec.Struct] | UnionType", raw: object) -> object:
    """The values of one `kind`, None where not even that can be made of them."""
    values = _whole(raw)
    if kind is HookSpec and sum(key in _mapping(values) for key in ("command", "script", "python")) != 1:
        return None
    if kind in (HookSpec, RuleSpec):
        values = _matching(_mapping(values))
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return None
    return values


def _matching(hook: Values) -> Values:
    """A hook or rule without the patterns of which nothing is left: what is wrong with them is told already."""
    match = {word: pattern for word, pattern in _mapping(hook.get("match")).items() if pattern != FrozenDict()}
    rest = {key: value for key, value in hook.items() if key != "match"}
    return FrozenDict({**rest, "match": FrozenDict(match)} if match else rest)


def _whole(value: object) -> object:
    """`value` without the keys whose values are broken; None where an item of a list is."""
    if isinstance(value, Mapping):
        inner = {key: _whole(one) for key, one in cast("Values", value).items()}
        return FrozenDict({key: one for key, one in inner.items() if one is not None})
    if isinstance(value, tuple):
        items = tuple(_whole(one) for one in cast("tuple[object, ...]", value))
        return None if None in items else items
    return value


def _mapping(value: object) -> Values:
    return cast("Values", value) if isinstance(value, Mapping) else {}
