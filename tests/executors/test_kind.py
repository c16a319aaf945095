"""What every executor is given and gives: the records, and the sink that keeps none."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.executors.workshop import tool_call

from tenter.executors import HookEnded, HookStarted, NoSink, Sink
from tenter.executors.kind import sleep_through

NAMES: dict[str, Any] = {
    "id": "1",
    "key": "run-1/2.x.0#1/pre/guard",
    "hook": "guard",
    "point": "tool.before",
}
STARTED = HookStarted(**NAMES, at=1.5)
ENDED = HookEnded(
    **NAMES, started_at=1.5, ended_at=2.5, duration_ms=1000.0, result="ok", disposition="pass", metadata={"risk": 0.5}
)


async def test_a_sink_that_keeps_nothing_has_nothing_accumulated() -> None:
    sink: Sink = NoSink()
    await sink.started(tool_call(), STARTED)
    await sink.ended(tool_call(), ENDED)
    assert sink.accumulated(tool_call()) == {}
    assert vars(sink) == {}


@pytest.mark.parametrize("record", [STARTED, ENDED])
def test_a_record_cannot_be_changed(record: msgspec.Struct) -> None:
    with pytest.raises(AttributeError, match="immutable type"):
        record.hook = "another"  # pyright: ignore[reportAttributeAccessIssue]  # that is what is tested


@pytest.mark.parametrize("record", [STARTED, ENDED])
def test_a_record_is_written_with_every_field_and_read_back(record: HookStarted | HookEnded) -> None:
    written = msgspec.json.encode(record)
    assert json.loads(written).keys() == set(record.__struct_fields__)
    assert msgspec.json.decode(written, type=type(record)) == record


def test_a_hook_that_never_was_a_process_has_no_exit_and_no_output() -> None:
    assert (ENDED.exit_code, ENDED.signal, ENDED.timed_out) == (None, None, False)
    assert (ENDED.stdout, ENDED.stderr, ENDED.stderr_tail, ENDED.error) == ("", "", "", "")
    assert (ENDED.stdout_bytes, ENDED.stderr_bytes, ENDED.ended_descendants) == (0, 0, 0)


@pytest.mark.parametrize("record", [STARTED, ENDED])
def test_a_record_of_a_version_that_knew_no_attempts_is_of_the_first(record: HookStarted | HookEnded) -> None:
    written = {name: value for name, value in msgspec.to_builtins(record).items() if name != "attempt"}
    assert msgspec.convert(written, type(record)) == record
    assert record.attempt == 1


async def test_a_pause_that_nobody_cuts_short_lasts_and_says_to_go_on() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await asyncio.wait_for(sleep_through(0.05), 5) is True
    assert loop.time() - began >= 0.04
