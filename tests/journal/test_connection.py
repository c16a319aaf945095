import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.outside import open_files

from tenter.journal.connection import connect, identity, in_words, told, trouble, wait
from tenter.journal.store import JournalError
from tenter.journal.tables import FORMAT


def _open(path: Path) -> sqlite3.Connection:
    connection = connect(path, create=True)
    assert connection is not None
    return connection


def test_a_look_creates_nothing(tmp_path: Path) -> None:
    assert connect(tmp_path / ".tenter" / "journal.db", create=False) is None
    assert list(tmp_path.iterdir()) == []


def test_a_look_at_a_file_without_tables_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    assert connect(path, create=False) is None
    assert [file.stat().st_size for file in tmp_path.iterdir()] == [0]


def test_folder_and_files_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = tmp_path / "a" / ".tenter" / "journal.db"
        with closing(_open(path)) as connection:
            connection.execute("INSERT INTO kept VALUES (x'00', 0, x'00')")
            assert path.parent.stat().st_mode & 0o777 == 0o700
            assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
                "journal.db": 0o600,
                "journal.db-wal": 0o600,
                "journal.db-shm": 0o600,
            }
    finally:
        os.umask(before)


@pytest.mark.parametrize(("stands", "says"), [("link", "a link that leads nowhere"), ("file", "no folder")])
def test_what_stands_where_the_folder_should_be_is_told(stands: str, says: str, tmp_path: Path) -> None:
    folder = tmp_path / ".tenter"
    if stands == "link":
        folder.symlink_to("nowhere")
    else:
        folder.touch()
    with pytest.raises(JournalError, match=f"'{folder}' is {says}; take it away"):
        connect(folder / "journal.db", create=True)


def test_many_that_create_it_at_once_all_get_the_same_journal(tmp_path: Path) -> None:
    path, count = tmp_path / ".tenter" / "journal.db", 8
    together, failures = threading.Barrier(count), list[BaseException]()

    def create(number: int) -> None:
        try:
            together.wait(5)
            with closing(_open(path)) as connection:
                wait(connection, 5)
                connection.execute("INSERT INTO kept VALUES (?, 0, x'00')", (bytes([number]),))
        except BaseException as error:  # a thread has nobody else to tell
            failures.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []
    with closing(_open(path)) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (count,)


def test_a_file_name_with_special_characters_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#%41 b" / "journal.db"
    _open(path).close()
    assert path.is_file()


def _newer(path: Path) -> None:
    with closing(_open(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def _text(path: Path) -> None:
    path.write_text("no database\n" * 100)


def _without_entries(path: Path) -> None:
    with closing(_open(path)) as connection:
        connection.execute("DROP TABLE entries")


def test_a_journal_of_which_a_table_was_taken_away_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    _without_entries(path)
    with (
        pytest.raises(JournalError, match=r"no such table: entries.*the file is damaged") as caught,
        told(path),
        closing(_open(path)) as connection,
    ):
        connection.execute("SELECT * FROM entries")
    assert caught.value.trouble == "damaged"


def _emptied(path: Path) -> None:
    path.touch()
    path.with_name(path.name + "-wal").write_bytes(b"x" * 100)


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "kind", "advice"),
    [
        (_newer, "newer", "its format is 3, .* upgrade tenter"),
        (_foreign, "foreign", "other tables.* move it away"),
        (_text, "damaged", "move it away"),
        (_emptied, "damaged", "write-ahead log"),
        (_folder, "io", "the operating system refused"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_is_no_journal_of_ours_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], kind: str, advice: str, create: bool
) -> None:
    path = tmp_path / "journal.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    files = open_files()
    with pytest.raises(JournalError, match=advice) as caught, told(path):
        connect(path, create=create)
    assert caught.value.trouble == kind
    assert repr(str(path)) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert open_files() == files


@pytest.mark.parametrize("folder", ["/proc/self", "/sys"])
def test_a_folder_that_cannot_be_made_is_told(folder: str) -> None:
    path = Path(folder) / "tenter" / "journal.db"
    with pytest.raises(JournalError, match="check the") as caught, told(path):
        connect(path, create=True)
    assert caught.value.trouble in ("io", "read_only")


def test_a_file_replaced_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert identity(path) is None
    path.touch()
    first = identity(path)
    path.rename(tmp_path / "y")
    path.touch()
    assert identity(path) not in (None, first)


def test_every_trouble_with_a_file_says_what_to_do() -> None:
    error = trouble(Path("/x/journal.db"), "full", "disk full")
    assert str(error) == (
        "the journal '/x/journal.db' cannot be used (disk full): the disk is full; free some room and try again"
    )


@pytest.mark.parametrize(
    "message", ["no such table: entries", "no query solution", "Could not decode to UTF-8 column 'name'"]
)
def test_what_the_tables_that_tenter_makes_never_lead_to_is_damage(message: str, tmp_path: Path) -> None:
    assert in_words(tmp_path / "journal.db", sqlite3.OperationalError(message)).trouble == "damaged"


def test_a_number_that_is_too_large_for_the_tables_is_damage(tmp_path: Path) -> None:
    with closing(_open(tmp_path / "journal.db")) as connection, pytest.raises(JournalError) as caught, told(tmp_path):
        connection.execute("SELECT 1 FROM entries WHERE id > ?", (2**72,))
    assert caught.value.trouble == "damaged"
