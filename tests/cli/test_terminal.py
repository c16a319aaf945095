"""What a person types on the terminal, and what is none of it."""

import os
import pty
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from tests.commandline import LONGEST, Terminal

PROGRAM = """
import asyncio, sys
from tenter.cli.terminal import asks_here, has_terminal, typed_line

def show(text):
    sys.stderr.write(text)
    sys.stderr.flush()

print(asks_here(), has_terminal(), flush=True)
print(repr(asyncio.run(typed_line(show, blank=sys.argv[1] == "blank"))))
"""


@contextmanager
def asking(blank: str = "") -> Generator[Terminal]:
    screen, slave = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, blank]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait(LONGEST)
        os.close(screen)


@pytest.mark.parametrize(
    ("blank", "typed", "line"),
    [
        ("", "  yes, go \n", "'yes, go'"),
        ("", "\n  \nyes\n", "'yes'"),
        ("blank", "\n", "''"),
        ("blank", "yes\n", "'yes'"),
        ("", "\x04", "None"),
        ("blank", "\x04", "None"),
    ],
)
def test_a_line_is_what_is_typed_to_the_question(blank: str, typed: str, line: str) -> None:
    with asking(blank) as terminal:
        assert "True True\n" in terminal.wait_for("\n> ")
        terminal.type(typed)
        shown = terminal.end().err
    assert shown.splitlines()[-1] == line


def test_ctrl_d_closes_a_terminal_that_hands_it_on_as_it_is() -> None:
    with asking() as terminal:
        terminal.wait_for("\n> ")
        terminal.hand_on_each_key()
        terminal.type("\x04")
        assert terminal.end().err.splitlines()[-1] == "None"


def test_what_was_typed_before_the_question_is_no_answer() -> None:
    with asking("blank") as terminal:
        terminal.type("rm everything\n")
        terminal.wait_for("\n> ")
        terminal.type("no\n")
        assert terminal.end().err.splitlines()[-1] == "'no'"


def test_in_a_pipe_nothing_is_asked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tenter.cli.terminal import asks_here; print(asks_here())"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    assert done.stdout == "False\n"
