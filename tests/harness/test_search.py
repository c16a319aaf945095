"""glob and grep: bounded, sorted, linear, and blind to what lies outside."""

import os
import time
from pathlib import Path

import pytest

from tenter.harness.context import ToolContext
from tenter.harness.errors import ToolError
from tenter.harness.files import MOST_BYTES
from tenter.harness.search import LONGEST_LINE, MOST_HITS, MOST_PATHS, compile_glob, glob, grep
from tenter.harness.workspace import Workspace
from tenter.kernel import MASK, SYSTEM_CLOCK, Redactor


def at(folder: Path) -> ToolContext:
    return ToolContext(workspace=Workspace.at(folder))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["d/a.py", "a.pyc", "a.py\n"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["a.pyc", "d/a.py/x"]),
        ("src/**", ["src/a", "src/d/a"], ["src", "srcs/a"]),
        ("src/**/a.py", ["src/a.py", "src/d/e/a.py"], ["src/ba.py", "a.py"]),
        ("./a?c", ["abc", "aéc"], ["ac", "a/c"]),
        ("[a-c]x[!0-9]", ["ax_", "cxy"], ["dxy", "ax1", "ax/"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("*.{js,ts}", ["a.js", "a.ts"], ["a.jts", "a.{js,ts}", "a.js,ts"]),
        ("{src,lib/**}/*.c", ["src/a.c", "lib/x/y/a.c"], ["a.c", "src/x/a.c"]),
        ("a.b+(c)|$", ["a.b+(c)|$"], ["axb+(c)|$"]),
        ("a{b", ["a{b"], ["ab"]),
        ("a[b", ["a[b"], ["ab"]),
    ],
)
def test_a_glob_matches_as_in_a_shell(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = compile_glob(pattern)
    assert [path for path in yes if not matches(path)] == []
    assert [path for path in no if matches(path)] == []


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a/../b", "x" * 1001, "{a,{b}", "[z-a]"])
def test_a_glob_that_is_none_or_leads_out_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="the pattern"):
        compile_glob(pattern)


@pytest.mark.timed
@pytest.mark.fault(34)
def test_thirty_stars_are_linear() -> None:
    best = 1.0
    for _ in range(3):
        started = time.perf_counter()
        assert not compile_glob("*a" * 30)("a" * 29 + "/")
        best = min(best, time.perf_counter() - started)
    assert best < 0.01


def test_glob_finds_files_sorted_and_passes_over_folders_that_are_nobodys_source(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "a/.hidden.py", ".git/x.py", ".tenter/x.py", "sub/.venv/x.py", "a/t.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert glob(at(tmp_path), pattern="**/*.py") == "a.py\na/.hidden.py\na/z.py\nb.py"
    assert glob(at(tmp_path), pattern="*.py", path="a") == "a/.hidden.py\na/z.py"
    assert glob(at(tmp_path), pattern="*.rs") == "no file below '.' matches '*.rs'"


def test_a_link_to_a_folder_outside_is_named_by_glob_and_entered_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("inside")
    (tmp_path / "work" / "out").symlink_to("../outside")
    (tmp_path / "work" / "file.txt").symlink_to("../outside/secret.txt")
    context = at(tmp_path / "work")
    assert glob(context, pattern="**") == "a.txt\nfile.txt\nout"
    assert grep(context, pattern=".") == "a.txt:1: inside"
    for path in ("out", "file.txt", ".."):
        with pytest.raises(ToolError, match="leads out"):
            grep(context, pattern=".", path=path)
        with pytest.raises(ToolError, match="leads out"):
            glob(context, pattern="**", path=path)


def test_a_folder_swapped_for_a_link_during_the_walk_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("secret")
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "f").write_text("inside")
    really_open, left = os.open, ["once"]

    def swapping(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "sub" and left:
            left.pop()
            (tmp_path / "work" / "sub").rename(tmp_path / "work" / "old")
            (tmp_path / "work" / "sub").symlink_to("../outside")
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    assert grep(at(tmp_path / "work"), pattern=".") == "no line below '.' matches '.'"
    assert not left


def test_grep_names_file_and_line_in_order(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_bytes("one\r\nTWO é\r\nthree".encode())
    (tmp_path / "b.txt").write_text("two\n")
    assert grep(at(tmp_path), pattern="two", ignore_case=True) == "b.txt:1: two\nsrc/a.py:2: TWO é"
    assert grep(at(tmp_path), pattern="two") == "b.txt:1: two"
    assert grep(at(tmp_path), pattern="o", files="**/*.py") == "src/a.py:1: one"
    assert grep(at(tmp_path), pattern="three$", path="src/a.py") == "src/a.py:3: three"
    assert grep(at(tmp_path), pattern="o", path="src") == "src/a.py:1: one"
    assert grep(at(tmp_path), pattern="nowhere") == "no line below '.' matches 'nowhere'"


def test_grep_passes_over_binary_large_and_special_files(tmp_path: Path) -> None:
    (tmp_path / "nul").write_bytes(b"find me\0")
    (tmp_path / "latin").write_bytes(b"find me \xff")
    (tmp_path / "large").write_bytes(b"find me\n" + b"x" * MOST_BYTES)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("find me")
    assert grep(at(tmp_path), pattern="find") == "text:1: find me"
    with pytest.raises(ToolError, match="'pipe' is a named pipe"):
        grep(at(tmp_path), pattern="find", path="pipe")
    with pytest.raises(ToolError, match="'missing' does not exist"):
        grep(at(tmp_path), pattern="find", path="missing")


@pytest.mark.parametrize("pattern", ["", "(", r"(a)\1", "(?=x)", "x" * 1001])
def test_an_expression_that_re2_does_not_take_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match="the pattern '"):
        grep(at(tmp_path), pattern=pattern)


def test_results_are_bounded_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x" * 5000 + "\n" + "x\n" * 1000)
    hits = grep(at(tmp_path), pattern="x")
    assert isinstance(hits, str)
    lines = hits.splitlines()
    assert len(lines) == MOST_HITS + 1
    assert lines[0] == f"lines:1: {'x' * LONGEST_LINE}…"
    assert lines[-1].startswith(f"[cut here: more than {MOST_HITS} lines match")
    for number in range(MOST_PATHS + 1):
        (tmp_path / f"{number:05}.n").touch()
    paths = glob(at(tmp_path), pattern="*.n")
    assert isinstance(paths, str)
    assert len(paths.splitlines()) == MOST_PATHS + 1
    assert paths.splitlines()[-1].startswith(f"[cut here: {MOST_PATHS + 1} files match")


def test_a_file_name_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb.txt").write_text("x")
    assert glob(at(tmp_path), pattern="**") == "a\\nb.txt"
    assert grep(at(tmp_path), pattern="x") == "a\\nb.txt:1: x"


def test_a_search_past_its_deadline_ends_instead_of_going_on_unseen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    late = ToolContext(workspace=Workspace.at(tmp_path), deadline=SYSTEM_CLOCK.now() - 1)
    with pytest.raises(ToolError, match="no time"):
        grep(late, pattern="x")
    with pytest.raises(ToolError, match="no time"):
        glob(late, pattern="*")


@pytest.mark.promise(4)
def test_nothing_of_a_secret_is_left_where_a_line_is_cut_or_its_lines_are_shown_apart(tmp_path: Path) -> None:
    secret, lines = "S3cr3t-abcdefghijklmnopqrstuvwxyz01234", "first-of-three\nsecond-of-three\nthird-of-three"
    context = ToolContext(workspace=Workspace.at(tmp_path), mask=Redactor(secrets=[secret, lines]).mask_text)
    for shown in (0, 4, 20, 37):
        (tmp_path / "long.txt").write_text("x" * (LONGEST_LINE - shown) + secret + "y" * 200)
        assert secret[:4] not in str(grep(context, pattern="x"))
    (tmp_path / "lines.txt").write_text(f"open\n{lines}\nthe end\n")
    shown = str(grep(context, pattern=".", path="lines.txt")).splitlines()
    assert [line.partition(": ")[2] for line in shown] == ["open", MASK, MASK, MASK, "the end"]
