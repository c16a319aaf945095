"""What hooks hear of a loop in a test, and what leads a loop to each of its points."""

from tests.loop.world import EVERYTHING, Turn

from tenter.catalogue import LoopEndedEvent, LoopEndEvent, LoopFacts
from tenter.catalogue.loop_events import LoopEvent
from tenter.kernel import Event

CANCELLED: Turn = [("loop.cancel", None)]

Heard = list[tuple[str, Event]]
"""What listeners heard: the point, and its event."""


def leading_to(point: str) -> Turn:
    """What the agent does first, so that a loop comes to `point`."""
    return CANCELLED if point.startswith("loop.error") else EVERYTHING


def points(heard: Heard) -> list[str]:
    return [point for point, _ in heard]


def ends(heard: Heard) -> list[tuple[str, str]]:
    """The endings that hooks heard of, with their reasons."""
    return [(point, event.reason) for point, event in heard if isinstance(event, LoopEndEvent | LoopEndedEvent)]


def facts(event: Event) -> LoopFacts:
    assert isinstance(event, LoopEvent)
    assert event.op.loop is not None
    return event.op.loop
