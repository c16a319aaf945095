"""What runs at each point, in order, as rows (promise 15): made from the same chains that a runtime runs.

Pure, but for the outline that `list_hooks` makes; nothing is imported or run. How a row looks is for who prints it.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from tenter.catalogue import CATALOGUE
from tenter.config.outline import Outline, PlannedHook, PlannedPlugin, hook_files, outline
from tenter.config.problem import ConfigError
from tenter.config.spec import HookDefaults, Spec
from tenter.controls import GATES
from tenter.kernel import Band, Chain, Link, Mode, Policy, compile_chains

Deadline = Literal["hard", "soft", "none", "unknown"]
"""How a deadline is kept: at all cost, by cancelling, or not (a synchronous function that names none runs inline)."""

BODY_PRIORITY = 1000
"""The default body of an operation is the innermost of its work (D§4.1)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One hook at one point, or the operation's own body at its `in`."""

    point: str
    """The portable name where it exists."""
    full_name: str
    order: int
    """From 1, in the order in which they run; observers come last. 0 for one that does not run: it is not trusted."""
    name: str
    kind: str
    """`function`, `command`, `policy` (a rule), `governor` (a check of tenter's own) or `body`."""
    band: Band | None
    priority: int
    match: Mapping[str, object]
    mode: Mode
    observe: bool
    source: str
    """`file:line`, empty for what is tenter's own."""
    on_error: Policy | None
    """The failure policy in force."""
    timeout_seconds: float | None
    deadline: Deadline
    abandon: bool
    """Whether it hears of operations whose end it would not see; what runs outside the process never does."""
    certain: bool = True
    """Whether a Python hook's text shows all this; where it does not, the hook may say otherwise when it is loaded."""
    untrusted: bool = False
    """Whether it is a hook of a project that is not trusted: it is listed as it would run, and does not (D§3.14)."""


class Unlisted(msgspec.Struct, frozen=True):
    """A plugin whose text does not show where it hangs."""

    target: str
    source: str
    untrusted: bool = False


class Listing(msgspec.Struct, frozen=True):
    """What runs, and the plugins of which only loading would tell."""

    rows: tuple[Row, ...]
    unlisted: tuple[Unlisted, ...] = ()


def list_hooks(
    spec: Spec, user: Spec | None, environment: Mapping[str, str] = os.environ, *, trusted: bool = True
) -> Listing:
    """What runs with these files. Where the project is not trusted, its hooks are marked, and nothing it sets holds.

    Raises ConfigError with everything that is wrong with their hooks.
    """
    search = environment.get("PATH", "")
    whole = outline(hook_files(spec, user), search)
    if whole.problems:
        raise ConfigError(whole.problems)
    listed = _listing(whole, spec.hooks.defaults)
    if trusted:
        return listed
    projects = Outline(tuple(one for one in whole.planned if one.file.spec is spec), ())
    return _marked(listed, projects, _listing(outline(hook_files(None, user), search), HookDefaults()))


def _listing(planned: Outline, defaults: HookDefaults) -> Listing:
    chains = compile_chains(CATALOGUE, planned.declarations, gates=GATES, timeout=defaults.timeout_seconds)
    return Listing(rows(chains.values(), _uncertain(planned)), tuple(_unlisted(planned)))


def _marked(whole: Listing, projects: Outline, in_force: Listing) -> Listing:
    """`in_force`, and between its rows those of the project's hooks, where they would run."""
    theirs = {(CATALOGUE[one.point].name, one.name) for one in projects.declarations}
    running = {(row.full_name, row.name): row for row in in_force.rows}
    shown = [
        msgspec.structs.replace(row, order=0, untrusted=True) if place in theirs else running[place]
        for row in whole.rows
        if (place := (row.full_name, row.name)) in theirs or place in running
    ]
    unlisted = [msgspec.structs.replace(one, untrusted=True) for one in _unlisted(projects)]
    return Listing(tuple(shown), (*in_force.unlisted, *unlisted))


def rows(chains: Iterable[Chain], uncertain: Collection[tuple[str, str]] = ()) -> tuple[Row, ...]:
    """The rows of `chains`. `uncertain` are points and names of hooks of which only loading would tell."""
    return tuple(row for chain in chains if not chain.empty for row in _chain_rows(chain, uncertain))


def _chain_rows(chain: Chain, uncertain: Collection[tuple[str, str]]) -> Iterator[Row]:
    body = [None] if chain.point.phase == "in" else []
    for order, link in enumerate([*chain.links, *body, *chain.observers], 1):
        yield _body(chain, order) if link is None else _row(link, order, (chain.point.name, link.name) in uncertain)


def _row(link: Link, order: int, uncertain: bool) -> Row:
    hook = link.hook
    return Row(
        point=link.point.label,
        full_name=link.point.name,
        order=order,
        name=hook.name,
        kind=hook.kind,
        band=hook.band,
        priority=hook.priority,
        match=hook.match,
        mode=hook.mode,
        observe=hook.observe,
        source=hook.source,
        on_error=link.on_error,
        timeout_seconds=link.timeout,
        deadline=_deadline(link, uncertain),
        abandon=hook.abandon is not None,
        certain=not uncertain,
    )


def _deadline(link: Link, uncertain: bool) -> Deadline:
    if link.hard:
        return "hard"
    if uncertain:
        return "unknown"
    return "soft" if link.soft else "none"


def _body(chain: Chain, order: int) -> Row:
    return Row(
        point=chain.point.label,
        full_name=chain.point.name,
        order=order,
        name=chain.point.operation.name,
        kind="body",
        band=None,
        priority=BODY_PRIORITY,
        match={},
        mode="active",
        observe=False,
        source="",
        on_error=None,
        timeout_seconds=None,
        deadline="none",
        abandon=False,
    )


def _uncertain(planned: Outline) -> frozenset[tuple[str, str]]:
    hooks = (one for one in planned.planned if isinstance(one, PlannedHook) and not one.certain)
    return frozenset((one.point.name, one.spec.name) for one in hooks)


def _unlisted(planned: Outline) -> Iterator[Unlisted]:
    for one in planned.planned:
        if isinstance(one, PlannedPlugin) and not one.certain:
            yield Unlisted(one.target, f"{one.where.file}:{one.where.line}")
