"""The agent loop, unchanged, as a workflow on a real Temporal server whose workers die (D§11).

The server is on loopback, in memory, and ends with its test. A worker is a process of its own, ended by SIGKILL.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError
from tests.agent.temporal_engine import LONGEST, WORKFLOW, AgentRun
from tests.agent.temporal_loops import CHANGED
from tests.agent.temporal_worker import QUEUE, TASK
from tests.harness.world import calls, project
from tests.outside import alive_with, comes_true

from tenter import Harness, RunResult
from tenter.agent import Ended, Plan
from tenter.catalogue import ApprovalDecision, ApprovalRequest, DecisionKind, Envelope, TaskRef
from tenter.harness.setup import Given, set_up
from tenter.journal import MemoryStore

pytestmark = pytest.mark.timed

T = TypeVar("T")
Handle = WorkflowHandle[object, bytes]

ROOT = Path(__file__).parents[2]
TEMPORAL = Path(sys.executable).with_name("temporal")
LOOPBACK = "127.0.0.1"
INPUT = "  go  "
TOOLS = ("lookup", "deploy")
WITHIN = 30.0
LOOK_SECONDS = 0.05

WORK = """
import asyncio
from pathlib import Path

from tenter import Suspend, hook, tool
from tenter.catalogue import AGENT_OPERATIONS

HERE = Path(__file__).parent
OF_THE_PROCESS = ("persistence.write", "shutdown")
ENDS = [
    operation.point(phase)
    for operation in AGENT_OPERATIONS
    for phase in ("pre", "post")
    if phase in operation.rules and operation.name not in OF_THE_PROCESS
]


def write(file, line):
    with (HERE / file).open("a") as lines:
        lines.write(f"{line}\\n")


async def hold(what):
    if (HERE / f"hold-{what}").exists():
        write("held", what)
        await asyncio.Event().wait()


@tool(idempotent=True)
async def lookup(word: str) -> str:
    await hold(word)
    return f"{word} is fine"


@tool
async def deploy(place: str) -> str:
    write("deployed", place)
    await hold(place)
    return f"it is on the {place}"


@hook("tool.before", match={"tool": "deploy"})
def ask(event):
    return Suspend("deploying needs a person")


@hook("input.before")
def tidy(event):
    return event.replace(input=event.input.strip())


@hook("model.before", observe=True)
def listen(event):
    write("told", [message.content for message in event.request.messages])


@hook(*ENDS, observe=True)
def audit(event):
    write("fired", f"{event.op.path}#{event.op.pass_} {type(event).__name__}")
"""
"""Tools and hooks, which leave lines in files. A tool for whose word or place there is a `hold-` file does not end."""


def work(folder: Path) -> Path:
    """A project whose run looks two things up, side by side, and deploys if a person lets it; the path of its file."""
    folder.mkdir()
    (folder / "work.py").write_text(WORK)
    turns = [
        calls(("lookup", {"word": "one"}), ("lookup", {"word": "two"})),
        calls(("deploy", {"place": "moon"})),
        {"text": "All is well.", "usage": {"input_tokens": 7, "output_tokens": 3}},
    ]
    settings = {
        "tools": {name: {"python": f"./work.py:{name}"} for name in TOOLS},
        "hooks": {"plugins": [f"./work.py:{name}" for name in ("ask", "tidy", "listen", "audit")]},
    }
    path = project(folder, *turns, tools=TOOLS, settings=settings)
    spec = msgspec.json.decode(path.read_bytes())
    spec["tasks"][TASK]["parallel_tools"] = True
    path.write_bytes(msgspec.json.encode(spec))
    return path


def left(project: Path, file: str) -> list[str]:
    """The lines that tools and hooks of a project have written to one of their files."""
    path = project.parent / file
    return path.read_text().splitlines() if path.exists() else []


def in_order(fired: Sequence[str]) -> list[str]:
    """What fired, in order, each line once: who was killed hears it again. What runs side by side goes by its path."""
    side_by_side = sorted({line for line in fired if line.startswith("1.tool.invoked.")})
    first, *_ = [number for number, line in enumerate(fired) if line in side_by_side]
    return list(dict.fromkeys([*fired[:first], *side_by_side, *fired[first:]]))


def plan_of(path: Path) -> Plan:
    task = set_up(path, (), Given(store=MemoryStore())).task(TASK)
    run = TaskRef(id="run-1", name=TASK, version=task.spec.version)
    return Plan(
        envelope=Envelope(run_id=run.id, task=run, correlation_id=run.id),
        input=INPUT,
        instructions=task.spec.instructions,
        model_alias=task.spec.model,
        model=task.spec.model,
        tools=tuple(task.infos.values()),
        parallel_tools=task.spec.parallel_tools,
    )


@asynccontextmanager
async def server(folder: Path) -> AsyncGenerator[Client]:
    """A server in a process of its own, and a client of it; what it says goes into a file of `folder`."""
    with closing(socket.socket()) as free:
        free.bind((LOOPBACK, 0))
        address = f"{LOOPBACK}:{free.getsockname()[1]}"
    options = ["--headless", "--ip", LOOPBACK, "--port", address.partition(":")[2], "--log-level", "error"]
    command = [TEMPORAL, "server", "start-dev", *options, "--disable-config-file", "--disable-config-env"]
    with living(command, folder / "server.log", HOME=str(folder)) as process:

        async def look() -> Client | None:
            assert process.poll() is None, (folder / "server.log").read_text()
            try:
                return await Client.connect(address)
            except RuntimeError:  # how the SDK says that nobody listens yet
                return None

        yield await until(look)
    assert not alive_with(str(folder))


@contextmanager
def living(command: Sequence[str | Path], log: Path, **variables: str) -> Generator["subprocess.Popen[bytes]"]:
    """A process that goes on meanwhile; what is left of it at the end is killed."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        yield process
    finally:
        kill(process)


