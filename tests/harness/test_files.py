"""The file tools: text comes and goes as it is, edits are exact, and every refusal says what to do."""

import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tenter.harness.context import ToolContext
from tenter.harness.errors import ToolError
from tenter.harness.files import MOST_BYTES, MOST_ENTRIES, edit, list_dir, read_file, write_file
from tenter.harness.workspace import Workspace
from tenter.kernel import MASK, Redactor


def at(folder: Path) -> ToolContext:
    return ToolContext(workspace=Workspace.at(folder))


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_that_is_written_is_read_back_exactly(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    context = at(tmp_path_factory.getbasetemp())
    write_file(context, path="deep/er/file.txt", content=text)
    assert (tmp_path_factory.getbasetemp() / "deep/er/file.txt").read_bytes() == text.encode()
    assert read_file(context, path="deep/er/file.txt") == text


@given(
    pieces=st.lists(st.sampled_from(["a", "\r\n", "\n", "\u2028", "\x0c", "é"]), max_size=12),
    first=st.integers(1, 5),
    count=st.integers(1, 3),
)
def test_a_range_of_lines_is_a_piece_of_the_text_cut_after_newlines(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], first: int, count: int
) -> None:
    text = "".join(pieces)
    (tmp_path_factory.getbasetemp() / "lines.txt").write_bytes(text.encode())
    context = at(tmp_path_factory.getbasetemp())
    lines = [line.decode() for line in text.encode().splitlines(keepends=True)] if "\r" not in text else None
    total = text.count("\n") + (not text.endswith("\n") and text != "")
    if first > max(1, total):
        with pytest.raises(ToolError, match=f"has {total} lines; line {first} is past its end"):
            read_file(context, path="lines.txt", first_line=first, lines=count)
        return
    found = read_file(context, path="lines.txt", first_line=first, lines=count)
    rest = read_file(context, path="lines.txt", first_line=first)
    assert isinstance(found, str)
    assert isinstance(rest, str)
    assert text.endswith(rest)
    assert rest.startswith(found)
    assert found.count("\n") <= count
    if lines is not None and "\x0c" not in text:
        assert found == "".join(lines[first - 1 : first - 1 + count])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xff\xfe", "not UTF-8 text .byte 0xff at offset 0"),
        (b"ab\0c", "is binary .NUL after 2"),
        (b"x" * (MOST_BYTES + 1), f"more than {MOST_BYTES} bytes"),
    ],
    ids=["bytes", "nul", "large"],
)
def test_what_is_no_text_is_refused_and_left_alone(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ToolError, match=f"'f' .*{told}"):
        read_file(at(tmp_path), path="f")
    with pytest.raises(ToolError, match=f"'f' .*{told}"):
        edit(at(tmp_path), path="f", old="x", new="y")
    assert (tmp_path / "f").read_bytes() == data


def test_lines_that_do_not_count_from_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for first, lines in ((0, None), (1, 0)):
        with pytest.raises(ToolError, match="both count from 1"):
            read_file(at(tmp_path), path="f", first_line=first, lines=lines)


def test_half_a_character_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="'content' holds half a character at position 1"):
        write_file(at(tmp_path), path="f", content="a\ud800")
    assert list(tmp_path.iterdir()) == []


