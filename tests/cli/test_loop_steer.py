"""`tenter loop resume`, `stop`, `restart` and `answer` from another process, as an operator uses them."""

import json
import re
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from tests.commandline import LONGEST, TENTER, environment, gate, heard, run_json, started, tenter
from tests.looping import EMIT, command_hook, loop_project, loops, run_loop, suspends, wait_for

from tenter.cli.inside import INSIDE

DONE = "echo LOOP_COMPLETE"
RUN = ("loop", "run", "--prompt", "do it")


def held(folder: Path, agent: str = DONE, **loop: object) -> Path:
    """A project whose loop is suspended before each iteration."""
    return loop_project(folder, agent, hooks={"iteration.start.pre": [suspends(folder)]}, loop=loop)


def one_of(folder: Path) -> Mapping[str, object]:
    (row,) = loops(folder)
    return row


def died_suspended(folder: Path) -> str:
    """The id of a suspended loop whose process was killed."""
    with started(*RUN, cwd=folder) as running:
        row = wait_for(folder, "suspended")
        running.kill()
        running.wait(LONGEST)
    return str(row["loop_id"])


def changed(folder: Path, statement: str, *values: str) -> None:
    """Changes the registry behind its back."""
    with closing(sqlite3.connect(folder / ".tenter" / "loops.db")) as registry, registry:
        registry.execute(statement, values)


def test_a_suspended_loop_goes_on_and_both_say_so(tmp_path: Path) -> None:
    with started(*RUN, cwd=held(tmp_path)) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        done = tenter("loop", "resume", loop_id, cwd=tmp_path)
        _, err = running.communicate(timeout=LONGEST)
    assert (done.code, done.out, done.err) == (0, f"the loop {loop_id} goes on\n", "")
    assert running.returncode == 0
    assert f"loop {loop_id}: suspended at pre.iteration.start by gate: " in err
    assert f"; 'tenter loop resume {loop_id}' continues it\n" in err
    assert f"loop {loop_id}: resumed at pre.iteration.start\n" in err


