"""Lets of a project's modules only those be imported whose files are what was trusted (D§3.14).

Put before Python's own finders, it asks them where a module is. One that lies inside the project runs from the very
bytes that were compared with its digest; bytecode that a project brings along beside its sources is never read. It
knows no configuration and no record of trust.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Mapping, Sequence
from types import CodeType, ModuleType
from typing import Final

from tenter.executors.pinned import file_digest
from tenter.wire import digest_of_bytes

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_TENTER: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120  # as text, as all here
_PYTHON: Final = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120


def in_project(path: str, root: str) -> bool:
    """Whether the file at `path`, or what it is a link to, is the code of the project in the folder `root`.

    What Python has installed is not, also where that is inside the project: whoever starts tenter from there chose it.
    `root` is a real path; `path` is absolute.
    """
    places = {os.path.normpath(path), os.path.realpath(path)}
    if not any(is_below(place, root) for place in places):
        return False
    installed = [os.path.realpath(entry) for entry in sys.path if os.path.basename(entry) in _INSTALLED]  # noqa: PTH119
    inside = [other for other in (*installed, _PYTHON, _TENTER) if is_below(other, root)]
    return not any(is_below(place, other) for place in places for other in inside)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is inside `folder`, both as they are written."""
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


class PinnedImports(importlib.abc.MetaPathFinder):
    """The finder. `digests` are those of the project's modules, by the real path of the file.

    It stands in `sys.meta_path` from `install` to `remove`, and so for the whole process.
    """

    def __init__(self, root: str, digests: Mapping[str, str]) -> None:
        self._root = root
        self._digests = digests

    def install(self) -> None:
        """Puts it before all other finders, in the place of an earlier one for the same project."""
        for other in [one for one in sys.meta_path if isinstance(one, PinnedImports) and one._root == self._root]:
            sys.meta_path.remove(other)
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Takes it out again, if it is there."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> importlib.machinery.ModuleSpec | None:
        """The project's module; None for any other, which the next finder finds.

        Raises ImportError where it is not what was trusted.
        """
        # Not the finders of other projects: each would ask all the rest in turn, and so on.
        finders = [one for one in sys.meta_path if not isinstance(one, PinnedImports)]
        found = next((one for each in finders if (one := each.find_spec(fullname, path, target)) is not None), None)
        if found is None or found.origin is None or not found.has_location:
            return None
        file = os.path.abspath(found.origin)  # noqa: PTH100
        if not in_project(file, self._root):
            return None
        if isinstance(found.loader, importlib.machinery.SourceFileLoader):
            found.loader = _PinnedSource(found.loader, self)
        else:
            self.check(file, file_digest(file))
        return found

    def check(self, file: str, digest: str) -> None:
        """Raises ImportError where a file with this content is a module of the project and was not trusted so."""
        if not in_project(file, self._root):
            return
        trusted = self._digests.get(os.path.realpath(file))
        if trusted is None:
            raise ImportError(
                f"{file!r} is not among the files that were trusted: name the module in an import statement of a "
                "module that is, also one that is not reached, then 'tenter hooks trust', and start again"
            )
        if trusted != digest:
            raise ImportError(
                f"{file!r} changed since it was trusted; look at it, then 'tenter hooks trust', and start again"
            )


class _PinnedSource(importlib.machinery.SourceFileLoader):
    """Compiles the text that was compared with its digest; reads and writes no bytecode."""

    def __init__(self, own: importlib.machinery.SourceFileLoader, pins: PinnedImports) -> None:
        super().__init__(own.name, own.path)
        self._pins = pins

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        self._pins.check(os.path.abspath(self.path), digest_of_bytes(source))  # noqa: PTH100
        return self.source_to_code(source, self.path)


def check_source(file: str, source: bytes) -> None:
    """Raises ImportError where `source`, read from `file` to be run, is a project's code and not what was trusted."""
    for finder in sys.meta_path:
        if isinstance(finder, PinnedImports):
            finder.check(file, digest_of_bytes(source))
