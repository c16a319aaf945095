"""The agent operations that something fires (D§4.3, D§3.1): each phase says when it fires and what may be answered.

The hook reference, the listings and the JSON Schemas are made from these declarations.
"""

from typing import cast

from tenter.catalogue import events
from tenter.kernel import Allow, Block, Escalate, Event, Operation, Outcome, Result, Retry, Rule, Suspend

TASK = {"task": "envelope.task.name"}

Outcomes = frozenset[type[Outcome]]

PERSON: Outcomes = frozenset({Block, Suspend, Escalate})
"""What an inbound point of a leaf takes."""

REFUSE: Outcomes = frozenset({Block})

HAND_OVER: Outcomes = frozenset({Block, Escalate})
"""What a point takes at which nobody could wait for a person: one is being asked, or what failed is gone (0021)."""

NOTHING: Outcomes = frozenset()

RUN = Operation(
    name="run",
    shape="span",
    before=events.RunStartEvent,
    after=events.RunEndEvent,
    results=("status", "output", "error", "usage", "cost_usd"),
    matches=TASK,
    doc="One execution of one task, from its first event to its terminal state.",
    rules={
        "pre": Rule(
            "Once, before any work. A replacement may change the input, tighten `limits` and set the idempotency key.",
            takes=REFUSE,
            replaces=True,
            portable="run.start",
            block_means="the run ends blocked",
        ),
        "post": Rule(
            "Once for every terminal state, after that state is journaled. It only observes.",
            portable="run.end",
            observe_only=True,
        ),
    },
)

REQUEST_RECEIVED = Operation(
    name="request.received",
    shape="leaf",
    before=events.InputEvent,
    after=events.InputReceivedEvent,
    results=("input",),
    matches=TASK,
    doc="The input of a run arrives.",
    rules={
        "pre": Rule(
            "Once a run, with the raw input, which a replacement may clean or complete.",
            takes=PERSON,
            replaces=True,
            portable="input.before",
            block_means="the run ends blocked",
        ),
        "in": Rule(
            "The work: the input as it is. A result stands for it.",
            takes=PERSON | {Result},
            replaces=True,
            block_means="the run ends blocked",
        ),
        "post": Rule("The input that the conversation starts with.", replaces=True),
    },
)

TASK_CREATED = Operation(
    name="task.created",
    shape="leaf",
    before=events.TaskCreateEvent,
    after=events.TaskCreatedEvent,
    results=("task",),
    matches=TASK,
    doc="A task is about to become a run's work.",
    rules={
        "pre": Rule(
            "Once a run, after it became running and before its input.",
            takes=PERSON,
            replaces=True,
            block_means="the run ends blocked",
        ),
        "in": Rule(
            "The work: the task as it is. A result stands for it.",
            takes=PERSON | {Result},
            replaces=True,
            block_means="the run ends blocked",
        ),
        "post": Rule("The task as the run goes on with it.", replaces=True),
    },
)

TASK_STATE_CHANGED = Operation(
    name="task.state_changed",
    shape="fact",
    before=events.TaskStateChangedEvent,
    after=events.TaskStateChangedEvent,
    matches=TASK,
    doc="A run's status changed. A fact: it tells and cannot be refused.",
    rules={
        "pre": Rule("At each change of a run's status, with the status before and after.", observe_only=True),
        "in": Rule("Between the two other phases, with the same value.", observe_only=True),
        "post": Rule("After the two other phases, with the same value.", observe_only=True),
    },
)

LLM_INVOKED = Operation(
    name="llm.invoked",
    shape="leaf",
    before=events.ModelRequestEvent,
    after=events.ModelResponseEvent,
    results=("response",),
    matches={**TASK, "model": "request.model", "alias": "request.alias"},
    doc="One call of a model.",
    rules={
        "pre": Rule(
            "Before each request to a model; a replacement changes its messages, tools or settings.",
            takes=PERSON,
            replaces=True,
            portable="model.before",
            block_means="the run ends blocked",
        ),
        "in": Rule(
            "The work: the request to the provider. A result stands for the response.",
            takes=PERSON | {Result},
            replaces=True,
            block_means="the run ends blocked",
        ),
        "post": Rule(
            "After each response. A Retry asks the model again, with its feedback as a user message.",
            takes=frozenset({Block, Retry}),
            replaces=True,
            portable="model.after",
            block_means="the response is withheld and the run ends blocked",
        ),
    },
)

