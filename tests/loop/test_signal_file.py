"""A signal is written whole, used once, and does nothing for whom it is not meant."""

import os
import tempfile
import threading
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings, strategies as st

from tenter.kernel import TenterError
from tenter.loop.document import well_formed
from tenter.loop.place import Place
from tenter.loop.reason import ReleaseHow
from tenter.loop.release import By
from tenter.loop.signal_file import Answer, SetAside, Signal, take_answer, take_signal, write_signal
from tenter.loop.suspension import Suspender, SuspendState, write_state
from tenter.loop.whole_file import put_new

ID = "loop-12ab-34cd"
BY = By(7, "ann")
AT = "2026-02-28T15:31:00Z"


def place_in(folder: Path) -> Place:
    place = Place(ID, folder, folder)
    place.make()
    return place


def signal(kind: ReleaseHow = "resume", suspension_id: str | None = "s1", loop_id: str = ID) -> Signal:
    return Signal(kind=kind, loop_id=loop_id, suspension_id=suspension_id, at=AT, by=BY)


def answer(text: str = "yes", question_id: str = "q1") -> Answer:
    return Answer(loop_id=ID, question_id=question_id, text=text, at=AT, by=BY)


def take(place: Place, kind: ReleaseHow = "resume", suspension_id: str | None = "s1") -> Signal | SetAside | None:
    return take_signal(place, kind, loop_id=ID, suspension_id=suspension_id)


def suspend(place: Place, suspension_id: str) -> None:
    by = Suspender(hook_name="gate", reason="why", code="suspended", suspend_mode="wait_for_resume")
    state = SuspendState(
        loop_id=ID,
        phase_event="pre.loop.start",
        hook_name=by.hook_name,
        reason=by.reason,
        suspend_mode=by.suspend_mode,
        suspended_at=AT,
        suspension_id=suspension_id,
        suspensions=(by,),
    )
    write_state(place, state)


def left(place: Place) -> list[str]:
    return sorted(path.name for path in place.signals.iterdir() if path.name not in (".gitignore", "loops"))


