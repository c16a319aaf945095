"""The files of a project that loading a Python target runs: its own, and those of what it imports by statement.

Nothing is imported or run: modules are looked for as an import would look for them, and read. What a module imports
by calling something is not seen. It knows no configuration.
"""

import ast
import importlib
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tenter.config.targets import LARGEST_MODULE
from tenter.executors import PinnedImports, in_project

_SOURCE: Final = tuple(importlib.machinery.SOURCE_SUFFIXES)


def project_modules(target: str, folder: Path) -> tuple[str, ...]:
    """The absolute paths of these files for `module:attribute` or `path.py:attribute`; `folder` is the project's.

    A file that `target` names by its path is among them as it is named, also where it is not there. Without those of
    modules that are installed, and of modules that cannot be found.
    """
    importlib.invalidate_caches()  # a file that was written a moment ago is to be seen
    closure = _Closure(folder)
    place = target.rpartition(":")[0]
    if place.endswith(".py"):
        closure.add_file(str(folder / place))
    else:
        closure.add_module(place)
    closure.follow()
    return tuple(closure.files)


class _Closure:
    def __init__(self, folder: Path) -> None:
        self.files: dict[str, None] = {}
        self._folder = folder
        self._open: list[str] = []
        self._seen: set[str] = set()
        self._found: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def add_module(self, name: str) -> None:
        """The module and the packages that it is in are to be looked at."""
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            whole = ".".join(parts[:length])
            if whole not in self._seen:
                self._seen.add(whole)
                self._open.append(whole)

    def add_file(self, path: str, package: str = "") -> None:
        """The file and what it imports; `package` is the one that its relative imports start at."""
        self.files[path] = None
        if path.endswith(_SOURCE) and (tree := _parsed(path)) is not None:
            for node in ast.walk(tree):
                for name in self._imports(node, package):
                    self.add_module(name)

    def follow(self) -> None:
        while self._open:
            name = self._open.pop()
            found = self._spec(name)
            if found is None or found.origin is None or not found.has_location:
                continue
            path = os.path.abspath(found.origin)  # noqa: PTH100  # as text, as all paths here
            if in_project(path, str(self._folder)) and path not in self.files:
                is_package = found.submodule_search_locations is not None
                self.add_file(path, name if is_package else name.rpartition(".")[0])

    def _imports(self, node: ast.AST, package: str) -> Iterator[str]:
        """The modules that a statement imports, or may import."""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if not isinstance(node, ast.ImportFrom):
            return
        base = node.module or ""
        if node.level:
            above = package.split(".")[: max(len(package.split(".")) - node.level + 1, 0)]
            base = ".".join([*above, *filter(None, [base])])
        if base:
            yield base
            spec = self._spec(base)
            if spec is not None and spec.submodule_search_locations is not None:
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")

    def _spec(self, name: str) -> importlib.machinery.ModuleSpec | None:
        if name not in self._found:
            try:
                self._found[name] = self._look_for(name)
            except (ImportError, LookupError, AttributeError, TypeError, ValueError, OSError):
                self._found[name] = None
        return self._found[name]

    def _look_for(self, name: str) -> importlib.machinery.ModuleSpec | None:
        loaded = sys.modules.get(name)
        if loaded is not None and isinstance(loaded.__spec__, importlib.machinery.ModuleSpec):
            return loaded.__spec__
        parent = name.rpartition(".")[0]
        inside = self._folders(parent) if parent else None
        for finder in sys.meta_path:
            if isinstance(finder, PinnedImports):
                continue
            path = inside
            if finder is importlib.machinery.PathFinder and inside is None:
                path = [*sys.path, str(self._folder)]
            try:
                found = finder.find_spec(name, path)
            except KeyError:  # a package without a file, inside another one that is not imported
                return importlib.machinery.ModuleSpec(name, None, is_package=True)
            if found is not None:
                return found
        return None

    def _folders(self, package: str) -> list[str]:
        """Where the modules of a package are. Raises ImportError where it is none."""
        found = self._spec(package)
        if found is None or found.submodule_search_locations is None:
            raise ImportError(package)
        if found.loader is not None and found.origin is not None:
            return list(found.submodule_search_locations)
        # A package without a file: Python would look for its folders once more, and for those it is in to be imported.
        parent, _, name = package.rpartition(".")
        above = self._folders(parent) if parent else [*sys.path, str(self._folder)]
        places = [os.path.join(folder, name) for folder in above]  # noqa: PTH118
        return [place for place in places if os.path.isdir(place)]  # noqa: PTH112


def _parsed(path: str) -> ast.Module | None:
    """The tree of a module; None where it cannot be read or is no Python, which loading it will tell."""
    try:
        if not Path(path).is_file():
            return None
        with Path(path).open("rb") as file:
            text = file.read(LARGEST_MODULE + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its author should hear when it is imported
            return ast.parse(text, path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
