"""The loop operations (D§4.4): each phase says when it fires and what an answer means there.

At all of them a hook may answer Block, Suspend and Escalate, before and after; nothing is replaced, and no hook has
`on_error: fail` (D§7). Who paces a loop fires them stage by stage (`Boundary`), since a Suspend waits between stages.
"""

from typing import cast

from tenter.catalogue import loop_events as events
from tenter.kernel import Block, Escalate, Event, Operation, Outcome, Rule, Suspend

ANSWERS: frozenset[type[Outcome]] = frozenset({Block, Suspend, Escalate})

ENDS = "the loop ends with `blocked`"

CHANGES_NOTHING = "nothing more; the reason for which the loop ends stays"


def _rule(fires: str, block_means: str = ENDS) -> Rule:
    return Rule(fires, takes=ANSWERS, fails=False, block_means=block_means)


LOOP_START = Operation(
    name="loop.start",
    shape="leaf",
    before=events.LoopStartEvent,
    after=events.LoopStartedEvent,
    doc="A loop begins. Its work is initialisation: the start topic is published.",
    rules={
        "pre": _rule("Once for each loop, before anything is initialised or published."),
        "post": _rule("Once for each loop, right after the start topic was published and before the first iteration."),
    },
)

ITERATION_START = Operation(
    name="iteration.start",
    shape="leaf",
    before=events.IterationStartEvent,
    after=events.IterationStartedEvent,
    results=("hat", "task", "topics"),
    doc="An iteration begins. Its work is the selection of hat, task and topics; the backend runs after its post.",
    rules={
        "pre": _rule(
            "Once for each iteration, before anything is selected; the context still names the hat of the one before."
        ),
        "post": _rule("Once for each iteration, with what was selected, before the backend runs."),
    },
)

PLAN_CREATED = Operation(
    name="plan.created",
    shape="leaf",
    before=events.PlanEvent,
    after=events.PlanCreatedEvent,
    results=("plan",),
    matches={"topic": "topic"},
    doc="A topic `plan.*`, of any depth, is about to be published.",
    rules={
        "pre": _rule("For each such topic that an agent emits, before it is published.", "the topic is not published"),
        "post": _rule(
            "For each such topic, after it was published. It stays published, whatever is answered.",
        ),
    },
)

HUMAN_INTERACT = Operation(
    name="human.interact",
    shape="leaf",
    before=events.HumanInteractEvent,
    after=events.HumanInteractedEvent,
    results=("outcome", "answer"),
    doc="An agent asks a person. Its work is putting the question and waiting for the answer.",
    rules={
        "pre": _rule(
            "For each question that an agent emits, before it is put.", "the question is not put and the agent is told"
        ),
        "post": _rule(
            "For each question that was put, once it is answered, has timed out or has failed; the context says which.",
        ),
    },
)

LOOP_COMPLETE = Operation(
    name="loop.complete",
    shape="leaf",
    before=events.LoopEndEvent,
    after=events.LoopEndedEvent,
    doc="A loop ends with success.",
    rules={
        "pre": _rule(
            "Once for a loop that completed, before it has ended.",
            f"{ENDS}, `loop.error` fires and `loop.complete.post` does not",
        ),
        "post": _rule(
            "Once for a loop that completed, with the same reason.", f"{ENDS} after all, and `loop.error` fires"
        ),
    },
)

LOOP_ERROR = Operation(
    name="loop.error",
    shape="leaf",
    before=events.LoopEndEvent,
    after=events.LoopEndedEvent,
    matches={"reason": "reason"},
    doc="A loop ends in any way but success: limits, failures, a block, an escalation, a cancellation, a stop.",
    rules={
        "pre": _rule("Once for a loop that did not complete, with the reason why.", CHANGES_NOTHING),
        "post": _rule("Once for a loop that did not complete, with the same reason.", CHANGES_NOTHING),
    },
)

LOOP_OPERATIONS = cast(
    "tuple[Operation[Event, Event], ...]",
    (LOOP_START, ITERATION_START, PLAN_CREATED, HUMAN_INTERACT, LOOP_COMPLETE, LOOP_ERROR),
)
"""In the order in which a loop meets them."""
