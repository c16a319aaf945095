"""Hooks as their authors declare them: the `@hook` decorator, the `Hook` class, and what both come to (D§2, D§16).

Nothing is checked against points here; `registration` does that when a runtime is built.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, get_args

from tenter.kernel.errors import RegistrationError
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.point import Policy

Band = Literal["baseline", "control", "app", "gate"]
Mode = Literal["active", "shadow"]

BANDS: tuple[Band, ...] = get_args(Band)
"""Outermost first."""

F = TypeVar("F", bound=Callable[..., object])

NO_MATCH: Mapping[str, object] = FrozenDict()

MARK = "__tenter_hooks__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One hook at one point, as declared.

    `timeout` is the deadline in seconds that the hook names, and then it is hard; None leaves it to the runtime.
    `self_timed` says that `call` keeps its own deadline, as executors outside the process do. `call` takes the
    event (an observer's may take `ended` besides) and returns an answer, or an awaitable of one.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `@hook` was told, kept on the function until a runtime asks."""

    points: tuple[str, ...]
    name: str
    band: Band
    priority: int
    on_error: Policy | None
    timeout: float | None
    match: Mapping[str, object]
    observe: bool
    mode: Mode


def hook(
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
    """Makes a function a hook at `points`; it is still the same function.

    `priority` is 0 to 999, lower is further out. `timeout` is in seconds; one that is given is hard, and a synchronous
    function then runs in a thread of its own. `on_error` says what a failure does; the default blocks where the point
    can. Raises RegistrationError where no point is named.
    """
    if not points or not all(isinstance(point, str) for point in points):
        raise RegistrationError('@hook needs the name of a point, such as @hook("tool.before")')

    def declare(function: F) -> F:
        settings = Settings(
            points=points,
            name=name if name is not None else getattr(function, "__name__", "").lower(),
            band=band,
            priority=priority,
            on_error=on_error,
            timeout=timeout,
            match=match if match is not None else NO_MATCH,
            observe=observe,
            mode=mode,
        )
        setattr(function, MARK, settings)
        return function

    return declare


class Hook:
    """One plugin at many points, with state of its own: define `on_<point>` methods; only those are called.

    `on_tool_before` attaches to `tool.before`, `on_tool_invoked_pre` to the same point. `abandon(point, event, error)`,
    where defined, hears of every operation whose end the hook would otherwise not see.
    """

    name: str = ""
    band: ClassVar[Band] = "app"
    priority: int = 500
    on_error: Policy | None = None
    timeout: float | None = None
    match: Mapping[str, object] = NO_MATCH
    observe: bool = False
    mode: Mode = "active"


def settings_of(function: object) -> Settings | None:
    """What `@hook` said of `function`, or None for one that it never saw."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, Settings) else None


def source_of(target: object) -> str:
    """`file:line` of a function or class, or its qualified name where Python cannot tell."""
    target = inspect.unwrap(target) if callable(target) else target
    try:
        path = inspect.getsourcefile(target)  # type: ignore[arg-type]
        code = getattr(target, "__code__", None)
        line = code.co_firstlineno if code is not None else inspect.getsourcelines(target)[1]  # type: ignore[arg-type]
    except (TypeError, OSError):
        return getattr(target, "__qualname__", type(target).__qualname__)
    return f"{path}:{line}"
