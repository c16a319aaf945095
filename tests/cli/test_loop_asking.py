"""A loop that was started on a terminal asks its questions there."""

import json
import signal
from pathlib import Path

from tests.commandline import on_terminal, tenter
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


def test_ctrl_c_at_a_question_ends_the_loop_interrupted(tmp_path: Path) -> None:
    with on_terminal(*RUN, cwd=asking(tmp_path)) as terminal:
        terminal.wait_for("\n> ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end().code == 130
