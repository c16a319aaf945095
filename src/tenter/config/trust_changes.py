"""What differs between a project as it was trusted and as it is now, for people. Pure: values in, lines out."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tenter.config.footprint import FileFacts, Setting
from tenter.config.problem import KeyPath, printable, quoted, render_path

MOST_CHANGES: Final = 30
"""So many changes are shown in a text; a list of all is there for who asks."""

_SHORT: Final = 12
"""Hex digits by which a file's content is called."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that differs. `before` and `after` are empty where it was, or is, not there."""

    what: str
    """`file`, `key`, or `order`."""
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
    before, after = dict(settings[0]), dict(settings[1])
    found = [*_files(*files), *_keys(before, after)]
    if not found and list(before) != list(after):
        found = [Change(what="order", name="keys", before="", after="")]
    return tuple(found)


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


def _keys(before: Mapping[KeyPath, object], after: Mapping[KeyPath, object]) -> Iterator[Change]:
    for path in dict.fromkeys([*before, *after]):
        was, now = _value(path, before), _value(path, after)
        if path not in before or path not in after or before[path] != after[path]:
            if path[-2:-1] == ("env",) and was and now:
                was, now = "a value", "another value"
            yield Change(what="key", name=render_path(path), before=was, after=now)


def _value(path: KeyPath, settings: Mapping[KeyPath, object]) -> str:
    if path not in settings:
        return ""
    value = settings[path]
    if path[-2:-1] == ("env",):
        return "a value"
    if isinstance(value, str):
        return quoted(value)
    return "nothing" if value is None else printable(str(value).lower() if isinstance(value, bool) else str(value))
