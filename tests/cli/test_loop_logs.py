"""`tenter loop logs` prints what a loop's agent put out, as it comes, until the loop has ended."""

import json
import os
import re
import select
import signal
from pathlib import Path

import click
import pytest
from tests.commandline import LONGEST, gate, heard, run_json, started, tenter
from tests.looping import loop_project, loops, run_loop, wait_for

from tenter.cli.loop_logs import PIECE, pieces

DONE = "echo LOOP_COMPLETE"
RUN = ("loop", "run", "--prompt", "do it")


def one(folder: Path) -> str:
    (row,) = loops(folder)
    return str(row["loop_id"])


def never() -> bool:
    return False


def test_what_the_agent_put_out_is_printed(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, f"echo first; echo second >&2; {DONE}"))
    done = tenter("loop", "logs", one(tmp_path), cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    said = [line.partition(" ")[2] for line in done.out.splitlines()]
    assert sorted(said) == ["err| second", "out| LOOP_COMPLETE", "out| first"]


def test_a_loop_whose_agent_put_nothing_out_has_an_empty_log(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, "true"), "--max-iterations", "1")
    done = tenter("loop", "logs", one(tmp_path), cwd=tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "nothing" in done.err


def test_json_holds_the_whole_of_it(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    told = run_json("loop", "logs", one(tmp_path), cwd=tmp_path)
    assert told.keys() == {"loop_id", "output"}
    assert re.fullmatch(r"\S+ out\| LOOP_COMPLETE\n", str(told["output"]))
    done = tenter("loop", "logs", one(tmp_path), "--json", "-f", cwd=tmp_path)
    assert (done.code, json.loads(done.out).keys()) == (2, {"error"})
    assert "take one of them" in done.err


def test_what_comes_is_followed_until_the_loop_has_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    loop_project(tmp_path, f"echo before; cat go; echo after; {DONE}")
    with started(*RUN, cwd=tmp_path) as running:
        wait_for(tmp_path, lambda row: row["iteration"] == 1)
        with started("loop", "logs", one(tmp_path), "--follow", cwd=tmp_path) as following:
            assert following.stdout is not None
            assert select.select([following.stdout], [], [], LONGEST)[0]
            assert "before" in following.stdout.readline()
            (tmp_path / "go").write_text("go\n")
            out, err = following.communicate(timeout=LONGEST)
        assert running.wait(LONGEST) == 0
    assert [line.split("| ")[1] for line in out.splitlines()] == ["go", "after", "LOOP_COMPLETE"]
    assert (following.returncode, err) == (0, "")


def test_following_a_loop_whose_process_was_killed_ends(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(tmp_path, f"echo said; echo now > '{tmp_path}/began'; exec sleep 5")
        with started(*RUN, cwd=tmp_path) as running:
            heard(began)
            with started("loop", "logs", one(tmp_path), "-f", cwd=tmp_path) as following:
                running.kill()
                running.wait(LONGEST)
                out, _ = following.communicate(timeout=LONGEST)
    assert following.returncode == 0
    assert out.endswith("said\n")


def test_ctrl_c_ends_the_following_with_130_and_not_the_loop(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(tmp_path, f"echo said; echo now > '{tmp_path}/began'; exec sleep 60")
        with started(*RUN, cwd=tmp_path) as running:
            heard(began)
            with started("loop", "logs", one(tmp_path), "-f", cwd=tmp_path) as following:
                assert following.stdout is not None
                assert "said" in following.stdout.readline()
                following.send_signal(signal.SIGINT)
                assert following.wait(LONGEST) == 130
            assert running.poll() is None
            running.terminate()
            running.wait(LONGEST)


@pytest.mark.promise(4)
def test_nothing_in_a_log_is_obeyed_or_secret_whoever_wrote_it(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE, spec={"secrets": ["PLAIN_NAME"]}))
    log = tmp_path / ".tenter" / "loops" / one(tmp_path) / "output.log"
    log.write_bytes(b"red\x1b[31m \xff opensesame\nlast")
    done = tenter("loop", "logs", one(tmp_path), cwd=tmp_path, PLAIN_NAME="opensesame")
    assert done.out == "red\\x1b[31m \\xff [redacted]\nlast\n"
    told = tenter("loop", "logs", one(tmp_path), "--json", cwd=tmp_path, PLAIN_NAME="opensesame").out
    assert json.loads(told)["output"] == "red\x1b[31m \\xff [redacted]\nlast\n"


def test_lines_come_whole_and_the_last_one_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes("ä\nb".encode())
    assert list(pieces(tmp_path / "log", never)) == ["ä\n", "b\n"]
    assert list(pieces(tmp_path / "none", never)) == []


def test_a_line_that_does_not_end_comes_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * (3 * PIECE))
    found = list(pieces(tmp_path / "log", never))
    assert "".join(found) == "x" * (3 * PIECE) + "\n"
    assert max(map(len, found)) <= 2 * PIECE


def test_a_log_that_begins_later_is_followed_and_torn_lines_are_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    parts = iter([b"one\ntw", b"o\n", b"three"])

    def goes_on() -> bool:
        part = next(parts, None)
        if part is not None:
            with path.open("ab") as file:
                file.write(part)
        return part is not None

    assert list(pieces(path, goes_on)) == ["one\n", "two\n", "three\n"]


def test_what_was_put_aside_when_the_log_was_full_comes_first(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    folder = tmp_path / ".tenter" / "loops" / one(tmp_path)
    (folder / "output.log.1").write_text('one\n\u00e9\U0001f600 "two"\n')
    (folder / "output.log").write_text("three\n")
    assert tenter("loop", "logs", one(tmp_path), cwd=tmp_path).out == 'one\n\u00e9\U0001f600 "two"\nthree\n'
    told = run_json("loop", "logs", one(tmp_path), cwd=tmp_path)
    assert told == {"loop_id": one(tmp_path), "output": 'one\n\u00e9\U0001f600 "two"\nthree\n'}
    (folder / "output.log").unlink()
    assert tenter("loop", "logs", one(tmp_path), cwd=tmp_path).out == 'one\n\u00e9\U0001f600 "two"\n'


def test_a_log_that_is_put_aside_while_it_is_followed_is_read_to_its_end_and_nothing_twice(tmp_path: Path) -> None:
    path, aside = tmp_path / "log", tmp_path / "log.1"
    aside.write_text("zero\n")
    path.write_text("one\n")

    def put_aside() -> bool:
        with path.open("a") as file:
            file.write("two\n")
        path.replace(aside)
        path.write_text("three\n")
        return True

    def write() -> bool:
        with path.open("a") as file:
            file.write("four\n")
        return False

    steps = iter([lambda: True, put_aside, put_aside, write])

    def goes_on() -> bool:
        return next(steps)()

    found = list(pieces(path, goes_on))
    assert "".join(found) == "zero\none\ntwo\nthree\ntwo\nthree\nfour\n"


def test_a_log_that_is_put_aside_between_two_looks_is_not_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    opened = os.open

    def put_aside(file: Path, flags: int) -> int:
        descriptor = opened(file, flags)
        if file == path and not path.with_name("log.1").exists():
            path.replace(path.with_name("log.1"))
            path.write_text("two\n")
        return descriptor

    monkeypatch.setattr(os, "open", put_aside)
    assert list(pieces(path, never)) == ["one\n", "two\n"]


def test_what_is_put_out_before_a_log_is_put_aside_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, stat = tmp_path / "log", Path.stat
    path.write_text("one\n")

    def put_aside(file: Path) -> os.stat_result:
        if not os.path.exists(tmp_path / "log.1"):  # noqa: PTH110  # which does not look by the method that is replaced
            with path.open("a") as log:
                log.write("two\n")
            path.replace(tmp_path / "log.1")
            path.write_text("three\n")
        return stat(file)

    monkeypatch.setattr(Path, "stat", put_aside)
    assert list(pieces(path, never)) == ["one\n", "two\n", "three\n"]


def test_json_of_a_long_log_is_printed_as_it_is_read(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    log = tmp_path / ".tenter" / "loops" / one(tmp_path) / "output.log"
    log.write_text("0123456789 and more\n" * 400_000)
    with started("loop", "logs", one(tmp_path), "--json", cwd=tmp_path) as running:
        assert running.stdout is not None
        head = running.stdout.read(1000)
        assert head.startswith('{"loop_id":"')
        most = (Path("/proc") / str(running.pid) / "status").read_text()
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", most)
        rest = running.stdout.read()
        assert running.wait(LONGEST) == 0
    assert json.loads(head + rest)["output"] == log.read_text()
    assert int(peak) < 200_000, "kB: the first of it comes before the last is read"


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    log = tmp_path / ".tenter" / "loops" / one(tmp_path) / "output.log"
    log.unlink()
    log.mkdir()
    done = tenter("loop", "logs", one(tmp_path), cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "cannot be read" in done.err


def test_a_fifo_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(click.ClickException, match="cannot be read"):
        list(pieces(tmp_path / "log", never))
