from typing import cast

import pytest
from hypothesis import given, strategies as st

from tenter.kernel import (
    BANDS,
    AfterEvent,
    Band,
    BeforeEvent,
    Block,
    Catalogue,
    Chain,
    Declaration,
    Event,
    Link,
    Operation,
    Phase,
    Rule,
    Shape,
    attach,
    compile_chain,
)
from tenter.kernel.chain import depth


def catalogue(shape: Shape = "leaf") -> Catalogue:
    def rule(phase: Phase) -> Rule:
        return Rule(f"At {phase}.", takes=frozenset({Block}) if shape == "leaf" else frozenset())

    operation = Operation(
        name="tool.invoked",
        shape=shape,
        before=BeforeEvent,
        after=AfterEvent,
        rules={"pre": rule("pre"), "in": rule("in"), "post": rule("post")},
    )
    return Catalogue((cast("Operation[Event, Event]", operation),))


CATALOGUE = catalogue()


def nothing(event: Event) -> None:
    """A hook that has nothing to say."""


def link(index: int, band: Band = "app", priority: int = 500, *, observe: bool = False, phase: str = "pre") -> Link:
    declared = Declaration(
        name=f"h{index}",
        point=f"tool.invoked.{phase}",
        call=nothing,
        band=band,
        priority=priority,
        observe=observe,
    )
    return attach(declared, CATALOGUE, reserved=True, index=index)


def chain(links: list[Link], phase: str) -> Chain:
    return compile_chain(CATALOGUE[f"tool.invoked.{phase}"], links)


places = st.lists(st.tuples(st.sampled_from(BANDS), st.sampled_from([0, 1, 500, 999]), st.booleans()), max_size=12)


@given(places, st.sampled_from(["pre", "in"]), st.booleans())
def test_inbound_runs_by_band_then_priority_then_registration(
    hooks: list[tuple[Band, int, bool]], phase: str, backwards: bool
) -> None:
    made = [link(n, band, priority, observe=observe, phase=phase) for n, (band, priority, observe) in enumerate(hooks)]
    expected = sorted(made, key=lambda one: (BANDS.index(one.hook.band), one.hook.priority, one.index))
    compiled = chain(made[::-1] if backwards else made, phase)
    assert compiled.links == tuple(one for one in expected if not one.hook.observe)
    assert compiled.observers == tuple(one for one in expected if one.hook.observe)


@given(places)
def test_outbound_visits_depths_in_reverse_and_keeps_registration_order_within_one(
    hooks: list[tuple[Band, int, bool]],
) -> None:
    inbound = chain([link(n, band, at, observe=seen) for n, (band, at, seen) in enumerate(hooks)], "pre")
    outbound = chain(
        [link(n, band, at, observe=seen, phase="post") for n, (band, at, seen) in enumerate(hooks)], "post"
    )
    for there, back in ((inbound.links, outbound.links), (inbound.observers, outbound.observers)):
        depths = sorted({depth(one.hook) for one in there}, reverse=True)
        expected = [one.index for at in depths for one in there if depth(one.hook) == at]
        assert [one.index for one in back] == expected


@given(places, st.sampled_from(["pre", "in", "post"]))
def test_what_is_listed_is_what_runs_observers_last(hooks: list[tuple[Band, int, bool]], phase: str) -> None:
    made = [link(n, band, at, observe=seen, phase=phase) for n, (band, at, seen) in enumerate(hooks)]
    compiled = chain(made, phase)
    assert compiled.running_order == compiled.links + compiled.observers
    assert sorted(one.index for one in compiled.running_order) == list(range(len(hooks)))
    assert [one.hook.observe for one in compiled.running_order] == sorted(one.hook.observe for one in made)
    assert [one.place for one in compiled.links] == sorted(one.place for one in compiled.links)


@pytest.mark.promise(15)
def test_a_baseline_hook_has_the_first_word_on_the_way_in_and_the_last_on_the_way_out() -> None:
    bands: tuple[Band, ...] = ("app", "gate", "baseline", "control")
    inbound = chain([link(n, band) for n, band in enumerate(bands)], "pre")
    outbound = chain([link(n, band, phase="post") for n, band in enumerate(bands)], "post")
    assert [one.hook.band for one in inbound.links] == ["baseline", "control", "app", "gate"]
    assert [one.hook.band for one in outbound.links] == ["gate", "app", "control", "baseline"]


def test_a_chain_knows_whether_it_is_empty_nested_or_watched_and_who_judges_again() -> None:
    async def waits(event: Event) -> None: ...

    nested = catalogue("nested")["tool.invoked.pre"]
    assert (compile_chain(nested, []).nested, compile_chain(nested, []).empty) == (True, True)
    hook = Declaration(name="waits", point="tool.invoked.pre", call=waits)
    watched = chain([attach(hook, CATALOGUE), link(1, "control"), link(2, "baseline", observe=True)], "pre")
    assert (watched.nested, watched.empty, watched.watched) == (False, False, True)
    assert [one.name for one in watched.guards] == ["h1"]
    assert watched.label == "tool.invoked.pre"
    assert not chain([link(1)], "pre").watched


def test_the_figures_of_a_slow_synchronous_hook_count_a_stall() -> None:
    async def waits(event: Event) -> None: ...

    inline, waiting = link(0), attach(Declaration(name="waits", point="tool.invoked.pre", call=waits), CATALOGUE)
    for one in (inline, waiting):
        one.slow(0.2)
        one.slow(0.1)
    assert (inline.slowest, inline.stalls) == (0.2, 2)
    assert (waiting.slowest, waiting.stalls) == (0.2, 0)
