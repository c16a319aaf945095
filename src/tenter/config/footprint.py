"""All that trust in a project rests on, as one digest: what its file says, and the content of the files it names.

The digest (D§3.14) is the same for the same project in another folder. Reads files; runs and imports nothing.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import msgspec

from tenter.config.loading import load
from tenter.config.named_files import NamedCode, named_code
from tenter.config.outline import hook_files, outline
from tenter.config.pins import Pins
from tenter.config.problem import ConfigError, KeyPath, Position
from tenter.config.spec import Spec
from tenter.executors import PinnedFile, file_digest, is_below
from tenter.kernel import FrozenDict
from tenter.wire import digest, digest_of_bytes

DIGEST_VERSION: Final = 1
"""Of what enters the digest."""
_PLACES: Final = frozenset({"file", "digest", "positions"})
"""Fields of a `Spec` that say where it was read, and not what it says."""

Setting = tuple[KeyPath, object]
"""A place in the configuration, and its value: text, number, flag, None, or an empty list or mapping."""


class FileFacts(msgspec.Struct, frozen=True):
    """What counts of a file: the digest of its content, and where a link leads (from the project, or absolute)."""

    digest: str
    """Empty where it cannot be read."""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """A project as it is now."""

    path: str
    """The real path of its file."""
    digest: str
    named: tuple[NamedCode, ...]
    settings: tuple[Setting, ...]
    """All values in the order of the file, defaults too; those of environment variables by their digest."""
    files: Mapping[str, FileFacts]
    """By the path from the project's folder."""
    pins: Pins

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The files that nobody can vouch for."""
        return tuple(name for name, facts in self.files.items() if not facts.digest)


def footprint(
    path: Path | str, *, builtin_tools: Collection[str] = (), environment: Mapping[str, str] = os.environ
) -> Footprint:
    """The footprint of the project whose file is at `path`. Raises ConfigError where its file or a hook is wrong."""
    spec = load(path, builtin_tools=builtin_tools)
    search = environment.get("PATH", "")
    planned = outline(hook_files(spec, None), search)
    if planned.problems:
        raise ConfigError(planned.problems)
    real = os.path.realpath(path)
    root = os.path.dirname(real)  # noqa: PTH120  # as text, as all paths here
    named = named_code(spec, planned, search)
    settings = tuple(_settings(spec))
    every = {file.path: _facts(file.path, root) for code in named for file in code.files}
    files = FrozenDict({key_of(file, root): facts for file, facts in sorted(every.items())})
    pins = Pins(
        file=str(path),
        config_digest=spec.digest,
        root=root,
        files=FrozenDict({os.path.realpath(file): facts.digest for file, facts in every.items()}),
        commands=FrozenDict({code.path: tuple(_pinned(code, every)) for code in named}),
    )
    content = {"schema_version": DIGEST_VERSION, "settings": settings, "files": files}
    return Footprint(path=real, digest=digest(content), named=named, settings=settings, files=files, pins=pins)


def _pinned(code: NamedCode, every: Mapping[str, FileFacts]) -> Iterator[PinnedFile]:
    for file in code.files:
        yield PinnedFile(file.found_as, every[file.path].digest)


def _facts(path: str, root: str) -> FileFacts:
    try:
        content = file_digest(path)
    except OSError:
        content = ""
    real = os.path.realpath(path)
    if real == os.path.join(root, key_of(path, root)):  # noqa: PTH118
        return FileFacts(content)
    return FileFacts(content, os.path.relpath(real, root) if is_below(real, root) else real)


def key_of(path: str, root: str) -> str:
    """The path of a file from the project: as it is named, where that leads to the same file."""
    plain = os.path.normpath(path)
    if not is_below(plain, root) or os.path.realpath(plain) != os.path.realpath(path):
        plain = os.path.realpath(path)
    return os.path.relpath(plain, root)


def _settings(spec: Spec) -> Iterator[Setting]:
    for name in spec.__struct_fields__:
        if name not in _PLACES:
            yield from _leaves((name,), getattr(spec, name))


def _leaves(path: KeyPath, value: object) -> Iterator[Setting]:
    """The values below `value`, in order: that of hats and points counts."""
    parts: list[tuple[str | int, object]]
    match value:
        case msgspec.Struct():
            here = isinstance(getattr(value, "where", None), Position)
            names = [name for name in value.__struct_fields__ if not (here and name in ("where", "path"))]
            parts = [(name, getattr(value, name)) for name in names]
        case Mapping():
            parts = list(cast("Mapping[str, object]", value).items())
        case list() | tuple():
            parts = list(enumerate(cast("tuple[object, ...]", value)))
        case str() if path[-2:-1] == ("env",) and isinstance(path[-3], int):
            yield path, digest_of_bytes(value.encode(errors="surrogatepass"))
            return
        case _:
            yield path, value
            return
    if not parts:
        yield path, {} if isinstance(value, Mapping) else []
    for name, part in parts:
        yield from _leaves((*path, name), part)
