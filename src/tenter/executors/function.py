"""Python hooks that a configuration names by `module:attribute` or `path.py:attribute`, as declarations (D§12, D§16).

A target's code runs in this process when it is loaded: whoever calls this has settled that it is trusted. Whatever is
wrong with it (no such file, a name that is not there, code that raises or exits) is a RegistrationError that names the
target. It knows no configuration file and runs no hook.
"""

import difflib
import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from tenter.executors.band import in_band
from tenter.executors.kind import Surroundings
from tenter.executors.pinned_imports import check_source
from tenter.kernel import (
    Band,
    Catalogue,
    Declaration,
    Hook,
    Mode,
    Point,
    Policy,
    Redactor,
    RegistrationError,
    TenterError,
    declarations,
    declared_of,
    source_of,
)

T = TypeVar("T")

NOTHING_TOLD: Final = Redactor()
MODULES: Final = "_tenter_target_"
"""How the names begin under which files are loaded; no module that anybody imports is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionHook:
    """A Python hook as configured. None is what the configuration does not say: then the decorator's setting counts,
    or the one of the class, and after that the usual default.
    """

    name: str
    point: Point
    target: str
    """`module:attribute` or `path.py:attribute`."""
    catalogue: Catalogue
    timeout_seconds: float | None = None
    """A deadline that is named is hard; None is the runtime's, soft."""
    on_error: Policy | None = None
    observe: bool | None = None
    match: Mapping[str, object] | None = None
    mode: Mode | None = None
    priority: int | None = None
    band: Band = "app"


def load_target(target: str, project_dir: str, *, redactor: Redactor = NOTHING_TOLD) -> object:
    """What `target` names. Its module is executed once, as long as it stays the same.

    `path.py:attribute` is a file, seen from `project_dir`; it is loaded under a name of its own, made of its place and
    content, and `sys.path` stays as it is. `module:attribute` is found where Python finds modules, and then in
    `project_dir`, which is the last entry of `sys.path` while it is imported and no longer: so a module of the project
    hides no other, and imports its neighbours at its top, not inside its functions. Raises RegistrationError for
    whatever goes wrong; only the user's KeyboardInterrupt passes.
    """
    place, _, path = target.rpartition(":")
    if not place or not path:
        raise RegistrationError(f"the target {target!r} is neither 'module:attribute' nor 'path.py:attribute'")
    if place.endswith(".py"):
        module = _of_file(target, Path(project_dir, place), redactor=redactor)
    else:
        module = _of_name(target, place, folder=Path(project_dir), redactor=redactor)
    return _contained(lambda: _attribute(module, path), f"the target {target!r}", redactor=redactor)


def function_hook(settings: FunctionHook, surroundings: Surroundings) -> Declaration:
    """The hook that `settings.target` is, at its point.

    The target is a function; one decorated with `@hook` for the same point; or a `Hook` class or instance that has a
    method for the point, of which this is the only one used (a class is instantiated for this hook alone). Raises
    RegistrationError for anything else.
    """
    found = load_target(settings.target, surroundings.project_dir, redactor=surroundings.redactor)
    return _configured(_declared(settings, found, redactor=surroundings.redactor), settings)


def plugin_hooks(
    target: str, surroundings: Surroundings, *, catalogue: Catalogue, band: Band = "app"
) -> tuple[Declaration, ...]:
    """All that a plugin declares, in `band`: a `Hook` class or instance, or a function with `@hook`.

    Raises RegistrationError for anything else, and for what the plugin declares wrongly.
    """
    found = load_target(target, surroundings.project_dir, redactor=surroundings.redactor)
    every = _declarations(target, found, catalogue=catalogue, redactor=surroundings.redactor)
    return tuple(in_band(each, band) for each in every)


def _declared(settings: FunctionHook, found: object, *, redactor: Redactor) -> Declaration:
    """What `found` declares at the point of `settings`."""
    point, target = settings.point, settings.target
    if not _declares(found):
        call = _function(found, f"the target {target!r} of the hook {settings.name!r}")
        return Declaration(name=settings.name, point=point.name, call=call, source=source_of(call))
    every = _declarations(target, found, catalogue=settings.catalogue, redactor=redactor)
    here = [
        each for each in every if settings.catalogue.resolve(each.point, f"the target {target!r}").name == point.name
    ]
    if len(here) == 1:
        return here[0]
    named = ", ".join(repr(each.point) for each in every)
    wrong = "twice for" if here else "not for"
    raise RegistrationError(
        f"the target {target!r} of the hook {settings.name!r} is declared {wrong} {point.label!r}, but for {named}; "
        "name it under that point, or under 'plugins'"
    )


def _declares(found: object) -> bool:
    """Whether it says itself at which points it hangs."""
    return isinstance(found, Hook) or bool(declared_of(found)) or (isinstance(found, type) and issubclass(found, Hook))


