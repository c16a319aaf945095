"""Whoever asks a loop for something hears what the loop decided, and all who ask hear the same."""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.outside import comes_true

from tenter.executors.process_id import ProcessId, this_process
from tenter.kernel import TenterError
from tenter.loop import Asked, LoopRow, Registry, StateUnreadable, Steered, answer, place_of, restart, resume, stop
from tenter.loop.release import Release, by_this_process
from tenter.loop.suspension import Suspender, SuspendState, write_state
from tenter.loop.waiting import stop_asked, wait_for_answer, wait_for_release

LOOP = "loop-12ab-34cd"
GONE = ProcessId(this_process().pid, "an earlier process of this number")
"""Alive by its number alone (FAULTS 48)."""
SOON = 0.3
"""Seconds of patience where nothing comes."""


def suspension(loop_id: str = LOOP, suspension_id: str = "00000000000000aa") -> SuspendState:
    by = Suspender(hook_name="gate", reason="look first", code="", suspend_mode="wait_for_resume")
    return SuspendState(
        loop_id=loop_id,
        phase_event="pre.iteration.start",
        hook_name=by.hook_name,
        reason=by.reason,
        suspend_mode=by.suspend_mode,
        suspended_at="2026-02-28T15:31:00Z",
        suspension_id=suspension_id,
        suspensions=(by,),
    )


def registered(folder: Path, loop_id: str = LOOP, *, process: ProcessId | None = None) -> tuple[Registry, LoopRow]:
    """A loop that runs iteration 3 in a folder of its own."""
    workspace, process = folder / loop_id, process or this_process()
    workspace.mkdir()
    registry = Registry(folder / ".tenter" / "loops.db")
    row = LoopRow(
        loop_id=loop_id,
        primary=True,
        project=str(workspace),
        workspace=str(workspace),
        config=str(workspace / "tenter.yaml"),
        pid=process.pid,
        started=process.started,
        started_at=1_000.0,
        iteration=3,
    )
    assert registry.add(row, hold=True) is None
    place_of(row).make()
    return registry, known(registry, row)


def suspended(folder: Path, loop_id: str = LOOP, *, process: ProcessId | None = None) -> tuple[Registry, LoopRow]:
    """A loop that is suspended, its state file written."""
    registry, row = registered(folder, loop_id, process=process)
    write_state(place_of(row), suspension(loop_id))
    registry.suspend(loop_id, suspension(loop_id))
    return registry, known(registry, row)


def known(registry: Registry, row: LoopRow) -> LoopRow:
    found = registry.row(row.loop_id)
    assert found is not None
    return found


def ended(registry: Registry, row: LoopRow, release: Release) -> None:
    reason = "stopped" if release.how == "stop" else "restart_requested"
    registry.update(
        row.loop_id,
        status="failed",
        reason=reason,
        message=f"{reason} by {release.who}",
        ended_at=2_000.0,
        suspension=None,
    )


async def waits(registry: Registry, row: LoopRow) -> Release:
    """What a suspended loop does: it hears what it is asked, decides, says so, and goes on or ends."""
    held = row.suspension
    assert held is not None
    heard = await wait_for_release(place_of(row), loop_id=row.loop_id, suspension_id=held.suspension_id)
    release = registry.release(row.loop_id, held.suspension_id, heard)
    if release.how == "resume":
        registry.go_on(row.loop_id)
    else:
        ended(registry, row, release)
    return release


async def works(registry: Registry, row: LoopRow) -> None:
    """What a loop at work does when it is asked to end."""
    ended(registry, row, await stop_asked(place_of(row), loop_id=row.loop_id))


