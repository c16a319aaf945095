"""Loops whose files cannot be written or read: full and read-only disks, strangers in their place, a held registry.

Required: it is said, with the file and what to do; what was acknowledged is kept; it works again when there is room.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.commandline import tenter
from tests.faults.living import (
    DONE,
    RUN,
    ended_well,
    git_project,
    kept,
    living,
    loop_id,
    mounting,
    nothing_left,
    row,
    rows,
    runs,
    suspended,
    wait_until,
)
from tests.looping import EMIT, command_hook, loop_project, run_loop, suspends

RAN = "echo ran >> ran"
FILL = "dd if=/dev/zero of={}/filler bs=4096 2>/dev/null"
FREE = "rm -f {}/filler"

# what stands in the place of the state folder


def a_file(folder: Path) -> None:
    (folder / ".tenter").write_text("mine")


def a_link_out(folder: Path) -> None:
    (outside := folder.parent / f"{folder.name}-outside").mkdir()
    (folder / ".tenter").symlink_to(outside)


def loops_a_link_out(folder: Path) -> None:
    (outside := folder.parent / f"{folder.name}-outside").mkdir()
    (folder / ".tenter").mkdir()
    (folder / ".tenter" / "loops").symlink_to(outside)


def registry_a_folder(folder: Path) -> None:
    (folder / ".tenter" / "loops.db").mkdir(parents=True)


def registry_a_link_out(folder: Path) -> None:
    (folder / ".tenter").mkdir()
    (folder / ".tenter" / "loops.db").symlink_to(folder.parent / f"{folder.name}-outside.db")


def registry_of_another_kind(folder: Path) -> None:
    (folder / ".tenter").mkdir()
    with closing(sqlite3.connect(folder / ".tenter" / "loops.db")) as database:
        database.execute("CREATE TABLE mine (a)")


def registry_newer(folder: Path) -> None:
    (folder / ".tenter").mkdir()
    with closing(sqlite3.connect(folder / ".tenter" / "loops.db")) as database:
        database.execute("PRAGMA user_version = 99")


def registry_damaged(folder: Path) -> None:
    (folder / ".tenter").mkdir()
    (folder / ".tenter" / "loops.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


def registry_cut(folder: Path) -> None:
    assert run_loop(folder).code == 0
    path = folder / ".tenter" / "loops.db"
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xee" * (len(data) - 4096))
    (folder / "ran").unlink()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (a_file, "/.tenter"),
        (a_link_out, "leads out of"),
        (loops_a_link_out, "leads out of"),
        (registry_a_folder, "loops.db'"),
        (registry_a_link_out, "it is a link"),
        (registry_of_another_kind, "other tables"),
        (registry_newer, "upgrade tenter"),
        (registry_damaged, "damaged"),
        (registry_cut, "damaged"),
    ],
)
def test_what_is_no_state_folder_or_registry_of_ours_ends_with_2_and_is_left_as_it_is(
    harm: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    (project := tmp_path / "project").mkdir()
    loop_project(project, f"{RAN}; {DONE}")
    harm(project)
    outside = sorted(tmp_path.glob("project-outside*/**"))
    is_folder = says in ("/.tenter", "leads out of")
    for arguments in ((), ("--skip-preflight",)) if is_folder else ((),):
        done = tenter(*RUN, *arguments, cwd=project)
        assert done.code == 2, done
        assert says in done.err
        assert "Traceback" not in done.err
        assert not (project / "ran").exists()
    assert sorted(tmp_path.glob("project-outside*/**")) == outside, "nothing is written there"
    if not is_folder:
        listed = tenter("loop", "list", cwd=project)
        assert listed.code == 2, listed
        assert "loops.db'" in listed.err


# read-only


def test_a_read_only_state_folder_ends_with_2_and_says_what_to_do(tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; {DONE}")
    (tmp_path / ".tenter").mkdir()
    read_only = mounting("mount --bind .tenter .tenter && mount -o remount,bind,ro .tenter")
    for arguments in ((), ("--skip-preflight",)):
        with living(*RUN, *arguments, cwd=tmp_path, within=read_only) as loop:
            done = loop.end()
        ended_well(done, tmp_path, code=2)
        assert f"{tmp_path}/.tenter" in done.err
        assert "check" in done.err
        assert not (tmp_path / "ran").exists()
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")


# a full disk


@pytest.mark.fault(38)
def test_a_journal_on_a_full_disk_ends_the_loop_which_goes_on_when_there_is_room(tmp_path: Path) -> None:
    small = mounting(
        'mount -t tmpfs -o size=2m none .tenter\n"$@"; echo "first: $?" >&2; rm -f .tenter/filler; '
        '"$1" loop list --all >&2; "$1" loop resume loop- >&2; code=$?; cp -r .tenter kept; exit $code'
    )
    fill = f"[ -e ran ] || {FILL.format('.tenter')}"
    large = "$(head -c 60000 /dev/zero | tr '\\0' x)"  # more than the journal has room for without asking the disk
    loop_project(tmp_path, f"{EMIT} plan.first {large}; {fill}; {RAN}; [ $(wc -l < ran) = 1 ] || {DONE}")
    (tmp_path / ".tenter").mkdir()
    with living(cwd=tmp_path, within=small) as loop:
        done = loop.end()
    assert done.code == 0, done
    assert "first: 1" in done.err, "the loop said so, and ended"
    first = done.err.partition("first: 1")[0]
    assert ": failed at iteration " in first
    assert "journal" in first
    assert "free some room" in first
    assert "Traceback" not in done.err
    (summary,) = (tmp_path / "kept" / "loops").glob("*/summary.json")
    told = json.loads(summary.read_text())
    assert (told["reason"], told["topics"]["plan.first"] >= 1) == ("completed", True), "what was published is kept"
    nothing_left(tmp_path)


@pytest.mark.fault(38)
def test_a_suspend_state_on_a_full_disk_ends_the_loop_rather_than_to_wait_without_it(tmp_path: Path) -> None:
    here = f"case $PWD in */.worktrees/*) {FILL.format('..')}; exit 1;; esac; exit 1"
    gate = command_hook(tmp_path, "gate", here, on_error="suspend")
    git_project(tmp_path, RAN, hooks={"iteration.start.pre": [gate]})
    (tmp_path / ".worktrees").mkdir()
    with suspended(tmp_path):
        with living(cwd=tmp_path, within=mounting("mount -t tmpfs -o size=1m none .worktrees")) as loop:
            done = loop.end()
        assert done.code == 1, done
        assert "suspend-state.json' cannot be written (No space left on device)" in done.err
        assert "Traceback" not in done.err
        one, other = rows(tmp_path)
        assert (one["status"], other["reason"]) == ("suspended", "failed")
        assert runs(tmp_path) == 0


@pytest.mark.fault(38)
def test_an_event_on_a_full_disk_is_refused_and_all_that_were_not_are_kept(tmp_path: Path) -> None:
    folder = '"$(dirname "$TENTER_EVENTS_FILE")"'
    agent = f"""
        {EMIT} work.first || exit 9
        {FILL.format(folder)}
        {EMIT} work.second "$(head -c 20000 /dev/zero | tr '\\0' x)" 2> refused && exit 8
        {FREE.format(folder)}
        {EMIT} work.third || exit 7
        {EMIT} LOOP_COMPLETE
    """
    loop_project(tmp_path, agent)
    (tmp_path / ".tenter").mkdir()
    keep = 'mount -t tmpfs -o size=2m none .tenter\n"$@"; code=$?; cp -r .tenter kept; exit $code'
    with living(cwd=tmp_path, within=mounting(keep)) as loop:
        done = loop.end()
    assert done.code == 0, done
    assert "the event was not published" in (tmp_path / "refused").read_text()
    assert "make room" in (tmp_path / "refused").read_text()
    (summary,) = (tmp_path / "kept" / "loops").glob("*/summary.json")
    assert json.loads(summary.read_text())["topics"] == {"work.first": 1, "work.third": 1, "LOOP_COMPLETE": 1}


@pytest.mark.fault(38)
def test_an_output_log_on_a_full_disk_loses_its_lines_and_the_loop_goes_on_and_says_so(tmp_path: Path) -> None:
    folder = '"$(dirname "$TENTER_EVENTS_FILE")"'
    agent = f"echo early; {FILL.format(folder)}; seq 100000; {FREE.format(folder)}; echo late; {DONE}"
    loop_project(tmp_path, agent)
    (tmp_path / ".tenter").mkdir()
    keep = 'mount -t tmpfs -o size=2m none .tenter\n"$@"; code=$?; cp -r .tenter kept; exit $code'
    with living(cwd=tmp_path, within=mounting(keep)) as loop:
        done = loop.end()
    assert done.code == 0, done
    (log,) = (tmp_path / "kept" / "loops").glob("*/output.log")
    lines = log.read_text().splitlines()
    assert lines[-1].endswith("| LOOP_COMPLETE")
    assert "output.log' cannot be written: No space left on device" in done.err


@pytest.mark.fault(38)
def test_a_summary_on_a_full_disk_is_told_and_the_loop_has_ended_all_the_same(tmp_path: Path) -> None:
    last = command_hook(tmp_path, "last", f"{FILL.format('.tenter')}; exit 0")
    loop_project(tmp_path, DONE, hooks={"loop.complete.post": [last]})
    (tmp_path / ".tenter").mkdir()
    keep = 'mount -t tmpfs -o size=2m none .tenter\n"$@"; code=$?; rm .tenter/filler; cp -r .tenter kept; exit $code'
    with living(cwd=tmp_path, within=mounting(keep)) as loop:
        done = loop.end()
    assert done.code in (0, 1), done
    assert "Traceback" not in done.err
    assert "summary.json' cannot be written: No space left on device" in done.err


@pytest.mark.fault(38)
def test_a_limit_on_the_size_of_files_ends_the_loop_which_goes_on_without_it(tmp_path: Path) -> None:
    big = f"head -c 30000 /dev/urandom | base64 -w 0 | {EMIT} work.done -"
    loop_project(tmp_path, f"{RAN}; [ -e go ] && {DONE}; [ -e go ] || {big}")
    limit = ("/bin/sh", "-c", 'ulimit -S -f 400; exec "$@"', "sh")
    with living(cwd=tmp_path, within=limit) as loop:
        done = loop.end()
    ended_well(done, tmp_path, code=1)
    assert ": failed at " in done.err
    assert "file size limit" in done.err or "ulimit" in done.err, done.err
    published = len(kept(tmp_path, "events.jsonl").read_text().splitlines())
    (tmp_path / "go").touch()
    named = loop_id(tmp_path)
    if row(tmp_path)["ended_at"] is None:
        assert "crashed" in tenter("loop", "list", cwd=tmp_path).out
        ended_well(tenter("loop", "resume", named, cwd=tmp_path), tmp_path, code=0, reason="completed")
    else:
        assert row(tmp_path)["reason"] == "failed"
    assert len(kept(tmp_path, "events.jsonl").read_text().splitlines()) == published
    assert json.loads(kept(tmp_path, "summary.json").read_text())["published"] == published


# the registry


@contextmanager
def held(folder: Path) -> Generator[sqlite3.Connection]:
    """The registry is held by this process."""
    with closing(sqlite3.connect(folder / ".tenter" / "loops.db", isolation_level=None)) as registry:
        registry.execute("BEGIN IMMEDIATE")
        yield registry


@pytest.mark.timed
def test_a_registry_that_another_process_holds_is_told_with_the_process_and_within_bounds(tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; {DONE}", hooks={"loop.start.pre": [suspends(tmp_path)]})
    with suspended(tmp_path) as loop:
        named = loop_id(tmp_path)
        with held(tmp_path):
            since = time.monotonic()
            with (
                living("loop", "list", cwd=tmp_path) as listing,
                living(cwd=tmp_path) as second,
                living("loop", "resume", named, cwd=tmp_path) as resuming,
            ):
                listed, done, told = listing.end(9), second.end(9), resuming.end(15)
            assert time.monotonic() - since < 15
            loop.until(lambda: "the loop waits for that" in loop.err, "it was let go on, and waits for the registry")
        ended = loop.end(15)
        assert named in listed.out, listed
        assert done.code == 2, done
        assert f"process {os.getpid()}" in done.err
        assert "held it for 3 s" in done.err
        assert told.code in (0, 1, 2), told
        assert "Traceback" not in told.err + done.err + listed.err
    ended_well(ended, tmp_path, code=0, reason="completed")
    assert f"process {os.getpid()}" in ended.err
    assert runs(tmp_path) == 1


@pytest.mark.timed
def test_a_registry_that_is_held_for_a_moment_stops_nobody(tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; [ $(wc -l < ran) = 1 ] && while [ ! -e go ]; do :; done; [ -e done ] && {DONE}")
    with living(cwd=tmp_path) as loop:
        loop.until(lambda: runs(tmp_path) == 1, "its agent runs")
        with held(tmp_path):
            (tmp_path / "go").touch()
            wait_until(lambda: "iteration 2" in loop.err, "it waits for the registry")
            until = time.monotonic() + 0.5
            wait_until(lambda: time.monotonic() > until, "a moment has passed")
            assert runs(tmp_path) == 1, "it waits"
        (tmp_path / "done").touch()
        ended_well(loop.end(), tmp_path, code=0, reason="completed")


def test_a_registry_that_goes_away_under_a_loop_ends_it_and_is_told(tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; while [ ! -e go ]; do :; done")
    with living(cwd=tmp_path) as loop:
        loop.until(lambda: runs(tmp_path) == 1, "its agent runs")
        for path in (tmp_path / ".tenter").glob("loops.db*"):
            path.unlink()
        (tmp_path / "go").touch()
        done = loop.end()
    assert done.code == 1, done
    assert "loops.db'" in done.err
    assert "leave it where it is as long as a loop runs" in done.err
    assert "Traceback" not in done.err
    nothing_left(tmp_path)
    (summary,) = (tmp_path / ".tenter" / "loops").glob("*/summary.json")
    assert json.loads(summary.read_text())["reason"] == "failed"
