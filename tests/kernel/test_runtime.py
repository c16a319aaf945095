import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from tests.kernel.workshop import CATALOGUE, ECHO, SPAN, WORK, After, Before, Op, at, before, runtime, saying, shout

from tenter.kernel import (
    Block,
    Declaration,
    Done,
    Failed,
    Hook,
    RegistrationError,
    Runtime,
    Suspend,
    TenterError,
    Trace,
    stopped,
)


@pytest.mark.promise(2)
async def test_a_point_that_does_not_exist_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(RegistrationError, match=r"'work\.befor', which does not exist; did you mean 'work\.before'"):
        await runtime().dispatch("work.befor", before())


@pytest.mark.parametrize("name", ["work.before", "work.done.pre", "pre.work.done"])
async def test_a_point_answers_to_each_of_its_names(name: str) -> None:
    kernel = runtime(at(name, saying(Block("no")), name="h"))
    for other in ("work.before", "work.done.pre", "pre.work.done"):
        assert (await kernel.dispatch(other, before())).outcome == Block("no")
    assert kernel.chain("work.before") is kernel.chains["work.done.pre"]


@pytest.mark.fault(31)
async def test_nothing_registers_while_a_runtime_lives() -> None:
    hooks: list[object] = []
    kernels: list[Runtime] = []

    def late(event: Before) -> Block:
        return Block("registered late")

    def registers(event: Before) -> None:
        hooks.append(at("work.before", late))
        with pytest.raises(TypeError):
            cast("dict[str, object]", kernels[0].chains)["work.done.pre"] = None
        with pytest.raises(AttributeError):
            kernels[0].chain("work.before").links = ()  # pyright: ignore[reportAttributeAccessIssue]  # what is tried

    hooks.append(at("work.before", registers))
    kernels.append(Runtime(CATALOGUE, hooks))
    for _ in range(2):
        decision = await kernels[0].dispatch("work.before", before())
        assert (decision.outcome, decision.records) == (None, ())
    assert [link.name for link in kernels[0].links()] == ["registers"]


@pytest.mark.fault(31)
async def test_a_plugin_that_changes_itself_changes_no_chain() -> None:
    class Plugin(Hook):
        name = "plugin"

        def on_work_before(self, event: Before) -> None:
            self.match = {"text": "never"}
            type(self).on_work_before = cast("object", saying(Block("changed")))  # pyright: ignore[reportAttributeAccessIssue]  # what is tried

    kernel = runtime(Plugin())
    for _ in range(2):
        assert (await kernel.dispatch("work.before", before())).outcome is None


async def test_a_span_is_not_run_but_its_ends_are_dispatched() -> None:
    kernel = runtime(at("span.run.pre", lambda e: e.replace(text="b"), name="h"))
    with pytest.raises(ValueError, match=r"span.run is a span: open and close it"):
        await kernel.run(SPAN, before(), shout)
    decision = await kernel.dispatch("span.run.pre", before("a"))
    assert cast(Before, decision.event).text == "b"
    assert stopped(decision) is None


async def test_an_entry_goes_to_the_trace_that_the_caller_names_or_to_the_runtimes_own() -> None:
    kernel, trace = runtime(at("work.before", saying(None), name="h")), Trace()
    await kernel.dispatch("work.before", before(), trace=trace)
    await kernel.run(WORK, before(), shout, trace=trace)
    assert (len(trace), len(kernel.trace)) == (2, 0)
    await kernel.dispatch("work.before", before())
    assert len(kernel.trace) == 1


async def test_the_digest_names_the_call_and_not_its_approval() -> None:
    named: list[dict[str, object]] = []

    def digest(call: Mapping[str, object]) -> str:
        named.append(dict(call))
        return "d"

    kernel = runtime(at("work.before", saying(Suspend("ask")), name="h"), digest=digest)
    decision = await kernel.dispatch("work.before", before("a", number=1))
    assert decision.digest == "d"
    assert named == [{"text": "a", "number": 1, "extra": {}}]
    own = await runtime(at("work.before", saying(Suspend("ask")), name="h")).dispatch("work.before", before("a"))
    call = msgspec.json.encode({"text": "a", "number": 0, "extra": {}}, order="sorted")
    assert own.digest == "sha256:" + hashlib.sha256(call).hexdigest()


