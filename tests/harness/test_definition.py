"""`@tool` makes a tool of a function, or says why it cannot."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from tenter.catalogue import ToolInfo, ToolSpec
from tenter.harness.definition import tool
from tenter.kernel import TenterError


def test_a_function_becomes_a_tool_with_its_name_and_docstring() -> None:
    @tool
    def lookup(ticket: str) -> str:
        """Find a ticket.

        By its number.
        """
        return ticket

    assert lookup.name == "lookup"
    assert lookup.description == "Find a ticket.\n\nBy its number."
    assert not lookup.awaits
    assert lookup.source.startswith(__file__)
    assert lookup("4711") == "4711", "the value still calls the function"


def test_what_hooks_and_models_see_of_a_tool_agrees_with_it() -> None:
    @tool(name="look-up", description="d", idempotent=True, timeout_seconds=3)
    async def f(a: int) -> int:
        return a

    assert f.awaits
    assert f.info == ToolInfo(
        name="look-up", description="d", parameters=f.parameters, idempotent=True, timeout_seconds=3.0
    )
    assert f.spec == ToolSpec(name="look-up", description="d", parameters=f.parameters)


def test_settings_of_a_configuration_replace_those_of_the_decorator() -> None:
    @tool(timeout_seconds=3)
    def f(a: int) -> int:
        return a

    changed = f.configured(name="g", timeout_seconds=7, idempotent=True)
    assert (changed.name, changed.timeout_seconds, changed.idempotent) == ("g", 7.0, True)
    assert f.configured() == f
    assert f.configured(risk=None, sandbox=None, principals=None, secrets=None) == f


def test_what_hooks_see_of_a_tool_holds_its_manifest_and_never_its_secrets() -> None:
    @tool
    def f(a: int) -> int:
        return a

    assert (f.info.risk, f.info.sandbox, f.info.principals) == ("medium", "none", ())
    changed = f.configured(risk="high", sandbox="process", principals=("ops-*",), secrets=("KEY",))
    assert (changed.info.risk, changed.info.sandbox, changed.info.principals) == ("high", "process", ("ops-*",))
    assert changed.secrets == ("KEY",)
    assert "KEY" not in repr(changed.info)


def generator() -> Generator[int]:
    yield 1


async def async_generator() -> AsyncGenerator[int]:
    yield 1


class Callable:
    def __call__(self, a: int) -> int:
        return a


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (generator, "'generator' .* is a generator"),
        (async_generator, "'async_generator' .* is a generator"),
        (Callable(), "is no function"),
        (Callable, "is no function"),
        (lambda: 1, "cannot name a tool"),
    ],
)
def test_what_is_no_plain_function_is_refused(function: Any, told: str) -> None:
    with pytest.raises(TenterError, match=told):
        tool(function)


@pytest.mark.parametrize("name", ["", "Lookup", "a b", "../x", "con", "a" * 65, "-a", "a.b"])
def test_a_name_that_is_no_slug_is_refused(name: str) -> None:
    def f() -> None: ...

    with pytest.raises(TenterError, match=r"f' .* cannot name a tool"):
        tool(name=name)(f)
    with pytest.raises(TenterError, match="cannot name a tool"):
        tool(f).configured(name=name)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "3"])
def test_a_timeout_that_is_no_time_is_refused(seconds: Any) -> None:
    def f() -> None: ...

    with pytest.raises(TenterError, match=r"f' .* timeout_seconds"):
        tool(timeout_seconds=seconds)(f)


def test_a_bound_method_can_be_a_tool() -> None:
    class Store:
        def find(self, key: str) -> str:
            return key * 2

    assert tool(Store().find)("a") == "aa"
