import functools
from pathlib import Path
from typing import Any, cast

import pytest

from tenter.kernel import Event, Hook, RegistrationError, hook, source_of
from tenter.kernel.declaration import declared_of, function_of


def guard(event: Event) -> None:
    """A hook's function."""


def test_a_decorated_function_is_the_same_function_and_can_be_called() -> None:
    def double(number: int) -> int:
        return number * 2

    decorated = hook("tool.before")(double)
    assert decorated is double
    assert decorated(3) == 6


def test_a_decorated_function_declares_one_hook_for_each_point() -> None:
    match = {"tool": "shell"}

    @hook(
        "tool.before", "tool.after", name="guard-1", match=match, band="control", priority=7, on_error="warn",
        timeout=2, observe=True, mode="shadow",
    )  # fmt: skip
    def check(event: Event) -> None: ...

    first, second = declared_of(check)
    assert (first.point, second.point) == ("tool.before", "tool.after")
    for one in (first, second):
        assert (one.name, one.match, one.band, one.priority) == ("guard-1", match, "control", 7)
        assert (one.on_error, one.timeout, one.observe, one.mode) == ("warn", 2, True, "shadow")
        assert one.call is check


def test_a_hook_is_called_like_its_function_unless_it_is_given_a_name() -> None:
    @hook("tool.before")
    def No_Force_Push(event: Event) -> None: ...  # noqa: N802  # the case is what is tested

    (declared,) = declared_of(No_Force_Push)
    assert (declared.name, declared.band, declared.priority) == ("no_force_push", "app", 500)
    assert (declared.on_error, declared.timeout, declared.observe, declared.mode) == (None, None, False, "active")


def test_a_function_that_is_decorated_twice_declares_both() -> None:
    @hook("tool.before", name="outer")
    @hook("tool.after", name="inner")
    def check(event: Event) -> None: ...

    assert [(one.name, one.point) for one in declared_of(check)] == [("outer", "tool.before"), ("inner", "tool.after")]


def test_decorating_a_wrapper_leaves_the_wrapped_function_as_it_was() -> None:
    @hook("tool.before")
    def check(event: Event) -> None: ...

    @hook("tool.after")
    @functools.wraps(check)
    def around(event: Event) -> None: ...

    assert [one.point for one in declared_of(around)] == ["tool.after", "tool.before"]
    assert [one.point for one in declared_of(check)] == ["tool.before"]


def test_a_method_and_an_object_can_be_decorated() -> None:
    class Guard:
        @hook("tool.before")
        def check(self, event: Event) -> None: ...

        def __call__(self, event: Event) -> None: ...

    assert [one.name for one in declared_of(Guard().check)] == ["check"]
    assert [one.name for one in declared_of(hook("tool.before", name="called")(Guard()))] == ["called"]
    partial = hook("tool.before", name="part")(functools.partial(guard))
    assert [one.call for one in declared_of(partial)] == [partial]


@pytest.mark.parametrize("points", [(), (guard,), ("tool.before", None)])
def test_a_decorator_without_the_name_of_a_point_says_how_it_is_used(points: tuple[Any, ...]) -> None:
    with pytest.raises(RegistrationError, match=r'such as @hook\("tool.before"\)'):
        hook(*points)


def test_a_class_cannot_be_decorated() -> None:
    with pytest.raises(RegistrationError, match=r"derive the class '.*Guard' from tenter.Hook"):

        @hook("tool.before")
        class Guard: ...


def test_what_cannot_be_marked_is_refused() -> None:
    with pytest.raises(RegistrationError, match="cannot mark <built-in function len>"):
        hook("tool.before")(len)


@pytest.mark.parametrize("other", [guard, 3, None, Hook()])
def test_what_was_never_decorated_declares_nothing(other: object) -> None:
    assert declared_of(other) == ()


def test_an_object_that_has_every_attribute_declares_nothing() -> None:
    class Anything:
        def __getattr__(self, name: str) -> object:
            return self

    assert declared_of(Anything()) == ()


def test_the_source_of_a_hook_is_its_file_and_line() -> None:
    class Called:
        def __call__(self, event: Event) -> None: ...

    @functools.wraps(guard)
    def around(event: Event) -> None: ...

    line = cast(Any, guard).__code__.co_firstlineno
    here = f"{Path(__file__)}:{line}"
    assert source_of(guard) == source_of(functools.partial(guard)) == source_of(around) == here
    assert source_of(Called()).startswith(f"{Path(__file__)}:")
    assert source_of(Hook).endswith(f":{_line_of(Hook)}")


def _line_of(cls: type) -> int:
    lines = Path(cast(str, __import__("inspect").getsourcefile(cls))).read_text().splitlines()
    return lines.index(f"class {cls.__name__}:") + 1


def test_the_source_of_what_python_cannot_place_is_its_name() -> None:
    namespace: dict[str, Any] = {}
    exec("class Made:\n  def __call__(self, event): ...", namespace)
    assert source_of(len) == "len"
    assert "Made" in source_of(namespace["Made"])


def test_a_function_that_wraps_itself_has_a_source_still() -> None:
    def circle(event: Event) -> None: ...

    cast(Any, circle).__wrapped__ = circle
    assert "circle" in source_of(circle)


def test_the_function_beneath_partials_and_objects_is_found() -> None:
    class Called:
        def __call__(self, event: Event) -> None: ...

    one = Called()
    assert function_of(functools.partial(functools.partial(guard))) is guard
    assert function_of(one) == one.__call__
    assert function_of(guard) is guard
