"""A small catalogue with every class of point, and what tests of the running half say in one word."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from tenter.kernel import (
    AfterEvent,
    Allow,
    Band,
    BeforeEvent,
    Block,
    Catalogue,
    Clock,
    Decision,
    Declaration,
    Escalate,
    Event,
    FrozenDict,
    FrozenStruct,
    KeyPattern,
    Operation,
    Outcome,
    Policy,
    Redactor,
    Result,
    Retry,
    Rule,
    Runtime,
    Suspend,
)


class Grant(FrozenStruct, frozen=True):
    asked: tuple[str, ...]
    digest: str


class Op(FrozenStruct, frozen=True):
    id: str
    approval: Grant | None = None


class Before(BeforeEvent, frozen=True, kw_only=True):
    text: str = ""
    number: int = 0
    extra: Mapping[str, object] = FrozenDict()
    approval: Grant | None = None


class After(AfterEvent, frozen=True, kw_only=True):
    result: str
    text: str = ""
    number: int = 0
    extra: Mapping[str, object] = FrozenDict()
    approval: Grant | None = None


class Said(Event, frozen=True, kw_only=True):
    text: str = ""


EVERYTHING: frozenset[type[Outcome]] = frozenset({Allow, Block, Suspend, Escalate})

WORK: Operation[Before, After] = Operation(
    name="work.done",
    shape="leaf",
    before=Before,
    after=After,
    results=("result",),
    matches={"text": "text"},
    rules={
        "pre": Rule("Before.", takes=EVERYTHING, replaces=True, portable="work.before"),
        "in": Rule("Within.", takes=(EVERYTHING - {Allow}) | {Result}, replaces=True),
        "post": Rule("After.", takes=frozenset({Block, Retry}), replaces=True, portable="work.after"),
    },
)

ECHO: Operation[Before, After] = Operation(
    name="echo.done",
    shape="leaf",
    before=Before,
    after=After,
    results=("result", "text"),
    rules={"in": Rule("The work.", takes=frozenset({Result}))},
)

PLAIN: Operation[Before, After] = Operation(
    name="plain.done",
    shape="leaf",
    before=Before,
    after=After,
    results=("result",),
    rules={"pre": Rule("It can only be refused.", takes=frozenset({Block})), "post": Rule("After.", replaces=True)},
)

STAGED: Operation[Before, After] = Operation(
    name="stage.done",
    shape="leaf",
    before=Before,
    after=After,
    results=("result",),
    matches={"text": "text"},
    rules={
        "pre": Rule("Before.", takes=EVERYTHING - {Allow}, fails=False, portable="stage.before"),
        "post": Rule("After.", takes=EVERYTHING - {Allow}, fails=False, portable="stage.after"),
    },
)

DRIP: Operation[Before, After] = Operation(
    name="drip.done",
    shape="nested",
    before=Before,
    after=After,
    results=("result",),
    rules={"pre": Rule("For each.", takes=frozenset({Block}), replaces=True)},
)

FACT: Operation[Said, Said] = Operation(
    name="fact.told",
    shape="fact",
    before=Said,
    after=Said,
    rules={"pre": Rule("Once.", observe_only=True), "post": Rule("Then.", observe_only=True)},
)

SPAN: Operation[Before, After] = Operation(
    name="span.run",
    shape="span",
    before=Before,
    after=After,
    results=("result",),
    rules={"pre": Rule("First.", takes=frozenset({Block}), replaces=True), "post": Rule("Last.", observe_only=True)},
)

CATALOGUE = Catalogue(cast("tuple[Operation[Event, Event], ...]", (WORK, ECHO, PLAIN, STAGED, DRIP, FACT, SPAN)))


def before(text: str = "", **fields: Any) -> Before:
    return Before(envelope="run", op=fields.pop("op", Op(id="op")), text=text, **fields)


Call = Callable[[Any], object] | Callable[[Any, Any], object]
"""A hook's function; the second parameter is an observer's `ended`."""


def at(
    point: str,
    call: Call,
    *,
    name: str | None = None,
    band: Band = "app",
    on_error: Policy | None = None,
    **settings: Any,
) -> Declaration:
    """A hook, declared without a decorator."""
    name = name if name is not None else call.__name__.strip("_<>").lower()
    return Declaration(name=name, point=point, call=call, band=band, on_error=on_error, **settings)


async def shout(event: Before) -> str:
    """A body."""
    return event.text.upper()


class FakeClock(Clock):
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def runtime(*hooks: object, **settings: object) -> Runtime:
    return Runtime(CATALOGUE, hooks, clock=FakeClock(), **settings)  # pyright: ignore[reportArgumentType]  # by name


async def dispatch(*hooks: object, event: Before | None = None) -> Decision:
    return await runtime(*hooks).dispatch("work.before", event if event is not None else before("a"))


def saying(answer: object) -> Callable[[Event], object]:
    def hook(event: Event) -> object:
        return answer

    return hook


def raising(error: BaseException) -> Callable[[Event], object]:
    def hook(event: Event) -> object:
        raise error

    return hook


def text_of(decision: Decision) -> str:
    return cast(Before, decision.event).text


SECRET = "hunter2-hunter2"
REDACTOR = Redactor(secrets=[SECRET], patterns=[KeyPattern(name="key", prefix="sk_", body="[a-z]{8,}")])
