"""What a backend is given and gives: data that nobody changes, and a protocol that anybody can meet."""

from dataclasses import FrozenInstanceError

import msgspec
import pytest
from tests.loop.equipment import FACTS

from tenter.loop.work import Backend, Work, Worked


async def test_whatever_runs_work_is_a_backend() -> None:
    class Echo:
        async def run(self, work: Work, /) -> Worked:
            return Worked(status="ok", last_line=work.prompt)

    backend: Backend = Echo()
    assert await backend.run(Work(number=1, prompt="Do it.", facts=FACTS)) == Worked(status="ok", last_line="Do it.")


def test_work_has_no_deadline_hat_or_variables_unless_it_is_said() -> None:
    work = Work(number=1, prompt="Do it.", facts=FACTS)
    assert (work.deadline, work.hat, work.environment) == (None, None, {})
    with pytest.raises(FrozenInstanceError):
        work.number = 2  # pyright: ignore[reportAttributeAccessIssue]  # it is frozen


def test_what_came_of_it_survives_being_written() -> None:
    worked = Worked(status="escalated", last_line="end", error="why", queue="people", cost_usd=0.5, run_id="r")
    assert msgspec.json.decode(msgspec.json.encode(worked), type=Worked) == worked
