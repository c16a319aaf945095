"""The conversation that benchmarks of runs measure: one call of one tool a step, then an answer.

The model is a Python object (a script of YAML may not be as long), the tool is in-process, asynchronous and idempotent,
and a hook that does nothing stands at both ends of every operation of an agent. The journal is a SQLite file.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tenter import tool
from tenter.catalogue import AGENT_OPERATIONS
from tenter.config import Position
from tenter.harness import Setup
from tenter.harness.script import Alternatives, CallLine, Turn, UsageLine
from tenter.harness.scripted import ScriptedModel
from tenter.harness.setup import Given, set_up
from tenter.journal import JOURNAL_PLACE
from tenter.kernel import Declaration, FrozenDict

TASK = "look"
FOUND = "x" * 400
"""What the tool finds, in place of a page of a file."""
TOKENS = (10, 5)
"""Input and output of each answer, told by the model."""
CONFIG = """\
version: 1
models: {default: {provider: scripted, file: script.yaml}}
tools: {look: {python: "./tools.py:look"}}
tasks: {look: {version: 1, model: default, instructions: Look things up., tools: [look]}}
"""
TOOLS = "from benchmarks.conversation import look as look\n"


@tool(idempotent=True)
async def look(name: str) -> str:
    """Look a thing up."""
    return f"{name} {FOUND}"


def said(number: int) -> str:
    """What the model says before call `number`."""
    return f"I look up number {number}."


def hooks() -> tuple[Declaration, ...]:
    """One that does nothing, at both ends of every operation of an agent."""
    points = (f"{operation.name}.{phase}" for operation in AGENT_OPERATIONS for phase in ("pre", "post"))
    return tuple(Declaration(name=point.replace(".", "-"), point=point, call=_nothing) for point in points)


async def _nothing(event: object) -> None:
    """Has nothing to say."""


def project(folder: Path, steps: int, *, declared: Iterable[object] | None = None) -> Setup:
    """A project in `folder` whose task calls its tool `steps` times; with the hooks `declared`, or those of `hooks`."""
    (folder / "tenter.yaml").write_text(CONFIG)
    (folder / "tools.py").write_text(TOOLS)
    (folder / "script.yaml").write_text("{version: 1, turns: [Done.]}")
    usage = UsageLine(input_tokens=TOKENS[0], output_tokens=TOKENS[1])
    turns = [Turn(text=said(number), tool_calls=(_call(number),), usage=usage, cost_usd=0) for number in range(steps)]
    script = [
        Alternatives((turn,), Position("script")) for turn in (*turns, Turn(text="Done.", usage=usage, cost_usd=0))
    ]
    setup = set_up(folder / "tenter.yaml", tuple(hooks() if declared is None else declared), Given())
    task = replace(setup.task(TASK), model=ScriptedModel(script))
    return replace(setup, tasks=FrozenDict({TASK: task}))


def journal_of(folder: Path) -> Path:
    """The file of the journal of the project in `folder`."""
    return folder / JOURNAL_PLACE


def _call(number: int) -> CallLine:
    return CallLine(name="look", arguments=FrozenDict({"name": f"number {number}"}))
