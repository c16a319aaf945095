"""What is put on record of an execution: names, times, numbers, how it ended, and nothing that looks like a secret."""

import dataclasses
from pathlib import Path

import pytest
from tests.executors.workshop import Kept, settings, surroundings, tool_call

from tenter.executors import ProcessResult, Surroundings
from tenter.executors.capture import Captured
from tenter.executors.command_record import Finished, ended_record, started_record
from tenter.kernel import HookFailure
from tenter.testing import FakeClock, FakeRandom
from tenter.wire import Verdict

SAID = Captured("said", b"said", True, 99, "aid")
RESULT = ProcessResult(
    result="crashed", exit_code=3, stdout=SAID, stderr=SAID, duration_seconds=0.25, ended_descendants=2
)


def around(folder: Path, clock: FakeClock) -> Surroundings:
    return dataclasses.replace(surroundings(folder, Kept()), clock=clock, random=FakeRandom())


def test_a_start_has_an_id_of_its_own_the_key_of_its_call_and_its_number(tmp_path: Path) -> None:
    place = around(tmp_path, FakeClock(100.0))
    one, two = (
        started_record(settings("true"), place, tool_call(), recheck=recheck, attempt=number)
        for recheck, number in ((False, 1), (True, 2))
    )
    assert len({one.id, two.id}) == 2
    assert (len(one.id), int(one.id, 16) > 0) == (32, True)
    assert (one.key, two.key) == ("run-1/3.tool.invoked.0#1/pre/guard", "run-1/3.tool.invoked.0#1/pre/guard/recheck")
    assert (one.hook, one.point, one.at, one.attempt, two.attempt) == ("guard", "tool.invoked.pre", 100.0, 1, 2)


def test_an_end_belongs_to_its_start_and_says_all_that_is_known(tmp_path: Path) -> None:
    clock = FakeClock(100.0)
    place, hook = around(tmp_path, clock), settings("true", on_error="warn")
    started = started_record(hook, place, tool_call(), recheck=False, attempt=4)
    clock.advance(2)
    finished = Finished(HookFailure("crashed", "password: hunter22"), RESULT)
    ended = ended_record(started, finished, hook, surroundings=place, again=False)
    assert (ended.id, ended.key, ended.hook, ended.point) == (started.id, started.key, "guard", "tool.invoked.pre")
    assert (ended.started_at, ended.ended_at, ended.duration_ms, ended.attempt) == (100.0, 102.0, 250.0, 4)
    assert (ended.result, ended.disposition, ended.exit_code, ended.error) == (
        *("crashed", "warn", 3),
        "password: [redacted]",
    )
    assert (ended.stdout, ended.stdout_truncated, ended.stdout_bytes) == ("said", True, 99)
    assert (ended.stderr, ended.stderr_truncated, ended.stderr_bytes, ended.stderr_tail) == ("said", True, 99, "aid")
    assert (ended.ended_descendants, ended.timed_out, ended.signal, ended.metadata) == (2, False, None, None)


@pytest.mark.parametrize(("again", "disposition", "metadata"), [(False, "pass", {"a": 1}), (True, "retry", None)])
def test_an_execution_that_is_to_be_repeated_says_so_and_gives_no_metadata(
    tmp_path: Path, again: bool, disposition: str, metadata: object
) -> None:
    place, hook = around(tmp_path, FakeClock()), settings("true")
    started = started_record(hook, place, tool_call(), recheck=False, attempt=1)
    ended = ended_record(started, Finished(Verdict(), RESULT, {"a": 1}), hook, surroundings=place, again=again)
    assert (ended.result, ended.disposition, ended.metadata) == ("ok", disposition, metadata)
