"""What is checked when a runtime is built, so that nothing of it fails at the first call (D§3.2, D§5, D§7).

From what the caller hands over (functions, `Hook` instances or classes, declarations) to links at points. Every
mistake is a RegistrationError that names the hook, what was expected and what to do. No hook is called and nothing here
loads an event loop.
"""

import inspect
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

from tenter.kernel.chain import Chain, Link, compile_chain
from tenter.kernel.declaration import BANDS, MODES, Declaration, Hook, declared_of, function_of, source_of
from tenter.kernel.errors import RegistrationError
from tenter.kernel.match import compile_match
from tenter.kernel.misspelling import meant, refuse_misspelt
from tenter.kernel.point import POLICIES, Catalogue, Point, Policy
from tenter.kernel.signature import check_abandon, check_signature

SLUG = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")

DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})

LONGEST_TIMEOUT = 86_400.0

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 100


def is_slug(name: object) -> bool:
    """Whether `name` can name a hook: it may become part of a file's name on any system."""
    return isinstance(name, str) and SLUG.fullmatch(name) is not None and name not in DEVICES


def declarations(hook: object, catalogue: Catalogue) -> tuple[Declaration, ...]:
    """What `hook` declares: a decorated function, a `Hook` (or its class), or a declaration itself."""
    if isinstance(hook, Declaration):
        return (hook,)
    if inspect.isclass(hook) and issubclass(hook, Hook):
        return _of_plugin(_instance(hook), catalogue)
    if isinstance(hook, Hook):
        return _of_plugin(hook, catalogue)
    if callable(hook) and (declared := declared_of(cast(object, hook))):
        return tuple(replace(one, call=hook, source=source_of(cast(object, hook))) for one in declared)
    raise RegistrationError(
        f"{described(hook)} is no hook; decorate the function with @hook('<point>') or derive the class from "
        "tenter.Hook"
    )


def compile_chains(
    catalogue: Catalogue, hooks: Iterable[object], *, gates: Iterable[object] = (), timeout: float = 30.0
) -> Mapping[str, Chain]:
    """The chain of every point, by its name. `gates` are hooks that may stand in the reserved `gate` band.

    `timeout` is the deadline, in seconds, of hooks that name none. Raises RegistrationError.
    """
    _check_timeout(timeout, "the runtime")
    at: dict[str, list[Link]] = {name: [] for name in catalogue}
    index = 0
    for reserved, group in ((False, hooks), (True, gates)):
        for hook in _each(group, "gates" if reserved else "hooks"):
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
    owner = f"hook {_SHOWN.repr(declared.name)}" + (f" ({declared.source})" if declared.source else "")
    _check_settings(declared, owner, reserved=reserved)
    point = catalogue.resolve(declared.point, owner)
    owner = f"{owner} at {point.label!r}"
    takes_ended = check_signature(declared, point, owner)
    awaits = _is_async(declared.call)
    named = declared.timeout is not None
    active = declared.mode == "active" and not declared.observe
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
        guards=active and declared.band != "app" and not point.outbound,
        tells=declared.abandon is not None,
        picky=bool(declared.match) or declared.abandon is not None,
    )


def _each(group: object, what: str) -> Iterable[object]:
    if isinstance(group, Iterable) and not isinstance(group, str | bytes | Mapping):
        return cast("Iterable[object]", group)
    raise RegistrationError(f"{what} must be a list, such as {what}=[guard]; got {described(cast(object, group))}")


def described(target: object) -> str:
    """What a value is, in words: a function or class by its name and place."""
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        return _SHOWN.repr(target)
    name, source = target.__qualname__, source_of(target)
    place = f" ({source})" if source != name else ""
    return f"the {'class' if inspect.isclass(target) else 'function'} {name!r}{place}"


def _instance(cls: type[Hook]) -> Hook:
    try:
        return cls()
    except Exception as error:  # whatever its author's code raises, the mistake is the author's
        raise RegistrationError(
            f"the hook class {cls.__qualname__!r} cannot be made without arguments ({type(error).__name__}: {error}); "
            "hand over an instance"
        ) from error


