"""The child's side of the sandbox `process`: one order in, one answer out, and the tool gets neither."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.boxed import at, function

from tenter.harness.calling import MOST_OUTPUT
from tenter.harness.sandbox import PROGRAM, Origin, order
from tenter.harness.sandboxed import MOST_TOLD
from tenter.harness.shortened import MARGIN


def told(folder: Path, source: str, arguments: Mapping[str, object], *, target: str = "") -> bytes:
    """The order to call the tool of this source, which stands outside of any project."""
    made = function(folder, source).configured(name="renamed")
    origin = Origin(target=target or f"{folder}/my_tools.py:work", project=f"{folder}/elsewhere")
    return order(made, origin, arguments, at(folder))


def carry_out(folder: Path, told: bytes, program: str = PROGRAM) -> "subprocess.CompletedProcess[bytes]":
    argv = [sys.executable, "-I", "-c", program]
    return subprocess.run(argv, input=told, cwd=folder, env={}, capture_output=True, check=False, timeout=20)


def answer(folder: Path, source: str, **arguments: object) -> dict[str, Any]:
    done = carry_out(folder, told(folder, source, arguments))
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_answer_tells_the_kind_and_the_whole_result(tmp_path: Path) -> None:
    source = "def work(a: int) -> object: return ToolResult(output='é' * a, is_error=True, untrusted=True)"
    assert answer(tmp_path, source, a=2) == {
        "kind": "result",
        "output": "éé",
        "characters": 2,
        "is_error": True,
        "untrusted": True,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("body", "kind", "output"),
    [
        ("raise ToolError('no such thing')", "refused", "no such thing"),
        ("raise ValueError('why')", "broken", "the tool 'renamed' failed: ValueError: why"),
        ("raise SystemExit(3)", "broken", "the tool 'renamed' failed: SystemExit: 3"),
    ],
)
def test_what_is_raised_is_told_apart(tmp_path: Path, body: str, kind: str, output: str) -> None:
    said = answer(tmp_path, f"def work() -> None: {body}")
    assert (said["kind"], said["output"]) == (kind, output)


def test_a_long_result_is_handed_over_as_far_as_it_is_looked_at_and_tells_its_length(tmp_path: Path) -> None:
    said = answer(tmp_path, "def work() -> str: return '𝄞' * 1_000_000")
    assert said["characters"] == 1_000_000
    assert said["output"] == "𝄞" * MOST_TOLD
    assert MOST_TOLD >= MOST_OUTPUT + MARGIN


def test_what_the_tool_prints_goes_to_stderr_and_its_input_is_empty(tmp_path: Path) -> None:
    source = "def work() -> str: print('printed'); return sys.stdin.read() + input('?')"
    done = carry_out(tmp_path, told(tmp_path, source, {}))
    assert json.loads(done.stdout)["output"] == "the tool 'renamed' failed: EOFError: EOF when reading a line"
    assert done.stderr == b"printed\n?"


def test_threads_and_exit_handlers_do_not_hold_up_the_answer(tmp_path: Path) -> None:
    source = """
import atexit
def work() -> str:
    threading.Thread(target=threading.Event().wait).start()
    atexit.register(threading.Event().wait)
    return "done"
"""
    assert answer(tmp_path, source)["output"] == "done"


def test_a_process_that_cannot_be_limited_runs_nothing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    given = json.loads(told(tmp_path, f"open({str(ran)!r}, 'w').close()\ndef work() -> None: ...", {}))
    ran.unlink()
    given["limits"] = {"RLIMIT_NOFILE": 1 << 62}
    done = carry_out(tmp_path, json.dumps(given).encode())
    assert (done.returncode, done.stdout) == (1, b"")
    assert not ran.exists()
    assert carry_out(tmp_path, json.dumps({**given, "limits": {}}).encode()).returncode == 0
    assert ran.exists()


def test_a_target_that_is_no_function_cannot_be_loaded(tmp_path: Path) -> None:
    source, target = "def work() -> None: ...\nnumber = 3", f"{tmp_path}/my_tools.py:number"
    said = json.loads(carry_out(tmp_path, told(tmp_path, source, {}, target=target)).stdout)
    assert said["kind"] == "broken"
    assert said["output"] == f"the tool 'renamed' cannot be loaded in its process: {target!r} is no function"


def test_a_built_in_tool_is_run_without_what_loads_projects(tmp_path: Path) -> None:
    given = told(tmp_path, "def work() -> None: ...", {}, target="tenter.harness.files:list_dir")
    show = "import os, sys; end = os._exit; os._exit = lambda _: (os.write(2, ' '.join(sys.modules).encode()), end(0))"
    done = carry_out(tmp_path, given, f"{show}; {PROGRAM}")
    assert json.loads(done.stdout)["output"] == "my_tools.py"
    loaded = done.stderr.decode().split()
    assert "tenter.harness.files" in loaded
    assert not {"asyncio", "sqlite3", "yaml", "tenter.executors.function", "tenter.journal"} & set(loaded)
