"""The first hat with a trigger for something pending takes on all that it has one for; without one, all is taken."""

from hypothesis import given, strategies as st

from tenter.config import HatSpec
from tenter.loop.hats import Selection, select
from tenter.loop.state import Published
from tenter.loop.topic import matches

TOPICS = st.sampled_from(["a", "b", "a.b", "a.c", "b.c.d", "LOOP_COMPLETE"])
PATTERNS = st.sampled_from(["a", "b", "*", "a.*", "*.b", "b.*.*", "zzz"])
HATS = st.dictionaries(
    st.sampled_from(["one", "two", "three"]),
    st.lists(PATTERNS, min_size=1, max_size=3).map(lambda triggers: HatSpec(triggers=tuple(triggers))),
)
PENDING = st.lists(st.builds(Published, TOPICS, st.integers()), max_size=12).map(tuple)


def hats(**triggers: str) -> dict[str, HatSpec]:
    return {name: HatSpec(triggers=tuple(text.split())) for name, text in triggers.items()}


def events(text: str) -> tuple[Published, ...]:
    return tuple(Published(topic, number) for number, topic in enumerate(text.split()))


def test_the_first_hat_of_the_file_that_fits_anything_pending_goes_first() -> None:
    chosen = select(hats(tester="tests.*", builder="task.start build.*"), events("task.start other build.failed"))
    assert chosen.hat == "builder"
    assert [event.payload for event in chosen.events] == [0, 2]
    assert [event.payload for event in chosen.left] == [1]
    assert select(hats(second="b", first="a"), events("a b")).hat == "second"


def test_without_a_hat_that_fits_everything_is_taken_on() -> None:
    pending = events("a b")
    assert select(hats(builder="build.*"), pending) == Selection(hat=None, events=pending, left=())
    assert select({}, pending) == Selection(hat=None, events=pending, left=())


def test_without_anything_pending_no_hat_is_worn() -> None:
    assert select(hats(builder="*"), ()) == Selection(hat=None, events=(), left=())


@given(HATS, PENDING)
def test_nothing_is_lost_or_made_up_and_the_order_stays(
    worn: dict[str, HatSpec], pending: tuple[Published, ...]
) -> None:
    chosen = select(worn, pending)
    for part in (chosen.events, chosen.left):
        kept = iter(pending)
        assert all(any(event is one for one in kept) for event in part)
    assert len(chosen.events) + len(chosen.left) == len(pending)


@given(HATS, PENDING)
def test_the_hat_takes_what_its_triggers_fit_and_no_hat_before_it_fits_anything(
    worn: dict[str, HatSpec], pending: tuple[Published, ...]
) -> None:
    def fits(hat: str, event: Published) -> bool:
        return any(matches(trigger, event.topic) for trigger in worn[hat].triggers)

    chosen = select(worn, pending)
    fitting = [hat for hat in worn if any(fits(hat, event) for event in pending)]
    assert chosen.hat == (fitting[0] if fitting else None)
    if chosen.hat is None:
        assert chosen.left == ()
    else:
        assert all(fits(chosen.hat, event) for event in chosen.events)
        assert not any(fits(chosen.hat, event) for event in chosen.left)
