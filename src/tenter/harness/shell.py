"""The tool that runs a command by /bin/sh in the workspace.

Its working folder is confined when it starts; what the command does then is not (hooks judge that). In the sandbox
`process` it sets the limits of itself. How a process is started, bounded and ended is the executors'.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final

from tenter.catalogue import ToolResult
from tenter.executors import COOKIES, ProcessResult, ProcessSpec, run_process, within
from tenter.harness.calling import MOST_OUTPUT
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool, tool
from tenter.harness.errors import ToolError, shown
from tenter.harness.rlimits import limiting, process_limits
from tenter.harness.shortened import MARGIN, Masking, shortened

TIMEOUT_SECONDS: Final = 30.0
KILL_AFTER_SECONDS: Final = 1.0
"""Between TERM and KILL when the time is up."""
MOST_BYTES: Final = MOST_OUTPUT - 1024
"""Leaves room for what is said beside the output, so that it is cut once."""
MOST_CAPTURED: Final = MOST_BYTES + 4 * MARGIN
"""So that what is looked at beyond the cut for a secret is there, in the longest characters, too."""
UNLIMITED: Final = 126
"""The exit code of a shell that could not set its limits."""
COOKIE: Final = "TENTER_TOOL_CALL"
INHERITED: Final = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", *COOKIES)
"""The last, so that whoever started this process finds what it starts."""


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a command gets of a process's environment: no keys, no proxy passwords."""
    return {name: value for name, value in environment.items() if name in INHERITED or name.startswith("LC_")}


async def _shell(
    context: ToolContext,
    command: Annotated[str, "What to run, by /bin/sh."],
    cwd: Annotated[str, "Folder to run it in, as seen from the workspace."] = ".",
) -> ToolResult:
    """Run a shell command in the workspace, without input; the result is its exit code and what it printed."""
    return await _run(context, command, cwd)


async def _limited(context: ToolContext, command: str, cwd: str = ".") -> ToolResult:
    """The same within the limits of the sandbox `process`."""
    return await _run(context, command, cwd, is_limited=True)


async def _run(context: ToolContext, command: str, cwd: str, *, is_limited: bool = False) -> ToolResult:
    if "\0" in command:
        raise ToolError("the command holds a NUL character; remove it")
    with context.workspace.locate(cwd) as place:
        if not place.is_folder:
            raise ToolError(
                f"the working folder {shown(cwd)} {'is not a folder' if place.status else 'does not exist'}"
            )
        folder = context.workspace.root.joinpath(*place.parts)
    remaining = context.remaining()
    seconds = TIMEOUT_SECONDS if remaining is None else max(remaining, 0.0)
    # A shell that cannot limit itself runs nothing.
    limits = f"{{ {limiting(process_limits(seconds))}; }} || exit {UNLIMITED}; " if is_limited else ""
    spec = ProcessSpec(
        # One stream in the order of printing; the command stays on line 1 of the script that sh counts in errors.
        argv=("/bin/sh", "-c", f"exec 2>&1; {limits}{command}"),
        cwd=str(folder),
        env=context.environment,
        timeout_seconds=seconds,
        grace_seconds=KILL_AFTER_SECONDS,
        max_output_bytes=MOST_CAPTURED,
        cookie_name=COOKIE,
        cookie=within(context.environment.get(COOKIE), os.urandom(16).hex()),
    )
    return _told(await run_process(spec, b""), spec.timeout_seconds, context.mask)


shell: Final[Tool] = replace(
    tool(name="shell", timeout_seconds=TIMEOUT_SECONDS)(_shell),
    grace_seconds=KILL_AFTER_SECONDS + 1.0,
    limited=_limited,
)
"""It ends its processes itself when the time is up, and then tells what they printed."""


def cut_output(text: str, whole: str, mask: Masking, *, is_cut: bool) -> str:
    """`text` cut to MOST_BYTES, with a line that says how long the `whole` output is; `is_cut`: the rest is lost."""
    kept = shortened(text, MOST_BYTES, mask, is_cut=is_cut).encode()[:MOST_BYTES].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: the whole output has {whole}]"


def _told(result: ProcessResult, timeout: float, mask: Masking) -> ToolResult:
    streams = result.stdout, result.stderr
    printed = "".join(stream.text for stream in streams)
    total = sum(stream.total_bytes for stream in streams)
    cut = total > MOST_BYTES
    if cut:
        is_cut = any(stream.truncated for stream in streams)
        printed = cut_output(printed, f"{total} bytes", mask, is_cut=is_cut)
    return ToolResult(
        output="\n".join((_ending(result, timeout), printed)).rstrip("\n"),
        is_error=result.result != "ok",
        truncated=cut,
    )


def _ending(result: ProcessResult, timeout: float) -> str:
    match result.result:
        case "ok" | "crashed":
            return f"exit code {result.exit_code}"
        case "signal":
            return f"killed by {result.signal}"
        case "timeout":
            return f"timed out: it was ended after {round(timeout, 2):g} s"
        case "spawn_failed":
            return f"could not be started: {result.error}"
        case "unknown":
            return f"ended, but {result.error}"
        case "output_capped" | "cancelled":
            return "was ended"
