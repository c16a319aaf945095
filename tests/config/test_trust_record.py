"""The record of trust is the user's alone, whole or not there, and what is wrong with it is told."""

import json
import os
import stat
from pathlib import Path

import pytest

from tenter.config.footprint import FileFacts, Footprint, footprint
from tenter.config.trust_record import (
    RECORD_VERSION,
    TrustRecord,
    UnusableRecord,
    as_recorded,
    read_record,
    trust_folder,
    write_record,
)
from tenter.kernel import TenterError

SAMPLES = Path(__file__).parent / "samples"


def project(folder: Path, text: str = "exit 0") -> Footprint:
    hooks = {"run.end": [{"name": "a", "script": text, "on_error": "warn", "env": {"TOKEN": "opensesame"}}]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tenter.yaml").write_text(json.dumps({"version": 1, "hooks": {"events": hooks}}))
    return footprint(folder / "tenter.yaml")


def state(folder: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder / "home")}


def unusable(path: str, environment: dict[str, str]) -> str:
    with pytest.raises(UnusableRecord) as caught:
        read_record(path, environment)
    return str(caught.value)


@pytest.mark.parametrize("text", ["exit 0", "\u2028 \u00e9 $sha256", "x" * 100_000])
def test_what_is_written_is_read_again(text: str, tmp_path: Path) -> None:
    now, given = project(tmp_path, text), state(tmp_path)
    assert read_record(now.path, given) is None
    write_record(now, 12.5, given)
    assert read_record(now.path, given) == TrustRecord(
        path=now.path, digest=now.digest, trusted_at=12.5, settings=as_recorded(now.settings), files=now.files
    )


@pytest.mark.promise(4)
def test_the_record_is_the_users_alone_and_holds_no_value_of_a_variable(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = write_record(project(tmp_path), 0, state(tmp_path))
    finally:
        os.umask(before)
    assert file.parent == tmp_path / "state" / "tenter" / "trust"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "opensesame" not in file.read_text()
    assert json.loads(file.read_text())["schema_version"] == RECORD_VERSION == 1
    assert list(file.parent.iterdir()) == [file], "nothing else is left"


def test_each_configuration_has_a_record_of_its_own(tmp_path: Path) -> None:
    given = state(tmp_path)
    first, second = project(tmp_path / "a"), project(tmp_path / "b", "exit 1")
    files = {write_record(one, 0, given) for one in (first, second, first)}
    assert len(files) == 2
    for one in (first, second):
        record = read_record(one.path, given)
        assert record is not None
        assert record.digest == one.digest


def test_the_folder_is_the_state_folder_of_the_user() -> None:
    assert trust_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/tenter/trust")
    assert trust_folder({"XDG_STATE_HOME": "s", "HOME": "/h"}) == Path("/h/.local/state/tenter/trust")
    assert trust_folder({"HOME": "/h"}) == Path("/h/.local/state/tenter/trust")
    assert trust_folder({"HOME": "h"}) is None
    assert trust_folder({}) is None


def test_without_a_place_there_is_no_record_and_none_can_be_made(tmp_path: Path) -> None:
    now = project(tmp_path)
    assert read_record(now.path, {}) is None
    with pytest.raises(TenterError, match="set HOME, or XDG_STATE_HOME"):
        write_record(now, 0, {})


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"?", b'{"schema_version":1}', b'{"schema_version":1,"path":5}'])
def test_a_broken_record_counts_for_nothing_and_is_told(data: bytes, tmp_path: Path) -> None:
    now, given = project(tmp_path), state(tmp_path)
    file = write_record(now, 0, given)
    file.write_bytes(data)
    assert f"the record '{file}' is broken" in unusable(now.path, given)


def test_a_record_of_a_newer_version_counts_for_nothing_and_is_told(tmp_path: Path) -> None:
    now, given = project(tmp_path), state(tmp_path)
    file = write_record(now, 0, given)
    file.write_text(file.read_text().replace('"schema_version":1', '"schema_version":2'))
    assert "is of version 2, which a newer tenter wrote" in unusable(now.path, given)


@pytest.mark.parametrize("mode", [0o620, 0o602])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_can_write_counts_for_nothing(what: str, mode: int, tmp_path: Path) -> None:
    now, given = project(tmp_path), state(tmp_path)
    file = write_record(now, 0, given)
    (file if what == "file" else file.parent).chmod(mode | 0o100)
    assert "can be written by others than you" in unusable(now.path, given)
    write_record(now, 0, given)
    assert read_record(now.path, given) is not None, "a new record takes it away"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_record_of_another_user_counts_for_nothing(tmp_path: Path) -> None:
    now, given = project(tmp_path), state(tmp_path)
    os.chown(write_record(now, 0, given), 12345, -1)
    assert "can be written by others than you" in unusable(now.path, given)


def test_a_link_or_a_fifo_in_the_place_of_a_record_is_not_followed_or_waited_for(tmp_path: Path) -> None:
    now, given = project(tmp_path), state(tmp_path)
    file = write_record(now, 0, given)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert "cannot be read" in unusable(now.path, given)
    file.unlink()
    os.mkfifo(file, 0o600)
    assert "it is not a regular file" in unusable(now.path, given)


def test_a_record_that_was_copied_to_another_projects_place_counts_for_nothing(tmp_path: Path) -> None:
    given = state(tmp_path)
    first, second = project(tmp_path / "a"), project(tmp_path / "b")
    write_record(second, 0, given).write_bytes(write_record(first, 0, given).read_bytes())
    assert "is of another configuration" in unusable(second.path, given)


def test_a_record_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, given = project(tmp_path), state(tmp_path)
    file = write_record(now, 0, given)
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TenterError, match=r"cannot be written to .*No space left"):
        write_record(project(tmp_path, "exit 1"), 1, given)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_state_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(TenterError, match="the record of trust cannot be written to"):
        write_record(project(tmp_path), 0, state(tmp_path))


def test_a_record_of_version_1_is_read(tmp_path: Path) -> None:
    """A sample that stays as it is, whatever tenter writes later."""
    given = state(tmp_path)
    folder = trust_folder(given)
    assert folder is not None
    folder.mkdir(parents=True, mode=0o700)
    path = "/home/ada/project/tenter.yaml"
    sample = folder / "3469bfc666f7d198c574b671456baf3d.json"
    sample.write_bytes((SAMPLES / "trust-1.json").read_bytes())
    sample.chmod(0o600)
    record = read_record(path, given)
    assert record is not None
    assert record.digest == "sha256:" + "ab" * 32
    assert dict(record.settings)["hooks", "events", "run.end", 0, "name"] == "told"
    assert record.files == {"hooks/told.sh": FileFacts("sha256:" + "cd" * 32, "../told.sh")}
