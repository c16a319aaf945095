"""A hook is tried again in place a few times; the delays are bounded, double, and differ by chance alone."""

import asyncio
import dataclasses
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.executors.workshop import REDACTOR, Kept, body, settings, surroundings, tool_call

from tenter.catalogue import CATALOGUE, TOOL_INVOKED
from tenter.executors import HookEnded, HookStarted, command_hook
from tenter.executors.backoff import ATTEMPTS, FIRST_SECONDS, LONGEST_SECONDS, delay
from tenter.kernel import Done, Event, HookFailure, Link, Runtime, Suspended


class Fixed(random.Random):
    """Gives the same number each time."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def random(self) -> float:
        return self._number


NUMBERS = st.floats(0, 1, exclude_max=True)


@given(attempt=st.integers(1, 10_000), number=NUMBERS)
def test_a_delay_is_at_least_half_and_less_than_the_whole_of_its_step(attempt: int, number: float) -> None:
    step = min(FIRST_SECONDS * 2 ** (attempt - 1), LONGEST_SECONDS)
    assert step / 2 <= delay(attempt, Fixed(number)) <= step <= 60


@given(attempt=st.integers(1, 10_000), number=NUMBERS)
def test_no_delay_is_shorter_than_the_one_before_by_the_same_chance(attempt: int, number: float) -> None:
    assert delay(attempt, Fixed(number)) <= delay(attempt + 1, Fixed(number))


@given(attempt=st.integers(1, 8), one=NUMBERS, other=NUMBERS)
def test_chance_alone_parts_two_delays_after_the_same_attempt(attempt: int, one: float, other: float) -> None:
    first, second = delay(attempt, Fixed(one)), delay(attempt, Fixed(other))
    assert (first == delay(attempt, Fixed(one)), (one < other) <= (first <= second)) == (True, True)


def test_the_longest_delays_of_a_hook_are_one_two_four_and_eight_seconds() -> None:
    almost_one = Fixed(1 - 2**-53)
    assert [round(delay(attempt, almost_one), 9) for attempt in range(1, ATTEMPTS)] == [1, 2, 4, 8]
    assert [delay(attempt, Fixed(0.0)) for attempt in range(1, ATTEMPTS)] == [0.5, 1, 2, 4]
    assert [delay(attempt, Fixed(0.0)) for attempt in (6, 7, 8, 10**9)] == [16, 30, 30, 30]


# the attempts themselves


@dataclass
class Tried(Kept):
    """A sink that notes the order of everything, and pauses that take no time; after `patience` of them, no more."""

    patience: int = 99
    pauses: list[float] = field(default_factory=list[float])
    order: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def started(self, event: Event, record: HookStarted, /) -> None:
        await super().started(event, record)
        self.order.append(("start", record.attempt))

    async def ended(self, event: Event, record: HookEnded, /) -> None:
        await super().ended(event, record)
        self.order.append((record.disposition, record.attempt))

    async def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return len(self.pauses) <= self.patience

    async def run(self, folder: Path, script: str, **more: Any) -> tuple[object, Link]:
        hook = settings(script, **({"on_error": "suspend", "suspend_mode": "retry_backoff"} | more))
        around = dataclasses.replace(surroundings(folder, self), pause=self.pause)
        runtime = Runtime(CATALOGUE, [command_hook(hook, around)], redactor=REDACTOR)
        ending = await runtime.run(TOOL_INVOKED, tool_call(), body)
        return ending, next(link for link in runtime.links() if link.name == hook.name)


THIRD = "echo >> tried; [ $(wc -l < tried) -ge 3 ]"
ASKING = f"""{THIRD} && echo '{{"decision": "pass"}}' && exit
echo '{{"decision": "suspend", "reason": "wait", "metadata": {{"a": 1}}}}'"""


@pytest.mark.parametrize(
    ("script", "more"), [(THIRD, {}), (ASKING, {"verdict": True, "mutate": True, "on_error": "block"})]
)
async def test_what_would_suspend_is_tried_again_in_place_until_it_passes(
    tmp_path: Path, script: str, more: dict[str, Any]
) -> None:
    tried = Tried()
    ending, link = await tried.run(tmp_path, script, **more)
    assert (type(ending), link.calls, link.failures) == (Done, 1, 0)
    assert tried.order == [("start", 1), ("retry", 1), ("start", 2), ("retry", 2), ("start", 3), ("pass", 3)]
    assert len({start.id for start in tried.starts}) == 3
    assert {one.key for one in (*tried.starts, *tried.ends)} == {"run-1/3.tool.invoked.0#1/pre/guard"}
    assert [(start.id, start.at) for start in tried.starts] == [(end.id, end.started_at) for end in tried.ends]
    assert [end.metadata for end in tried.ends] == [None, None, None]
    assert [0.5 * 2**step <= seconds < 2**step for step, seconds in enumerate(tried.pauses)] == [True, True]


async def test_after_five_tries_the_last_failure_suspends(tmp_path: Path) -> None:
    tried = Tried()
    ending, link = await tried.run(tmp_path, "echo >> tried; wc -l < tried >&2; exit 1")
    assert isinstance(ending, Suspended)
    assert [requirement.reason for requirement in ending.requirements] == ["5"]
    assert [(end.disposition, end.attempt) for end in tried.ends] == [
        *(("retry", n) for n in range(1, 5)),
        ("suspend", 5),
    ]
    assert (len(tried.pauses), link.calls, link.failures) == (4, 1, 1)


async def test_the_metadata_of_the_answer_that_counts_are_kept(tmp_path: Path) -> None:
    tried = Tried()
    script = """echo '{"decision": "suspend", "reason": "wait", "metadata": {"a": 1}}'"""
    ending, _ = await tried.run(tmp_path, script, verdict=True, mutate=True)
    assert isinstance(ending, Suspended)
    assert [end.metadata for end in tried.ends] == [None, None, None, None, {"a": 1}]


async def test_no_more_is_tried_once_somebody_asks_for_something_else(tmp_path: Path) -> None:
    tried = Tried(patience=1)
    ending, _ = await tried.run(tmp_path, "exit 1")
    assert (type(ending), len(tried.starts)) == (Suspended, 2)


@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("exit 1", {"suspend_mode": "wait_for_resume"}),
        ("exit 1", {"suspend_mode": "wait_then_retry"}),
        ("exit 1", {"on_error": "block"}),
        ("exit 1", {"on_error": "warn"}),
        ("exit 1", {"mode": "shadow"}),
        ("""echo '{"decision": "suspend", "reason": "wait"}'""", {"verdict": True, "mode": "shadow"}),
        ("""echo '{"decision": "block", "reason": "no"}'""", {"verdict": True}),
        ("""echo '{"decision": "escalate", "reason": "no"}'""", {"verdict": True}),
        ("true", {}),
    ],
)
async def test_nothing_else_is_tried_again(tmp_path: Path, script: str, more: dict[str, Any]) -> None:
    tried = Tried()
    await tried.run(tmp_path, script, **more)
    assert (len(tried.starts), len(tried.ends), tried.pauses) == (1, 1, [])


async def test_cancelling_between_two_tries_leaves_whole_records_and_starts_no_other(tmp_path: Path) -> None:
    pausing = asyncio.Event()

    class Waits(Tried):
        async def pause(self, seconds: float) -> bool:
            pausing.set()
            await asyncio.wait_for(asyncio.Event().wait(), 5)
            return True

    tried = Waits()
    task = asyncio.create_task(tried.run(tmp_path, "exit 1"))
    await asyncio.wait_for(pausing.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert tried.order == [("start", 1), ("retry", 1)]


async def test_what_cannot_be_put_on_record_is_not_tried_again(tmp_path: Path) -> None:
    class Full(Tried):
        async def ended(self, event: Event, record: HookEnded, /) -> None:
            raise OSError("no room")

    tried = Full()
    ending, _ = await tried.run(tmp_path, "exit 1")
    assert (type(ending), len(tried.starts), tried.pauses) == (Suspended, 1, [])


# files that must be what was trusted


class Pin:
    """Stands for a pinned file that is as it was for a number of looks."""

    def __init__(self, good: int) -> None:
        self.good = good
        self.folders: list[str] = []

    def check(self, cwd: str) -> None:
        self.folders.append(cwd)
        if len(self.folders) > self.good:
            raise HookFailure("untrusted", "guard.sh is not what was trusted")


@pytest.mark.promise(14)
@pytest.mark.fault(56)
@pytest.mark.parametrize("mode", ["wait_for_resume", "retry_backoff"])
async def test_a_hook_whose_file_changed_is_not_started_and_is_on_record_as_untrusted(
    tmp_path: Path, mode: str
) -> None:
    tried, pins = Tried(), (Pin(9), Pin(0))
    (tmp_path / "sub").mkdir()
    ending, link = await tried.run(tmp_path, "touch ran", pinned=pins, cwd="sub", suspend_mode=mode)
    assert isinstance(ending, Suspended)
    assert (tried.end.result, tried.end.disposition, tried.end.exit_code) == ("untrusted", "suspend", None)
    assert (tried.end.error, link.failures, tried.pauses) == ("guard.sh is not what was trusted", 1, [])
    assert [pin.folders for pin in pins] == [[str(tmp_path / "sub")]] * 2
    assert not (tmp_path / "sub" / "ran").exists()


@pytest.mark.promise(14)
async def test_pinned_files_are_looked_at_before_every_start(tmp_path: Path) -> None:
    tried, pin = Tried(), Pin(2)
    await tried.run(tmp_path, "exit 1", pinned=(pin,))
    assert [end.result for end in tried.ends] == ["crashed", "crashed", "untrusted"]
    assert len(pin.folders) == 3