def _of_plugin(plugin: Hook, catalogue: Catalogue) -> tuple[Declaration, ...]:
    cls = type(plugin)
    if callable(plugin.on_error):
        raise RegistrationError(
            f"{cls.__qualname__}.on_error is a method; on_error is the failure policy, the point for errors is "
            "'run.error', and its method on_run_error"
        )
    refuse_misspelt(cls)
    abandon = getattr(plugin, "abandon", None)
    found = tuple(
        Declaration(
            name=plugin.name or cls.__name__.lower(),
            point=point.name,
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
        for point, call in _methods(plugin, catalogue)
    )
    if not found:
        raise RegistrationError(f"the hook class {cls.__qualname__!r} has no on_<point> method, such as on_tool_before")
    return found


def _methods(plugin: Hook, catalogue: Catalogue) -> Iterable[tuple[Point, Callable[..., object]]]:
    """The methods by which `plugin` attaches, in the order of their names."""
    for name in sorted({*dir(type(plugin)), *vars(plugin)}):
        if not name.startswith("on_") or name == "on_error":
            continue
        owner = f"{type(plugin).__qualname__}.{name}"
        if name not in catalogue.methods:
            raise RegistrationError(f"{owner} is the method of no point{meant(name, catalogue)}")
        call = getattr(plugin, name)
        if not callable(call):
            raise RegistrationError(f"{owner} is no method; remove it, or make it one that takes (self, event)")
        yield catalogue.methods[name], call


def _check_settings(declared: Declaration, owner: str, *, reserved: bool) -> None:
    """Whatever stands in a declaration may come from outside of what a type checker sees."""
    if not is_slug(declared.name):
        raise RegistrationError(
            f"{owner} has no usable name; give it one of 1 to 64 of a-z, 0-9, '_' and '-', not starting with '-' and "
            "no device name"
        )
    if not isinstance(cast(object, declared.point), str):
        raise RegistrationError(f"{owner} names the point {declared.point!r}; expected text such as 'tool.before'")
    if declared.band not in BANDS:
        raise RegistrationError(f"{owner} names the band {declared.band!r}; expected one of {_listed(BANDS[:-1])}")
    if declared.band == "gate" and not reserved:
        raise RegistrationError(
            f"{owner} names the band 'gate', which is tenter's own; use one of {_listed(BANDS[:-1])}"
        )
    if type(declared.priority) is not int or not 0 <= declared.priority <= 999:
        raise RegistrationError(
            f"{owner} has the priority {declared.priority!r}; expected a whole number from 0 to 999"
        )
    if declared.mode not in MODES:
        raise RegistrationError(f"{owner} has the mode {declared.mode!r}; expected {_listed(MODES)}")
    if type(declared.observe) is not bool:
        raise RegistrationError(f"{owner} has the observe {declared.observe!r}; expected True or False")
    if declared.timeout is not None:
        _check_timeout(declared.timeout, owner)
    if declared.abandon is not None:
        check_abandon(declared.abandon, owner)


def _check_timeout(timeout: object, owner: str) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_TIMEOUT:
        raise RegistrationError(
            f"{owner} has the timeout {timeout!r}; expected seconds above 0, at most {LONGEST_TIMEOUT:.0f}"
        )


def _policy(declared: Declaration, point: Point, owner: str) -> Policy:
    """The failure policy in force. Nothing of a shadow hook is applied, so that its failure can only warn."""
    said = declared.on_error
    late = declared.observe and point.phase == "in"
    allowed: tuple[Policy, ...] = ("warn",) if late else point.policies
    if said is not None and said not in POLICIES:
        raise RegistrationError(f"{owner} has on_error {said!r}; expected one of {_listed(POLICIES)}")
    if said is not None and said not in allowed:
        where = "an observer of the work, which runs when that is done," if late else "this point"
        raise RegistrationError(f"{owner} has on_error {said!r}; {where} takes {_listed(allowed)}")
    if declared.mode == "shadow":
        return "warn"
    return said or ("warn" if declared.observe else point.default_policy)


def _is_async(call: object) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(function_of(call))


def _refuse_twin(link: Link, others: list[Link]) -> None:
    for other in others:
        if other.name == link.name:
            raise RegistrationError(
                f"two hooks are called {link.name!r} at {link.point.label!r}: {other.hook.source or 'the first'} and "
                f"{link.hook.source or 'the second'}; give one another name"
            )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))
