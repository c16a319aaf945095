"""Dispatch of one point with 0, 1, 10 and 100 async no-op hooks against a bare loop awaiting as many no-op coroutines.

Soft deadlines, figures and the trace are on; the redactor has no rules, but in the rows that say so. The two are timed
in turn in one process, and the ratio is the median over the pairs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from statistics import median
from time import perf_counter

from tenter.catalogue import CATALOGUE, Envelope, Op, TaskRef, ToolCall, ToolCallEvent
from tenter.kernel import Declaration, Redactor, Runtime, Trace

COUNTS = (0, 1, 10, 100)
PAIRS = 101
DISPATCHES = 600
"""As many fill one trace: about what a run writes."""


async def nothing(event: object) -> None:
    return None


def event() -> ToolCallEvent:
    return ToolCallEvent(
        envelope=Envelope(run_id="run", task=TaskRef(id="t", name="bench"), correlation_id="c"),
        op=Op(id="op"),
        call=ToolCall(id="call-1", name="shell"),
    )


def runtime(count: int, timeout: float | None = None, secrets: tuple[str, ...] = ()) -> Runtime:
    hooks = [Declaration(name=f"h{n}", point="tool.before", call=nothing, timeout=timeout) for n in range(count)]
    return Runtime(CATALOGUE, hooks, redactor=Redactor(secrets=secrets))


async def bare(hooks: tuple[Callable[[object], Coroutine[object, object, None]], ...], event: object) -> None:
    for hook in hooks:
        await hook(event)


async def measure_one(count: int, *, deadline: float | None = None, secrets: tuple[str, ...] = ()) -> dict[str, float]:
    """Ratio and nanoseconds a dispatch for `count` hooks."""
    kernel, happening, hooks = runtime(count, deadline, secrets), event(), (nothing,) * count
    rounds = max(20, DISPATCHES // (count + 1)) if deadline is None else 50 // count
    ratios: list[float] = []
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(PAIRS):
        trace = Trace()
        began = perf_counter()
        for _ in range(rounds):
            await kernel.dispatch("tool.invoked.pre", happening, trace=trace)
        between = perf_counter()
        for _ in range(rounds):
            await bare(hooks, happening)
        ended = perf_counter()
        ours.append((between - began) / rounds * 1e9)
        theirs.append((ended - between) / rounds * 1e9)
        ratios.append(ours[-1] / theirs[-1])
    return {"ratio": median(ratios), "ours_ns": median(ours), "bare_ns": median(theirs)}


def measure() -> dict[str, dict[str, float]]:
    soft = {f"{count} hooks": asyncio.run(measure_one(count)) for count in COUNTS}
    ruled = {
        f"{count} hooks, a secret to look for": asyncio.run(measure_one(count, secrets=("a secret value",)))
        for count in COUNTS
    }
    hard = {f"{count} hooks, hard deadlines": asyncio.run(measure_one(count, deadline=5.0)) for count in (1, 10)}
    return soft | ruled | hard


def main() -> None:
    for name, row in measure().items():
        print(f"{name:32} {row['ratio']:8.2f}x   {row['ours_ns']:10.0f} ns against {row['bare_ns']:8.0f} ns")


if __name__ == "__main__":
    main()
