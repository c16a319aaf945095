"""For tests of hooks, and for our own (D§14): fire a hook, fake a clock, read a trace."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.testing.fakes import (
        FakeClock as FakeClock,
        FakeModel as FakeModel,
        FakeRandom as FakeRandom,
    )
    from tenter.testing.firing import (
        Fired as Fired,
        fire as fire,
        fire_async as fire_async,
    )
    from tenter.testing.samples import (
        sample_event as sample_event,
    )
    from tenter.testing.traces import (
        assert_trace as assert_trace,
        render_trace as render_trace,
    )

__all__ = [
    "FakeClock",
    "FakeModel",
    "FakeRandom",
    "Fired",
    "assert_trace",
    "fire",
    "fire_async",
    "render_trace",
    "sample_event",
]

__getattr__ = opener(
    __name__,
    {
        "fakes": (
            "FakeClock",
            "FakeModel",
            "FakeRandom",
        ),
        "firing": (
            "Fired",
            "fire",
            "fire_async",
        ),
        "samples": ("sample_event",),
        "traces": (
            "assert_trace",
            "render_trace",
        ),
    },
)
