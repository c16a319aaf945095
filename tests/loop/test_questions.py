"""A question to a person: what an event asks, and what comes of it."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.loop.world import LONGEST, OK, World, listeners, says, stop, world

from tenter.catalogue import HumanInteractedEvent
from tenter.kernel import Event
from tenter.loop.questions import asked_by
from tenter.loop.state import Asked, Published
from tenter.loop.topic import ASK
from tenter.loop.work import Work, Worked

UNSAID = "(the agent asked without a question)"
ASKS = [(ASK, {"question": "which colour?", "options": ["red", "blue"]})]


@pytest.mark.parametrize(
    ("payload", "asked"),
    [
        ("go on?", Asked(question="go on?", timeout_seconds=300)),
        (None, Asked(question=UNSAID, timeout_seconds=300)),
        ("  ", Asked(question=UNSAID, timeout_seconds=300)),
        (3, Asked(question=UNSAID, timeout_seconds=300)),
        ({}, Asked(question=UNSAID, timeout_seconds=300)),
        (
            {"question": "which?", "options": ["a", 2], "timeout_seconds": 20},
            Asked(question="which?", options=("a", "2"), timeout_seconds=20),
        ),
        ({"question": "which?", "options": "ab"}, Asked(question="which?", timeout_seconds=300)),
        ({"question": "which?", "timeout_seconds": 9_999}, Asked(question="which?", timeout_seconds=300)),
        ({"question": "which?", "timeout_seconds": -1}, Asked(question="which?", timeout_seconds=300)),
        ({"question": "which?", "timeout_seconds": True}, Asked(question="which?", timeout_seconds=300)),
    ],
)
def test_a_question_is_the_text_of_its_event_or_what_its_fields_say(payload: object, asked: Asked) -> None:
    assert asked_by(Published(ASK, payload), 300) == asked


def outcomes(heard: list[tuple[str, Event]]) -> list[HumanInteractedEvent]:
    return [event for _, event in heard if isinstance(event, HumanInteractedEvent)]


async def asked(run: World) -> asyncio.Task[object]:
    """Runs the loop until it has put its question."""
    running: asyncio.Task[object] = asyncio.create_task(run.run())
    await run.until_told("question")
    return running


async def test_an_answer_reaches_the_hooks_and_the_agent(tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []
    run = world(tmp_path, ASKS, hooks=listeners(heard))
    running = await asked(run)
    assert run.row.question is not None
    assert run.row.question.asked.question == "which colour?"
    (told,) = run.texts("question")
    assert "which colour? (red / blue)" in told
    run.answer("blue")
    await asyncio.wait_for(running, LONGEST)
    (event,) = outcomes(heard)
    assert (event.outcome, event.answer, event.options) == ("answered", "blue", ("red", "blue"))
    assert event.op.loop is not None
    interact = {"question": "which colour?", "outcome": "answered", "answer": "blue"}
    assert event.op.loop.context["human_interact"] == interact
    assert "human.response" in run.agent.works[1].prompt
    assert '"answer": "blue"' in run.agent.works[1].prompt
    assert (run.row.question, run.ended[0].reason) == (None, "completed")


async def test_a_question_that_was_answered_is_asked_no_more(tmp_path: Path) -> None:
    asked_still: list[object] = []

    async def types(question: Asked) -> str:
        assert run.row.question is not None
        return "red"

    async def looks(work: Work) -> Worked:
        asked_still.append(run.row.question)
        return OK

    run = world(tmp_path, ASKS, looks, asking=types)
    await run.run()
    assert asked_still == [None]


async def test_nobody_answers_in_time(tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []
    run = world(tmp_path, [(ASK, {"question": "?", "timeout_seconds": 0.01})], hooks=listeners(heard))
    await run.run()
    (event,) = outcomes(heard)
    assert (event.outcome, event.answer, run.row.question) == ("timeout", None, None)
    assert '"outcome": "timeout"' in run.agent.works[1].prompt


async def test_the_person_at_the_terminal_answers(tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []

    async def types(question: Asked) -> str:
        return f"the {question.options[0]} one"

    run = world(tmp_path, ASKS, hooks=listeners(heard), asking=types)
    await run.run()
    assert outcomes(heard)[0].answer == "the red one"


async def test_a_terminal_where_nothing_can_be_typed_leaves_the_answer_to_others(tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []

    async def closed(question: Asked) -> str:
        raise EOFError

    run = world(tmp_path, ASKS, hooks=listeners(heard), asking=closed)
    running = await asked(run)
    run.answer("blue")
    await asyncio.wait_for(running, LONGEST)
    assert outcomes(heard)[0].answer == "blue"


async def test_a_terminal_is_let_go_when_somebody_else_answers(tmp_path: Path) -> None:
    let_go: list[str] = []

    async def waits(question: Asked) -> str:
        try:
            return cast(str, await asyncio.get_running_loop().create_future())
        finally:
            let_go.append(question.question)

    run = world(tmp_path, ASKS, asking=waits)
    running = await asked(run)
    run.answer("blue")
    await asyncio.wait_for(running, LONGEST)
    assert let_go == ["which colour?"]


async def test_a_question_that_cannot_be_put_has_failed_and_the_loop_goes_on(tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []

    async def breaks(question: Asked) -> str:
        raise ValueError("no screen")

    run = world(tmp_path, ASKS, hooks=listeners(heard), asking=breaks)
    assert (await run.run()).reason == "completed"
    assert outcomes(heard)[0].outcome == "failed"


async def test_a_stop_while_a_question_waits_ends_the_loop_and_the_question(tmp_path: Path) -> None:
    heard: list[tuple[str, Event]] = []
    run = world(tmp_path, ASKS, hooks=listeners(heard))
    running = await asked(run)
    stop(run)
    await asyncio.wait_for(running, LONGEST)
    assert (run.ended[0].reason, run.row.question, outcomes(heard)) == ("stopped", None, [])


async def test_an_interruption_while_a_question_waits_ends_the_loop_and_the_question(tmp_path: Path) -> None:
    run = world(tmp_path, ASKS)
    running = await asked(run)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    assert (run.ended[0].reason, run.row.question) == ("interrupted", None)


async def test_the_time_that_a_question_waits_is_not_time_of_the_loop(tmp_path: Path) -> None:
    async def types(question: Asked) -> str:
        run.parts.setup.clock.advance(500)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # a fake clock
        return "red"

    run = world(tmp_path, ASKS, asking=types)
    await run.run()
    assert run.state.waited_seconds == 500


async def test_an_answer_that_holds_a_secret_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_CODE", "swordfish-4711")
    config = {"secrets": ["DOOR_CODE"]}
    hooks = [says("human.interact.post", None)]
    run = world(tmp_path, ASKS, hooks=hooks, config=config)
    running = await asked(run)
    run.answer("swordfish-4711")
    await asyncio.wait_for(running, LONGEST)
    assert "swordfish" not in run.agent.works[1].prompt


async def test_an_answer_from_the_terminal_that_holds_a_secret_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOOR_CODE", "swordfish-4711")

    async def types(_: Asked) -> str:
        return "swordfish-4711"

    run = world(tmp_path, ASKS, config={"secrets": ["DOOR_CODE"]}, asking=types)
    await asyncio.wait_for(run.run(), LONGEST)
    assert "human.response" in run.agent.works[1].prompt
    assert "swordfish" not in run.agent.works[1].prompt
