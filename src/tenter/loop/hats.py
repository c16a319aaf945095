"""Which hat an iteration wears, and which events it takes on (issue "The loop"). Pure."""

from collections.abc import Mapping, Sequence

from tenter.config import HatSpec
from tenter.kernel import FrozenStruct
from tenter.loop.state import Published
from tenter.loop.topic import matches


class Selection(FrozenStruct, frozen=True, kw_only=True):
    """What an iteration takes on, and what it leaves for later; both in the order in which it was published."""

    hat: str | None
    events: tuple[Published, ...]
    left: tuple[Published, ...] = ()


def select(hats: Mapping[str, HatSpec], pending: Sequence[Published]) -> Selection:
    """The first of `hats`, in their order, that has a trigger for something `pending`, with all that it has one for.

    Where there is none, no hat is worn and everything is taken on.
    """
    topics = dict.fromkeys(event.topic for event in pending)
    for name, hat in hats.items():
        taken = {topic for topic in topics if any(matches(trigger, topic) for trigger in hat.triggers)}
        if taken:
            return Selection(
                hat=name,
                events=tuple(event for event in pending if event.topic in taken),
                left=tuple(event for event in pending if event.topic not in taken),
            )
    return Selection(hat=None, events=tuple(pending))
