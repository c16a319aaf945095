"""Whatever a tool does, a result for the model comes back: in time, bounded, and nothing else is harmed."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.outside import one_of_three, steady_loop

from tenter.catalogue import ToolResult
from tenter.harness.calling import MOST_ERROR, ToolFailure, bounded, call_tool
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool, tool
from tenter.harness.errors import ToolError
from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK, Redactor, freeze


def context(tmp_path: Path, *, seconds: float | None = None) -> ToolContext:
    deadline = None if seconds is None else SYSTEM_CLOCK.now() + seconds
    return ToolContext(workspace=Workspace.at(tmp_path), deadline=deadline)


class Item(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        (None, ""),
        (3, "3"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Item("x"), '{"name":"x"}'),
        (ToolResult(output="o", is_error=True, untrusted=True), ToolResult(output="o", is_error=True, untrusted=True)),
    ],
)
async def test_what_a_tool_returns_becomes_its_result(tmp_path: Path, value: object, output: object) -> None:
    @tool
    def direct() -> object:
        return value

    @tool
    async def awaited() -> object:
        return value

    expected = output if isinstance(output, ToolResult) else ToolResult(output=str(output))
    assert await call_tool(direct, {}, context(tmp_path)) == expected
    assert await call_tool(awaited, {}, context(tmp_path)) == expected


async def test_arguments_and_context_reach_the_tool(tmp_path: Path) -> None:
    @tool
    def f(given: ToolContext, items: list[Item], *, times: int = 2) -> str:
        assert given.workspace.root == tmp_path.resolve()
        return "".join(item.name for item in items) * times

    assert (await call_tool(f, freeze({"items": [{"name": "ab"}]}), context(tmp_path))).output == "abab"


async def test_arguments_that_do_not_fit_are_an_error_result_and_the_tool_is_not_called(tmp_path: Path) -> None:
    called: list[int] = []

    @tool
    def f(a: int) -> None:
        called.append(a)

    for arguments in ({}, {"a": "x"}, {"a": 1, "b": 2}):
        result = await call_tool(f, arguments, context(tmp_path))
        assert result.is_error
        assert result.output.startswith("the arguments of 'f' do not fit")
    assert not called


class Own(BaseException):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("bad"), "the tool 'direct' failed: ValueError: bad"),
        (ValueError(), "the tool 'direct' failed: ValueError"),
        (ToolError("do this instead"), "do this instead"),
        (SystemExit(3), "the tool 'direct' failed: SystemExit: 3"),
        (StopIteration("x"), "the tool 'direct' failed: StopIteration: x"),
        (Own("own"), "the tool 'direct' failed: Own: own"),
        (asyncio.CancelledError("its own"), "the tool 'direct' failed: CancelledError: its own"),
        (GeneratorExit(), "the tool 'direct' failed: GeneratorExit"),
        (
            ExceptionGroup("several", [ValueError("a")]),
            "the tool 'direct' failed: ExceptionGroup: several (1 sub-exception)",
        ),
        (Unspeakable(), "the tool 'direct' failed: Unspeakable: (its message cannot be read)"),
    ],
)
@pytest.mark.fault(26)
async def test_what_a_tool_raises_becomes_an_error_result(tmp_path: Path, error: BaseException, told: str) -> None:
    @tool
    def direct() -> None:
        raise error

    @tool
    async def awaited() -> None:
        await asyncio.sleep(0)
        raise error

    result = await call_tool(direct, {}, context(tmp_path))
    assert (result.output, result.is_error) == (told, True)
    assert isinstance(result, ToolFailure) is not isinstance(error, ToolError)
    result = await call_tool(awaited, {}, context(tmp_path))
    assert result.is_error
    # Python makes a RuntimeError of a StopIteration that leaves a coroutine.
    assert isinstance(error, StopIteration) or result.output == told.replace("direct", "awaited")


async def test_a_long_error_is_cut_and_one_with_half_a_character_is_escaped(tmp_path: Path) -> None:
    @tool
    def long() -> None:
        raise ValueError("é" * 100_000)

    @tool
    def half() -> str:
        return "a\udc80b"

    assert len((await call_tool(long, {}, context(tmp_path))).output.encode()) <= MOST_ERROR
    assert (await call_tool(half, {}, context(tmp_path))).output == "a\\udc80b"


async def test_a_value_that_is_no_json_is_an_error_result(tmp_path: Path) -> None:
    @tool
    def strange() -> object:
        return object()

    @tool
    def forgot_async() -> object:
        return asyncio.sleep(0)

    assert "failed: TypeError" in (await call_tool(strange, {}, context(tmp_path))).output

    @tool
    def no_text() -> ToolResult:
        return ToolResult(output=cast("str", 3))

    assert "the output of its result is no text" in (await call_tool(no_text, {}, context(tmp_path))).output
    result = await call_tool(forgot_async, {}, context(tmp_path))
    assert "returned a coroutine; declare it 'async def'" in result.output
    assert result.is_error


@pytest.mark.timed
async def test_a_synchronous_tool_does_not_stall_the_loop_and_sees_context_variables(tmp_path: Path) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    heard, go = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        heard.set()
        return f"{go.wait(5)} {variable.get()}"

    async def attempt() -> None:
        async with steady_loop():
            call = asyncio.create_task(call_tool(slow, {}, context(tmp_path)))
            asyncio.get_running_loop().call_later(0.1, go.set)
            assert (await call).output == "True set"

    await one_of_three(attempt)
    assert heard.is_set()


@pytest.mark.timed
@pytest.mark.fault(27)
async def test_a_synchronous_tool_that_hangs_gives_control_back_at_its_deadline(tmp_path: Path) -> None:
    release = threading.Event()

    @tool(timeout_seconds=0.1)
    def hangs() -> None:
        release.wait(10)

    async def attempt() -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await asyncio.wait_for(call_tool(hangs, {}, context(tmp_path)), 5)
        assert isinstance(result, ToolFailure)
        assert result.code == "timeout"
        assert "'hangs' did not end within 0.1 s" in result.output
        assert "may still be at work" in result.output
        assert loop.time() - started < 0.1 + 0.05

    try:
        await one_of_three(attempt)
    finally:
        release.set()


@pytest.mark.fault(27)
def test_a_tool_that_hangs_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    program = f"""
import asyncio, threading
from tenter.harness.calling import call_tool
from tenter.harness.context import ToolContext
from tenter.harness.definition import tool
from tenter.harness.workspace import Workspace

