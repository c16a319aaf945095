"""The events of the loop operations (D§4.4; the moments are seed 001's).

They belong to no run, so that `envelope` is None; loop, iteration and context stand in `op.loop`.
"""

from typing import Literal

from tenter.catalogue.envelope import Op
from tenter.kernel import AfterEvent, BeforeEvent, Event

Interacted = Literal["answered", "timeout", "failed"]
"""What became of a question to a person."""


class LoopEvent(Event, frozen=True, kw_only=True):
    """An event of a loop: `op.loop` says which, and how far it is."""

    envelope: None = None
    op: Op  # pyright: ignore[reportGeneralTypeIssues]  # no default: every event of a loop has one


class LoopBefore(LoopEvent, BeforeEvent, frozen=True, kw_only=True):
    """The input of an operation of a loop."""


class LoopAfter(LoopEvent, AfterEvent, frozen=True, kw_only=True):
    """The input and the output of an operation of a loop."""


class LoopStartEvent(LoopBefore, frozen=True, kw_only=True):
    """`topic` is the one that the loop starts with."""

    prompt: str
    topic: str


class LoopStartedEvent(LoopAfter, frozen=True, kw_only=True):
    prompt: str
    topic: str


class IterationStartEvent(LoopBefore, frozen=True, kw_only=True):
    """`number` counts from 1."""

    number: int


class IterationStartedEvent(LoopAfter, frozen=True, kw_only=True):
    """What was selected: the hat (None where no hat is subscribed), the task, the topics that it is given."""

    number: int
    hat: str | None = None
    task: str | None = None
    topics: tuple[str, ...] = ()


class PlanEvent(LoopBefore, frozen=True, kw_only=True):
    """A plan, or what is about to be published: `topic` with `payload`."""

    plan: object = None
    topic: str | None = None
    payload: object = None


class PlanCreatedEvent(LoopAfter, frozen=True, kw_only=True):
    """`plan` is what was published, where there is a topic."""

    plan: object = None
    topic: str | None = None
    payload: object = None


class HumanInteractEvent(LoopBefore, frozen=True, kw_only=True):
    """`options` are answers to choose from; none leaves the answer open."""

    question: str
    options: tuple[str, ...] = ()


class HumanInteractedEvent(LoopAfter, frozen=True, kw_only=True):
    """`answer` is None unless the outcome is `answered`."""

    question: str
    outcome: Interacted
    answer: str | None = None
    options: tuple[str, ...] = ()


class LoopEndEvent(LoopBefore, frozen=True, kw_only=True):
    """`reason` is the word for why the loop ends, `message` says it to people, `iterations` were begun."""

    reason: str
    message: str
    iterations: int


class LoopEndedEvent(LoopAfter, frozen=True, kw_only=True):
    """With the same reason as the beginning of the ending."""

    reason: str
    message: str
    iterations: int
