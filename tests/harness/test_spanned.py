"""A sub-run between the two ends of its span."""

from typing import cast

from tests.harness.world import ENVELOPE, OP

from tenter.catalogue import CATALOGUE, SUBTASK_SPAWNED, SubtaskResult, SubtaskSpawnedEvent, SubtaskSpawnEvent, TaskRef
from tenter.harness.record import Ending
from tenter.harness.spanned import Open, came_of, not_spawned
from tenter.kernel import Blocked, Done, Failed, Runtime, Trace, hook

CHILD = TaskRef(id="run-9", name="part", version=2)
SPAWN = SubtaskSpawnEvent(envelope=ENVELOPE, op=OP, parent=ENVELOPE.task, task=CHILD, input="a part")
RESULT = SubtaskResult(run_id="run-9", task="part", status="completed", output="done", cost_usd=0.5)


def test_what_came_of_it_stands_beside_what_was_asked() -> None:
    after = came_of(SPAWN, RESULT)
    assert (after.result, after.task, after.parent, after.input) == (RESULT, CHILD, ENVELOPE.task, "a part")
    assert (after.envelope, after.op) == (ENVELOPE, OP)


def test_of_one_that_there_was_none_of_whoever_heard_of_its_beginning_hears_why() -> None:
    refused = not_spawned(SPAWN, Blocked(reason="not now", code="policy_denied", hook="guard")).result
    assert (refused.run_id, refused.task, refused.status) == ("run-9", "part", "blocked")
    assert refused.error is not None
    assert (refused.error.code, refused.error.message) == ("policy", "not now")
    assert dict(refused.error.details) == {"code": "policy_denied", "hook": "guard"}
    failed = not_spawned(SPAWN, Failed(message="broken", code="hook", hook="guard")).result
    assert failed.status == "failed"
    assert failed.error is not None
    assert (failed.error.code, failed.error.message, dict(failed.error.details)) == (
        "internal",
        "broken",
        {"code": "hook"},
    )


async def test_an_open_span_keeps_what_the_sub_run_is_given_or_why_there_is_none() -> None:
    heard: list[str] = []

    @hook("subtask.spawned.post", observe=True)
    def look(event: SubtaskSpawnedEvent) -> None:
        heard.append(event.result.status)

    span = Runtime(CATALOGUE, [look]).span(SUBTASK_SPAWNED, trace=Trace())
    opened = await span.open(SPAWN)
    changed = cast("Ending", Done(SPAWN.replace(input="another part")))
    assert Open.of(span, OP, SPAWN, changed) == Open(span, OP, SPAWN.replace(input="another part"))
    refused = Blocked(reason="no", code="policy_denied", hook="guard")
    assert Open.of(span, OP, SPAWN, refused) == Open(span, OP, SPAWN, refused)
    assert isinstance(opened, Done)
    ended = await Open.of(span, OP, SPAWN, cast("Ending", opened)).close(came_of(SPAWN, RESULT))
    assert isinstance(ended, Done)
    assert (ended.event, heard) == (came_of(SPAWN, RESULT), ["completed"])
