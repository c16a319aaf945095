"""The root door: what a hook author imports, and what that loads (D§16)."""

import subprocess
import sys

import tenter


def test_the_root_door_gives_what_the_design_names() -> None:
    assert tenter.__all__ == [
        "Allow",
        "Block",
        "Escalate",
        "Harness",
        "Hook",
        "Retry",
        "RunResult",
        "Runtime",
        "Suspend",
        "hook",
        "tool",
    ]
    for name in tenter.__all__:
        assert getattr(tenter, name).__name__.lower().startswith(name.lower()[:3])


def test_what_a_hook_author_imports_loads_no_event_loop() -> None:
    code = "from tenter import Block, Hook, Suspend, hook, tool; import sys; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "False"


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "tenter", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "tenter")
