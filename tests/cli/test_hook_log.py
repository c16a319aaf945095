"""Executions of hooks are read from the journal with their starts and ends put together, the last ones."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tenter.cli.hook_log import line, read_log, telemetry
from tenter.journal import Entry, SqliteStore, Stream
from tenter.kernel import TenterError


async def write(folder: Path, stream: Stream, *entries: tuple[str, Mapping[str, object]]) -> None:
    store = SqliteStore(folder / ".tenter" / "journal.db")
    await store.append(stream, [Entry(kind=kind, time=0, content=content) for kind, content in entries])
    await store.close()


async def test_the_last_executions_of_all_streams_stand_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    await write(tmp_path, Stream("process", "p"), ("hook_started", {"id": "a", "hook": "a", "at": 3.0}))
    await write(
        tmp_path,
        Stream("run", "r"),
        ("hook_started", {"id": "b", "hook": "b", "at": 1.0}),
        ("hook_started", {"id": "c", "hook": "c", "at": 2.0}),
        ("note", {"id": "b"}),
        ("hook_ended", {"id": "b", "hook": "b", "started_at": 1.0, "result": "ok"}),
    )
    config = tmp_path / "tenter.yaml"
    every = await read_log(config)
    assert [(one["hook"], one["run_id"], one["finished"]) for one in every] == [
        ("b", "r", True),
        ("c", "r", False),
        ("a", None, False),
    ]
    assert [one["hook"] for one in await read_log(config, run_id="r", last=1)] == ["c"]


async def test_an_end_whose_start_was_erased_is_still_shown(tmp_path: Path) -> None:
    await write(
        tmp_path, Stream("run", "r"), ("hook_ended", {"id": "b", "hook": "b", "started_at": 1.0, "result": "ok"})
    )
    (only,) = await read_log(tmp_path / "tenter.yaml")
    assert (only["hook"], only["finished"]) == ("b", True)


def test_a_line_says_how_it_ended_and_why() -> None:
    ended = {
        "run_id": None,
        "loop_id": None,
        "attempt": 1,
        "point": "run.post",
        "hook": "h",
        "finished": True,
        "started_at": 0.0,
        "disposition": "warn",
    }
    assert line({**ended, "result": "signal", "signal": "SIGKILL", "duration_ms": 12.0, "error": "a\nb"}) == (
        "1970-01-01T00:00:00Z  -  run.end  h  signal SIGKILL -> warn in 12 ms: a b"
    )
    assert line({**ended, "result": "ok", "exit_code": 0}).endswith("ok exit 0 -> warn in -")
    again = {**ended, "loop_id": "loop-1", "attempt": 3, "result": "crashed", "exit_code": 1, "disposition": "retry"}
    assert line(again) == "1970-01-01T00:00:00Z  loop-1  run.end  h  crashed exit 1 attempt 3 -> retry in -"


GUARD = {"id": "a", "key": "k", "hook": "house-rules", "point": "loop.start.pre"}
STARTED: Mapping[str, object] = {**GUARD, "at": 1772292601.0779}
ENDED: Mapping[str, object] = {
    **GUARD,
    "started_at": 1772292601.0779,
    "ended_at": 1772292602.0,
    "duration_ms": 922.6,
    "result": "crashed",
    "disposition": "warn",
    "exit_code": 3,
    "timed_out": False,
    "stdout": "cut",
    "stderr": "why\n",
    "stdout_truncated": True,
    "stderr_truncated": False,
    "stdout_bytes": 99,
    "error": "why",
}


def later(entry: Mapping[str, object], attempt: int, **more: object) -> dict[str, object]:
    return {**entry, "id": str(attempt), "attempt": attempt, **more}


async def test_ac_16_the_telemetry_of_a_loop_has_one_record_for_each_attempt_with_these_keys(tmp_path: Path) -> None:
    await write(
        tmp_path,
        Stream("loop", "loop-1234-abcd"),
        ("hook_started", STARTED),
        ("hook_ended", ENDED),
        ("hook_started", later(STARTED, 2, at=1772292603.0)),
        ("hook_ended", later(ENDED, 2, started_at=1772292603.0, result="timeout", exit_code=None, timed_out=True)),
        ("hook_started", later(STARTED, 3, at=1772292604.0)),
    )
    found = await read_log(tmp_path / "tenter.yaml", loop_id="loop-1234-abcd")
    first, second, third = map(telemetry, found)
    assert first == {
        "timestamp": "2026-02-28T15:30:02.000Z",
        "loop_id": "loop-1234-abcd",
        "phase_event": "pre.loop.start",
        "hook_name": "house-rules",
        "started_at": "2026-02-28T15:30:01.077Z",
        "ended_at": "2026-02-28T15:30:02.000Z",
        "duration_ms": 923,
        "exit_code": 3,
        "timed_out": False,
        "stdout": "cut",
        "stderr": "why\n",
        "disposition": "warn",
        "result": "crashed",
        "attempt": 1,
        "stdout_truncated": True,
        "stderr_truncated": False,
    }
    assert second.keys() == third.keys() == first.keys()
    assert (second["attempt"], second["result"], second["exit_code"], second["timed_out"]) == (2, "timeout", None, True)
    assert (third["attempt"], third["result"], third["timestamp"]) == (3, "unknown", third["started_at"])
    assert [third[key] for key in ("ended_at", "duration_ms", "exit_code", "disposition")] == [None] * 4
    assert (third["timed_out"], third["stdout"], third["stderr"]) == (False, "", "")


async def test_a_loop_is_named_by_its_id_or_the_only_beginning_of_it(tmp_path: Path) -> None:
    for name in ("loop-1", "loop-12", "loop-2"):
        await write(tmp_path, Stream("loop", name), ("hook_started", {"id": "a", "hook": name, "at": 1.0}))
    await write(tmp_path, Stream("run", "loop-3"), ("hook_started", {"id": "a", "hook": "of a run", "at": 1.0}))
    config = tmp_path / "tenter.yaml"
    found = {name: (await read_log(config, loop_id=name))[0]["hook"] for name in ("loop-1", "loop-12", "loop-2")}
    assert found == {"loop-1": "loop-1", "loop-12": "loop-12", "loop-2": "loop-2"}
    assert [one["hook"] for one in await read_log(config, loop_id="loop-12", last=1)] == ["loop-12"]
    with pytest.raises(TenterError, match=r"'loop-' begins 3 loop ids \(loop-2, loop-12, loop-1\); give more of it"):
        await read_log(config, loop_id="loop-")
    with pytest.raises(TenterError, match="there is no loop 'loop-3'; 'tenter loop list --all' prints them"):
        await read_log(config, loop_id="loop-3")


async def test_all_of_a_loop_is_shown_and_fifty_of_everything_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    entries = [("hook_started", {"id": str(n), "hook": str(n), "at": float(n)}) for n in range(70)]
    await write(tmp_path, Stream("loop", "l"), *entries)
    await write(tmp_path, Stream("run", "r"), *[("hook_started", {"id": str(n), "at": 0.5}) for n in range(60)])
    config = tmp_path / "tenter.yaml"
    assert [one["hook"] for one in await read_log(config, loop_id="l")] == [str(n) for n in range(70)]
    # The loop began before the run, and ran hooks after it.
    assert [one.get("hook") for one in await read_log(config)] == [str(n) for n in range(20, 70)]
    assert [one.get("hook") for one in await read_log(config, last=1)] == ["69"]
    assert {(one["loop_id"], one["run_id"]) for one in await read_log(config, last=200)} == {("l", None), (None, "r")}
