"""What backends print gets into the log by the line, without secrets and without harm, whatever it is."""

import asyncio
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.outside import flat_memory, open_files

from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.kernel import Redactor
from tenter.loop import output_log
from tenter.loop.output_log import LONGEST_LINE, MOST_LAST_WORDS, OutputLog, Said, earlier_log

SECRET = "correct-horse-battery"
MASK = Redactor(secrets=[SECRET], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS).mask_fuzzy
AT = "2026-02-28T15:30:00.250Z"
MB = 1 << 20


def log_in(folder: Path, shown: list[str] | None = None) -> OutputLog:
    return OutputLog(folder / "output.log", MASK, None if shown is None else shown.append, now=lambda: 1772292600.25)


def logged(folder: Path, *chunks: tuple[str, bytes]) -> tuple[str, Said]:
    """The log after these chunks of the streams, and what is kept of them."""
    log = log_in(folder)
    for stream, chunk in chunks:
        log.feed("stdout" if stream == "out" else "stderr", chunk)
    said = log.finish()
    log.close()
    return (folder / "output.log").read_text() if (folder / "output.log").exists() else "", said


def cut(data: bytes, places: Sequence[int]) -> list[tuple[str, bytes]]:
    """`data` on stdout, cut at these places."""
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [("out", data[start:end]) for start, end in pairwise(ends)]


def test_each_line_has_its_time_and_stream_and_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    text, said = logged(tmp_path, ("out", b"one\ntw"), ("err", b"why\n"), ("out", b"o\n\nend"))
    assert text == f"{AT} out| one\n{AT} err| why\n{AT} out| two\n{AT} out| \n{AT} out| end\n"
    assert said == Said("end", "why")
    assert (tmp_path / "output.log").stat().st_mode & 0o777 == 0o600


def test_lines_are_shown_as_they_are_written_and_a_note_is_only_written(tmp_path: Path) -> None:
    shown: list[str] = []
    log = log_in(tmp_path, shown)
    log.note(f"iteration 1\nwith {SECRET}")
    log.feed("stdout", b"one\nsecr")
    assert shown == ["one"]
    log.finish()
    log.close()
    assert shown == ["one", "secr"]
    assert (tmp_path / "output.log").read_text().splitlines()[:2] == [
        f"{AT} loop| iteration 1",
        f"{AT} loop| with [redacted]",
    ]


def test_a_log_that_is_there_is_gone_on_with(tmp_path: Path) -> None:
    first, _ = logged(tmp_path, ("out", b"one\n"))
    both, _ = logged(tmp_path, ("out", b"two\n"))
    assert both == f"{first}{AT} out| two\n"


def test_nothing_said_is_nothing_kept_and_no_file(tmp_path: Path) -> None:
    assert logged(tmp_path) == ("", Said("", ""))
    assert list(tmp_path.iterdir()) == []


# secrets and other harm


