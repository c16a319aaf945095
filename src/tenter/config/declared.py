"""Declarations of configured hooks before anything is imported: a call that stands for the real one, all else as it is.

What a Python hook says about itself (D§16) counts where the file says nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import msgspec

from tenter.catalogue import CATALOGUE, LOOP_OPERATIONS
from tenter.config.problem import Position, Unresolved
from tenter.config.sketch import stand_in
from tenter.config.spec import HookSpec, HooksSpec, Spec
from tenter.config.targets import find_target
from tenter.executors import SuspendMode, in_band
from tenter.kernel import (
    Band,
    Declaration,
    Event,
    FrozenDict,
    Hook,
    Point,
    RegistrationError,
    declarations,
    declared_of,
)


class HookFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose hooks count, and the band in which they stand. Relative paths in it start at `folder`."""

    spec: Spec
    band: Band
    folder: Path
    timeout: float | None
    """The deadline in seconds of its hooks that name none, where that is not the runtime's."""

    @property
    def hooks(self) -> HooksSpec:
        """What it hangs, which is nothing where its hooks are switched off; its rules hold all the same."""
        return self.spec.hooks if self.spec.hooks.enabled else HooksSpec(enabled=False)


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared, and whether that is certain: not so where the text of a target does not show it."""

    hooks: tuple[Declaration, ...]
    certain: bool


def declared_command(spec: HookSpec, file: HookFile, point: Point) -> Declaration:
    """The declaration of a `command` or `script`."""
    return Declaration(
        name=spec.name,
        point=point.name,
        call=_unbound_command,
        kind="command",
        band=file.band,
        priority=500 if spec.priority is None else spec.priority,
        on_error=spec.on_error,
        timeout=deadline(spec, file),
        match=_EVERY if spec.match is None else spec.match,
        observe=bool(spec.observe),
        mode=spec.mode or "active",
        self_timed=True,
        source=source_at(spec.where),
    )


def declared_function(spec: HookSpec, target: str, file: HookFile, point: Point) -> Declared | Unresolved:
    """The declaration of a `python` hook; what is wrong with its target."""
    found = find_target(target, file.folder)
    if isinstance(found, Unresolved):
        return found
    known = stand_in(found)
    try:
        own = None if known is None else in_band(_own(known, point), file.band)
    except RegistrationError as error:
        return Unresolved(str(error))
    if own is None:
        own = Declaration(name=spec.name, point=point.name, call=_unbound)
    return Declared((timed(_configured(own, spec, file, point), file),), certain=known is not None)


def declared_plugin(target: str, file: HookFile) -> Declared | Unresolved:
    """What a plugin declares; what is wrong with it."""
    found = find_target(target, file.folder)
    if isinstance(found, Unresolved):
        return found
    known = stand_in(found)
    if known is None:
        return Declared((), certain=False)
    try:
        hooks = [in_band(one, file.band) for one in declarations(known, CATALOGUE)]
    except RegistrationError as error:
        return Unresolved(str(error))
    return Declared(tuple(timed(one, file) for one in hooks), certain=True)


def deadline(spec: HookSpec, file: HookFile) -> float:
    """The deadline of a hook outside the process, in seconds; always hard."""
    return spec.timeout_seconds or file.spec.hooks.defaults.timeout_seconds


def suspend_mode_of(spec: HookSpec, file: HookFile, point: Point) -> SuspendMode:
    """What a loop does when the hook suspends it: as the hook says, else its file (seed 001)."""
    if point.operation not in LOOP_OPERATIONS:
        return "wait_for_resume"
    return spec.suspend_mode or default_mode(file, process=spec.python is None)


def default_mode(file: HookFile, *, process: bool) -> SuspendMode:
    """The mode of hooks of a file that name none. Only a process is tried again in place."""
    mode = file.spec.hooks.defaults.suspend_mode
    return mode if process or mode != "retry_backoff" else "wait_for_resume"


def suspend_mode_fault(spec: HookSpec, point: Point) -> Unresolved | None:
    """Why the `suspend_mode` that a hook names cannot be carried out."""
    who, mode = f"hook {spec.name!r} at {point.label!r}", spec.suspend_mode
    if mode is None:
        return None
    if point.operation not in LOOP_OPERATIONS:
        points = ", ".join(operation.name for operation in LOOP_OPERATIONS)
        return Unresolved(
            f"{who} has a suspend_mode; only a loop waits so", f"remove it; it is for pre and post of {points}"
        )
    if spec.python is not None and mode == "retry_backoff":
        hint = "write wait_for_resume or wait_then_retry"
        return Unresolved(f"{who} is no process; 'retry_backoff' is for command and script hooks", hint)
    answers = spec.verdict is not None or (spec.python is not None and not spec.observe)
    if spec.on_error == "suspend" or answers or (spec.python is None and spec.on_error is None):
        return None
    hint = "set 'on_error: suspend'" + ("" if spec.observe else ", or 'verdict: json', so that it can answer so")
    return Unresolved(f"{who} never suspends the loop, so that its suspend_mode says nothing", hint)


def source_at(where: Position) -> str:
    """The source of a hook that is declared there: `file:line`."""
    return f"{where.file}:{where.line}"


def timed(declared: Declaration, file: HookFile) -> Declaration:
    """`declared` with the deadline of its file, where it names none and that is not the runtime's."""
    return declared if declared.timeout is not None else replace(declared, timeout=file.timeout)


def _own(found: object, point: Point) -> Declaration:
    """What `found` says of itself at `point`. Raises RegistrationError where it is for other points, or is no hook."""
    if isinstance(found, FunctionType):
        call: Callable[..., object] = found
        if not declared_of(call):
            return Declaration(name=call.__name__, point=point.name, call=call)
    elif not isinstance(found, Hook) and not (isinstance(found, type) and issubclass(found, Hook)):
        what = found.__name__ if isinstance(found, type) else type(found).__name__
        raise RegistrationError(
            f"the class {what!r} is no hook; expected a function (event), or a class that derives from tenter.Hook"
        )
    every = declarations(found, CATALOGUE)
    here = [one for one in every if CATALOGUE.resolve(one.point, "its @hook") is point]
    if len(here) != 1:
        named = ", ".join(repr(one.point) for one in every)
        raise RegistrationError(f"it is declared {'twice' if here else 'not'} for {point.label!r}, but for {named}")
    return here[0]


def _configured(own: Declaration, spec: HookSpec, file: HookFile, point: Point) -> Declaration:
    """`own` with what the file says instead."""
    said: dict[str, Any] = {
        "timeout": spec.timeout_seconds,
        "on_error": spec.on_error,
        "observe": spec.observe,
        "match": spec.match,
        "mode": spec.mode,
        "priority": spec.priority,
    }
    changes = {name: value for name, value in said.items() if value is not None}
    source = source_at(spec.where)
    return replace(own, name=spec.name, point=point.name, band=file.band, source=source, **changes)


_EVERY: Mapping[str, object] = FrozenDict()


def _unbound(event: Event) -> NoReturn:
    raise RuntimeError(f"a hook that is only outlined was called with {type(event).__name__}")


async def _unbound_command(event: Event) -> NoReturn:
    _unbound(event)
