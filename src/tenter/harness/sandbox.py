"""The sandboxes in which a tool can be executed, as its manifest says (D§12): a closed table.

A sandbox that this machine lacks is refused when a harness is set up; none stands in for another. What `process`
promises, and what it does not, is on the decision page 0020. The child's side of it is `sandboxed`, the limits are
`rlimits`; how a process is started, bounded and ended is the executors'.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

import msgspec

from tenter.catalogue import Sandbox, ToolResult
from tenter.executors import ProcessResult, ProcessSpec, file_digest, in_project, run_process, within
from tenter.harness.calling import broken, refused
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool
from tenter.harness.rlimits import NAMES, process_limits
from tenter.harness.shell import COOKIE, KILL_AFTER_SECONDS, cut_output
from tenter.harness.shortened import Masking
from tenter.kernel import FrozenDict, TenterError

MOST_ANSWERED: Final = 2 * 1024 * 1024
"""Bytes of the child's answer; what `sandboxed` hands over is less, in the longest characters, too."""
MOST_PRINTED: Final = 64 * 1024
"""Bytes of what a tool that broke has printed, which are told only where they are all of it: half a secret could stand
at a cut."""
LAST_PRINTED: Final = 1000
PROGRAM: Final = (
    "import json, sys; order = json.load(sys.stdin.buffer); sys.path[:] = order['path']; "
    "from tenter.harness.sandboxed import main; main(order)"
)
OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
"""Where the package tenter is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a machine has of that which sandboxes need."""

    python: str
    """The interpreter; empty where this process was not started by one."""
    sessions: bool
    """A process can have a group of its own."""
    limits: frozenset[str]
    """The names of the limits that can be set to a process, as the module `resource` calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """From where a process of its own gets a tool that is written in Python."""

    target: str
    """`module:attribute` or `path.py:attribute`."""
    project: str
    """The real path of the project's folder."""
    digests: Mapping[str, str] = FrozenDict()
    """Of the project's modules by real path: as they are now, and no other is loaded then."""
    masked: tuple[str, ...] = field(default=(), repr=False)
    """The secrets that the tool's own masking looks for."""


class Confinement(Protocol):
    """One way to execute a tool."""

    def missing(self, machine: Machine) -> tuple[str, ...]:
        """What `machine` lacks for it."""
        ...

    def confine(self, tool: Tool, origin: Origin | None, machine: Machine) -> Tool:
        """`tool`, executed in this way. Raises TenterError for one that cannot be; `origin` is None where nobody knows
        from where another process would get it."""
        ...


def this_machine() -> Machine:
    """What this machine has."""
    limits = {name for name in NAMES if hasattr(resource, name)}
    if sys.platform == "darwin":
        limits.discard("RLIMIT_AS")  # there it has the name, and takes no limit
    return Machine(python=sys.executable or "", sessions=hasattr(os, "setsid"), limits=frozenset(limits))


def check_sandbox(name: Sandbox, tool: str, machine: Machine) -> None:
    """Raises TenterError where `machine` lacks what the sandbox `name`, which `tool` is to be executed in, needs."""
    if missing := SANDBOXES[name].missing(machine):
        raise TenterError(
            f"the tool {tool!r} is to be executed in the sandbox {name!r}, for which this machine has no "
            f"{', no '.join(missing)}; run it on another machine, or give the tool another sandbox"
        )


def confined(tool: Tool, origin: Origin | None, machine: Machine) -> Tool:
    """`tool` as it is called where its sandbox is kept. Raises TenterError where that cannot be."""
    check_sandbox(tool.sandbox, tool.name, machine)
    return SANDBOXES[tool.sandbox].confine(tool, origin, machine)


def loaded_digests(project: str) -> Mapping[str, str]:
    """The digests of those modules of the project in that folder (a real path) that are loaded, by real path."""
    named = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    files = {os.path.realpath(file) for file in named if isinstance(file, str) and in_project(file, project)}
    return FrozenDict({file: file_digest(file) for file in files if os.path.isfile(file)})  # noqa: PTH113  # as text


class _InThisProcess:
    """`none`: a function in this process, a command as it is."""

    def missing(self, machine: Machine) -> tuple[str, ...]:
        return ()

    def confine(self, tool: Tool, origin: Origin | None, machine: Machine) -> Tool:
        return tool