@tool(timeout_seconds=0.05)
def hangs() -> None:
    threading.Event().wait()

print(asyncio.run(call_tool(hangs, {{}}, ToolContext(workspace=Workspace.at({str(tmp_path)!r})))).is_error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.timed
@pytest.mark.fault(28)
async def test_an_async_tool_that_swallows_cancellation_gives_control_back_and_is_followed(tmp_path: Path) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    @tool(timeout_seconds=0.1)
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    loop = asyncio.get_running_loop()

    async def attempt() -> None:
        started = loop.time()
        result = await asyncio.wait_for(call_tool(stubborn, {}, context(tmp_path)), 5)
        assert "'stubborn' did not end within 0.1 s" in result.output
        assert loop.time() - started < 0.1 + 0.05 + 0.05

    try:
        await one_of_three(attempt)
    finally:
        release.set()
        await asyncio.wait_for(ended.wait(), 5)


async def test_the_runs_deadline_counts_where_it_is_sooner(tmp_path: Path) -> None:
    seen: list[float | None] = []

    @tool(timeout_seconds=100)
    async def f(given: ToolContext) -> None:
        seen.append(given.remaining())
        await asyncio.Event().wait()

    result = await asyncio.wait_for(call_tool(f, {}, context(tmp_path, seconds=0.1)), 5)
    assert "did not end" in result.output
    assert seen[0] is not None
    assert seen[0] <= 0.1


async def test_a_tool_is_not_called_when_the_runs_deadline_has_passed(tmp_path: Path) -> None:
    called: list[int] = []

    @tool
    def f() -> None:
        called.append(1)

    result = await call_tool(f, {}, context(tmp_path, seconds=-1))
    assert result.is_error
    assert "deadline has passed" in result.output
    assert not called


async def test_cancelling_the_call_cancels_the_tool_waits_for_its_end_and_is_raised(tmp_path: Path) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @tool
    async def f() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    call = asyncio.create_task(call_tool(f, {}, context(tmp_path)))
    await asyncio.wait_for(begun.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 5)
    assert cleaned.is_set()


async def test_cancelling_the_call_of_a_hung_synchronous_tool_is_raised_at_once(tmp_path: Path) -> None:
    begun, release = threading.Event(), threading.Event()

    @tool
    def f() -> None:
        begun.set()
        release.wait(10)

    call = asyncio.create_task(call_tool(f, {}, context(tmp_path)))
    assert await asyncio.to_thread(begun.wait, 5)
    call.cancel()
    try:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 5)
    finally:
        release.set()