@pytest.mark.promise(4)
@given(places=st.lists(st.integers(0, 120), max_size=6))
def test_a_secret_is_masked_however_the_stream_was_cut(
    places: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = f"begin\nthe key is {SECRET}, use it\npassword: hunter2\nghp_{'a1B2' * 9}\nend".encode()
    text, said = logged(tmp_path_factory.mktemp("log"), *cut(data, places))
    lines = [line.partition("| ")[2] for line in text.splitlines()]
    assert lines == ["begin", "the key is [redacted], use it", "password: [redacted]", "[redacted]", "end"]
    assert said.last_line == "end"


@pytest.mark.promise(4)
@pytest.mark.parametrize("before", [0, 10, LONGEST_LINE - 10, LONGEST_LINE - 1, LONGEST_LINE, 3 * LONGEST_LINE - 7])
def test_a_secret_in_a_line_that_is_cut_into_pieces_is_masked_wherever_it_stands(before: int, tmp_path: Path) -> None:
    line = "x" * before + SECRET + "y" * (2 * LONGEST_LINE)
    text, _ = logged(tmp_path, *cut(line.encode(), [*range(0, len(line), 4096), LONGEST_LINE + 1]))
    pieces = [row.split("| ")[-1].split("+ ")[-1] for row in text.splitlines()]
    assert "".join(pieces) == "x" * before + "[redacted]" + "y" * (2 * LONGEST_LINE)
    assert all(len(piece) <= LONGEST_LINE for piece in pieces)
    assert [row[len(AT) :][:5] for row in text.splitlines()] == [" out|", *[" out+"] * (len(pieces) - 1)]


@pytest.mark.promise(4)
def test_the_last_words_and_lines_are_masked_too(tmp_path: Path) -> None:
    _, said = logged(tmp_path, ("out", f"it is {SECRET}".encode()), ("err", b"token=abcdefgh\n"))
    assert said == Said("it is [redacted]", "token=[redacted]")


@pytest.mark.fault(43)
def test_what_a_terminal_would_obey_is_escaped_and_forges_no_line(tmp_path: Path) -> None:
    data = "\x1b[31mred\x07 \u202eabc\u2028forged \x85\rover\ttab é\r\n\ufeff".encode()
    text, _ = logged(tmp_path, ("out", data))
    assert text == (f"{AT} out| \\x1b[31mred\\x07 \\u202eabc\\u2028forged \\x85\\rover\ttab é\n{AT} out| \\ufeff\n")


@pytest.mark.fault(8)
@given(places=st.lists(st.integers(0, 12), max_size=4))
def test_bytes_that_are_no_text_are_escaped_and_characters_are_never_torn(
    places: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, _ = logged(tmp_path_factory.mktemp("log"), *cut("a€😀".encode() + b"\xff\0\xe2\x82", places))
    assert text == f"{AT} out| a€😀\\xff\\x00\\xe2\\x82\n"


# what is kept


@pytest.mark.parametrize(
    ("out", "last"),
    [
        (b"work\nLOOP_COMPLETE\n", "LOOP_COMPLETE"),
        (b"LOOP_COMPLETE\r\n\n \t\n\n", "LOOP_COMPLETE"),
        (b"LOOP_COMPLETE \n", "LOOP_COMPLETE "),
        (b"", ""),
        (b"\n \n", ""),
        (b"x" * LONGEST_LINE + b"LOOP_COMPLETE", "x" * LONGEST_LINE),
        (b"x" * 3 * LONGEST_LINE + b"LOOP_COMPLETE\n", "x" * LONGEST_LINE),
    ],
)
def test_the_last_line_is_the_last_that_is_not_blank_from_its_beginning(out: bytes, last: str, tmp_path: Path) -> None:
    _, said = logged(tmp_path, ("out", out), ("err", b"not this\n"))
    assert said.last_line == last


def test_the_last_words_are_the_end_of_stderr_or_else_the_last_line(tmp_path: Path) -> None:
    errors = b"".join(b"line %d\n" % number for number in range(9))
    assert (
        logged(tmp_path, ("out", b"out\n"), ("err", errors))[1].last_words
        == "line 4 / line 5 / line 6 / line 7 / line 8"
    )
    assert logged(tmp_path, ("out", b" out \n"))[1].last_words == "out"
    assert len(logged(tmp_path, ("err", b"x" * 5000 + b"\n" + b"y" * 5000))[1].last_words) == MOST_LAST_WORDS


def test_what_one_program_said_is_forgotten_when_the_next_begins(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.feed("stderr", b"why\n")
    log.feed("stdout", b"half \xe2")
    assert log.finish() == Said("half \\xe2", "why")
    log.feed("stdout", b"\x82")
    log.feed("stderr", b"")
    assert log.finish() == Said("\\x82", "\\x82")
    assert log.finish() == Said()
    log.close()
    log.close()


# a file that fails, and much of it


def test_a_log_that_cannot_be_written_is_told_once_counted_and_goes_on_with_room(tmp_path: Path) -> None:
    shown: list[str] = []
    before = open_files()
    log = log_in(tmp_path / "missing", shown)
    log.feed("stdout", b"one\ntwo\n")
    log.feed("stderr", b"three\n")
    told = [line for line in shown if "cannot be written" in line]
    why = "cannot be written: No such file or directory; the loop goes on without it"
    assert told == [f"the log '{tmp_path}/missing/output.log' {why}"]
    assert (log.lost_lines, [line for line in shown if line not in told]) == (3, ["one", "two", "three"])
    (tmp_path / "missing").mkdir()
    log.feed("stdout", b"four\n")
    log.close()
    assert (tmp_path / "missing" / "output.log").read_text() == f"{AT} out| four\n"
    assert (log.lost_lines, open_files()) == (3, before)


@pytest.mark.fault(38)
def test_a_line_that_was_written_in_part_is_closed_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_in(tmp_path)
    write, left = os.write, [12]

    def little(file: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        written = write(file, bytes(data)[: left[0]])
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", little)
        log.feed("stdout", b"one\n")
    log.feed("stdout", b"two\n")
    log.close()
    assert (tmp_path / "output.log").read_text() == f"{AT[:12]}\n{AT} out| two\n"
    assert log.lost_lines == 1


FULL = "loop| the log was full: what it had stands in output.log.1, in place of what stood there before"


@pytest.mark.fault(7)
def test_a_log_that_is_full_is_put_aside_once_so_that_there_are_two_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_log, "MOST_BYTES", 100)
    path = tmp_path / "output.log"
    log = log_in(tmp_path)
    for number in range(3):
        log.feed("stdout", b"%d\n" % number * 2)
    assert [line.partition("| ")[2] for line in earlier_log(path).read_text().splitlines()] == ["0", "0", "1", "1"]
    assert path.read_text() == f"{AT} {FULL}\n{AT} out| 2\n{AT} out| 2\n"
    for number in range(100):
        log.feed("stdout", b"%d\n" % number)
    log.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["output.log", "output.log.1"]
    assert all(one.stat().st_size < 300 for one in tmp_path.iterdir())
    both = earlier_log(path).read_text() + path.read_text()
    assert [line.partition("| ")[2] for line in both.splitlines() if FULL not in line][-2:] == ["98", "99"]
    assert (log.lost_lines, path.stat().st_mode & 0o777) == (0, 0o600)


def test_a_log_that_was_full_already_is_put_aside_by_whoever_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = logged(tmp_path, ("out", b"one\n"))
    monkeypatch.setattr(output_log, "MOST_BYTES", len(first))
    logged(tmp_path, ("out", b"two\n"))
    assert earlier_log(tmp_path / "output.log").read_text() == first


def test_a_full_log_that_cannot_be_put_aside_grows_no_more_and_one_that_was_removed_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(output_log, "MOST_BYTES", 10)
    log, path = log_in(tmp_path, shown), tmp_path / "output.log"
    log.feed("stdout", b"one\n")
    before = path.read_bytes()
    earlier_log(path).mkdir()
    log.feed("stdout", b"two\n")
    assert (path.read_bytes(), log.lost_lines) == (before, 1)
    assert any("cannot be written: Is a directory" in line for line in shown)
    path.unlink()
    log.feed("stdout", b"three\n")
    log.close()
    assert path.read_text().endswith(f"{AT} out| three\n")
    assert log.lost_lines == 1


def test_what_is_no_regular_file_is_not_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_log, "MOST_BYTES", 10)
    path = tmp_path / "output.log"
    path.symlink_to("/dev/null")
    logged(tmp_path, ("out", b"one\n"), ("out", b"two\n"))
    assert [one.name for one in tmp_path.iterdir()] == ["output.log"]


def test_whoever_looks_on_may_go_away(tmp_path: Path) -> None:
    def show(line: str) -> None:
        raise BrokenPipeError(line)

    log = OutputLog(tmp_path / "output.log", MASK, show, now=lambda: 0.0)
    log.feed("stdout", b"one\ntwo\n")
    log.close()
    assert (tmp_path / "output.log").read_text().count("\n") == 2


@pytest.mark.timed
@pytest.mark.fault(7)
@pytest.mark.parametrize("chunk", [b"a line of some words\n" * 3000, b"x" * 65536], ids=["lines", "one-line"])
async def test_memory_stays_flat_however_much_there_is(chunk: bytes) -> None:
    log = OutputLog(Path("/dev/null"), MASK, now=lambda: 0.0)
    log.feed("stdout", chunk * 8)
    async with flat_memory(8 * MB):
        for _ in range(40 * MB // len(chunk)):
            log.feed("stdout", chunk)
            await asyncio.sleep(0)
    said = log.finish()
    log.close()
    assert said.last_line in ("a line of some words", "x" * LONGEST_LINE)
    assert log.lost_lines == 0