def _function(found: object, owner: str) -> Callable[..., object]:
    if callable(found) and not isinstance(found, type):
        return found
    what = f"the class {found.__qualname__!r}" if isinstance(found, type) else f"a {type(found).__name__}"
    raise RegistrationError(f"{owner} is {what}; expected a function (event), or a class that derives from tenter.Hook")


def _configured(declared: Declaration, settings: FunctionHook) -> Declaration:
    """`declared` with what the configuration says instead."""
    said: dict[str, Any] = {
        "timeout": settings.timeout_seconds,
        "on_error": settings.on_error,
        "observe": settings.observe,
        "match": settings.match or None,
        "mode": settings.mode,
        "priority": settings.priority,
    }
    changes = {name: value for name, value in said.items() if value is not None}
    placed = in_band(declared, settings.band)
    return replace(placed, name=settings.name, point=settings.point.name, **changes)


def _declarations(target: str, found: object, *, catalogue: Catalogue, redactor: Redactor) -> tuple[Declaration, ...]:
    return _contained(lambda: declarations(found, catalogue), f"the target {target!r}", redactor=redactor)


def _of_file(target: str, path: Path, *, redactor: Redactor) -> ModuleType:
    try:
        path = path.resolve(strict=True)
        source = path.read_bytes()
    except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError
        near = _nearest(path.name, (each.name for each in _entries(path.parent)))
        raise RegistrationError(f"the target {target!r}: {redactor.mask_fuzzy(str(error))}{near}") from None
    _contained(lambda: check_source(str(path), source), f"the target {target!r}", redactor=redactor)
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + source).hexdigest()[:16]
    name = f"{MODULES}{path.stem}_{digest}"
    if (known := sys.modules.get(name)) is not None:
        return known
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look their module up there

    def execute() -> ModuleType:
        # What was digested is what runs; a loader would read the file once more.
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
        return module

    try:
        return _contained(execute, f"the target {target!r}: loading {str(path)!r} failed", redactor=redactor)
    except BaseException:
        del sys.modules[name]
        raise


def _of_name(target: str, name: str, *, folder: Path, redactor: Redactor) -> ModuleType:
    def load() -> ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            near = _nearest(error.name, (_module_of(each) for each in _entries(folder)))
            raise RegistrationError(
                f"there is no module {error.name!r}, neither installed nor in {str(folder)!r}{near}"
            ) from None

    with _last_on_path(folder):
        module = _contained(load, f"the target {target!r}: importing {name!r} failed", redactor=redactor)
    meant = next((path for path in _files_of(folder, name) if path.is_file()), None)
    if meant is not None and not _is_file_of(module, meant):
        taken = getattr(module, "__file__", None) or "built into Python"
        raise RegistrationError(
            f"the target {target!r}: another module is called {name!r} ({taken}) and comes before {str(meant)!r}; "
            f"name the file: {str(meant.relative_to(folder))!r} in place of {name!r}"
        )
    return module


def _contained(work: Callable[[], T], what: str, *, redactor: Redactor) -> T:
    """The result of `work`, which runs the code of a target; whatever that raises, as a RegistrationError."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except TenterError as error:  # its text says where, and what to do
        raise RegistrationError(f"{what}: {redactor.mask_fuzzy(str(error))}") from None
    except BaseException as error:  # the code of a target may raise anything, and exit
        raise RegistrationError(f"{what}{_raised_at(error)}: {redactor.mask_exception_text(error)}") from None


def _raised_at(error: BaseException) -> str:
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    theirs = [each for each in frames if each[0] != __file__ and not each[0].startswith("<frozen")]
    return f" at {theirs[-1][0]}:{theirs[-1][1]}" if theirs else ""


def _attribute(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        owner = found
        try:
            found = getattr(owner, name)
        except AttributeError:
            near = _nearest(name, (each for each in dir(owner) if not each.startswith("_")))
            where = getattr(module, "__file__", None) or module.__name__
            raise RegistrationError(f"there is no {name!r} in {where!r}{near}") from None
    return found


@contextmanager
def _last_on_path(folder: Path) -> Generator[None]:
    """`folder` as the last entry of `sys.path`, unless it is one already."""
    entry = str(folder)
    added = entry not in sys.path
    if added:
        sys.path.append(entry)
    importlib.invalidate_caches()  # a file that was written a moment ago is to be seen
    try:
        yield
    finally:
        if added and entry in sys.path:
            sys.path.remove(entry)


def _files_of(folder: Path, name: str) -> tuple[Path, Path]:
    place = folder.joinpath(*name.split("."))
    return place.with_name(f"{place.name}.py"), place / "__init__.py"


def _is_file_of(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).resolve() == path.resolve()


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _module_of(path: Path) -> str:
    return path.stem if path.suffix == ".py" or path.is_dir() else ""


def _nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
