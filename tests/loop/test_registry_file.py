import os
import resource
import select
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tenter.kernel import TenterError
from tenter.loop.registry_file import FORMAT, connect, told, writers

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def opened(path: Path) -> sqlite3.Connection:
    with told(path):
        connection = connect(path, create=True)
    assert connection is not None
    return connection


def emptied(path: Path) -> None:
    with closing(opened(path)) as connection, told(path):
        connection.execute("DELETE FROM loops")


def test_a_look_creates_nothing(tmp_path: Path) -> None:
    assert connect(tmp_path / ".tenter" / "loops.db", create=False) is None
    assert list(tmp_path.iterdir()) == []


def test_it_is_made_for_its_owner_alone_and_kept_out_of_git(tmp_path: Path) -> None:
    path, before = tmp_path / ".tenter" / "loops.db", os.umask(0)
    try:
        with closing(opened(path)) as connection:
            connection.execute("DELETE FROM loops")
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {".gitignore": 0o600, "loops.db": 0o600, "loops.db-shm": 0o600, "loops.db-wal": 0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_it_says_its_version_and_keeps_a_log_ahead(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "loops.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_many_that_make_it_at_once_all_get_it(tmp_path: Path) -> None:
    path, together, made = tmp_path / ".tenter" / "loops.db", threading.Barrier(8), list[int]()

    def make() -> None:
        together.wait(10)
        with closing(opened(path)) as connection:
            made.append(connection.execute("SELECT count(*) FROM loops").fetchone()[0])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert made == [0] * 8


def test_a_registry_held_by_another_process_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenter.loop.registry_file.LOCK_SECONDS", 0.2)
    path = tmp_path / "loops.db"
    arguments = [sys.executable, "-c", HOLDER, str(path)]
    with (
        closing(opened(path)) as connection,
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        assert holder.stdout is not None
        assert select.select([holder.stdout], [], [], 10)[0]
        assert holder.stdout.readline() == b"held\n"
        says = rf"'{path}' cannot be used \(process {holder.pid} \('python.*'\) held it for 0.2 s\): let it finish"
        with pytest.raises(TenterError, match=says), told(path):
            connection.execute("BEGIN IMMEDIATE")
        holder.kill()


def test_without_a_list_of_locks_it_is_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenter.loop.registry_file.LOCKS", tmp_path / "nothing")
    path = tmp_path / "loops.db"
    with closing(opened(path)) as one, closing(opened(path)) as other:
        one.execute("BEGIN IMMEDIATE")
        other.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(TenterError, match=r"\(another process held it"), told(path):
            other.execute("BEGIN IMMEDIATE")


def test_whoever_looks_for_who_holds_it_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "loops.db"
    with closing(opened(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert writers((path, path.with_name("loops.db-shm"), tmp_path / "nothing")) == set()


@pytest.mark.parametrize("harm", ["noise", "noise behind the head", "a newer version", "another database", "a link"])
def test_what_is_no_registry_of_this_version_is_told_and_left_alone(harm: str, tmp_path: Path) -> None:
    path, other = tmp_path / "loops.db", tmp_path / "other.db"
    match harm:
        case "noise":
            path.write_bytes(b"noise" * 1000)
            says = "not a database.*: the file is damaged; move it away"
        case "noise behind the head":
            opened(path).close()
            path.write_bytes(path.read_bytes()[:100] + b"noise" * 1000)
            says = "the file is damaged; move it away"
        case "a newer version":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
            says = f"its format is {FORMAT + 1}, .*upgrade tenter"
        case "another database":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE theirs (a)")
            says = "holds other tables.*move it away"
        case _:
            other.touch()
            path.symlink_to(other)
            says = "it is a link"
    before = path.read_bytes()
    with pytest.raises(TenterError, match=f"'{path}' cannot be used .*{says}"), told(path):
        connect(path, create=True)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_registry(tmp_path: Path) -> None:
    path = tmp_path / "loops.db"
    path.touch()
    with closing(opened(path)) as connection:
        assert connection.execute("SELECT count(*) FROM loops").fetchone() == (0,)


def test_no_room_is_told(tmp_path: Path) -> None:
    path = tmp_path / "loops.db"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(TenterError, match=f"'{path}' cannot be used .*file size limit"), told(path):
            connect(path, create=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_may_not_be_written_is_told() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / "loops.db"
        opened(path).close()
        for one in (path, folder):
            one.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(path, 65534, -1)
            os.seteuid(65534)
        try:
            with pytest.raises(TenterError, match=f"'{path}' cannot be used .*check the permissions"):
                emptied(path)
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o755)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / ".tenter").touch()
    path = tmp_path / ".tenter" / "loops.db"
    with pytest.raises(TenterError, match=r"is no folder|Not a directory"), told(path):
        connect(path, create=True)


@pytest.mark.fault(64)
def test_a_folder_that_is_a_link_out_is_refused_also_where_a_registry_is_there(tmp_path: Path) -> None:
    (mine := tmp_path / "mine" / ".tenter").mkdir(parents=True)
    opened(mine / "loops.db").close()
    (theirs := tmp_path / "theirs").mkdir()
    (theirs / ".tenter").symlink_to(mine)
    for create in (False, True):
        with pytest.raises(TenterError, match="is a link that leads out of"):
            connect(theirs / ".tenter" / "loops.db", create=create)


@pytest.mark.fault(64)
def test_a_registry_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".tenter" / "loops.db"
    opened(path).close()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(TenterError, match=f"belongs to another user, {owner}"):
        connect(path, create=False)