TOOL_CALLS_EXTRACTED = Operation(
    name="tool_calls.extracted",
    shape="leaf",
    before=events.ToolCallsEvent,
    after=events.ToolCallsExtractedEvent,
    results=("calls",),
    matches=TASK,
    doc="The tool calls of a response are read out of it.",
    rules={
        "pre": Rule(
            "After each response, before its tool calls are looked at.",
            takes=PERSON,
            replaces=True,
            block_means="the run ends blocked",
        ),
        "in": Rule(
            "The work: the calls of the response. A result stands for them.",
            takes=PERSON | {Result},
            replaces=True,
            block_means="the run ends blocked",
        ),
        "post": Rule("The calls that will be made, in order; a replacement may drop or reorder them.", replaces=True),
    },
)

TOOL_INVOKED = Operation(
    name="tool.invoked",
    shape="leaf",
    before=events.ToolCallEvent,
    after=events.ToolResultEvent,
    results=("result",),
    matches={**TASK, "tool": "call.name"},
    doc="One call of a tool.",
    rules={
        "pre": Rule(
            "Before each tool call, known tool or not; a replacement rewrites the call, and the checks judge it again.",
            takes=PERSON | {Allow},
            replaces=True,
            portable="tool.before",
            block_means="the model gets an error result and the run goes on; with `stop=True` the run ends blocked",
        ),
        "in": Rule(
            "The work: the tool itself. A result stands for it.",
            takes=PERSON | {Result},
            replaces=True,
            block_means="the model gets an error result and the run goes on; with `stop=True` the run ends blocked",
        ),
        "post": Rule(
            "After the tool returned, also with an error result of its own; not for a refused call.",
            takes=REFUSE,
            replaces=True,
            portable="tool.after",
            block_means="the result is withheld and the model gets an error result",
        ),
    },
)

TASK_COMPLETE = Operation(
    name="task.complete",
    shape="leaf",
    before=events.OutputEvent,
    after=events.TaskCompletedEvent,
    results=("verdict", "output", "reason"),
    matches=TASK,
    doc="A candidate for the final output exists.",
    rules={
        "pre": Rule(
            "For each candidate. A Retry sends its feedback back to the model; the next candidate has `attempt` + 1.",
            takes=PERSON | {Allow, Retry},
            replaces=True,
            portable="output.before",
            block_means="the run ends blocked",
        ),
        "in": Rule(
            "The work: the verdict `complete`. A result stands for verdict, output and reason; `fail` ends the run "
            "failed, `wait` is refused until there are sessions.",
            takes=PERSON | {Result},
            replaces=True,
            block_means="the run ends blocked",
        ),
        "post": Rule("The verdict and the output that the run ends with.", replaces=True),
    },
)

ACTIVITY_FAILED = Operation(
    name="activity.failed",
    shape="leaf",
    before=events.ActivityFailedEvent,
    after=events.RunErrorEvent,
    results=("error",),
    matches={**TASK, "operation": "operation"},
    doc="A body failed, or a hook with `on_error: fail`, at the innermost operation that did.",
    rules={
        "pre": Rule(
            "Once for each failure, retryable or not. A replacement of `policy`, a `RetryPolicy`, changes how it is "
            "tried again; None: it is not.",
            takes=HAND_OVER,
            replaces=True,
            block_means="no retry",
        ),
        "in": Rule(
            "The work: classifying the error. A result stands for it.",
            takes=HAND_OVER | {Result},
            replaces=True,
            block_means="no retry",
        ),
        "post": Rule("The error as classified; a replacement classifies it anew.", replaces=True, portable="run.error"),
    },
)

ACTIVITY_RETRIED = Operation(
    name="activity.retried",
    shape="leaf",
    before=events.ActivityRetryEvent,
    after=events.ActivityRetriedEvent,
    results=("delay",),
    matches={**TASK, "operation": "operation"},
    doc="An operation that failed is about to be tried again.",
    rules={
        "pre": Rule(
            "Once for each retry, before the wait. A replacement of `policy`, a `RetryPolicy`, changes the delay.",
            takes=HAND_OVER,
            replaces=True,
            block_means="no retry",
        ),
        "in": Rule(
            "The work: the delay in seconds, as the policy has it. A result stands for it.",
            takes=HAND_OVER | {Result},
            replaces=True,
            block_means="no retry",
        ),
        "post": Rule("The delay that is waited; a replacement changes it.", replaces=True),
    },
)