def test_json_says_the_loop_the_result_and_a_message(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    loop_id = str(one_of(tmp_path)["loop_id"])
    for verb, result in (("resume", "not_suspended"), ("stop", "ended")):
        told = run_json("loop", verb, loop_id, cwd=tmp_path)
        assert told.keys() == {"loop_id", "result", "message"}
        assert (told["loop_id"], told["result"]) == (loop_id, result)


def test_resuming_a_loop_that_is_over_does_nothing_and_ends_with_0(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    loop_id = str(one_of(tmp_path)["loop_id"])
    done = tenter("loop", "resume", loop_id[:7], cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"the loop {loop_id} is not suspended: it completed at ")


@pytest.mark.fault(45)
def test_of_several_processes_that_resume_at_once_one_does_it_and_the_others_hear_by_whom(tmp_path: Path) -> None:
    held(tmp_path, "echo once >> ran; " + DONE)
    with started(*RUN, cwd=tmp_path) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        words = [TENTER, "loop", "resume", loop_id, "--json"]
        asking = [
            subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        told = [json.loads(one.communicate(timeout=LONGEST)[0]) for one in asking]
        assert running.wait(LONGEST) == 0
    assert [one.returncode for one in asking] == [0] * 4
    results = Counter(one["result"] for one in told)
    assert results["resumed"] == 1
    assert results.keys() <= {"resumed", "already_requested", "not_suspended"}
    winner = next(one.pid for one, said in zip(asking, told, strict=True) if said["result"] == "resumed")
    assert all(f"(process {winner})" in one["message"] for one in told if one["result"] == "already_requested")
    assert (tmp_path / "ran").read_text() == "once\n"


def test_a_suspended_loop_whose_process_is_gone_goes_on_in_the_one_that_resumes_it(tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path))
    done = tenter("loop", "resume", loop_id, cwd=tmp_path)
    assert (done.code, done.out) == (0, ""), done.err
    assert f"the loop {loop_id} is suspended and its process has ended; it goes on in this one\n" in done.err
    assert f"loop {loop_id}: completed after 1 iteration" in done.err
    assert one_of(tmp_path)["status"] == "completed"


@pytest.mark.fault(45)
def test_of_several_processes_that_continue_it_at_once_one_does_and_the_others_hear_by_whom(tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path, "echo once >> ran; " + DONE))
    words = [TENTER, "loop", "resume", loop_id, "--json"]
    asking = [
        subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [json.loads(one.communicate(timeout=LONGEST)[0]) for one in asking]
    assert [one.returncode for one in asking] == [0] * 4
    assert len([one for one in told if one.get("reason") == "completed"]) == 1
    others = {one["result"] for one in told if "result" in one}
    assert others <= {"continued", "already_requested", "not_suspended", "resumed"}, told
    assert (tmp_path / "ran").read_text() == "once\n"


def test_a_loop_that_goes_on_in_this_process_gives_its_result_and_exit_code(tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path, "exit 1", max_consecutive_failures=1))
    done = tenter("loop", "resume", loop_id, "--json", cwd=tmp_path)
    told = json.loads(done.out)
    assert (done.code, told["reason"]) == (1, "consecutive_failures")
    assert (told["loop_id"], told["result"]) == (loop_id, "continued")


def test_a_crashed_loop_goes_on_where_it_was(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(
            tmp_path, f'[ -e again ] && {DONE} && exit; touch again; echo $$ > "{tmp_path}/began"; exec sleep 60'
        )
        with started(*RUN, cwd=tmp_path) as running:
            agent = int(heard(began))
            running.kill()
            running.wait(LONGEST)
            subprocess.run(["kill", "-KILL", str(agent)], check=True)
    done = tenter("loop", "resume", str(one_of(tmp_path)["loop_id"]), cwd=tmp_path)
    assert done.code == 0, done.err
    assert one_of(tmp_path)["status"] == "completed"


@pytest.mark.parametrize(("verb", "reason"), [("stop", "stopped"), ("restart", "restart_requested")])
def test_a_loop_whose_process_is_gone_is_brought_to_its_end_in_this_one(verb: str, reason: str, tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path))
    done = tenter("loop", verb, loop_id, cwd=tmp_path)
    assert (done.code, one_of(tmp_path)["reason"]) == (0, reason), done.err
    assert f"loop {loop_id}: {reason} " in done.err


@pytest.mark.parametrize("verb", ["stop", "restart"])
def test_a_dead_loop_that_had_come_to_another_end_was_not_restarted(verb: str, tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    changed(tmp_path, "UPDATE loops SET status = 'running', ended_at = NULL")
    done = tenter("loop", verb, str(one_of(tmp_path)["loop_id"]), cwd=tmp_path)
    assert (done.code, one_of(tmp_path)["reason"]) == (0 if verb == "stop" else 1, "completed"), done.err


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_dead_loop_whose_configuration_cannot_be_used_is_stopped_all_the_same(harm: str, tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path))
    path = tmp_path / "tenter.yaml"
    path.unlink() if harm == "gone" else path.write_text(path.read_text() + "\n# more\n")
    assert tenter("loop", "resume", loop_id, cwd=tmp_path, TENTER_TRUST="").code == (2 if harm == "gone" else 6)
    done = tenter("loop", "stop", loop_id, cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, one_of(tmp_path)["reason"]) == (0, "stopped"), done.err
    assert "its hooks were not told of its end: " in done.err
    assert not (tmp_path / ".tenter" / "suspend-state.json").exists()
    assert tenter("loop", "prune", cwd=tmp_path).code == 0


@pytest.mark.fault(45)
def test_a_stop_of_a_dead_loop_that_another_process_continues_just_now_reaches_it_there(tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path))
    with started("loop", "resume", loop_id, cwd=tmp_path) as going_on:
        stopped = tenter("loop", "stop", loop_id, cwd=tmp_path)
        going_on.communicate(timeout=LONGEST)
    assert (stopped.code, stopped.err.count("Traceback")) == (0, 0), stopped
    assert one_of(tmp_path)["reason"] in ("stopped", "completed")