def test_an_edit_replaces_the_one_place_and_keeps_everything_else(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\nc = 3")
    told = edit(at(tmp_path), path="f.py", old="b = 2\r\n", new="b = 20\n")
    assert (tmp_path / "f.py").read_bytes() == b"\xef\xbb\xbfa = 1\r\nb = 20\nc = 3"
    assert told == "replaced 1 occurrence in 'f.py', at line 2"


def test_an_edit_of_several_places_needs_replace_all_and_says_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\ny\nx x\nz\nx\n")
    with pytest.raises(ToolError, match=r"'old' occurs 4 times in 'f', at lines 1, 3, 5; .*set replace_all"):
        edit(at(tmp_path), path="f", old="x", new="w")
    assert (tmp_path / "f").read_text() == "x\ny\nx x\nz\nx\n"
    assert edit(at(tmp_path), path="f", old="x", new="w", replace_all=True) == (
        "replaced 4 occurrences in 'f', at lines 1, 3, 5"
    )
    assert (tmp_path / "f").read_text() == "w\ny\nw w\nz\nw\n"


def test_a_text_that_overlaps_itself_is_not_unique(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("aaa")
    with pytest.raises(ToolError, match="occurs 2 times"):
        edit(at(tmp_path), path="f", old="aa", new="b")


def test_a_text_that_occurs_very_often_is_counted_up_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n" * 5000)
    with pytest.raises(ToolError, match=r"occurs more than 1000 times in 'f', at lines 1, 2, .*10, …; "):
        edit(at(tmp_path), path="f", old="x", new="y")


@pytest.mark.parametrize(
    ("content", "old", "told"),
    [
        ("a\r\nb\r\n", "a\nb", r"it would with the file's line ends: this file has '\\r\\n'"),
        ("if x:\n    y()", "if x:\n  y()", "it would with other spaces"),
        ("abc", "xyz", "read the file and copy"),
    ],
)
def test_a_text_that_does_not_occur_is_refused_with_the_likely_reason(
    tmp_path: Path, content: str, old: str, told: str
) -> None:
    (tmp_path / "f").write_bytes(content.encode())
    with pytest.raises(ToolError, match=f"'old' does not occur in 'f'; .*{told}"):
        edit(at(tmp_path), path="f", old=old, new="w")
    assert (tmp_path / "f").read_bytes() == content.encode()


def test_an_edit_that_would_change_nothing_or_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    with pytest.raises(ToolError, match="'old' is empty"):
        edit(at(tmp_path), path="f", old="", new="b")
    with pytest.raises(ToolError, match="the same"):
        edit(at(tmp_path), path="f", old="a", new="a")
    with pytest.raises(ToolError, match="'missing' does not exist"):
        edit(at(tmp_path), path="missing", old="a", new="b")


@pytest.mark.promise(4)
def test_text_that_holds_the_mask_is_never_written_or_looked_for(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f"key = {MASK}")
    context = at(tmp_path)
    for attempt in (
        lambda: write_file(context, path="g", content=f"a {MASK}"),
        lambda: write_file(context, path=MASK, content="a"),
        lambda: edit(context, path="f", old=MASK, new="b"),
        lambda: edit(context, path="f", old="key", new=MASK),
    ):
        with pytest.raises(ToolError, match="stands for a secret that you were not shown"):
            attempt()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("f", f"key = {MASK}")]


@pytest.mark.promise(4)
def test_source_that_looks_like_a_password_pair_is_written_as_it_is(tmp_path: Path) -> None:
    source = "def login(password: SecretStr) -> Token:\n    api_key: str = 'password: str'\n"
    write_file(at(tmp_path), path="f.py", content=source)
    assert (tmp_path / "f.py").read_text() == source
    edit(at(tmp_path), path="f.py", old="password: SecretStr", new="password: str")
    assert "def login(password: str)" in (tmp_path / "f.py").read_text()


def test_edits_of_one_file_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    names = [f"name{n:02}" for n in range(16)]
    (tmp_path / "f").write_text("\n".join(names))
    context = at(tmp_path)
    threads = [threading.Thread(target=edit, args=(context, "f", name, name.upper())) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert (tmp_path / "f").read_text() == "\n".join(names).upper()


def test_a_listing_is_sorted_and_marks_folders_and_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").touch()
    (tmp_path / "c").symlink_to("/etc/passwd")
    (tmp_path / "new\nline").touch()
    assert list_dir(at(tmp_path)) == "a.txt\nb/\nc -> /etc/passwd\nnew\\nline"
    assert list_dir(at(tmp_path), path="b") == "'b' is empty"
    with pytest.raises(ToolError, match=r"'a.txt' is not a folder"):
        list_dir(at(tmp_path), path="a.txt")
    with pytest.raises(ToolError, match="'x' does not exist"):
        list_dir(at(tmp_path), path="x")


def test_a_listing_is_bounded_and_says_so(tmp_path: Path) -> None:
    for number in range(MOST_ENTRIES + 5):
        (tmp_path / f"{number:05}").touch()
    listed = list_dir(at(tmp_path))
    assert isinstance(listed, str)
    lines = listed.splitlines()
    assert len(lines) == MOST_ENTRIES + 1
    assert lines[-1].startswith(f"[cut here: the folder has {MOST_ENTRIES + 5} entries")


@pytest.mark.promise(4)
def test_some_lines_of_a_secret_of_several_lines_are_masked(tmp_path: Path) -> None:
    lines = "first-of-three\nsecond-of-three\nthird-of-three"
    context = ToolContext(workspace=Workspace.at(tmp_path), mask=Redactor(secrets=[lines]).mask_text)
    (tmp_path / "f").write_text(f"open\n{lines}\nthe end")
    assert read_file(context, path="f", first_line=3) == f"{MASK}\n{MASK}\nthe end"
    assert read_file(context, path="f", lines=2) == f"open\n{MASK}\n"
