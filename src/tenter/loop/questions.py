"""Puts a question of the agent to a person and waits for what comes of it: an answer, none in time, or a stop.

Answered by `tenter loop answer` from anywhere, or at the prompt where the loop has a terminal; whoever is first.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, cast

from tenter.loop.attention import Attention
from tenter.loop.parts import Asking, Parts
from tenter.loop.state import Asked, Published
from tenter.loop.waiting import Release, wait_for_answer

LONGEST: Final = 4000
"""Characters of a question that people are shown."""


def asked_by(event: Published, timeout_seconds: float) -> Asked:
    """The question in an event: its payload as text, or `question`, `options` and `timeout_seconds` of a mapping."""
    payload = event.payload
    if not isinstance(payload, Mapping):
        text = payload if isinstance(payload, str) and payload.strip() else "(the agent asked without a question)"
        return Asked(question=text, timeout_seconds=timeout_seconds)
    fields = cast("Mapping[str, object]", payload)
    options, own = fields.get("options"), fields.get("timeout_seconds")
    usable = isinstance(own, int | float) and not isinstance(own, bool) and own > 0
    return Asked(
        question=str(fields.get("question") or "(the agent asked without a question)"),
        options=tuple(map(str, cast("Sequence[object]", options))) if isinstance(options, list | tuple) else (),
        timeout_seconds=min(float(cast(float, own)), timeout_seconds) if usable else timeout_seconds,
    )


async def ask(parts: Parts, attention: Attention, asked: Asked, *, question_id: str) -> Asked | Release:
    """The question with its outcome, or what the loop was asked for meanwhile. Raises TenterError as waiting does."""
    await parts.patiently(lambda: parts.registry.ask(parts.loop_id, question_id=question_id, asked=asked))
    options = f" ({' / '.join(asked.options)})" if asked.options else ""
    how = f"'tenter loop answer {parts.loop_id} TEXT' answers it"
    parts.tell("question", f"{asked.question[:LONGEST]}{options}; {how}")
    waiting = [asyncio.ensure_future(_given(parts, question_id))]
    if parts.asking is not None:
        waiting.append(asyncio.ensure_future(_at_the_terminal(parts.asking, asked)))
    try:
        await attention.until_asked(*waiting, within=asked.timeout_seconds)
        if (release := attention.asked) is not None:
            return release
        return _with_outcome(parts, asked, next((one for one in waiting if one.done()), None))
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        await parts.patiently(lambda: parts.registry.asked_no_more(parts.loop_id))


def _with_outcome(parts: Parts, asked: Asked, done: "asyncio.Future[str] | None") -> Asked:
    if done is None:
        return asked.but(outcome="timeout")
    if done.exception() is not None:  # it could not be waited for: that is known, and the loop goes on with it
        return asked.but(outcome="failed")
    return asked.but(outcome="answered", answer=parts.setup.redactor.mask_text(done.result()))


async def _given(parts: Parts, question_id: str) -> str:
    return await wait_for_answer(parts.place, loop_id=parts.loop_id, question_id=question_id, told=parts.note)


async def _at_the_terminal(asking: Asking, asked: Asked) -> str:
    """What was typed; where nothing can be typed any more, the answer comes from elsewhere or not at all."""
    try:
        return await asking(asked)
    except (EOFError, OSError):
        await asyncio.get_running_loop().create_future()
        raise
