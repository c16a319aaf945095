"""Standard output is kept for the result, and all three streams are open."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.commandline import TENTER, environment, write_project

CODE = """
import os, subprocess
from tenter.cli.streams import output_kept
print("before")
try:
    with output_kept():
        print("a hook")
        os.write(1, b"a library\\n")
        subprocess.run(["echo", "a child"])
        raise KeyError
except KeyError:
    print("after")
"""


def test_what_is_printed_meanwhile_goes_to_standard_error_in_its_order_until_the_end_whatever_that_is() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "before\nafter\n"
    assert done.stderr == "a hook\na library\na child\n"


@pytest.mark.parametrize(
    ("closed", "shows_result", "shows_steps"),
    [
        ("<&-", True, True),
        (">&-", False, True),
        ("2>&-", True, False),
        ("<&- >&-", False, True),
        ("<&- >&- 2>&-", False, False),
    ],
)
def test_a_closed_stream_changes_nothing_but_what_is_shown(
    closed: str, shows_result: bool, shows_steps: bool, tmp_path: Path
) -> None:
    write_project(tmp_path, [{"text": "the result"}])
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" run job - --steps {closed}', TENTER],
        cwd=tmp_path,
        env=environment(tmp_path),
        input="",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("the result\n" if shows_result else "")
    assert ("model" in done.stderr) is shows_steps
    assert (tmp_path / ".tenter" / "journal.db").read_bytes().startswith(b"SQLite format 3\0")
