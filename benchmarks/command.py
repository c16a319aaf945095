"""A whole command hook against `subprocess.run` of the same program with the same stdin, in turn in one process.

`python -m benchmarks.command`. Everything is on: the dispatch of the point with an event that is new each time, its
redaction with all patterns and a secret, the payload, the deadline, two journal entries in a SQLite file. Each figure
is the median of ratios, each of a call and the `subprocess.run` right after it. Beside the whole hook stand one that
keeps no journal, and the bare process (`run_process`).
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from tenter.catalogue import CATALOGUE, Envelope, Op, TaskRef, ToolCall, ToolCallEvent
from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.executors import CommandHook, NoSink, ProcessSpec, Surroundings, command_hook, run_process
from tenter.harness.sink import JournalSink
from tenter.journal import SqliteStore, Stream
from tenter.kernel import SYSTEM_CLOCK, SYSTEM_RANDOM, FrozenDict, Redactor, Runtime, Trace

Call = Callable[[int], Awaitable[None]]

ROUNDS = 300
PROGRAM = ("/bin/true",)
ENV = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
TEXT_BYTES = 1250
"""Of the call's argument, so that the payload has 2 KB."""
PAYLOAD = b"x" * 2048
ENVELOPE = Envelope(run_id="run", task=TaskRef(id="t", name="benchmark"), correlation_id="c")
"""The same for every event of a run."""
RESIDENT_BYTES = 1 << 30
PAGE = 4096


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Ratios to `subprocess.run`, from a small parent and from one with 1 GB resident memory; seconds of the former."""
    small = asyncio.run(_ratios(rounds))
    ballast = bytearray(RESIDENT_BYTES)
    ballast[::PAGE] = b"\1" * (RESIDENT_BYTES // PAGE)
    large = asyncio.run(_ratios(rounds))
    del ballast
    return small | {f"{name}_1gb": figure for name, figure in large.items()}


async def _ratios(rounds: int) -> dict[str, float]:
    redactor = Redactor(secrets=["a secret value"], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
    pairs: dict[str, list[float]] = {}
    stock: list[float] = []
    async with _runtime(redactor, journaled=True) as whole, _runtime(redactor, journaled=False) as unjournaled:
        calls: dict[str, Call] = {
            "hook": lambda number: _dispatch(whole, _event(number)),
            "hook_without_journal": lambda number: _dispatch(unjournaled, _event(number)),
            "process": _process,
        }
        for number in range(rounds):
            for place, (name, call) in enumerate(calls.items()):
                start = time.perf_counter()
                await call(number * len(calls) + place)
                between = time.perf_counter()
                _stock()
                stock.append(time.perf_counter() - between)
                pairs.setdefault(name, []).append((between - start) / stock[-1])
    ratios = {f"{name}_to_subprocess_run": median(found) for name, found in pairs.items()}
    return ratios | {"subprocess_run_seconds": median(stock)}


async def _dispatch(runtime: Runtime, event: ToolCallEvent) -> None:
    decision = await runtime.dispatch("tool.before", event, trace=Trace())
    if decision.outcome is not None or decision.records:
        raise RuntimeError(f"the hook failed: {decision.records}")


@asynccontextmanager
async def _runtime(redactor: Redactor, *, journaled: bool) -> AsyncGenerator[Runtime]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "journal.db"))
        surroundings = Surroundings(
            workspace="/",
            project_dir="/",
            environment=os.environ,
            sink=JournalSink(store, Stream("process", "benchmark")) if journaled else NoSink(),
            redactor=redactor,
            clock=SYSTEM_CLOCK,
            random=SYSTEM_RANDOM,
        )
        hook = CommandHook(name="guard", point=CATALOGUE["tool.before"], argv=PROGRAM, on_error="block")
        yield Runtime(CATALOGUE, [command_hook(hook, surroundings)], redactor=redactor)
        await store.close()


def _event(number: int) -> ToolCallEvent:
    return ToolCallEvent(
        envelope=ENVELOPE,
        op=Op(id=f"op-{number}", path=f"{number}.tool.invoked.0"),
        call=ToolCall(id=f"call-{number}", name="shell", arguments=FrozenDict({"command": "x" * TEXT_BYTES})),
    )


async def _process(number: int) -> None:
    spec = ProcessSpec(
        argv=PROGRAM, cwd="/", env=ENV, timeout_seconds=30, max_output_bytes=8192,
        cookie_name="TENTER_HOOK_ID", cookie=f"benchmark-{number}",
    )  # fmt: skip
    result = await run_process(spec, PAYLOAD)
    if result.result != "ok":
        raise RuntimeError(f"/bin/true ended as {result}")


def _stock() -> None:
    subprocess.run(PROGRAM, input=PAYLOAD, capture_output=True, cwd="/", env=ENV, check=True)


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main()
