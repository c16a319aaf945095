"""`@tool`: a function that a model may call (D§12, D§16).

It holds what a tool is: name, description, JSON Schema, function, settings. How a call of it is contained is in
`calling`; which tools ship is in `tools`. Loads no event loop.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, cast, overload

from tenter.catalogue import Risk, Sandbox, ToolInfo, ToolSpec
from tenter.harness.context import ToolContext
from tenter.harness.signature import Signature, read_signature
from tenter.kernel import TenterError, is_slug, source_of

LONGEST_TIMEOUT = 86_400.0

Function = Callable[..., object]
Caller = Callable[[Mapping[str, object], ToolContext], Awaitable[object]]
"""Is given the arguments as JSON has them."""


class Settings(TypedDict, total=False):
    """What a configuration says of a tool."""

    name: str | None
    timeout_seconds: float | None
    idempotent: bool | None
    risk: Risk | None
    sandbox: Sandbox | None
    principals: tuple[str, ...] | None
    secrets: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as the harness calls it. Calling the value itself calls the plain function, as a test of it does."""

    name: str
    description: str
    function: Function
    signature: Signature
    awaits: bool
    """The function is async and runs in the event loop; any other runs in a thread of its own."""
    idempotent: bool = False
    """Doing the same call twice comes to doing it once: it may be repeated after a crash (D§11)."""
    timeout_seconds: float | None = None
    """None: the run's deadline alone counts."""
    grace_seconds: float = 0.0
    """How long past its deadline an async tool may take to end what it started and say so; 0: it is cut off."""
    source: str = ""
    """`file:line` of the function."""
    risk: Risk = "medium"
    sandbox: Sandbox = "none"
    """Where it is executed; one that is made here has not been put there yet (see `sandbox`)."""
    principals: tuple[str, ...] = ()
    """Names with `*` of those for whom it may be called; none: anyone."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that it is given."""
    caller: Caller | None = None
    """What is called in place of the function, since that runs elsewhere."""
    limited: Function | None = None
    """The same function for the sandbox `process`, of a tool that does nothing but start a program: it sets the limits
    of that itself, and needs no process for its own code."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """The JSON Schema of the arguments."""
        return self.signature.schema

    @property
    def info(self) -> ToolInfo:
        """The tool as hooks see it."""
        return ToolInfo(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            idempotent=self.idempotent,
            timeout_seconds=self.timeout_seconds,
            risk=self.risk,
            sandbox=self.sandbox,
            principals=self.principals,
        )

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is shown it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def configured(self, **settings: Unpack[Settings]) -> "Tool":
        """The same tool with the settings of a configuration; None, or leaving it out, leaves one as it is."""
        given = {key: value for key, value in settings.items() if value is not None}
        if "name" in given:
            given["name"] = _checked_name(str(given["name"]), self.source)
        if "timeout_seconds" in given:
            given["timeout_seconds"] = _checked_timeout(given["timeout_seconds"], self.name)
        return replace(self, **cast("dict[str, Any]", given))

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout_seconds: float | None = None,
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout_seconds: float | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Makes a sync or async function a tool.

    The JSON Schema comes from annotations and defaults, an argument's description from `Annotated[str, "…"]` or
    `msgspec.Meta`, the tool's own from the docstring. A first parameter annotated `ToolContext` is handed over and not
    shown to the model. What the function returns is the result: text as it is, None as empty text, a `ToolResult` as
    such, anything else as JSON. What it raises becomes an error result; the text of a `ToolError` is all of it.
    Raises TenterError for a function that a model cannot call.
    """

    def define(function: Function) -> Tool:
        owner = _owner(function)
        return Tool(
            name=_checked_name(name if name is not None else function.__name__, owner),
            description=description if description is not None else inspect.getdoc(function) or "",
            function=function,
            signature=read_signature(function, owner),
            awaits=inspect.iscoroutinefunction(function),
            idempotent=idempotent,
            timeout_seconds=None if timeout_seconds is None else _checked_timeout(timeout_seconds, owner),
            source=source_of(function),
        )

    return define if function is None else define(function)


def _owner(function: object) -> str:
    """How errors name the function. Raises TenterError where it is no function that returns a result."""
    if not inspect.isroutine(function) or inspect.isclass(function):
        raise TenterError(f"{function!r} is no function; @tool takes a 'def' or an 'async def'")
    owner = f"the tool {getattr(function, '__qualname__', repr(function))!r} ({source_of(function)})"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TenterError(f"{owner} is a generator; a tool returns its result")
    return owner


def _checked_name(name: str, owner: str) -> str:
    if not is_slug(name):
        raise TenterError(
            f"{owner}: {name!r} cannot name a tool: 1 to 64 of a-z, 0-9, '_' and '-', not starting with '-', no device "
            'name; give another with @tool(name="…")'
        )
    return name


def _checked_timeout(seconds: object, owner: str) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_TIMEOUT:
        raise TenterError(
            f"{owner}: timeout_seconds is {seconds!r}; expected seconds above 0, at most {LONGEST_TIMEOUT:.0f}"
        )
    return float(seconds)