HELP_REQUESTED = Operation(
    name="help.requested",
    shape="leaf",
    before=events.HelpRequestEvent,
    after=events.HelpRequestedEvent,
    results=("request",),
    matches={**TASK, "operation": "request.operation"},
    doc="A person is about to be asked.",
    rules={
        "pre": Rule(
            "Once for each request, before the run waits. What is asked cannot be changed: a decision is bound to it.",
            takes=HAND_OVER,
            block_means="the run ends blocked",
        ),
        "in": Rule("The work: the request as it is.", takes=HAND_OVER, block_means="the run ends blocked"),
        "post": Rule("The request as it goes on record: the place to tell people of it."),
    },
)

HELP_DECIDED = Operation(
    name="help.decided",
    shape="leaf",
    before=events.ApprovalResolvedEvent,
    after=events.HelpDecidedEvent,
    results=("decision",),
    matches={**TASK, "operation": "request.operation", "decision": "decision.decision"},
    doc="A person decided on a request.",
    rules={
        "pre": Rule(
            "Once for each approve, edit and reject, when the run goes on; not for a request that expired. "
            "A replacement may reject what was approved.",
            takes=HAND_OVER,
            replaces=True,
            portable="approval.resolved",
            block_means="the decision is refused and the run ends blocked",
        ),
        "in": Rule(
            "The work: the decision as it is. A result may reject what was approved, and nothing else.",
            takes=HAND_OVER | {Result},
            replaces=True,
            block_means="the decision is refused and the run ends blocked",
        ),
        "post": Rule("The decision as the run follows it; a replacement may reject it.", replaces=True),
    },
)

SUBTASK_SPAWNED = Operation(
    name="subtask.spawned",
    shape="span",
    before=events.SubtaskSpawnEvent,
    after=events.SubtaskSpawnedEvent,
    results=("result",),
    matches={**TASK, "subtask": "task.name"},
    doc="A run begins another one for a part of its work: its pre comes before the sub-run, its post after its end.",
    rules={
        "pre": Rule(
            "Before the sub-run, with what it will be given, which a replacement may change.",
            takes=REFUSE,
            replaces=True,
            block_means="it is not spawned, and the model is told",
        ),
        "in": Rule(
            "The work: the sub-run. A result stands for it, and there is none.",
            takes=REFUSE | {Result},
            replaces=True,
            block_means="it is not spawned, and the model is told",
        ),
        "post": Rule("What came of the sub-run, for every end of it.", replaces=True),
    },
)

PERSISTENCE_WRITE = Operation(
    name="persistence.write",
    shape="nested",
    before=events.PersistenceWriteEvent,
    after=events.PersistenceWrittenEvent,
    results=("record",),
    matches={**TASK, "kind": "kind"},
    doc="A checkpoint or a result is about to be stored. Never fired for an append to the journal.",
    rules={
        "pre": Rule("Before the record is stored.", takes=REFUSE, replaces=True, block_means="it is not stored"),
        "in": Rule(
            "The work: storing it. A result stands for the stored record.",
            takes=REFUSE | {Result},
            replaces=True,
            block_means="it is not stored",
        ),
        "post": Rule("After the record was stored.", replaces=True),
    },
)

SHUTDOWN = Operation(
    name="shutdown",
    shape="fact",
    before=events.ShutdownEvent,
    after=events.ShutdownEvent,
    doc="The harness closes. A fact: it tells and cannot be refused.",
    rules={
        "pre": Rule("Once, when the harness begins to close.", observe_only=True),
        "in": Rule("Between the two other phases, with the same value.", observe_only=True),
        "post": Rule("After the two other phases; nothing fires later.", observe_only=True),
    },
)

AGENT_OPERATIONS = cast(
    "tuple[Operation[Event, Event], ...]",
    (
        RUN,
        TASK_STATE_CHANGED,
        TASK_CREATED,
        REQUEST_RECEIVED,
        LLM_INVOKED,
        TOOL_CALLS_EXTRACTED,
        TOOL_INVOKED,
        SUBTASK_SPAWNED,
        HELP_REQUESTED,
        HELP_DECIDED,
        TASK_COMPLETE,
        ACTIVITY_FAILED,
        ACTIVITY_RETRIED,
        PERSISTENCE_WRITE,
        SHUTDOWN,
    ),
)
"""In the order in which a run meets them."""