@pytest.mark.parametrize(("value", "text"), [({"result": "r"}, "a"), ({"result": "r", "text": "b"}, "b")])
async def test_a_result_that_bears_the_name_of_an_input_takes_its_place_where_it_is_given(
    value: dict[str, str], text: str
) -> None:
    async def body(event: Before) -> object:
        return value

    expected = Done(After(envelope="run", op=Op(id="op"), result="r", text=text))
    assert await runtime().run(ECHO, before("a"), body) == expected
    assert (
        await runtime(at("echo.done.in", lambda e: e.result(value), name="h")).run(ECHO, before("a"), shout) == expected
    )


async def test_figures_count_calls_time_and_what_came_of_them() -> None:
    kernel = runtime(at("work.before", lambda e: Block("no") if e.text else None, name="h"))
    for text in ("", "", "a"):
        await kernel.dispatch("work.before", before(text))
    (link,) = kernel.links()
    assert (link.calls, link.failures, link.results) == (3, 0, {"denied": 1})
    assert 0 < link.seconds < 1


async def test_many_operations_at_once_do_not_mix() -> None:
    async def slowly(event: Before) -> Before:
        await asyncio.wait_for(together.wait(), 5)
        return event.replace(text=event.text + "!")

    async def arrive(n: int) -> object:
        return await kernel.run(WORK, before(f"a{n}", op=Op(id=f"op{n}")), shout, trace=traces[n])

    together, traces = asyncio.Barrier(20), [Trace() for _ in range(20)]
    kernel = runtime(at("work.before", slowly))
    endings = await asyncio.gather(*(arrive(n) for n in range(20)))
    events = [cast(After, getattr(ending, "event", None)) for ending in endings]
    assert [event.result for event in events] == [f"A{n}!" for n in range(20)]
    assert [[entry.op for entry in trace.events()] for trace in traces] == [[f"op{n}"] * 2 for n in range(20)]


async def test_what_is_no_operation_or_no_event_of_it_is_refused_with_what_was_expected() -> None:
    kernel, strange = runtime(), cast(Any, None)
    after = After(envelope="run", op=Op(id="op"), result="r")
    other = replace(WORK, name="other.done")
    with pytest.raises(TenterError, match=r"expected an Operation, got 'work\.done'; take one of "):
        await kernel.run(cast(Any, "work.done"), before(), shout)
    with pytest.raises(TenterError, match=r"got 'work\.done'"):
        await kernel.finish(cast(Any, "work.done"), after)
    with pytest.raises(TenterError, match=r"got 'span\.run'"):
        kernel.span(cast(Any, "span.run"))
    with pytest.raises(TenterError, match=r"the catalogue has no operation 'other\.done'; it has work\.done, "):
        await kernel.run(other, before(), shout)
    with pytest.raises(TenterError, match=r"work\.done takes a Before, not NoneType"):
        await kernel.run(WORK, strange, shout)
    with pytest.raises(TenterError, match=r"the end of work\.done takes a After, not Before"):
        await kernel.finish(WORK, cast(Any, before()))
    for wrong, kind in ((strange, "NoneType"), (before(), "Before")):
        with pytest.raises(TenterError, match=rf"work\.after takes a After, not {kind}"):
            await kernel.dispatch("work.after", wrong)


@pytest.mark.parametrize("hooks", [(), (at("work.before", saying(None), name="h"),)])
async def test_a_result_of_another_type_than_declared_is_the_failure_of_the_body(
    hooks: tuple[Declaration, ...],
) -> None:
    async def body(event: Before) -> object:
        return 3

    ending = await runtime(*hooks).run(WORK, before("a"), body)
    assert ending == Failed(
        message="the work of 'work.done' gave a result that does not fit: result: Expected `str`, got `int`",
        code="internal",
        exception="TypeError",
    )