def test_a_signal_is_used_once(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    assert take(place) is None
    assert write_signal(place, signal()) == "written"
    assert take(place) == signal()
    assert take(place) is None
    assert left(place) == []


def test_of_many_that_claim_it_one_gets_it(tmp_path: Path) -> None:
    place, together, got = place_in(tmp_path), threading.Barrier(8), list[object]()

    def race() -> None:
        together.wait(10)
        got.append(take(place))

    for _ in range(20):
        write_signal(place, signal())
        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert got.count(signal()) == 20
    assert got.count(None) == 140


@pytest.mark.fault(45)
def test_of_many_that_write_the_same_one_has_written_it(tmp_path: Path) -> None:
    place, together, said = place_in(tmp_path), threading.Barrier(8), list[str]()

    def race() -> None:
        together.wait(10)
        said.append(write_signal(place, signal()))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(said) == ["already"] * 7 + ["written"]
    assert left(place) == ["resume-requested"]


def test_a_resume_for_another_suspension_resumes_nothing_and_is_told(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(place, signal(suspension_id="s0"))
    found = take(place)
    assert isinstance(found, SetAside)
    assert found.kind == "resume"
    assert "'s0'" in found.text
    assert found.path is not None
    assert Path(found.path).is_file()
    assert left(place) == ["resume-requested.set-aside"]
    assert take(place) is None


@pytest.mark.parametrize("kind", ["stop", "restart"])
def test_a_stop_and_a_restart_are_meant_for_the_loop_in_whatever_suspension(kind: ReleaseHow, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    for meant, present in (("s0", "s1"), (None, "s1"), ("s0", None)):
        write_signal(place, signal(kind, meant))
        assert take(place, kind, present) == signal(kind, meant)


def test_a_signal_that_an_earlier_loop_left_does_nothing(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(Place("loop-old", tmp_path, tmp_path), signal("stop", None, "loop-old"))
    found = take(place, "stop")
    assert isinstance(found, SetAside)
    assert "'loop-old'" in found.why


def test_a_signal_under_the_name_of_another_kind_does_nothing(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(place, signal("resume"))
    place.signal("resume").rename(place.signal("stop"))
    assert isinstance(take(place, "stop"), SetAside)


def test_what_means_the_same_is_there_already(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(place, signal())
    write_signal(place, signal("stop", "s1"))
    assert write_signal(place, signal()) == "already"
    assert write_signal(place, signal("stop", None)) == "already"
    assert write_signal(place, signal("restart", None)) == "written"


@pytest.mark.parametrize("old", ["another suspension", "another loop", "empty", "torn"])
def test_what_means_nothing_any_more_is_replaced(old: str, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    suspend(place, "s1")
    match old:
        case "another suspension":
            write_signal(place, signal(suspension_id="s0"))
        case "another loop":
            write_signal(Place("loop-old", tmp_path, tmp_path), signal(loop_id="loop-old"))
        case "empty":
            place.signal("resume").touch()
        case _:
            place.signal("resume").write_text('{"kind": "res')
    assert write_signal(place, signal()) == "written"
    assert take(place) == signal()


def test_a_late_signal_for_an_earlier_suspension_does_not_replace_one_for_the_present(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    suspend(place, "s1")
    write_signal(place, signal())
    assert write_signal(place, signal(suspension_id="s0")) == "stale"
    assert take(place) == signal()


def test_a_state_that_nobody_can_read_keeps_no_signal_from_being_written(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.suspend_state.write_text("{")
    write_signal(place, signal(suspension_id="s0"))
    assert write_signal(place, signal()) == "written"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b'{"kind": "resume"', ""),
        (b"please resume", ""),
        (b'{"schema_version": 2}', "version 2"),
        (b"\0" * 100, "NUL"),
        (b'{"schema_version": 1, "kind": "resume", "go": 1}', "go"),
    ],
)
def test_what_is_no_signal_is_set_aside_and_told(data: bytes, why: str, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.signal("resume").write_bytes(data)
    found = take(place)
    assert isinstance(found, SetAside)
    assert why in found.why
    assert found.path is not None
    assert Path(found.path).read_bytes() == data
    assert take(place) is None


@pytest.mark.parametrize("stands", ["a FIFO", "a folder", "a link"])
def test_what_is_no_file_is_set_aside_and_makes_nobody_wait(stands: str, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    path = place.signal("stop")
    match stands:
        case "a FIFO":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / "other")
    assert isinstance(take(place, "stop"), SetAside)
    assert not os.path.lexists(path)


def test_what_is_set_aside_does_not_pile_up(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    for number in range(30):
        write_signal(place, signal(suspension_id=f"old-{number}"))
        assert isinstance(take(place), SetAside)
    assert left(place) == ["resume-requested.set-aside"]


def test_a_signal_is_not_put_where_another_loop_looks(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with pytest.raises(TenterError, match="'loop-old' is not put where 'loop-12ab-34cd' looks"):
        write_signal(place, signal(loop_id="loop-old"))
    assert left(place) == []


@pytest.mark.parametrize("harm", ["the workspace is gone", "a file in the folder's place", "a folder in its place"])
def test_a_signal_that_cannot_be_written_is_told(harm: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    place = Place(ID, tmp_path, workspace)
    if harm != "the workspace is gone":
        workspace.mkdir()
        if harm == "a folder in its place":
            place.make()
            place.signal("stop").mkdir()
        else:
            place.signals.touch()
    with pytest.raises(TenterError, match=f"'{place.signal('stop')}' cannot be written"):
        write_signal(place, signal("stop"))


def test_of_two_answers_to_a_question_the_first_counts(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    assert write_signal(place, answer("yes")) == "written"
    assert write_signal(place, answer("no")) == "already"
    assert take_answer(place, loop_id=ID, question_id="q1") == answer("yes")
    assert take_answer(place, loop_id=ID, question_id="q1") is None


def test_an_answer_to_another_question_is_set_aside_or_replaced(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(place, answer("old", "q0"))
    assert write_signal(place, answer("new")) == "written"
    found = take_answer(place, loop_id=ID, question_id="q2")
    assert isinstance(found, SetAside)
    assert found.text.startswith("an answer was set aside and removed: ")
    assert "'q1'" in found.text


@pytest.mark.promise(4)
@pytest.mark.parametrize("is_torn", [False, True])
def test_an_answer_that_misses_does_not_stay_on_disk(is_torn: bool, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(place, answer("my password", "q0"))
    if is_torn:
        place.signal("answer").write_text('{"text": "my passw')
    found = take_answer(place, loop_id=ID, question_id="q1")
    assert isinstance(found, SetAside)
    assert (found.path, left(place)) == (None, [])


@pytest.mark.parametrize("kind", ["stop", "answer"])
def test_a_signal_for_another_loop_that_lives_is_not_replaced(kind: str, tmp_path: Path) -> None:
    place, asked = place_in(tmp_path), list[str]()

    def lives(loop_id: str) -> bool:
        asked.append(loop_id)
        return loop_id == "loop-other"

    def told(loop_id: str) -> Signal | Answer:
        if kind == "stop":
            return signal("stop", None, loop_id)
        return Answer(loop_id=loop_id, question_id="q1", text="yes", at=AT, by=BY)

    write_signal(Place("loop-other", tmp_path, tmp_path), told("loop-other"))
    assert write_signal(place, told(ID), lives=lives) == "occupied"
    path = place.signal("stop" if kind == "stop" else "answer")
    assert b'"loop-other"' in path.read_bytes()
    assert asked == ["loop-other"]
    path.unlink()
    write_signal(Place("loop-dead", tmp_path, tmp_path), told("loop-dead"))
    assert write_signal(place, told(ID), lives=lives) == "written"


def test_a_signal_is_written_where_a_loop_that_ends_clears_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, left_to_clear = place_in(tmp_path), [1, 2]

    def clears(path: Path, data: bytes) -> bool:
        if left_to_clear:
            left_to_clear.pop()
            raise FileNotFoundError(2, "No such file or directory")
        return put_new(path, data)

    monkeypatch.setattr("tenter.loop.signal_file.put_new", clears)
    assert write_signal(place, signal()) == "written"
    assert take(place) == signal()


@given(text=st.text(st.characters()), user=st.text(), suspension_id=st.none() | st.text())
@settings(deadline=None, max_examples=50)
def test_hostile_texts_come_back_as_they_were(text: str, user: str, suspension_id: str | None) -> None:
    by = By(1, well_formed(user))
    with tempfile.TemporaryDirectory() as folder:
        place = place_in(Path(folder))
        given_text = Answer(loop_id=ID, question_id="q1", text=text, at=AT, by=by)
        write_signal(place, given_text)
        found = cast(Answer, take_answer(place, loop_id=ID, question_id="q1"))
        assert (found.text, found.by) == (well_formed(text), by)
        asked = Signal(kind="stop", loop_id=ID, suspension_id=suspension_id, at=AT, by=by)
        write_signal(place, asked)
        assert take(place, "stop") == asked


def test_what_is_told_of_a_stranger_names_it_so_that_a_terminal_obeys_nothing(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_signal(place, signal(suspension_id="\x1b[31m\u202e"))
    found = take(place)
    assert isinstance(found, SetAside)
    assert found.text.isprintable()
