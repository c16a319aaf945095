"""Finds what `module:attribute` and `path.py:attribute` name, without importing anything (D§12).

A module is looked for as an import would: where Python finds modules, then in the folder of the configuration; no
`__init__` of a package is run on the way. Its text is parsed and searched for the attribute. What cannot be told from
the text (a star import, a module's `__getattr__`, an extension module) is taken to be there.
"""

import ast
import importlib
import importlib.machinery
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenter.config.problem import Unresolved, nearest

LARGEST_MODULE: Final = 4 << 20
"""Bytes of a module above which it is not looked into."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_DYNAMIC: Final = frozenset({"globals", "vars", "exec", "eval", "setattr"})
"""Functions by which a module may define what its text does not show."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module as its text shows it."""

    file: Path
    bindings: Mapping[str, Sequence[ast.AST]]
    """What binds each name of the module."""
    body: Sequence[ast.stmt]
    dynamic: bool
    """Whether it may define more names than the text shows, or change what it shows."""

    def only(self, name: str) -> ast.stmt | None:
        """The one statement at the top of the module that binds `name`; None where it is not as simple as that."""
        bound = self.bindings.get(name, ())
        if len(bound) != 1:
            return None
        return next((one for one in self.body if one is bound[0] or bound[0] in _targets(one)), None)


@dataclass(frozen=True, slots=True)
class Target:
    """A target that is there, as far as can be told. `module` is None where that is not in its text."""

    module: Module | None
    attribute: str


def find_target(target: str, folder: Path) -> Target | Unresolved:
    """What `target` names, seen from `folder`. Imports nothing and runs nothing."""
    importlib.invalidate_caches()  # a file that was written a moment ago is to be seen
    place, _, attribute = target.rpartition(":")
    file = _real(folder / place) if place.endswith(".py") else _module_file(place, folder)
    if file is None:
        return Target(None, attribute)
    module = file if isinstance(file, Unresolved) else _parse(file)
    if module is None:
        return Target(None, attribute)
    if isinstance(module, Unresolved):
        return module
    return _missing(module, attribute) or Target(module, attribute)


def _real(path: Path) -> Path:
    """Where the file really is, as its functions will say when it is loaded."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a circle of links, which opening it will tell
        return path


def _module_file(name: str, folder: Path) -> Path | Unresolved | None:
    """Where the text of a module is; None where it has none."""
    place = folder.joinpath(*name.split("."))
    beside = next(filter(_is_file, (place.with_name(f"{place.name}.py"), place / "__init__.py")), None)
    try:
        found = _spec(name)
    except (LookupError, ImportError, AttributeError, ValueError):  # a namespace in one that is not imported
        return beside
    origin = None if found is None else found.origin
    if found is None:
        return beside or _no_module(name, folder)
    if beside is not None and (origin is None or Path(origin).resolve() != beside.resolve()):
        message = f"another module is called {name!r} ({origin or 'in Python itself'}) and comes before {str(beside)!r}"
        return Unresolved(message, f"name the file: {str(beside.relative_to(folder))!r}")
    has_text = origin is not None and isinstance(found.loader, importlib.machinery.SourceFileLoader)
    return Path(origin) if has_text and origin is not None else None


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Where an import would find the module. Packages on the way are found and not run."""
    path: Sequence[str] | None = None
    found: importlib.machinery.ModuleSpec | None = None
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        whole = ".".join(parts[:length])
        found = next((spec for finder in sys.meta_path if (spec := finder.find_spec(whole, path)) is not None), None)
        if found is None:
            return None
        path = list(found.submodule_search_locations or ())
    return found


def _no_module(name: str, folder: Path) -> Unresolved:
    top = name.partition(".")[0]
    names = [path.stem for path in _entries(folder) if path.suffix == ".py" or path.is_dir()]
    missing = name if _spec(top) is not None or top in names else top
    near = nearest(missing, (one for one in names if not one.startswith(".")))
    hint = f"did you mean {near!r}?" if near and near != missing else ""
    return Unresolved(f"there is no module {missing!r}, neither installed nor in {str(folder)!r}", hint)


def _parse(file: Path) -> Module | Unresolved | None:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return Unresolved(f"{str(file)!r} is not a regular file", "name a file")
        with file.open("rb") as opened:
            text = opened.read(LARGEST_MODULE + 1)
    except OSError as error:
        near = nearest(file.name, (path.name for path in _entries(file.parent) if path.suffix == ".py"))
        return Unresolved(f"{str(file)!r}: {error.strerror}", f"did you mean {near!r}?" if near else "")
    if len(text) > LARGEST_MODULE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its author should hear when it is imported
            tree = ast.parse(text, str(file))
    except SyntaxError as error:
        return Unresolved(f"{file}:{error.lineno or 0} is not Python: {error.msg}", "mend it")
    except (ValueError, RecursionError, MemoryError) as error:
        return Unresolved(f"{file} is not Python: {error or type(error).__name__}", "mend it")
    return _module(file, tree)


def _module(file: Path, tree: ast.Module) -> Module:
    bindings: dict[str, list[ast.AST]] = {}
    outside = (one for one in ast.walk(tree) if isinstance(one, ast.Global))
    for node in (*_of_module(tree), *outside):
        for name in _names(node):
            bindings.setdefault(name, []).append(node)
    dynamic = "*" in bindings or "__getattr__" in bindings or any(map(_may_define, ast.walk(tree)))
    return Module(file, bindings, tree.body, dynamic)


def _of_module(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module that are not inside a function or a class of it."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, Definition | ast.Lambda):
            yield from _of_module(node)


def _names(node: ast.AST) -> Iterable[str]:
    """The names that this node binds."""
    names: Iterable[str] = ()
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            names = (node.name,)
        case ast.Import() | ast.ImportFrom():
            names = [bound_name(alias) for alias in node.names]
        case ast.Global():
            names = node.names
        case ast.Name(ctx=ast.Store()):
            names = (node.id,)
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            names = (name,)
        case _:
            pass
    return names


def bound_name(alias: ast.alias) -> str:
    """The name that an import gives to what it imports."""
    return alias.asname or alias.name.partition(".")[0]


def _may_define(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in _DYNAMIC
        case ast.Attribute(attr="modules", value=ast.Name(id="sys")):
            return True
        case _:
            return False


def _targets(statement: ast.stmt) -> Sequence[ast.AST]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return (target,)
        case _:
            return ()


def _missing(module: Module, attribute: str) -> Unresolved | None:
    """Why the module, or the class in it, has no such attribute; None where it has, or may have."""
    first, *rest = attribute.split(".")
    if module.dynamic:
        return None
    if first not in module.bindings:
        submodule = module.file.parent / first
        if module.file.name == "__init__.py" and (_is_file(submodule.with_suffix(".py")) or submodule.is_dir()):
            return None
        return _unknown(first, str(module.file), module.bindings)
    owner = module.only(first)
    if not rest or not isinstance(owner, ast.ClassDef) or owner.bases or owner.keywords or owner.decorator_list:
        return None
    inside = {name for node in _of_module(owner) for name in _names(node)}
    return None if rest[0] in inside else _unknown(rest[0], f"{module.file}, in the class {first!r}", inside)


def _unknown(name: str, place: str, names: Iterable[str]) -> Unresolved:
    near = nearest(name, (one for one in names if not one.startswith("_")))
    return Unresolved(f"there is no {name!r} in {place}", f"did you mean {near!r}?" if near else "")


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
