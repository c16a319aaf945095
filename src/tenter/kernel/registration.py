"""What is checked when a runtime is built, so that nothing of it fails at the first call (D§3.2, D§5, D§7).

From what the caller hands over (functions, `Hook` instances or classes, declarations) to links at points. Every
mistake is a RegistrationError that names the hook, what was expected and what to do. Nothing is run and nothing here
loads an event loop.
"""

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from tenter.kernel.chain import Chain, Link, compile_chain
from tenter.kernel.errors import RegistrationError
from tenter.kernel.event import Event
from tenter.kernel.declaration import BANDS, Declaration, Hook, settings_of, source_of
from tenter.kernel.match import compile_match
from tenter.kernel.point import Catalogue, Point, Policy

SLUG = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")

DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})

LONGEST_TIMEOUT = 86_400.0

POLICIES: tuple[Policy, ...] = typing.get_args(Policy)


def is_slug(name: object) -> bool:
    """Whether `name` can name a hook: it may become part of a file's name on any system."""
    return isinstance(name, str) and SLUG.fullmatch(name) is not None and name not in DEVICES


def declarations(hook: object, catalogue: Catalogue) -> tuple[Declaration, ...]:
    """What `hook` declares: a decorated function, a `Hook` (or its class), or a declaration itself."""
    if isinstance(hook, Declaration):
        return (hook,)
    if isinstance(hook, type) and issubclass(hook, Hook):
        return _of_plugin(_instance(hook), catalogue)
    if isinstance(hook, Hook):
        return _of_plugin(hook, catalogue)
    if callable(hook) and (settings := settings_of(hook)) is not None:
        return tuple(
            Declaration(
                name=settings.name,
                point=point,
                call=hook,
                band=settings.band,
                priority=settings.priority,
                on_error=settings.on_error,
                timeout=settings.timeout,
                match=settings.match,
                observe=settings.observe,
                mode=settings.mode,
                source=source_of(hook),
            )
            for point in settings.points
        )
    raise RegistrationError(
        f"{hook!r} is no hook; decorate the function with @hook('<point>') or derive the class from tenter.Hook"
    )


def compile_chains(
    catalogue: Catalogue, hooks: Iterable[object], *, gates: Iterable[object] = (), timeout: float = 30.0
) -> Mapping[str, Chain]:
    """The chain of every point, by its name. `gates` are hooks that may stand in the reserved `gate` band."""
    at: dict[str, list[Link]] = {name: [] for name in catalogue}
    index = 0
    for reserved, group in ((False, hooks), (True, gates)):
        for hook in group:
            for declared in declarations(hook, catalogue):
                link = attach(declared, catalogue, reserved=reserved, timeout=timeout, index=index)
                _refuse_twin(link, at[link.point.name])
                at[link.point.name].append(link)
                index += 1
    return {name: compile_chain(catalogue[name], links) for name, links in at.items()}


def attach(
    declared: Declaration, catalogue: Catalogue, *, reserved: bool = False, timeout: float = 30.0, index: int = 0
) -> Link:
    """`declared` as a link at its point. Raises RegistrationError for whatever that point cannot take."""
    owner = f"hook {declared.name!r}" + (f" ({declared.source})" if declared.source else "")
    _check_names(declared, owner, reserved=reserved)
    point = catalogue.resolve(declared.point, owner)
    owner = f"{owner} at {point.label!r}"
    _check_timeout(declared.timeout, owner)
    takes_ended = _check_signature(declared, point, owner)
    awaits = _is_async(declared.call)
    named = declared.timeout is not None
    return Link(
        hook=declared,
        point=point,
        index=index,
        on_error=_policy(declared, point, owner),
        timeout=declared.timeout if declared.timeout is not None else timeout,
        hard=named or declared.self_timed,
        matches=compile_match(declared.match, point.operation.matches, owner),
        call=declared.call,
        awaits=awaits,
        soft=awaits and not named and not declared.self_timed,
        takes_ended=takes_ended,
        shadow=declared.mode == "shadow",
        guards=declared.band != "app" and not declared.observe and declared.mode == "active",
        tells=declared.abandon is not None,
        picky=bool(declared.match) or declared.abandon is not None,
    )


def _instance(cls: type[Hook]) -> Hook:
    try:
        return cls()
    except TypeError as error:
        raise RegistrationError(
            f"the hook class {cls.__qualname__!r} cannot be made without arguments ({error}); hand over an instance"
        ) from None


