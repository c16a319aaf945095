"""A whole command hook against `subprocess.run` of the same program with the same stdin, in turn in one process.

`python -m benchmarks.command`. Everything is on: the payload of an event that is new each time, redacted with all
patterns and a secret, the deadline, the dispatch of the point, two journal entries in a SQLite file. Figures are ratios
of medians; the bare process (`run_process`) stands beside the hook.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from tenter.catalogue import CATALOGUE, Envelope, Op, TaskRef, ToolCall, ToolCallEvent
from tenter.controls.secrets import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.executors.command import CommandHook, command_hook
from tenter.executors.kind import Surroundings
from tenter.executors.process import ProcessSpec, run_process
from tenter.harness.sink import JournalSink
from tenter.journal.entry import Stream
from tenter.journal.sqlite import SqliteStore
from tenter.kernel import SYSTEM_CLOCK, SYSTEM_RANDOM, FrozenDict, Redactor, Runtime, Trace

ROUNDS = 400
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
    hook, process, stock = asyncio.run(_interleaved(rounds))
    ballast = bytearray(RESIDENT_BYTES)
    ballast[::PAGE] = b"\1" * (RESIDENT_BYTES // PAGE)
    hook_large, process_large, stock_large = asyncio.run(_interleaved(rounds))
    del ballast
    return {
        "hook_to_subprocess_run": hook / stock,
        "hook_to_subprocess_run_1gb": hook_large / stock_large,
        "process_to_subprocess_run": process / stock,
        "process_to_subprocess_run_1gb": process_large / stock_large,
        "subprocess_run_seconds": stock,
        "subprocess_run_seconds_1gb": stock_large,
    }


async def _interleaved(rounds: int) -> tuple[float, float, float]:
    hook, process, stock = list[float](), list[float](), list[float]()
    redactor = Redactor(secrets=["a secret value"], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
    async with _runtime(redactor) as runtime:
        for number in range(rounds):
            event = await redactor.apply(_event(number))  # an operation redacts its event once, with or without hooks
            start = time.perf_counter()
            decision = await runtime.dispatch("tool.before", event, trace=Trace())
            hook.append(time.perf_counter() - start)
            if decision.outcome is not None or decision.records:
                raise RuntimeError(f"the hook failed: {decision.records}")
            start = time.perf_counter()
            await _process(number)
            process.append(time.perf_counter() - start)
            start = time.perf_counter()
            _stock()
            stock.append(time.perf_counter() - start)
    return median(hook), median(process), median(stock)


@asynccontextmanager
async def _runtime(redactor: Redactor) -> AsyncGenerator[Runtime]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "journal.db"))
        surroundings = Surroundings(
            workspace="/",
            project_dir="/",
            environment=os.environ,
            sink=JournalSink(store, Stream("process", "benchmark")),
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
