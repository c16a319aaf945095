"""A loop that was started on a terminal asks its questions there."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from tests.commandline import LONGEST, TENTER, Terminal, environment, on_terminal, tenter
from tests.looping import EMIT, loop_project, wait_for

DONE = "echo LOOP_COMPLETE"
RUN = ("loop", "run", "--prompt", "do it")


def asking(folder: Path, **question: object) -> Path:
    """A project whose agent asks once, and is done in the second iteration."""
    ask = json.dumps({"question": "go ahead?", **question})
    return loop_project(
        folder,
        f'cat > "given-$TENTER_ITERATION"; [ "$TENTER_ITERATION" = 2 ] && {DONE}'
        f" || {EMIT} human.interact --json '{ask}'",
    )


def only_question(folder: Path) -> object:
    """What the loop asks now."""
    row = wait_for(folder, lambda row: row["question"] is not None)
    return cast("Mapping[str, object]", row["question"])["question"]


def test_what_is_typed_is_the_answer(tmp_path: Path) -> None:
    asking(tmp_path, options=["yes", "no"])
    with on_terminal(*RUN, cwd=tmp_path) as terminal:
        assert "go ahead? (yes / no)" in terminal.wait_for("\n> ")
        terminal.type("\n  yes, go \n")
        done = terminal.end()
    assert done.code == 0, done.err
    assert '"yes, go"' in (tmp_path / "given-2").read_text()


def test_what_was_typed_before_the_question_is_no_answer(tmp_path: Path) -> None:
    with on_terminal(*RUN, cwd=asking(tmp_path)) as terminal:
        terminal.type("rm everything\n")
        terminal.wait_for("\n> ")
        terminal.type("no\n")
        done = terminal.end()
    assert done.code == 0, done.err
    given = (tmp_path / "given-2").read_text()
    assert '"no"' in given
    assert "rm everything" not in given


def test_an_answer_from_elsewhere_ends_the_asking(tmp_path: Path) -> None:
    with on_terminal(*RUN, cwd=asking(tmp_path)) as terminal:
        terminal.wait_for("\n> ")
        loop_id = str(wait_for(tmp_path, lambda row: row["question"] is not None)["loop_id"])
        assert tenter("loop", "answer", loop_id, "from elsewhere", cwd=tmp_path).code == 0
        done = terminal.end()
    assert done.code == 0, done.err
    assert '"from elsewhere"' in (tmp_path / "given-2").read_text()


def test_whoever_closes_the_input_leaves_the_answer_to_others(tmp_path: Path) -> None:
    with on_terminal(*RUN, cwd=asking(tmp_path)) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("\x04")
        loop_id = str(wait_for(tmp_path, lambda row: row["question"] is not None)["loop_id"])
        assert tenter("loop", "answer", loop_id, "from elsewhere", cwd=tmp_path).code == 0
        assert terminal.end().code == 0
    assert '"from elsewhere"' in (tmp_path / "given-2").read_text()


def test_a_question_that_nobody_answers_in_time_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    with on_terminal(*RUN, cwd=asking(tmp_path, timeout_seconds=0.3)) as terminal:
        terminal.wait_for("\n> ")
        done = terminal.end()
    assert done.code == 0, done.err
    assert '"timeout"' in (tmp_path / "given-2").read_text()


def test_in_a_pipe_nothing_is_read_from_standard_input(tmp_path: Path) -> None:
    asking(tmp_path, timeout_seconds=0.3)
    done = tenter(*RUN, cwd=tmp_path, stdin=b"yes\n")
    assert done.code == 0, done.err
    assert "> " not in done.err
    assert '"timeout"' in (tmp_path / "given-2").read_text()


LAUNCHING = """
import fcntl, os, signal, subprocess, sys, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
loop = subprocess.Popen(sys.argv[1:], process_group=0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
commands = os.fdopen(os.open("to-the-shell", os.O_RDWR))
print(f"the loop is {loop.pid}", flush=True)
while True:
    command = commands.readline().strip()
    if command == "wait":
        sys.exit(loop.wait())
    os.tcsetpgrp(0, loop.pid if command == "fg" else os.getpgrp())
    print(f"did {command}", flush=True)
"""
"""A shell that runs a loop in its background, and has the terminal until it is told otherwise."""


@contextmanager
def in_background(cwd: Path) -> Generator[Terminal]:
    screen, slave = pty.openpty()
    os.mkfifo(cwd / "to-the-shell")
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHING, TENTER, *RUN],
        cwd=cwd,
        env=environment(cwd, TERM="xterm"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(process, screen)
    started: list[str] = []
    try:
        started = re.findall(r"the loop is (\d+)\n", terminal.wait_for("\n"))
        yield terminal
    finally:
        process.kill()
        process.wait(LONGEST)
        for group in started:
            with suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)
        os.close(screen)


def tell_the_shell(cwd: Path, command: str, terminal: Terminal) -> None:
    commands = os.open(cwd / "to-the-shell", os.O_WRONLY | os.O_NONBLOCK)
    os.write(commands, f"{command}\n".encode())
    os.close(commands)
    if command != "wait":
        shown = terminal.wait_for(f"did {command}")
        terminal.shown = shown.partition(f"did {command}")[2]


def test_a_loop_in_the_background_is_not_stopped_by_its_question(tmp_path: Path) -> None:
    with in_background(asking(tmp_path)) as terminal:
        assert "\n> " not in terminal.wait_for("go ahead?")
        loop_id = str(wait_for(tmp_path, lambda row: row["question"] is not None)["loop_id"])
        assert tenter("loop", "stop", loop_id, cwd=tmp_path).code == 0
        tell_the_shell(tmp_path, "wait", terminal)
        done = terminal.end()
    assert (done.code, "stopped at iteration 1" in done.err) == (1, True), done.err
    assert "\n> " not in done.err


def test_a_loop_that_is_brought_to_the_foreground_asks_there(tmp_path: Path) -> None:
    with in_background(asking(tmp_path)) as terminal:
        terminal.wait_for("go ahead?")
        terminal.type("for the shell\n")
        tell_the_shell(tmp_path, "fg", terminal)
        terminal.wait_for("\n> ")
        terminal.type("yes, go\n")
        tell_the_shell(tmp_path, "wait", terminal)
        done = terminal.end()
    assert done.code == 0, done.err
    assert '"yes, go"' in (tmp_path / "given-2").read_text()


def test_a_loop_that_is_put_into_the_background_while_it_asks_reads_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    with in_background(asking(tmp_path)) as terminal:
        tell_the_shell(tmp_path, "fg", terminal)
        terminal.wait_for("> ")
        tell_the_shell(tmp_path, "bg", terminal)
        terminal.type("for the shell\n")
        assert only_question(tmp_path) == "go ahead?"
        tell_the_shell(tmp_path, "fg", terminal)
        terminal.wait_for("> ")
        terminal.type("yes, go\n")
        tell_the_shell(tmp_path, "wait", terminal)
        done = terminal.end()
    assert done.code == 0, done.err
    assert '"yes, go"' in (tmp_path / "given-2").read_text()


def test_ctrl_c_at_a_question_ends_the_loop_interrupted(tmp_path: Path) -> None:
    with on_terminal(*RUN, cwd=asking(tmp_path)) as terminal:
        terminal.wait_for("\n> ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end().code == 130