@contextmanager
def worker(client: Client, path: Path) -> Generator["subprocess.Popen[bytes]"]:
    """A worker in a process of its own, in which a warning is an error."""
    address = client.service_client.config.target_host
    command = [sys.executable, "-W", "error", "-m", "tests.agent.temporal_worker", address, str(path)]
    with living(command, path.parent / "worker.log") as process:
        yield process
        assert process.poll() in (None, -signal.SIGKILL), (path.parent / "worker.log").read_text()


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends it as nobody can hear coming, and waits for that."""
    process.kill()
    process.wait(WITHIN)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """Looks again and again, within a bound, until there is something."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(WITHIN):
        while (found := await look()) is None:
            await asyncio.wait((loop.create_future(),), timeout=LOOK_SECONDS)
    return found


async def at_rest(run: Handle, *, activities: int) -> bool | None:
    """Whether of the run only so many activities go on; None where not: no worker is about to say what comes next."""
    seen = (await run.describe()).raw_description
    busy = seen.HasField("pending_workflow_task") or len(seen.pending_activities) != activities
    return None if busy else True


async def waits(run: Handle) -> tuple[ApprovalRequest, ...]:
    """What the run asks people, once nothing of it goes on any more."""
    await until(lambda: at_rest(run, activities=0))
    return msgspec.json.decode(await run.query("asked", result_type=bytes), type=tuple[ApprovalRequest, ...])


async def until_held(run: Handle, project: Path, what: str) -> None:
    """Waits until the tool that is held is all that goes on."""
    assert await comes_true(lambda: left(project, "held") == [what], within=WITHIN)
    await until(lambda: at_rest(run, activities=1))


async def start(client: Client, path: Path) -> Handle:
    plan = msgspec.json.encode(plan_of(path))
    started = await client.start_workflow(
        WORKFLOW, plan, id="run-1", task_queue=QUEUE, result_type=bytes, execution_timeout=2 * LONGEST
    )
    return cast("Handle", started)


async def decide(run: Handle, request: ApprovalRequest, decision: DecisionKind) -> None:
    decided = ApprovalDecision(
        request_id=request.id, run_id=request.run_id, decision=decision, by="ann", decided_at=time.time()
    )
    await run.signal("decide", msgspec.json.encode(decided))


async def ended(run: Handle) -> Ended:
    return msgspec.json.decode(await asyncio.wait_for(run.result(), WITHIN), type=Ended)


async def replayed(history: WorkflowHistory, run: type[Any]) -> Exception | None:
    """What keeps `run` from going the way that the history tells of."""
    with ThreadPoolExecutor() as threads:
        replayer = Replayer(workflows=[run], workflow_task_executor=threads)
        return (await replayer.replay_workflow(history, raise_on_replay_failure=False)).replay_failure


async def here(path: Path) -> RunResult:
    """The same run on the local engine, with the same decision."""
    async with Harness.from_file(path, store=MemoryStore()) as harness:
        waiting = await harness.run(TASK, INPUT)
        assert waiting.status == "awaiting_approval"
        await harness.approve(waiting.run_id, by="ann")
        return await harness.resume(waiting.run_id)


@pytest.mark.promise(9)
async def test_a_run_whose_workers_are_killed_on_temporal_comes_to_the_same_end_as_here(tmp_path: Path) -> None:
    near, far = work(tmp_path / "near"), work(tmp_path / "far")
    local = await here(near)
    (held := far.parent / "hold-two").touch()
    async with server(tmp_path) as client:
        run = await start(client, far)
        with worker(client, far) as first:
            await until_held(run, far, "two")
            kill(first)  # in the middle of an activity
        held.unlink()
        with worker(client, far) as second:
            (request,) = await waits(run)
            kill(second)  # while the run waits for a person
        await decide(run, request, "approve")
        with worker(client, far):
            standing = await ended(run)
        history = await run.fetch_history()
    assert (standing.status, standing.output, standing.progress.usage) == (local.status, local.output, local.usage)
    assert standing.status == "completed"
    for file in ("told", "deployed"):
        assert left(far, file) == left(near, file) != []
    assert in_order(left(far, "fired")) == in_order(left(near, "fired"))
    assert left(far, "fired").count("1.tool.invoked.1#1 ToolCallEvent") >= 2, "the activity that was lost, once more"
    assert await replayed(history, AgentRun) is None
    for changed, place in CHANGED.items():
        failure = await replayed(history, changed)
        assert isinstance(failure, NondeterminismError)
        assert f"scheduled event '{place} " in str(failure)


@pytest.mark.promise(9)
async def test_a_tool_that_was_lost_on_temporal_is_not_done_again_without_a_person(tmp_path: Path) -> None:
    far = work(tmp_path / "far")
    (far.parent / "hold-moon").touch()
    async with server(tmp_path) as client:
        run = await start(client, far)
        with worker(client, far) as first:
            (request,) = await waits(run)
            await decide(run, request, "approve")
            await until_held(run, far, "moon")
            kill(first)  # after the tool has acted
        with worker(client, far):
            (unknown,) = await waits(run)
            assert [reason.code for reason in unknown.reasons] == ["unknown"]
            assert (unknown.call, unknown.path) == (request.call, request.path)
            await decide(run, unknown, "reject")
            standing = await ended(run)
    assert left(far, "deployed") == ["moon"]
    assert standing.status == "blocked"
    assert standing.error is not None
    assert standing.error.details["code"] == "approval_rejected"