def _of_plugin(plugin: Hook, catalogue: Catalogue) -> tuple[Declaration, ...]:
    methods = catalogue.methods()
    found: list[Declaration] = []
    abandon = getattr(plugin, "abandon", None)
    for name in sorted(set(dir(type(plugin))) | set(vars(plugin))):
        if not name.startswith("on_") or name == "on_error":
            continue
        if name not in methods:
            near = catalogue.nearest(name.removeprefix("on_").replace("_", "."))
            raise RegistrationError(f"{type(plugin).__qualname__}.{name} is the method of no point{near}")
        call = getattr(plugin, name)
        found.append(
            Declaration(
                name=plugin.name or type(plugin).__name__.lower(),
                point=methods[name].name,
                call=call,
                band=plugin.band,
                priority=plugin.priority,
                on_error=plugin.on_error,
                timeout=plugin.timeout,
                match=plugin.match,
                observe=plugin.observe,
                mode=plugin.mode,
                abandon=cast("Callable[[str, object, object], object] | None", abandon),
                source=source_of(call),
            )
        )
    if not found:
        raise RegistrationError(
            f"the hook class {type(plugin).__qualname__!r} has no on_<point> method, such as on_tool_before"
        )
    return tuple(found)


def _check_names(declared: Declaration, owner: str, *, reserved: bool) -> None:
    if not is_slug(declared.name):
        raise RegistrationError(
            f"{owner} has no usable name: 1 to 64 of a-z, 0-9, '_' and '-', not starting with '-', no device name"
        )
    if declared.band not in BANDS:
        raise RegistrationError(f"{owner} names the band {declared.band!r}; expected one of {', '.join(BANDS[:-1])}")
    if declared.band == "gate" and not reserved:
        raise RegistrationError(
            f"{owner} names the band 'gate', which is tenter's own; use 'baseline', 'control' or 'app'"
        )
    if type(declared.priority) is not int or not 0 <= declared.priority <= 999:
        raise RegistrationError(
            f"{owner} has the priority {declared.priority!r}; expected a whole number from 0 to 999"
        )
    if declared.mode not in ("active", "shadow"):
        raise RegistrationError(f"{owner} has the mode {declared.mode!r}; expected 'active' or 'shadow'")
    if declared.abandon is not None and _is_async(declared.abandon):
        raise RegistrationError(
            f"{owner} has an async abandon; it is called while things come down: make it a plain function"
        )


def _check_timeout(timeout: object, owner: str) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_TIMEOUT:
        raise RegistrationError(
            f"{owner} has the timeout {timeout!r}; expected seconds above 0, at most {LONGEST_TIMEOUT:.0f}"
        )


def _policy(declared: Declaration, point: Point, owner: str) -> Policy:
    watching = declared.observe or declared.mode == "shadow"
    allowed: tuple[Policy, ...] = ("warn",) if watching else point.policies
    if declared.on_error is None:
        return "warn" if watching else point.default_policy
    if declared.on_error not in allowed:
        why = "an observer or shadow hook" if watching else "this point"
        raise RegistrationError(
            f"{owner} has on_error {declared.on_error!r}; {why} takes {' or '.join(map(repr, allowed))}"
        )
    return declared.on_error


def _check_signature(declared: Declaration, point: Point, owner: str) -> bool:
    """Whether the hook takes `ended` besides the event. Raises RegistrationError where it cannot take the event."""
    call = declared.call
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise RegistrationError(f"{owner} is a generator; a hook returns its answer")
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return False
    _check_annotation(call, signature, point, owner)
    if declared.observe and _binds(signature, 2):
        return True
    if not _binds(signature, 1):
        shape = "(event) or (event, ended)" if declared.observe else "(event)"
        raise RegistrationError(f"{owner} has the signature {signature}; expected {shape}")
    return False


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return count == 1 or sum(p.kind in positional for p in signature.parameters.values()) >= count


def _check_annotation(call: object, signature: inspect.Signature, point: Point, owner: str) -> None:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.annotation is inspect.Parameter.empty:
        return
    try:
        wanted = typing.get_type_hints(call).get(first.name)
    except Exception:  # a name that only a type checker can see says nothing about the hook
        return
    if isinstance(wanted, type) and issubclass(wanted, Event) and not issubclass(point.event, wanted):
        raise RegistrationError(f"{owner} takes a {wanted.__name__}; this point hands out a {point.event.__name__}")


def _is_async(call: object) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # looked at, not asked for callability


def _refuse_twin(link: Link, others: list[Link]) -> None:
    for other in others:
        if other.name == link.name:
            raise RegistrationError(
                f"two hooks are called {link.name!r} at {link.point.label!r}: {other.hook.source or 'the first'} and "
                f"{link.hook.source or 'the second'}; give one another name"
            )