async def test_a_suspended_loop_goes_on_and_the_one_who_asked_hears_it(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    release, steered = await asyncio.wait_for(asyncio.gather(waits(registry, row), resume(registry, row)), 5)
    assert release.how == "resume"
    assert steered == Steered(result="resumed", message=f"the loop {LOOP} goes on")


@pytest.mark.parametrize("iteration", [0, 3])
async def test_resuming_a_loop_at_work_does_nothing_and_says_what_it_does(iteration: int, tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    registry.iteration(LOOP, iteration)
    steered = await resume(registry, known(registry, row))
    says = "it is running iteration 3" if iteration else "it is starting"
    assert (steered.result, steered.done) == ("not_suspended", True)
    assert steered.message == f"the loop {LOOP} is not suspended: {says}"
    assert not place_of(row).signal("resume").exists()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("completed", "it completed at 1970-01-01T00:33:20Z"),
        ("cancelled", "it was cancelled at 1970-01-01T00:33:20Z"),
        ("failed", "it ended at 1970-01-01T00:33:20Z (blocked: the gate is shut)"),
    ],
)
async def test_a_loop_that_is_over_is_left_alone(how: str, says: str, tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    match how:
        case "failed":
            registry.update(LOOP, status="failed", reason="blocked", message="the gate is shut", ended_at=2_000.0)
        case "completed":
            registry.update(LOOP, status="completed", reason="completed", ended_at=2_000.0)
        case _:
            registry.update(LOOP, status="cancelled", reason="cancelled", ended_at=2_000.0)
    row = known(registry, row)
    found = [await resume(registry, row), await stop(registry, row), await restart(registry, row)]
    found.append(await answer(registry, row, "yes"))
    assert [(one.result, one.done) for one in found] == [
        ("not_suspended", True),
        ("ended", True),
        ("ended", False),
        ("no_question", False),
    ]
    assert all(one.message.endswith(says) for one in found), found
    assert sorted(path.name for path in place_of(row).signals.iterdir()) == [".gitignore", "loops"]


@pytest.mark.fault(45)
async def test_of_two_who_resume_one_does_it_and_the_other_hears_by_whom_and_when(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    release, first, second = await asyncio.wait_for(
        asyncio.gather(waits(registry, row), resume(registry, row), resume(registry, row)), 5
    )
    assert Counter([first.result, second.result]) == {"resumed": 1, "already_requested": 1}
    late = first if first.result == "already_requested" else second
    assert late.done
    assert release.who in late.message
    assert release.at in late.message


@pytest.mark.fault(45)
async def test_who_resumes_what_was_resumed_since_he_looked_hears_by_whom(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    await asyncio.wait_for(asyncio.gather(waits(registry, row), resume(registry, row)), 5)
    late = await resume(registry, row)
    assert late.result == "already_requested"
    assert "was resumed before, by" in late.message
    assert known(registry, row).suspension is None


@pytest.mark.fault(45)
async def test_what_ended_an_earlier_suspension_is_told_when_the_loop_is_in_the_next_one(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    await asyncio.wait_for(asyncio.gather(waits(registry, row), resume(registry, row)), 5)
    registry.suspend(LOOP, suspension(suspension_id="00000000000000bb"))
    second = known(registry, row)
    late, _ = await asyncio.wait_for(asyncio.gather(resume(registry, row), waits_in_vain(registry, second)), 5)
    assert late.result == "already_requested"
    held = known(registry, row).suspension
    assert held is not None, "nobody resumed the second one"
    assert held.suspension_id == "00000000000000bb"


async def waits_in_vain(registry: Registry, row: LoopRow) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waits(registry, row), SOON)


@pytest.mark.fault(46)
async def test_a_resume_that_races_a_stop_is_told_the_same_end_a_thousand_times(tmp_path: Path) -> None:
    async def race(folder: Path, number: int) -> tuple[str, str, str]:
        registry, row = suspended(folder, f"loop-{number}")
        ahead = number % 12 / 100  # from at once until the loop has surely looked

        async def stops() -> Steered:
            assert not await comes_true(lambda: False, within=ahead)
            return await stop(registry, row, patience=30)

        release, resumed, stopped = await asyncio.gather(
            then_works(registry, row), resume(registry, row, patience=30), stops()
        )
        assert known(registry, row).reason == "stopped", "that is the one end"
        assert release.who in (resumed.message if release.how == "stop" else stopped.message)
        registry.close()
        return release.how, resumed.result, stopped.result

    found: Counter[tuple[str, str, str]] = Counter()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path  # a disk would be waited for a thousand times
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for batch in range(20):
            found.update(await asyncio.gather(*(race(Path(folder), batch * 50 + number) for number in range(50))))
    assert found.total() == 1_000
    assert set(found) == {("stop", "stopped", "stopped"), ("resume", "resumed", "stopped")}, found


async def then_works(registry: Registry, row: LoopRow) -> Release:
    """A loop that is suspended, and goes on until it is asked to end."""
    release = await waits(registry, row)
    if release.how == "resume":
        await works(registry, row)
    return release


@pytest.mark.fault(46)
async def test_a_stop_that_is_there_first_wins_and_the_resume_hears_by_whom_and_when(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    stopping = asyncio.create_task(stop(registry, row))
    assert await comes_true(place_of(row).signal("stop").exists)
    release, resumed = await asyncio.wait_for(asyncio.gather(waits(registry, row), resume(registry, row)), 5)
    stopped = await asyncio.wait_for(stopping, 5)
    assert (resumed.result, resumed.done) == ("stopped", False)
    assert resumed.message == f"the loop {LOOP} was not resumed: it was stopped by {release.who} at {release.at}"
    assert (stopped.result, stopped.done) == ("stopped", True)


async def test_a_restart_that_is_there_first_is_told_too(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    restarting = asyncio.create_task(restart(registry, row))
    assert await comes_true(place_of(row).signal("restart").exists)
    _, resumed = await asyncio.wait_for(asyncio.gather(waits(registry, row), resume(registry, row)), 5)
    restarted = await asyncio.wait_for(restarting, 5)
    assert (resumed.result, resumed.done) == ("restarted", False)
    assert (restarted.result, restarted.done) == ("restarted", True)


@pytest.mark.parametrize(("steer", "result"), [(stop, "stopped"), (restart, "restarted")])
async def test_a_loop_at_work_ends_when_it_is_asked_to(
    steer: Callable[..., "asyncio.Future[Steered]"], result: str, tmp_path: Path
) -> None:
    registry, row = registered(tmp_path)
    _, steered = await asyncio.wait_for(asyncio.gather(works(registry, row), steer(registry, row)), 5)
    assert (steered.result, steered.done) == (result, True)
    assert "by " in steered.message


async def test_a_restart_that_a_stop_was_before_is_not_done(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    stopping, restarting = (asyncio.create_task(steer(registry, row)) for steer in (stop, restart))
    assert await comes_true(lambda: place_of(row).signal("stop").exists() and place_of(row).signal("restart").exists())
    await asyncio.wait_for(works(registry, row), 5)
    stopped, restarted = await asyncio.wait_for(asyncio.gather(stopping, restarting), 5)
    assert (stopped.result, stopped.done) == ("stopped", True)
    assert (restarted.result, restarted.done) == ("stopped", False)
    assert stopped.message == restarted.message


async def test_a_loop_that_ends_by_itself_meanwhile_was_not_stopped(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    stopping = asyncio.create_task(stop(registry, row))
    assert await comes_true(place_of(row).signal("stop").exists)
    registry.update(LOOP, status="completed", reason="completed", ended_at=2_000.0)
    stopped = await asyncio.wait_for(stopping, 5)
    assert (stopped.result, stopped.done) == ("ended", True)
    assert "it completed at" in stopped.message


async def test_a_suspended_loop_that_is_interrupted_was_not_resumed(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    resuming = asyncio.create_task(resume(registry, row))
    assert await comes_true(place_of(row).signal("resume").exists)
    registry.update(LOOP, status="failed", reason="interrupted", ended_at=2_000.0, suspension=None)
    resumed = await asyncio.wait_for(resuming, 5)
    assert (resumed.result, resumed.done) == ("ended", False)
    assert "was not resumed: it ended" in resumed.message


async def test_patience_ends_and_the_request_stays(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    found = [await steer(registry, row, patience=SOON) for steer in (resume, resume, stop, restart)]
    assert [one.result for one in found] == ["requested", "already_requested", "requested", "requested"]
    assert [one.done for one in found] == [False, True, False, False], "nothing came of it yet"
    assert all("has not done so yet" in one.message for one in found)
    assert all(place_of(row).signal(kind).exists() for kind in ("resume", "stop", "restart"))


@pytest.mark.parametrize(("steer", "how"), [(stop, "stopped"), (restart, "asked to restart")])
async def test_what_ended_a_loop_is_told_once(
    steer: Callable[..., "asyncio.Future[Steered]"], how: str, tmp_path: Path
) -> None:
    registry, row = suspended(tmp_path)
    steering = asyncio.ensure_future(steer(registry, row))
    release = await asyncio.wait_for(waits(registry, row), 5)
    await asyncio.wait_for(steering, 5)
    late = await resume(registry, known(registry, row))
    assert (late.result, late.message.count(release.who)) == ("not_suspended", 1)
    assert "before that" not in late.message
    registry.update(LOOP, reason="failed", message="the disk is full")
    assert f"; before that it was {how} by {release.who}" in (await resume(registry, known(registry, row))).message


@pytest.mark.fault(48)
@pytest.mark.parametrize("made", [registered, suspended])
async def test_a_loop_whose_process_is_gone_is_for_the_caller_to_continue(
    made: Callable[..., tuple[Registry, LoopRow]], tmp_path: Path
) -> None:
    registry, row = made(tmp_path, process=GONE)
    steered = await resume(registry, row)
    assert steered.result == "continue"
    assert "has ended; it goes on in this one" in steered.message
    assert not place_of(row).signal("resume").exists(), "whoever continues it asks for that"


@pytest.mark.parametrize("made", [registered, suspended])
@pytest.mark.parametrize("steer", [stop, restart])
async def test_where_a_dead_loop_worked_nothing_is_left_for_whom_works_there_now(
    made: Callable[..., tuple[Registry, LoopRow]],
    steer: Callable[..., "asyncio.Future[Steered]"],
    tmp_path: Path,
) -> None:
    registry, row = made(tmp_path, process=GONE)
    steered = await steer(registry, row)
    assert steered.result == "continue"
    assert "it is brought to its end in this one" in steered.message
    assert not any(place_of(row).signal(kind).exists() for kind in ("stop", "restart"))


async def test_what_a_living_loop_was_asked_is_not_replaced_by_what_another_one_in_its_workspace_is(
    tmp_path: Path,
) -> None:
    registry, living = registered(tmp_path)
    other = living.but(loop_id="loop-0000-0001")
    assert registry.add(other, hold=False) is None
    assert (await stop(registry, living, patience=SOON)).result == "requested"
    assert (await stop(registry, other, patience=SOON)).result == "requested"
    assert (await asyncio.wait_for(stop_asked(place_of(living), loop_id=LOOP), 5)).how == "stop"


async def test_an_answer_that_comes_when_the_loop_has_ended_does_not_stay(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    registry.ask(LOOP, question_id="3.0", asked=Asked(question="go?"))
    row = known(registry, row)
    answering = asyncio.create_task(answer(registry, row, "my password"))
    assert await comes_true(place_of(row).signal("answer").exists)
    registry.update(LOOP, status="completed", reason="completed", ended_at=2_000.0, question=None)
    steered = await asyncio.wait_for(answering, 5)
    assert (steered.result, steered.done) == ("no_question", False)
    assert "has ended without the answer" in steered.message
    assert not place_of(row).signal("answer").exists()


@pytest.mark.fault(47)
async def test_a_second_try_after_a_release_is_marked_as_such_and_needs_no_state_file(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path, process=GONE)
    heard = Release(how="resume", by=by_this_process(), at="2026-02-28T16:00:00Z")
    registry.release(LOOP, "00000000000000aa", heard)
    place_of(row).suspend_state.unlink()
    steered = await resume(registry, known(registry, row))
    assert steered.result == "continue"
    assert f"for the second time, as it was resumed by {heard.who} at {heard.at}" in steered.message


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "is gone"),
        (b"{", "cannot be read"),
        (b'{"schema_version": 2}', "version 2"),
    ],
)
async def test_a_state_that_nobody_can_read_is_told_where_nobody_knows_it(
    data: bytes | None, says: str, tmp_path: Path
) -> None:
    registry, row = suspended(tmp_path, process=GONE)
    path = place_of(row).suspend_state
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(StateUnreadable, match=says):
        await resume(registry, row)


async def test_the_state_of_another_suspension_is_not_continued_from(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path, process=GONE)
    write_state(place_of(row), suspension(suspension_id="00000000000000bb"))
    with pytest.raises(StateUnreadable, match="another suspension"):
        await resume(registry, row)


async def test_a_loop_that_can_be_asked_needs_no_state_file(tmp_path: Path) -> None:
    registry, row = suspended(tmp_path)
    place_of(row).suspend_state.write_bytes(b"{")
    _, steered = await asyncio.wait_for(asyncio.gather(waits(registry, row), resume(registry, row)), 5)
    assert steered.result == "resumed"


async def test_an_answer_reaches_the_loop_as_it_was_given(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    registry.ask(LOOP, question_id="3.0", asked=Asked(question="go?"))
    text = "yes\x1b[31m\n\u202e ghp_x"
    given, steered = await asyncio.wait_for(
        asyncio.gather(
            wait_for_answer(place_of(row), loop_id=LOOP, question_id="3.0"),
            answer(registry, known(registry, row), text),
        ),
        5,
    )
    assert given == text
    assert (steered.result, steered.done) == ("answered", True)


async def test_a_question_that_nobody_asked_is_not_answered(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    steered = await answer(registry, row, "yes")
    assert (steered.result, steered.done) == ("no_question", False)
    assert not place_of(row).signal("answer").exists()


async def test_the_first_answer_counts(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    registry.ask(LOOP, question_id="3.0", asked=Asked(question="go?"))
    row = known(registry, row)
    first = await answer(registry, row, "yes", patience=SOON)
    second = await answer(registry, row, "no", patience=SOON)
    assert (first.result, first.done) == ("requested", False)
    assert (second.result, second.done) == ("already_requested", False)
    given = await asyncio.wait_for(wait_for_answer(place_of(row), loop_id=LOOP, question_id="3.0"), 5)
    assert given == "yes"


async def test_a_question_of_a_loop_whose_process_is_gone_is_asked_again_first(tmp_path: Path) -> None:
    registry, row = registered(tmp_path, process=GONE)
    registry.ask(LOOP, question_id="3.0", asked=Asked(question="go?"))
    steered = await answer(registry, known(registry, row), "yes")
    assert (steered.result, steered.done) == ("no_question", False)
    assert f"tenter loop resume {LOOP}" in steered.message


async def test_a_workspace_that_is_gone_is_told(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    Path(row.workspace).rename(tmp_path / "elsewhere")
    with pytest.raises(TenterError, match="cannot be written"):
        await stop(registry, row)


async def test_a_resume_between_the_state_file_and_the_row_waits_for_the_row(tmp_path: Path) -> None:
    registry, row = registered(tmp_path)
    state = suspension()
    write_state(place_of(row), state)
    asked = asyncio.create_task(resume(registry, row))
    assert not place_of(row).signal("resume").exists(), "its row does not say that it is suspended yet"
    registry.suspend(row.loop_id, state)
    release = await asyncio.wait_for(
        wait_for_release(place_of(row), loop_id=row.loop_id, suspension_id=state.suspension_id), 10
    )
    registry.release(row.loop_id, state.suspension_id, release)
    assert (await asyncio.wait_for(asked, 10)).result == "resumed"
