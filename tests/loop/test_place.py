import os
import subprocess
from pathlib import Path

import pytest

from tenter.journal import JOURNAL_PLACE, Entry, SqliteStore, Stream
from tenter.kernel import TenterError
from tenter.loop.place import Place, is_loop_id, make_state_folder

ID = "loop-12ab-34cd"


def test_what_a_loop_is_told_is_in_its_workspace_and_what_is_kept_in_the_project() -> None:
    place = Place(ID, Path("/project"), Path("/repo/.worktrees/x"))
    assert place.suspend_state == Path("/repo/.worktrees/x/.tenter/suspend-state.json")
    assert [place.signal(kind).name for kind in ("resume", "stop", "restart", "answer")] == [
        "resume-requested",
        "stop-requested",
        "restart-requested",
        "answer-given",
    ]
    assert place.signal("stop").parent == place.suspend_state.parent == place.signals
    assert place.folder == Path(f"/project/.tenter/loops/{ID}")
    assert [path.name for path in (place.events, place.output, place.summary)] == [
        "events.jsonl",
        "output.log",
        "summary.json",
    ]
    assert {path.parent for path in (place.events, place.output, place.summary)} == {place.folder}


def test_folders_are_made_for_their_owner_alone_and_once(tmp_path: Path) -> None:
    project, workspace = tmp_path / "project", tmp_path / "workspace"
    project.mkdir()
    workspace.mkdir()
    place, before = Place(ID, project, workspace), os.umask(0)
    try:
        place.make()
    finally:
        os.umask(before)
    place.events.write_text("kept")
    place.make()
    assert place.events.read_text() == "kept"
    for folder in (place.signals, project / ".tenter", place.folder.parent, place.folder):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_git_sees_none_of_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    Place(ID, tmp_path, tmp_path).make()
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""


def test_rules_of_the_users_own_stay(tmp_path: Path) -> None:
    make_state_folder(tmp_path / ".tenter")
    (tmp_path / ".tenter" / ".gitignore").write_text("*.db\n")
    Place(ID, tmp_path, tmp_path).make()
    assert (tmp_path / ".tenter" / ".gitignore").read_text() == "*.db\n"


async def test_the_journal_goes_on_in_the_same_folder(tmp_path: Path) -> None:
    entry, run = Entry(kind="step", time=1, content={}), Stream("run", "r1")
    store = SqliteStore(tmp_path / JOURNAL_PLACE)
    await store.append(run, [entry])
    Place(ID, tmp_path, tmp_path).make()
    assert (await store.append(run, [entry])).sequence == 2
    await store.close()


@pytest.mark.parametrize("which", [".tenter", ".tenter/loops", f".tenter/loops/{ID}"])
def test_a_link_out_of_the_project_is_not_followed(which: str, tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / which).parent.mkdir(parents=True)
    (project / which).symlink_to(elsewhere)
    with pytest.raises(TenterError, match=f"'{project / which}' is a link that leads out of '{project}'"):
        Place(ID, project, project).make()
    assert list(elsewhere.iterdir()) == []


def test_a_link_that_stays_in_the_project_will_do(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / ".tenter").symlink_to("state")
    place = Place(ID, tmp_path, tmp_path)
    place.make()
    assert (tmp_path / "state" / "loops" / ID).is_dir()


@pytest.mark.parametrize("stands", ["a file", "a link to nowhere", "a link to itself"])
def test_what_stands_in_a_folders_place_is_told(stands: str, tmp_path: Path) -> None:
    folder = tmp_path / ".tenter"
    if stands == "a file":
        folder.touch()
    else:
        folder.symlink_to("nowhere" if stands == "a link to nowhere" else ".tenter")
    with pytest.raises(TenterError, match=f"'{folder}' (is no folder|cannot be used.*); take it away"):
        Place(ID, tmp_path, tmp_path).make()


def test_a_workspace_that_is_gone_is_told_and_not_made(tmp_path: Path) -> None:
    workspace = tmp_path / "gone"
    with pytest.raises(TenterError, match=rf"'{workspace / '.tenter'}' cannot be made or written \(No such file"):
        Place(ID, tmp_path, workspace).make()
    assert not workspace.exists()


@pytest.mark.fault(64)
@pytest.mark.parametrize(
    "hostile", ["", "..", "../../x", "/etc/x", "a/b", "a\0b", "a\nb", "-x", "A", "ä", "a" * 65, "%2e%2e", "a\u202eb"]
)
def test_an_id_that_could_lead_elsewhere_names_no_place(hostile: str, tmp_path: Path) -> None:
    assert not is_loop_id(hostile)
    with pytest.raises(TenterError, match="is no id of a loop") as raised:
        Place(hostile, tmp_path, tmp_path)
    assert str(raised.value).isprintable()


def test_what_is_kept_of_a_loop_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    place = Place("loop-12ab-34cd", tmp_path, tmp_path)
    place.make()
    (place.folder / "events.jsonl").touch()
    (other := place.folder.with_name("loop-0000-0001")).mkdir()
    place.remove()
    place.remove()
    assert list(place.folder.parent.iterdir()) == [other]


@pytest.mark.fault(64)
def test_what_is_kept_of_a_loop_is_not_taken_away_through_a_link_that_leads_out(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    place = Place("loop-12ab-34cd", project, project)
    (theirs := tmp_path / "theirs" / place.loop_id).mkdir(parents=True)
    (project / ".tenter").mkdir()
    (project / ".tenter" / "loops").symlink_to(theirs.parent)
    with pytest.raises(TenterError, match="leads out of the project"):
        place.remove()
    assert theirs.is_dir()