@pytest.mark.fault(64)
def test_loops_outside_of_the_repository_are_not_believed_and_that_is_told_once(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    loop_id = died_suspended(held(project))
    (other := tmp_path / "other").mkdir()
    changed(project, "UPDATE loops SET workspace = ?", str(other))
    listed = tenter("loop", "list", "--all", cwd=project)
    assert listed.code == 0
    assert listed.err.count("not believed") == 1
    assert loop_id not in listed.out
    for verb in ("resume", "stop", "prune"):
        assert tenter("loop", verb, loop_id, cwd=project).code == 2
    assert list(other.iterdir()) == []


@pytest.mark.fault(46)
def test_a_suspended_loop_that_is_stopped_says_the_same_to_all(tmp_path: Path) -> None:
    with started(*RUN, cwd=held(tmp_path)) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        running.send_signal(signal.SIGSTOP)  # so that both are there when it looks
        words = [[TENTER, "loop", verb, loop_id, "--json"] for verb in ("stop", "resume")]
        asking = [
            subprocess.Popen(one, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
            for one in words
        ]
        for name in ("stop-requested", "resume-requested"):
            wait_for(tmp_path, lambda _, name=name: (tmp_path / ".tenter" / name).exists())
        running.send_signal(signal.SIGCONT)
        stopped, resumed = (json.loads(one.communicate(timeout=LONGEST)[0]) for one in asking)
        assert running.wait(LONGEST) == 1
    assert [one.returncode for one in asking] == [0, 1]
    assert (stopped["result"], resumed["result"]) == ("stopped", "stopped")
    assert re.search(rf"was not resumed: it was stopped by \S+ \(process {asking[0].pid}\) at ", resumed["message"])
    assert f"(process {asking[0].pid})" in stopped["message"]
    assert one_of(tmp_path)["reason"] == "stopped"


def test_who_waits_for_a_loop_that_is_silent_is_told_for_how_long(tmp_path: Path) -> None:
    with started(*RUN, cwd=held(tmp_path)) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        running.send_signal(signal.SIGSTOP)
        resumed = tenter("loop", "resume", loop_id, "--json", cwd=tmp_path)
        with started("loop", "stop", loop_id, cwd=tmp_path) as stopping:
            assert stopping.stderr is not None
            told = stopping.stderr.readline()
            running.send_signal(signal.SIGCONT)
            out, rest = stopping.communicate(timeout=LONGEST)
        assert running.wait(LONGEST) == 1
    assert resumed.code == 1, "nothing came of it"
    assert json.loads(resumed.out)["result"] == "requested"
    assert resumed.err == f"waiting for the loop {loop_id}, up to 5 s\n"
    assert (told, rest) == (f"waiting for the loop {loop_id}, up to 30 s\n", "")
    assert stopping.returncode == 0
    assert out.startswith(f"the loop {loop_id} has ended: it was stopped by ")


def test_a_resume_of_a_loop_that_was_stopped_says_once_by_whom(tmp_path: Path) -> None:
    with started(*RUN, cwd=held(tmp_path)) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        assert tenter("loop", "stop", loop_id, cwd=tmp_path).code == 0
        running.wait(LONGEST)
    done = tenter("loop", "resume", loop_id, cwd=tmp_path)
    assert done.code == 0
    assert done.out.count("stopped by") == 1, done.out
    assert "before that" not in done.out


@pytest.mark.promise(14)
def test_what_holds_a_loop_up_is_not_let_go_from_inside_and_may_be_looked_at_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(*RUN, cwd=held(tmp_path)) as running:
        loop_id = str(wait_for(tmp_path, "suspended")["loop_id"])
        for name in INSIDE:
            for words in (("resume", loop_id), ("answer", loop_id, "yes")):
                with monkeypatch.context() as within:
                    within.setenv(name, "one")
                    done = tenter("loop", *words, cwd=tmp_path)
                assert (done.code, done.out) == (1, ""), done
                assert f"{name} is set: this was started by a run, a hook or a loop" in done.err
                assert "from a shell of your own" in done.err
        assert one_of(tmp_path)["status"] == "suspended"
        assert not list((tmp_path / ".tenter").glob("*-requested"))
        for words in (("list",), ("show", loop_id), ("logs", loop_id), ("stop", loop_id)):
            assert tenter("loop", *words, cwd=tmp_path, TENTER_LOOP_ID=loop_id).code == 0, words
        assert running.wait(LONGEST) == 1


@pytest.mark.promise(14)
def test_an_agent_does_not_answer_its_own_question(tmp_path: Path) -> None:
    agent = f'{EMIT} human.interact "go?"; [ "$TENTER_ITERATION" = 1 ] || {DONE}'
    sneaks = command_hook(tmp_path, "sneaks", f"'{TENTER}' loop answer loop- yes 2> told; echo $? > code", observe=True)
    loop_project(tmp_path, agent, hooks={"human.interact.pre": [sneaks]}, loop={"answer_timeout_seconds": 1})
    assert run_loop(tmp_path).code == 0
    assert (tmp_path / "code").read_text() == "1\n"
    assert "is a person's to answer" in (tmp_path / "told").read_text()


@pytest.mark.parametrize("data", [b"{", b'{"schema_version": 99}', None])
def test_a_suspension_that_nobody_can_read_ends_with_1_and_is_left_as_it_is(data: bytes | None, tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path))
    path = tmp_path / ".tenter" / "suspend-state.json"
    path.unlink() if data is None else path.write_bytes(data)
    done = tenter("loop", "resume", loop_id, cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "suspend-state.json" in done.err
    assert one_of(tmp_path)["status"] == "suspended"
    if data is not None:
        assert path.read_bytes() == data


VERBS = (("resume",), ("stop",), ("restart",), ("answer", "yes"), ("show",), ("logs",), ("prune",))


def test_a_loop_that_is_unknown_or_not_one_ends_with_2_and_says_which_there_are(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE)
    for verb, *more in VERBS:
        done = tenter("loop", verb, "loop-x", *more, cwd=tmp_path)
        assert (done.code, done.out) == (2, ""), verb
        assert "there is no loop 'loop-x'" in done.err
    for _ in range(2):
        run_loop(tmp_path)
    for verb, *more in VERBS:
        done = tenter("loop", verb, "loop-", *more, cwd=tmp_path)
        assert (done.code, done.out) == (2, ""), verb
        assert all(str(row["loop_id"]) in done.err for row in loops(tmp_path))


@pytest.mark.fault(56)
def test_a_loop_whose_project_was_changed_since_it_was_trusted_is_not_continued(tmp_path: Path) -> None:
    loop_id = died_suspended(held(tmp_path))
    done = tenter("loop", "resume", loop_id, cwd=tmp_path, TENTER_TRUST="")
    assert done.code == 6, done.err
    assert one_of(tmp_path)["status"] == "suspended"


def asking(folder: Path) -> Path:
    return loop_project(
        folder, f'cat > "given-$TENTER_ITERATION"; [ "$TENTER_ITERATION" = 2 ] && {DONE} || {EMIT} human.interact "go?"'
    )


def test_an_answer_reaches_the_agent_as_it_was_given(tmp_path: Path) -> None:
    with started(*RUN, cwd=asking(tmp_path)) as running:
        row = wait_for(tmp_path, lambda row: row["question"] is not None)
        done = tenter("loop", "answer", str(row["loop_id"]), "yes, $(touch ran) 'now'", cwd=tmp_path)
        assert running.wait(LONGEST) == 0
    assert (done.code, done.out) == (0, f"the loop {row['loop_id']} has the answer\n"), done.err
    assert "yes, $(touch ran) 'now'" in (tmp_path / "given-2").read_text()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("text", "told"), [("maybe", "'maybe' is none of the options: yes / no\n"), ("no", "")])
def test_an_answer_that_is_none_of_the_options_is_taken_and_that_is_said(text: str, told: str, tmp_path: Path) -> None:
    ask = json.dumps({"question": "go?", "options": ["yes", "no"]})
    agent = f'cat > "given-$TENTER_ITERATION"; [ "$TENTER_ITERATION" = 2 ] && {DONE} || {EMIT} human.interact --json'
    with started(*RUN, cwd=loop_project(tmp_path, f"{agent} '{ask}'")) as running:
        row = wait_for(tmp_path, lambda row: row["question"] is not None)
        done = tenter("loop", "answer", str(row["loop_id"]), text, cwd=tmp_path)
        assert running.wait(LONGEST) == 0
    assert (done.code, done.out, done.err) == (0, f"the loop {row['loop_id']} has the answer\n", told)
    assert text in (tmp_path / "given-2").read_text()


def test_a_loop_that_asks_nothing_is_not_answered_and_that_ends_with_1(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    loop_id = str(one_of(tmp_path)["loop_id"])
    told = tenter("loop", "answer", loop_id, "yes", "--json", cwd=tmp_path)
    assert (told.code, cast("Mapping[str, object]", json.loads(told.out))["result"]) == (1, "no_question")
