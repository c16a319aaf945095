import os
import subprocess
import sys
from collections.abc import Generator

import pytest

from tenter.executors.lineage import FIRST, is_ours, is_related, line_of


@pytest.fixture
def child() -> Generator[int]:
    """A process that this one started, which waits until it is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def test_a_process_comes_from_the_one_that_started_it(child: int) -> None:
    line = list(line_of(child))
    assert line[:3] == [child, os.getpid(), os.getppid()]
    assert FIRST not in line


def test_what_this_process_started_is_related_and_so_is_what_it_comes_from(child: int) -> None:
    own = frozenset(line_of(os.getpid()))
    assert is_related(child, own)
    assert is_related(os.getpid(), own)
    assert is_related(FIRST, own)


def test_a_process_beside_it_is_not_related(child: int) -> None:
    script = (
        "import os, sys; from tenter.executors.lineage import is_related, line_of;"
        "print(is_related(int(sys.argv[1]), frozenset(line_of(os.getpid()))))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(child)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_is_gone_is_nobodys_and_has_no_line() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait(timeout=10)
    assert not is_ours(gone.pid)
    assert list(line_of(gone.pid)) == [gone.pid]
    assert is_ours(os.getpid())
