"""Hooks as their authors declare them: the `@hook` decorator, the `Hook` class, and what both come to (D§2, D§16).

Nothing is checked against points here; `registration` does that when a runtime is built.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args

from tenter.kernel.errors import RegistrationError
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.point import Policy

Band = Literal["baseline", "control", "app", "gate"]
Mode = Literal["active", "shadow"]

BANDS: tuple[Band, ...] = get_args(Band)
"""Outermost first."""

MODES: tuple[Mode, ...] = get_args(Mode)

F = TypeVar("F", bound=Callable[..., object])

NO_MATCH: Mapping[str, object] = FrozenDict()

_MARK = "__tenter_hooks__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One hook at one point, as declared.

    `timeout` is the deadline in seconds that the hook names, and then it is hard; None leaves it to the runtime.
    `self_timed` says that `call` keeps its own deadline, as executors outside the process do. `call` takes the event
    (an observer's may take `ended` besides) and returns an answer; it may be an async function, or an object whose
    `__call__` is one.
    """

    name: str
    point: str
    call: Callable[..., object]
    kind: str = "function"
    band: Band = "app"
    priority: int = 500
    on_error: Policy | None = None
    timeout: float | None = None
    match: Mapping[str, object] = NO_MATCH
    observe: bool = False
    mode: Mode = "active"
    abandon: Callable[[str, object, object], object] | None = None
    self_timed: bool = False
    source: str = ""


def hook(  # noqa: PLR0913  # a hook's settings are its keywords (D§16)
    *points: str,
    name: str | None = None,
    match: Mapping[str, object] | None = None,
    band: Band = "app",
    priority: int = 500,
    on_error: Policy | None = None,
    timeout: float | None = None,
    observe: bool = False,
    mode: Mode = "active",
) -> Callable[[F], F]:
    """Makes a function a hook at `points`; it is still the same function, and may be decorated once more.

    `priority` is 0 to 999, lower is further out. `timeout` is in seconds; one that is given is hard, and a synchronous
    function then runs in a thread of its own. `on_error` says what a failure does; the default blocks where the point
    can. Raises RegistrationError where no point is named, or for what cannot be marked; all else is checked when a
    runtime is built.
    """
    if not points or not all(isinstance(point, str) for point in cast("tuple[object, ...]", points)):
        raise RegistrationError('@hook needs the name of a point, such as @hook("tool.before")')

    def declare(function: F) -> F:
        if isinstance(function, type):
            raise RegistrationError(
                f"@hook is for functions; derive the class {function.__qualname__!r} from tenter.Hook"
            )
        declared = tuple(
            Declaration(
                name=name if name is not None else getattr(function, "__name__", "").lower(),
                point=point,
                call=function,
                band=band,
                priority=priority,
                on_error=on_error,
                timeout=timeout,
                match=match if match is not None else NO_MATCH,
                observe=observe,
                mode=mode,
            )
            for point in points
        )
        try:
            setattr(function, _MARK, (*declared, *declared_of(function)))
        except AttributeError:
            raise RegistrationError(f"@hook cannot mark {function!r}; put it into a function of your own") from None
        return function

    return declare


class Hook:
    """One plugin at many points, with state of its own: define `on_<point>` methods; only those are called.

    `on_tool_before` attaches to `tool.before`, `on_tool_invoked_pre` to the same point. `abandon(point, event, error)`,
    where defined, hears of every operation whose end the hook would otherwise not see. The settings mean what they
    mean for `@hook`; `name` is the class's, in small letters, unless it is given.
    """

    name: str = ""
    band: Band = "app"
    priority: int = 500
    on_error: Policy | None = None
    timeout: float | None = None
    match: Mapping[str, object] = NO_MATCH
    observe: bool = False
    mode: Mode = "active"


def declared_of(function: object) -> tuple[Declaration, ...]:
    """What `@hook` said of `function`, the outermost decorator first; nothing for one that it never saw."""
    found = getattr(function, _MARK, None)
    return cast("tuple[Declaration, ...]", found) if isinstance(found, tuple) else ()


def function_of(call: object) -> object:
    """The function or method that runs when `call` is called: a partial's, an object's `__call__`, or `call` itself."""
    while isinstance(call, functools.partial):
        call = cast("functools.partial[object]", call).func
    if not inspect.isroutine(call) and not isinstance(call, type):
        call = getattr(call, "__call__", call)  # noqa: B004  # looked at, not asked whether it can be called
    return call


def source_of(target: object) -> str:
    """`file:line` of a function or class, or its qualified name where Python cannot tell."""
    found = cast(Any, function_of(target))
    try:
        found = inspect.unwrap(found)
        path = inspect.getsourcefile(found)
        code = getattr(found, "__code__", None)
        line = code.co_firstlineno if code is not None else inspect.getsourcelines(found)[1]
    except (TypeError, OSError, ValueError):
        return getattr(found, "__qualname__", type(target).__qualname__)
    return f"{path}:{line}"
