"""What `check_signature` lets pass and refuses, seen through `attach`, as a user meets it."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Protocol, cast

import pytest

from tenter.kernel import (
    AfterEvent,
    BeforeEvent,
    Block,
    Catalogue,
    Declaration,
    Escalate,
    Event,
    Link,
    Operation,
    Outcome,
    RegistrationError,
    Retry,
    Rule,
    Suspend,
    attach,
)

if TYPE_CHECKING:
    from decimal import Decimal as OnlyWhenChecked


class Asked(BeforeEvent, frozen=True, kw_only=True):
    tool: str = ""


class Answered(AfterEvent, frozen=True, kw_only=True):
    tool: str = ""


CATALOGUE = Catalogue(
    (
        cast(
            "Operation[Event, Event]",
            Operation(
                name="tool.invoked",
                shape="leaf",
                before=Asked,
                after=Answered,
                rules={
                    "pre": Rule("Before.", takes=frozenset({Block, Escalate}), replaces=True),
                    "post": Rule("After."),
                },
            ),
        ),
    )
)

Call = Callable[..., object]


def linked(call: object, *, phase: str = "pre", **settings: Any) -> Link:
    return attach(
        Declaration(name="guard", point=f"tool.invoked.{phase}", call=cast(Call, call), **settings), CATALOGUE
    )


def refusal(call: object, **settings: Any) -> str:
    with pytest.raises(RegistrationError) as caught:
        linked(call, **settings)
    assert str(caught.value).startswith("hook 'guard'")
    return str(caught.value)


class Takes:
    """Callables of many shapes that can be called with an event."""

    def method(self, event: Event) -> None: ...

    async def waiting(self, event: Event) -> None: ...

    @staticmethod
    def static(event: Event) -> None: ...

    @classmethod
    def of_class(cls, event: Event) -> None: ...

    def __call__(self, event: Event) -> None: ...


def more(event: Event, more: int = 3) -> None: ...
def every(*args: object) -> None: ...
def anything(*args: object, **kwargs: object) -> None: ...
def only_positional(event: Event, /) -> None: ...
def optional_keyword(event: Event, *, level: int = 3) -> None: ...
def bound_keyword(event: Event, *, level: int) -> None: ...
def nothing() -> None: ...
def two(event: Event, other: object) -> None: ...
def keywords(**kwargs: object) -> None: ...
def only_keyword(*, event: Event) -> None: ...
def ended_by_keyword(event: Event, *, ended: object = None) -> None: ...
def three(event: Event, ended: object, other: object) -> None: ...


@functools.wraps(only_positional)
def wrapped(*args: Any) -> None: ...


@pytest.mark.parametrize(
    "call",
    [
        Takes().method,
        Takes().waiting,
        Takes.static,
        Takes.of_class,
        Takes(),
        more,
        every,
        anything,
        only_positional,
        optional_keyword,
        functools.partial(bound_keyword, level=3),
        functools.partial(two, other=1),
        wrapped,
        cast(Call, lambda event: None),  # pyright: ignore[reportUnknownLambdaType]  # as a user writes it
        dict.fromkeys,
        print,
    ],
)
def test_whatever_can_be_called_with_an_event_can_be_attached(call: Call) -> None:
    link = linked(call)
    assert link.call is call
    assert not link.takes_ended


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    "call", [nothing, two, bound_keyword, keywords, only_keyword, functools.partial(only_positional, Asked()), three]
)
def test_a_signature_that_does_not_take_one_event_is_refused_as_it_was_written(call: Call) -> None:
    said = refusal(call)
    assert "has the signature (" in said
    assert said.endswith("; expected (event)")


@pytest.mark.parametrize("call", [3, None, "guard", Takes, Block])
def test_what_is_no_function_is_refused(call: object) -> None:
    assert "cannot be called with an event; expected a function" in refusal(call)


def test_a_generator_is_refused() -> None:
    def generator(event: Event) -> object:
        yield event

    async def async_generator(event: Event) -> object:
        yield event

    class Called:
        def __call__(self, event: Event) -> object:
            yield event

    for call in (generator, async_generator, Called(), functools.partial(generator)):
        assert "is a generator; a hook returns its answer" in refusal(call)


def test_async_functions_methods_partials_and_objects_are_known_as_such() -> None:
    class Waits:
        async def __call__(self, event: Event) -> None: ...

    async def waits(event: Event, level: int = 0) -> None: ...

    for call in (waits, Waits(), Takes().waiting, functools.partial(waits, level=1)):
        assert linked(call).awaits
    assert not linked(more).awaits


def test_an_observer_takes_how_the_chain_ended_where_it_asks_for_it() -> None:
    def event_and_ended(event: Event, ended: object) -> None: ...
    def ended_with_default(event: Event, ended: object = None) -> None: ...
    def by_any_name(event: Event, how: object) -> None: ...
    def another_default(event: Event, sink: object = None) -> None: ...
    def any_number(event: Event, *more: object) -> None: ...

    for call in (event_and_ended, ended_with_default, by_any_name):
        assert linked(call, observe=True).takes_ended
    for call in (another_default, any_number, only_positional, every):
        assert not linked(call, observe=True).takes_ended
    assert not linked(ended_with_default).takes_ended


def test_an_observer_that_cannot_be_told_is_refused() -> None:
    assert refusal(three, observe=True).endswith("; expected (event) or (event, ended)")
    assert refusal(ended_by_keyword, observe=True).endswith("; expected (event) or (event, ended), without a *")


class Standing(Protocol):
    tool: str


@pytest.mark.parametrize(
    "annotation", [Asked, BeforeEvent, Event, object, Any, "Asked", "Unknown", Standing, Asked | Answered]
)
@pytest.mark.parametrize("whole", [True, False])
def test_an_annotation_that_the_event_fits_or_that_says_nothing_is_taken(annotation: object, whole: bool) -> None:
    def check(event: object) -> None: ...

    check.__annotations__["event"] = annotation if whole else Optional[annotation]  # noqa: UP045  # at runtime
    assert linked(check).name == "guard"


@pytest.mark.promise(2)
@pytest.mark.parametrize("annotation", [Answered, AfterEvent, "Answered", str, dict, Answered | str, "Answered | str"])
def test_an_annotation_of_another_event_is_refused(annotation: object) -> None:
    def check(event: object) -> None: ...

    check.__annotations__["event"] = annotation
    said = refusal(check)
    assert "hook 'guard' at 'tool.invoked.pre' takes a " in said
    assert said.endswith("this point hands out a Asked")


def test_a_method_a_partial_and_an_object_are_held_against_their_annotations_too() -> None:
    class Guard:
        def check(self, event: Answered) -> None: ...

        def __call__(self, event: Answered) -> None: ...

    def check(event: Answered, level: int = 0) -> None: ...

    @functools.wraps(check)
    def around(*args: Any) -> None: ...

    for call in (Guard().check, Guard(), functools.partial(check, level=1), around):
        assert "takes a Answered" in refusal(call)
        assert linked(call, phase="post").name == "guard"


def test_an_annotation_that_only_a_type_checker_can_see_hides_no_other() -> None:
    def check(event: Answered, amount: "OnlyWhenChecked | None" = None) -> "OnlyWhenChecked | None": ...

    assert "takes a Answered" in refusal(check)


@pytest.mark.promise(2)
def test_an_outcome_that_a_hook_says_it_answers_and_the_point_cannot_take_is_refused() -> None:
    def asks(event: Event) -> Suspend: ...
    async def retries(event: Event) -> "Block | Retry | None": ...
    def rewrites(event: Event) -> Answered | None: ...

    assert refusal(asks).endswith("at 'tool.invoked.pre' answers Suspend; this point takes Block or Escalate or Asked")
    assert "answers Retry" in refusal(retries)
    assert "answers Answered; this point takes Block or Escalate or Asked" in refusal(rewrites)
    assert refusal(rewrites, phase="post").endswith("answers Answered; this point takes no answer")


def test_an_answer_that_the_point_takes_or_that_says_nothing_is_taken() -> None:
    def blocks(event: Event) -> Block | Escalate | None: ...
    def rewrites(event: Event) -> Asked | Block | None: ...
    def any_event(event: Event) -> Event | Outcome | None: ...
    def unclear(event: Event) -> Mapping[str, object] | None: ...
    def anything(event: Event) -> object: ...
    def later(event: Event) -> Awaitable[Suspend] | None: ...
    def of_two_points(event: Event) -> Asked | Answered | None: ...

    for call in (blocks, rewrites, any_event, unclear, anything, later, of_two_points):
        assert linked(call).call is call


def test_an_observer_that_says_it_answers_is_refused() -> None:
    def blocks(event: Event) -> Block | None: ...
    def rewrites(event: Event) -> Asked | None: ...

    assert refusal(blocks, observe=True).endswith("answers Block; an observer answers nothing")
    assert refusal(rewrites, observe=True).endswith("answers Asked; an observer answers nothing")


def test_an_abandon_is_a_plain_function_of_point_event_and_error() -> None:
    class Plugin:
        def abandon(self, point: str, event: object, error: object) -> None: ...

        async def waits(self, point: str, event: object, error: object) -> None: ...

        def short(self, point: str) -> None: ...

    plugin = Plugin()
    assert linked(more, abandon=plugin.abandon).tells
    assert linked(more, abandon=anything).tells
    assert "has an async abandon" in refusal(more, abandon=plugin.waits)
    for wrong in (plugin.short, "text", 3):
        assert "no method of (self, point, event, error)" in refusal(more, abandon=wrong)
