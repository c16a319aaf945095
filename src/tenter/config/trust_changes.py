"""What differs between a project as it was trusted and as it is now, for people. Pure: values in, lines out.

A hook, rule, hat or task that came or went is one line, whatever it says. Rules, and hooks of a point, are told apart
by their names, so that one which goes does not make changes of all that stand behind it.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import count, takewhile
from typing import Final

import msgspec

from tenter.config.footprint import FileFacts, Setting
from tenter.config.problem import KeyPath, printable, quoted, render_path

MOST_CHANGES: Final = 20
"""So many changes are shown in a text; a list of all is there for who asks."""

_NAMED: Final = (2, 4)
"""How long the paths are of what is told apart by its name: a rule, a hook."""

_SHORT: Final = 12
"""Hex digits by which a file's content is called."""

_MAIN: Final = ("command", "script", "python", "harness", "file", "instructions", "reason")
"""Keys that say what a thing is about; of several the first."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that differs. `before` and `after` are empty where it was, or is, not there."""

    what: str
    """`file`, `key`, `order`, or what came or went: `hook`, `rule`, `hat`, `task`, `tool`, `model`, `backend`."""
    name: str
    """The file's path from the project, or the key's from the root of the configuration."""
    before: str
    after: str

    def __str__(self) -> str:
        name = f"the file {self.name}" if self.what == "file" else self.name
        if self.what == "order":
            return f"{name}: in another order"
        if not self.before:
            return f"{name}: new, {self.after}"
        return f"{name}: {self.before} -> {self.after}" if self.after else f"{name}: gone, it was {self.before}"


def changes(
    settings: tuple[Iterable[Setting], Iterable[Setting]],
    files: tuple[Mapping[str, FileFacts], Mapping[str, FileFacts]],
) -> tuple[Change, ...]:
    """Files first, then keys; each pair is as it was and as it is now."""
    after = dict(settings[1])
    before = _same_named(dict(settings[0]), after)
    return (*_files(*files), *_keys(_Side(before), _Side(after)), *_order(before, after))


def short(digest: str) -> str:
    """The beginning of a digest, by which people know it again."""
    return digest.partition(":")[2][:_SHORT]


def _files(before: Mapping[str, FileFacts], after: Mapping[str, FileFacts]) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield Change(what="file", name=printable(name), before=_facts(was), after=_facts(now))


def _facts(facts: FileFacts | None) -> str:
    if facts is None:
        return ""
    content = f"content {short(facts.digest)}" if facts.digest else "unreadable"
    return f"{content} (a link to {printable(facts.link)!r})" if facts.link else content


class _Side:
    """The configuration at one of the two times."""

    def __init__(self, settings: Mapping[KeyPath, object]) -> None:
        self.settings = settings
        self.inner: Set[KeyPath] = {path[:length] for path in settings for length in range(len(path))}
        """The places that hold something: mappings and lists that are not empty."""

    def lacks(self, path: KeyPath, other: "_Side") -> bool:
        """Whether nothing is to be told of `path` here: it is no value, or says only that `other` has more there."""
        return path not in self.settings or (path in other.inner and not self.settings[path])


def _keys(before: _Side, after: _Side) -> Iterator[Change]:
    whole: set[KeyPath] = set()
    for path in dict.fromkeys([*before.settings, *after.settings]):
        entry = next((one for one in _entries(path) if (one[1] in before.inner) != (one[1] in after.inner)), None)
        if entry is not None:
            kind, place = entry
            if place not in whole:
                whole.add(place)
                sides = [_entry(kind, place, side.settings) if place in side.inner else "" for side in (before, after)]
                yield Change(what=kind, name=_rendered(place), before=sides[0], after=sides[1])
        elif (change := _key(path, before, after)) is not None:
            yield change


def _key(path: KeyPath, before: _Side, after: _Side) -> Change | None:
    lacking = before.lacks(path, after), after.lacks(path, before)
    if all(lacking) or (not any(lacking) and before.settings[path] == after.settings[path]):
        return None
    was, now = (
        "" if lacks else _value(path, side.settings) for lacks, side in zip(lacking, (before, after), strict=True)
    )
    if path[-2:-1] == ("env",) and was and now:
        was, now = "a value", "another value"
    return Change(what="key", name=_rendered(path), before=was, after=now)


