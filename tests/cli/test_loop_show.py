"""`tenter loop show` tells all that is known of one loop."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from tests.commandline import LONGEST, run_json, started, tenter
from tests.looping import command_hook, loop_project, loops, run_loop, suspends, wait_for

from tenter.cli.loop_show import timed

DONE = "echo LOOP_COMPLETE"


def one(folder: Path) -> str:
    (row,) = loops(folder)
    return str(row["loop_id"])


def fields(text: str) -> Mapping[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(" "))


def test_a_loop_that_is_over_is_shown_with_its_summary(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    told = run_json("loop", "show", one(tmp_path)[:6], cwd=tmp_path)
    (row,) = loops(tmp_path)
    assert told.keys() == row.keys() | {"project", "config", "backend", "state", "metadata", "summary"}
    assert {name: told[name] for name in row} == row
    summary, state = (cast("Mapping[str, object]", told[name]) for name in ("summary", "state"))
    assert summary["reason"] == "completed"
    assert state["iteration"] == 1
    assert summary["started_at"] == state["started_at"]
    assert [summary[name] for name in ("started_at", "ended_at")] == [row["started_at"], row["ended_at"]]
    shown = fields(tenter("loop", "show", one(tmp_path), cwd=tmp_path).out)
    assert {
        name: value.strip() for name, value in shown.items() if name in ("loop", "status", "prompt", "workspace")
    } == {
        "loop": one(tmp_path),
        "status": "completed",
        "workspace": str(tmp_path),
        "prompt": "do it",
    }


def test_a_suspended_loop_is_shown_with_where_it_stands_and_what_hooks_said(tmp_path: Path) -> None:
    said = json.dumps({"metadata": {"risk": "low\x1b[31m"}})
    marks = command_hook(tmp_path, "marks", f"cat > /dev/null; echo '{said}'", mutate={"enabled": True})
    loop_project(tmp_path, DONE, hooks={"loop.start.pre": [marks], "iteration.start.post": [suspends(tmp_path)]})
    with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        shown = tenter("loop", "show", loop_id, cwd=tmp_path).out
        told = run_json("loop", "show", loop_id, cwd=tmp_path)
        running.terminate()
        running.wait(LONGEST)
    assert fields(shown)["stage"].strip() == "post of iteration"
    assert fields(shown)["process"].strip() == f"{running.pid}, alive"
    assert "  suspended since " in shown
    assert 'metadata of marks: {"risk":"low\\u001b[31m"}' in shown
    assert told["metadata"] == {"marks": {"risk": "low\x1b[31m"}}
    assert told["summary"] is None


def test_of_a_document_only_what_is_a_time_is_written_as_one() -> None:
    kept = {
        "started": 1.0,
        "waited_seconds": 1.0,
        "ended_at": None,
        "inner": {"at": 1.0},
        "real_at": True,
        "odd_at": -1,
    }
    assert timed({**kept, "started_at": 1_000.5}) == {**kept, "started_at": "1970-01-01T00:16:40Z"}
    assert timed({"ended_at": 1e300}) == {"ended_at": "the year 10000 or later"}
    assert timed(None) is None


@pytest.mark.promise(4)
def test_secrets_are_masked_in_all_of_it(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE, spec={"secrets": ["PLAIN_NAME"]})
    tenter("loop", "run", "--prompt", "open with opensesame", cwd=tmp_path)
    for more in ((), ("--json",)):
        shown = tenter("loop", "show", one(tmp_path), *more, cwd=tmp_path, PLAIN_NAME="opensesame").out
        assert "open with [redacted]" in shown
        assert "opensesame" not in shown


@pytest.mark.parametrize("data", [None, b"{", b"[]", b"\xff"])
def test_a_loop_whose_journal_or_summary_is_gone_or_damaged_is_shown_without(
    data: bytes | None, tmp_path: Path
) -> None:
    run_loop(loop_project(tmp_path, DONE))
    loop_id = one(tmp_path)
    summary = tmp_path / ".tenter" / "loops" / loop_id / "summary.json"
    summary.unlink() if data is None else summary.write_bytes(data)
    for path in (tmp_path / ".tenter").glob("journal.db*"):
        path.unlink()
    told = run_json("loop", "show", loop_id, cwd=tmp_path)
    assert (told["status"], told["state"], told["summary"]) == ("completed", None, None)