class _InOneOfItsOwn:
    """`process`: own group, limits, the workspace as working folder, a minimal environment, no input."""

    def missing(self, machine: Machine) -> tuple[str, ...]:
        groups = () if machine.sessions else ("process groups",)
        return (*groups, *(f"limit {name}" for name in sorted(NAMES - machine.limits)))

    def confine(self, tool: Tool, origin: Origin | None, machine: Machine) -> Tool:
        if tool.limited is not None:
            return replace(tool, function=tool.limited)
        if origin is None or not machine.python:
            why = "this program is not run by a Python interpreter" if origin else "no configuration says where it is"
            raise TenterError(
                f"the tool {tool.name!r} cannot be executed in the sandbox 'process': {why}, so that no process of its "
                "own could load it; name its function under 'python' as 'module:attribute', or give it no sandbox"
            )

        async def call(arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
            return await _call(_Program(tool, origin, machine.python), arguments, context)

        return replace(tool, caller=call, awaits=True, grace_seconds=KILL_AFTER_SECONDS + 1.0)


SANDBOXES: Final[FrozenDict[Sandbox, Confinement]] = FrozenDict({"none": _InThisProcess(), "process": _InOneOfItsOwn()})


@dataclass(frozen=True, slots=True)
class _Program:
    """What is run for a call."""

    tool: Tool
    origin: Origin
    python: str


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["result", "refused", "broken"]
    output: str
    characters: int
    """How many the whole output has."""
    is_error: bool
    untrusted: bool
    truncated: bool


_ANSWER: Final = msgspec.json.Decoder(_Answer)


async def _call(program: _Program, arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
    remaining = context.remaining()
    seconds = math.inf if remaining is None else max(remaining, 0.0)
    spec = ProcessSpec(
        argv=(program.python, "-I", "-c", PROGRAM),
        cwd=str(context.workspace.root),
        env=context.environment,
        timeout_seconds=seconds,
        grace_seconds=KILL_AFTER_SECONDS,
        max_output_bytes=MOST_ANSWERED,
        stdout_is_answer=True,
        cookie_name=COOKIE,
        cookie=within(context.environment.get(COOKIE), os.urandom(16).hex()),
    )
    result = await run_process(spec, order(program.tool, program.origin, arguments, context))
    return _understood(program.tool.name, result, seconds, context.mask)


def order(tool: Tool, origin: Origin, arguments: Mapping[str, object], context: ToolContext) -> bytes:
    """What the child is told."""
    remaining, workspace = context.remaining(), str(context.workspace.root)
    path, search = _paths(origin.project, workspace)
    told: dict[str, object] = {
        "path": path,
        "search": search,
        "name": tool.name,
        "target": origin.target,
        "project": origin.project,
        "digests": origin.digests,
        "limits": process_limits(math.inf if remaining is None else remaining),
        "arguments": arguments,
        "workspace": workspace,
        "alias": str(context.workspace.alias),
        "environment": context.environment,
        "secrets": context.secrets,
        "masked": origin.masked,
        "key": context.key,
        "remaining": remaining,
    }
    return json.dumps(told).encode()


def _paths(project: str, workspace: str) -> tuple[list[str], list[str]]:
    """Where the child finds modules: our own, before it can tell what is trusted, and those of the tool after that.

    As this process does, but not where a model may have put a file meanwhile.
    """
    every = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100  # '' is this process's own folder
    own = {entry for entry in every if in_project(f"{entry}/_", project)}
    strange = {entry for entry in every if entry not in own and in_project(f"{entry}/_", workspace)}
    search = [entry for entry in every if entry not in strange]
    return [*(entry for entry in search if entry not in own), OURS], [*search, OURS]


def _understood(name: str, result: ProcessResult, seconds: float, mask: Masking) -> ToolResult:
    """What came of the call; a failure where no answer came, or none that can be read."""
    if result.timed_out:
        return broken(
            f"the tool {name!r} did not end within {max(round(seconds, 1), 0.1):g} s and was ended", "timeout", mask
        )
    try:
        answer = _ANSWER.decode(result.stdout.raw) if result.result in ("ok", "unknown") else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = None
    if answer is None:
        return broken(f"the tool {name!r} {_ending(result)}{_printed(result, mask)}", "tool", mask)
    match answer.kind:
        case "refused":
            return refused(answer.output, mask)
        case "broken":
            return broken(answer.output, "tool", mask)
        case "result":
            return _shown(answer, mask)


def _shown(answer: _Answer, mask: Masking) -> ToolResult:
    lost = answer.characters > len(answer.output)
    whole = f"{answer.characters} characters"
    return ToolResult(
        output=cut_output(answer.output, whole, mask, is_cut=True) if lost else answer.output,
        is_error=answer.is_error,
        untrusted=answer.untrusted,
        truncated=answer.truncated or lost,
    )


def _ending(result: ProcessResult) -> str:
    """How a process went that gave no answer."""
    match result.result:
        case "ok" | "crashed":
            return f"ended its process with exit code {result.exit_code} and gave no result"
        case "signal":
            cpu = " (it may have used up its CPU time)" if result.signal in ("SIGXCPU", "SIGKILL") else ""
            return f"was killed by {result.signal}{cpu}"
        case "spawn_failed" | "unknown":
            return f"gave no result: {result.error}"
        case "output_capped":
            return f"answered with more than {MOST_ANSWERED} bytes and was ended"
        case "timeout" | "cancelled":
            return "was ended"


def _printed(result: ProcessResult, mask: Masking) -> str:
    printed = result.stderr
    if not printed.total_bytes or printed.total_bytes > MOST_PRINTED:
        return ""
    return f"; it printed at last: {mask(printed.text).strip()[-LAST_PRINTED:]}"
