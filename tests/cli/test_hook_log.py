"""Executions of hooks are read from the journal with their starts and ends put together, the last ones."""

from pathlib import Path

from tenter.cli.hook_log import line, read_log
from tenter.journal import Entry, SqliteStore, Stream


async def write(folder: Path, stream: Stream, *entries: tuple[str, dict[str, object]]) -> None:
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
    every = await read_log(config, "", 50)
    assert [(one["hook"], one["run_id"], one["finished"]) for one in every] == [
        ("b", "r", True),
        ("c", "r", False),
        ("a", None, False),
    ]
    assert [one["hook"] for one in await read_log(config, "r", 1)] == ["c"]


async def test_an_end_whose_start_was_erased_is_still_shown(tmp_path: Path) -> None:
    await write(
        tmp_path, Stream("run", "r"), ("hook_ended", {"id": "b", "hook": "b", "started_at": 1.0, "result": "ok"})
    )
    (only,) = await read_log(tmp_path / "tenter.yaml", "", 50)
    assert (only["hook"], only["finished"]) == ("b", True)


def test_a_line_says_how_it_ended_and_why() -> None:
    ended = {
        "run_id": None,
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
