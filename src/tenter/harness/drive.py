"""Drives one run to its end, whatever comes: a cancellation, a journal that takes nothing more, an error of our own.

Whoever heard that the run began hears how it ended, and its terminal state is on record wherever that can be. What a
run does is the agent loop's, how it is recorded and told the engine's.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import TypeVar

from tenter.agent import AgentLoop, Ended, Standing
from tenter.catalogue import ErrorInfo
from tenter.harness.ledger import RunExists
from tenter.harness.local import LocalEngine
from tenter.harness.replay import Incomplete, ReplayDiverged
from tenter.harness.shielded import uncut
from tenter.journal import JournalError
from tenter.kernel import FrozenDict

T = TypeVar("T")


async def drive(engine: LocalEngine, agent: AgentLoop, first: Mapping[str, object] | None) -> Standing:
    """Where the run stands in the end. `first` is the content of its first entry; None for a run that goes on.

    Raises cancellation, the user's KeyboardInterrupt, and what is no failure of the run: a hook that starts runs in a
    circle, an error of our own. Each is raised after the run was brought to its end. What is raised while a record is
    gone through leaves the run as it was.
    """
    try:
        if first is not None:
            await engine.begin(first)
        return await agent.run()
    except JournalError as error:
        if engine.replaying:
            raise
        return await _failed(engine, agent, _lost(engine, error))
    except (asyncio.CancelledError, KeyboardInterrupt):
        if engine.replaying and not engine.stopped:
            raise
        ended = await _cancel(engine, agent)
        if engine.stopped and ended is not None:
            return ended
        raise
    except (ReplayDiverged, Incomplete, RunExists):
        raise
    except Exception as error:
        if engine.replaying:
            raise
        await _failed(engine, agent, ErrorInfo(code="internal", message=engine.masked(error)))
        raise


async def drive_on(engine: LocalEngine, agent: AgentLoop, end: Ended) -> Standing:
    """Goes through the record of a run that nobody has, as far as it can be followed, and brings it to `end` there.

    Raises JournalError where the end cannot be recorded.
    """
    engine.freeze()
    with contextlib.suppress(Incomplete, ReplayDiverged, JournalError):
        standing = await agent.run()
        if isinstance(standing, Ended):
            return standing
    engine.thaw()
    return await uncut(_settle(engine, agent, end))


async def end_waiting(engine: LocalEngine, agent: AgentLoop, error: ErrorInfo) -> Ended:
    """Cancels a run that was left waiting here and that nobody else has."""
    return await uncut(_settle(engine, agent, Ended(status="cancelled", error=error)))


async def _cancel(engine: LocalEngine, agent: AgentLoop) -> Ended | None:
    """What the run came to; None where the telling was cut off."""
    error = engine.stopped or ErrorInfo(code="cancelled", message="the run was cancelled")
    try:
        return await uncut(_settle(engine, agent, Ended(status="cancelled", error=error)))
    except asyncio.CancelledError:  # once more; or the event loop comes to its end and cut off who was being told
        if not engine.closed:
            await engine.mark("cancelled")
    return None


async def _settle(engine: LocalEngine, agent: AgentLoop, ended: Ended) -> Ended:
    engine.leave_record()
    try:
        return await agent.settle(ended)
    except JournalError as error:
        return await _fail(engine, agent, _lost(engine, error))


async def _failed(engine: LocalEngine, agent: AgentLoop, error: ErrorInfo) -> Ended:
    """The end of a run that fails, once everybody was told. Raises the cancellation of its caller.

    Who asked for the end of the run meanwhile came too late: that cancellation is nobody's to hear.
    """
    try:
        return await uncut(_fail(engine, agent, error))
    except asyncio.CancelledError:
        if engine.stopped is None or agent.ended is None:
            raise
        return agent.ended


async def _fail(engine: LocalEngine, agent: AgentLoop, error: ErrorInfo) -> Ended:
    """Ends the run failed, whatever its loop is at: what cannot be recorded or told stops nothing from now on."""
    engine.leave_record()
    engine.let_go()

    async def contained(telling: Coroutine[object, object, T]) -> T | None:
        try:
            return await telling
        except Exception:
            engine.note("not_told")
            return None

    return await agent.fail(error, contained)


def _lost(engine: LocalEngine, error: JournalError) -> ErrorInfo:
    details = FrozenDict({"code": "journal", "trouble": error.trouble})
    return ErrorInfo(code="internal", message=engine.masked(error), details=details)