def _entries(path: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    """What kind of thing `path` is a part of, and where that stands; the larger one first."""
    match path:
        case ("hooks", "events", _, int(), *_):
            yield "hook", path[:4]
        case ("policy", int(), *_):
            yield "rule", path[:2]
        case ("loop", "hats", _, *_):
            yield "hat", path[:3]
            if path[3:4] == ("backend",):
                yield "backend", path[:4]
        case ("loop", "backend", *_):
            yield "backend", path[:2]
        case ("tasks" | "tools" | "models" as section, _, *_):
            yield section.removesuffix("s"), path[:2]
        case _:
            pass


def _entry(kind: str, place: KeyPath, settings: Mapping[KeyPath, object]) -> str:
    """A thing by its name, where its place does not say that, and by what it runs or asks for."""
    name = settings.get((*place, "name"))
    told = f"the {kind} {quoted(name)}" if isinstance(name, str) else f"the {kind}"
    for key in _MAIN:
        path = (*place, key)
        value = settings.get(path)
        if (*path, 0) in settings:
            value = shlex.join(str(settings[word]) for word in takewhile(settings.__contains__, _items(path)))
        if isinstance(value, str):
            return f"{told}, {quoted(value)}"
    return told


def _items(path: KeyPath) -> Iterator[KeyPath]:
    return ((*path, index) for index in count())


def _same_named(before: Mapping[KeyPath, object], after: Mapping[KeyPath, object]) -> Mapping[KeyPath, object]:
    """`before`, its hooks and rules counted as in `after`; one that is gone is counted from below zero."""
    names = _names(before), _names(after)
    places: dict[KeyPath, int] = {}
    for around, was in names[0].items():
        now = names[1].get(around, {})
        same = {index: now[name] for name, index in was.items() if name in now}
        # What has another name and stands where it stood was renamed.
        free = set(now.values()) - set(same.values())
        same.update({index: index for index in was.values() if index not in same and index in free})
        places.update({(*around, index): same.get(index, -1 - index) for index in was.values()})
    return {_moved(path, places): value for path, value in before.items()}


def _moved(path: KeyPath, places: Mapping[KeyPath, int]) -> KeyPath:
    length = next((one for one in _NAMED if path[:one] in places), None)
    return path if length is None else (*path[: length - 1], places[path[:length]], *path[length:])


def _names(settings: Mapping[KeyPath, object]) -> Mapping[KeyPath, Mapping[str, int]]:
    """For each point, the hooks by their names, which differ there; for the policy, its rules."""
    found: dict[KeyPath, dict[str, int]] = {}
    for path, value in settings.items():
        match path:
            case ("hooks", "events", _, int(index), "name") | ("policy", int(index), "name") if isinstance(value, str):
                found.setdefault(path[:-2], {})[value] = index
            case _:
                pass
    return found


def _order(before: Mapping[KeyPath, object], after: Mapping[KeyPath, object]) -> Iterator[Change]:
    """One change where what is in both stands in another order: that of hooks, hats and points counts."""
    pairs = zip([one for one in before if one in after], [one for one in after if one in before], strict=True)
    moved = [one for pair in pairs if pair[0] != pair[1] for one in pair]
    if moved:
        shared = takewhile(lambda steps: len(set(steps)) == 1, zip(*moved, strict=False))
        name = _rendered(tuple(steps[0] for steps in shared))
        yield Change(what="order", name=name or "keys", before="", after="")


def _rendered(path: KeyPath) -> str:
    """The path; a hook that is gone stood where the count below zero says."""
    return render_path(tuple(-1 - step if isinstance(step, int) and step < 0 else step for step in path))


def _value(path: KeyPath, settings: Mapping[KeyPath, object]) -> str:
    value = settings[path]
    if path[-2:-1] == ("env",):
        return "a value"
    if isinstance(value, str):
        return quoted(value)
    return "nothing" if value is None else printable(str(value).lower() if isinstance(value, bool) else str(value))