async def test_a_tool_with_grace_may_end_by_itself_after_its_deadline(tmp_path: Path) -> None:
    import dataclasses

    @tool(timeout_seconds=0.05)
    async def cleans_up(given: ToolContext) -> str:
        loop = asyncio.get_running_loop()
        late = loop.create_future()
        loop.call_later((given.remaining() or 0) + 0.05, late.set_result, None)
        await late
        return "what it had so far"

    graceful: Tool = dataclasses.replace(cleans_up, grace_seconds=4)
    result = await asyncio.wait_for(call_tool(graceful, {}, context(tmp_path)), 5)
    assert result.output == "what it had so far"


async def test_output_beyond_the_cap_is_cut_marked_and_says_so(tmp_path: Path) -> None:
    @tool
    def f() -> str:
        return "é" * 5000

    result = await call_tool(f, {}, context(tmp_path), max_output_bytes=1001)
    assert result.truncated
    assert len(result.output.encode()) <= 1001
    assert result.output.endswith("é\n[cut here: the whole output has 5000 characters]")


@given(text=st.text(st.characters(), max_size=400), limit=st.integers(0, 600))
def test_what_is_bounded_fits_and_is_whole_where_it_fitted_before(text: str, limit: int) -> None:
    escaped = text.encode("utf-8", "backslashreplace")
    result = bounded(ToolResult(output=text), limit, str)
    assert len(result.output.encode()) <= limit
    assert result.truncated == (len(escaped) > limit)
    if not result.truncated:
        assert result.output.encode() == escaped
    else:
        kept, _, note = result.output.partition("\n[cut here") if limit > 250 else (result.output, "", "")
        assert escaped.startswith(kept.encode()) or note


def test_a_result_that_fits_is_the_same_object() -> None:
    result: Any = ToolResult(output="x")
    assert bounded(result, 100, str) is result


@pytest.mark.promise(4)
@pytest.mark.parametrize("shown", [0, 4, 20, 37])
async def test_nothing_of_a_secret_is_left_where_a_result_is_cut(tmp_path: Path, shown: int) -> None:
    secret = "S3cr3t-abcdefghijklmnopqrstuvwxyz01234"
    given = ToolContext(workspace=Workspace.at(tmp_path), mask=Redactor(secrets=[secret]).mask_text)

    @tool
    def long() -> str:
        return "x" * (1000 - 54 - shown) + secret + "y" * 2000

    @tool
    def breaks() -> None:
        raise ToolError("x" * (MOST_ERROR - 54 - shown) + secret + "y" * 2000)

    for one in (long, breaks):
        output = (await call_tool(one, {}, given, max_output_bytes=1000)).output
        assert "[cut here" in output
        assert secret[:4] not in output
