"""`tenter loop run`, as a user runs it: its exit codes, what goes to which stream, and how it is interrupted."""

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.commandline import LONGEST, gate, heard, on_terminal, started, tenter
from tests.looping import EMIT, command_hook, loop_project, loops, run_loop
from tests.outside import alive

from tenter.cli.loop_run import exit_code, line, naming
from tenter.loop import Told
from tenter.loop.reason import REASONS

DONE = "echo LOOP_COMPLETE"
HOSTILE = "red\x1b[31m\u202eend"


def only(folder: Path) -> Mapping[str, object]:
    (found,) = loops(folder)
    return found


def test_every_reason_has_its_exit_code() -> None:
    assert {reason: exit_code(reason) for reason in REASONS if exit_code(reason) != 1} == {
        "completed": 0,
        "cancelled": 0,
        "max_iterations": 2,
        "max_runtime": 2,
        "max_cost": 2,
        "restart_requested": 3,
        "escalated": 5,
        "interrupted": 130,
    }


@pytest.mark.parametrize(
    ("agent", "settings", "reason", "code"),
    [
        (DONE, {}, "completed", 0),
        (f"{EMIT} loop.cancel 'no need'", {}, "cancelled", 0),
        ("exit 7", {"max_consecutive_failures": 2}, "consecutive_failures", 1),
        (f"for n in 1 2 3; do {EMIT} work.same; done", {}, "loop_stale", 1),
        ('printf "no\\nevent\\nhere\\n" >> "$TENTER_EVENTS_FILE"', {}, "validation_failure", 1),
        ("rm -rf .tenter", {}, "failed", 1),
        ("true", {"max_iterations": 2}, "max_iterations", 2),
        ("true", {"max_runtime_seconds": 0.001}, "max_runtime", 2),
    ],
)
def test_how_a_loop_ends_is_its_exit_code(
    agent: str, settings: Mapping[str, object], reason: str, code: int, tmp_path: Path
) -> None:
    done = run_loop(loop_project(tmp_path, agent, loop=settings))
    assert (done.code, done.out) == (code, ""), done.err
    ended = rf"^loop loop-[0-9a-f]{{4}}-[0-9a-f]{{4}}: {reason} (?:after|at|before) "
    assert re.search(ended, done.err, re.MULTILINE), done.err


def test_a_loop_that_a_hook_blocks_ends_with_1_and_says_which_and_why(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "guard", "echo 'not today' >&2; exit 1")
    done = run_loop(loop_project(tmp_path, DONE, hooks={"iteration.start.pre": [hook]}))
    assert (done.code, only(tmp_path)["reason"]) == (1, "blocked")
    assert "guard" in done.err
    assert "not today" in done.err


def test_a_loop_that_a_hook_escalates_ends_with_5_and_says_where_to(tmp_path: Path) -> None:
    said = {"decision": "escalate", "reason": "too big", "queue": "ops"}
    hook = command_hook(tmp_path, "guard", f"cat >/dev/null; echo '{json.dumps(said)}'", verdict="json")
    done = run_loop(loop_project(tmp_path, DONE, hooks={"iteration.start.pre": [hook]}))
    assert (done.code, only(tmp_path)["reason"]) == (5, "escalated")
    assert "'ops'" in done.err


def test_a_loop_whose_agent_has_cost_enough_ends_with_2(tmp_path: Path) -> None:
    turns = [{"text": "still at it", "cost_usd": 1.0}] * 3
    (tmp_path / "script.yaml").write_text(json.dumps({"version": 1, "turns": turns}))
    spec = {
        "models": {"default": {"provider": "scripted", "file": "script.yaml"}},
        "tasks": {"job": {"version": 1, "model": "default", "instructions": "Do it."}},
        "loop": {"backend": {"harness": "job"}, "max_cost_usd": 0.5},
    }
    done = tenter("loop", "run", cwd=loop_project(tmp_path, DONE, spec=spec))
    assert (done.code, only(tmp_path)["reason"]) == (2, "max_cost"), done.err


@pytest.mark.parametrize(("verb", "reason", "code"), [("stop", "stopped", 1), ("restart", "restart_requested", 3)])
def test_a_loop_that_is_asked_to_end_ends_with_the_code_for_that(
    verb: str, reason: str, code: int, tmp_path: Path
) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(tmp_path, f"echo $$ > '{tmp_path}/began'; exec sleep 60")
        with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
            agent = int(heard(began))
            asked = tenter("loop", verb, str(only(tmp_path)["loop_id"]), cwd=tmp_path)
            assert asked.code == 0, asked.err
            assert running.wait(LONGEST) == code
    assert only(tmp_path)["reason"] == reason
    assert not alive(agent)


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
    ],
)
def test_a_loop_that_is_interrupted_ends_its_agent_tells_its_hooks_and_is_on_record(
    number: signal.Signals, code: int, says: str, tmp_path: Path
) -> None:
    hook = command_hook(tmp_path, "tells", "cat > told.json")
    with gate(tmp_path / "began") as began:
        loop_project(tmp_path, f"echo $$ > '{tmp_path}/began'; exec sleep 60", hooks={"loop.error.post": [hook]})
        with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
            agent = int(heard(began))
            running.send_signal(number)
            _, err = running.communicate(timeout=LONGEST)
    assert running.returncode == code
    assert says in err
    assert not alive(agent)
    assert (only(tmp_path)["status"], only(tmp_path)["reason"]) == ("failed", "interrupted")
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["context"]["termination_reason"] == "interrupted"


def test_a_second_ctrl_c_cuts_the_ending_short(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began, gate(tmp_path / "ending") as ending:
        hook = command_hook(tmp_path, "slow", f"echo now > '{tmp_path}/ending'; exec sleep 60", timeout_seconds=60)
        loop_project(tmp_path, f"echo now > '{tmp_path}/began'; exec sleep 60", hooks={"loop.error.pre": [hook]})
        with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
            heard(began)
            running.send_signal(signal.SIGINT)
            heard(ending)
            running.send_signal(signal.SIGINT)
            assert running.wait(15) == 130
    assert only(tmp_path)["reason"] == "interrupted"


def test_in_a_pipe_a_loop_says_where_it_works_what_it_is_at_and_how_it_ended(tmp_path: Path) -> None:
    loop_project(tmp_path, f'echo said; [ "$TENTER_ITERATION" = 1 ] || {DONE}')
    done = run_loop(tmp_path)
    loop_id = only(tmp_path)["loop_id"]
    assert done.out == ""
    assert done.err.splitlines()[:3] == [
        f"loop {loop_id} in {tmp_path}",
        f"loop {loop_id}: iteration 1",
        f"loop {loop_id}: iteration 2",
    ]
    assert re.fullmatch(
        rf"loop {loop_id}: completed after 2 iterations in [0-9.]+ s: the work is done", done.err.splitlines()[3]
    )
    assert "said" not in done.err


def test_with_json_the_result_is_the_one_document_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text("def prints(event):\n    print('to-stdout')\n")
    hooks = [command_hook(tmp_path, "echoes", "echo to-stdout"), {"name": "prints", "python": "noisy:prints"}]
    done = run_loop(loop_project(tmp_path, DONE, hooks={"loop.start.pre": hooks}), "--json")
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert "to-stdout\n" in done.err
    result = json.loads(done.out)
    assert result["reason"] == "completed"
    assert (result["loop_id"], result["workspace"]) == (only(tmp_path)["loop_id"], str(tmp_path))
    assert result["iterations"] == 1
    assert Path(result["summary"]).exists()


def test_on_a_terminal_what_the_agent_puts_out_is_seen_and_nothing_in_it_is_obeyed(tmp_path: Path) -> None:
    (tmp_path / "said").write_text(HOSTILE + "\nloop loop-0000-0000: completed\n")
    loop_project(tmp_path, f"cat said; {DONE}")
    with on_terminal("loop", "run", "--prompt", "do it", cwd=tmp_path) as terminal:
        done = terminal.end()
    assert done.code == 0
    assert "  | red\\x1b[31m\\u202eend\n" in done.err
    assert "  | loop loop-0000-0000: completed\n" in done.err, "it cannot be taken for a line of ours"
    assert not re.search(r"^loop loop-0000-0000", done.err, re.MULTILINE)


@pytest.mark.fault(7)
@pytest.mark.parametrize("stop", ["", "\x13"], ids=["nobody reads", "ctrl-s"])
def test_a_loop_goes_on_and_ends_while_its_terminal_takes_nothing(stop: str, tmp_path: Path) -> None:
    loop_project(tmp_path, f'seq 200000; [ "$TENTER_ITERATION" = 2 ] && {DONE}')
    with on_terminal("loop", "run", "--prompt", "do it", cwd=tmp_path) as terminal:
        if stop:
            terminal.wait_for("iteration 1")
            terminal.type(stop)
        assert terminal.process.wait(LONGEST) == 0
    assert (only(tmp_path)["status"], only(tmp_path)["iteration"]) == ("completed", 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--prompt", "a", "--task", "b"), "--task and --prompt exclude each other"),
        (("--prompt", "a", "--prompt-file", "-"), "--prompt and --prompt-file exclude each other"),
        (("--prompt-file", "nowhere"), "'nowhere' cannot be read"),
        (("--prompt-file", "."), "'.' cannot be read"),
        (("--prompt", " "), "the prompt is empty"),
        ((), "there is nothing to do: give --prompt"),
        (("--task", "jub"), "there is no task 'jub'"),
        (("--prompt", "a", "--max-iterations", "0"), "--max-iterations"),
        (("--prompt", "a", "--config", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_a_mistake_ends_with_2_and_starts_nothing(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = tenter("loop", "run", *arguments, cwd=loop_project(tmp_path, "touch ran"))
    assert (done.code, done.out) == (2, ""), done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "ran").exists()
    assert loops(tmp_path) == []


def test_a_prompt_comes_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    loop_project(tmp_path, f"cat > given; {DONE}")
    (tmp_path / "task.md").write_text("from a file")
    assert tenter("loop", "run", "--prompt-file", "task.md", cwd=tmp_path).code == 0
    assert "from a file" in (tmp_path / "given").read_text()
    assert tenter("loop", "run", "--prompt-file", "-", cwd=tmp_path, stdin=b"from a pipe").code == 0
    assert "from a pipe" in (tmp_path / "given").read_text()
    done = tenter("loop", "run", "--prompt-file", "-", cwd=tmp_path, stdin=b"\xff")
    assert done.code == 2
    assert "standard input is not UTF-8 (byte 0)" in done.err


@pytest.mark.fault(58)
def test_a_project_that_is_not_trusted_ends_with_6_and_says_what_to_do(tmp_path: Path) -> None:
    done = tenter("loop", "run", "--prompt", "do it", cwd=loop_project(tmp_path, "touch ran"), TENTER_TRUST="")
    assert (done.code, done.out) == (6, "")
    assert "tenter hooks trust" in done.err
    assert not (tmp_path / "ran").exists()
    assert loops(tmp_path) == []


def test_a_failed_preflight_ends_with_2_and_starts_nothing(tmp_path: Path) -> None:
    loop_project(tmp_path, "touch ran", loop={"preflight": {"strict": True}})
    done = run_loop(tmp_path)
    assert done.code == 2
    assert "the preflight failed, and nothing was started" in done.err
    assert not (tmp_path / "ran").exists()
    assert run_loop(tmp_path, "--skip-preflight", "--max-iterations", "1").code == 2
    assert (tmp_path / "ran").exists()


def test_a_loop_goes_on_when_nobody_can_be_told_any_more(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        first = f'[ "$TENTER_ITERATION" = 1 ] && echo now > "{tmp_path}/began" && cat go'
        loop_project(tmp_path, f'{first}; [ "$TENTER_ITERATION" = 3 ] && {DONE}; true')
        os.mkfifo(tmp_path / "go")
        with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
            assert running.stderr is not None
            heard(began)
            running.stderr.close()
            (tmp_path / "go").write_text("go\n")
            assert running.wait(LONGEST) == 0
    assert (only(tmp_path)["status"], only(tmp_path)["iteration"]) == ("completed", 3)


def test_a_dry_run_says_what_would_run_and_starts_nothing(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "guard", "touch ran")
    loop_project(tmp_path, "touch ran", hooks={"loop.start.pre": [hook]}, loop={"max_iterations": 7})
    before = sorted(tmp_path.rglob("*"))
    done = run_loop(tmp_path, "--dry-run")
    assert (done.code, done.err) == (0, "")
    said = dict(line.split(None, 1) for line in done.out.splitlines())
    assert {name: said[name] for name in ("workspace:", "prompt:", "max_iterations:", "hooks:")} == {
        "workspace:": str(tmp_path),
        "prompt:": "do it",
        "max_iterations:": "7",
        "hooks:": "loop.start.pre: guard (command)",
    }
    told = json.loads(run_loop(tmp_path, "--dry-run", "--json", "--max-iterations", "3").out)
    assert (told["max_iterations"], told["hooks"]) == (3, ["loop.start.pre: guard (command)"])
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.promise(4)
def test_secrets_are_not_told(tmp_path: Path) -> None:
    few = {"max_consecutive_failures": 1}
    loop_project(tmp_path, 'echo "$PLAIN_NAME"; exit 1', spec={"secrets": ["PLAIN_NAME"]}, loop=few)
    done = tenter("loop", "run", "--prompt", "do it", "--json", cwd=tmp_path, PLAIN_NAME="opensesame")
    assert done.code == 1
    assert "opensesame" not in done.err + done.out
    assert "[redacted]" in done.out


@pytest.mark.parametrize("kind", ["began", "iteration", "output", "held", "released", "question", "note", "ended"])
def test_no_line_that_is_told_is_obeyed_or_taken_for_another(kind: str) -> None:
    made = line(Told(kind=kind, loop_id="loop-a", text=f"{HOSTILE}\nloop loop-b: completed"))  # pyright: ignore[reportArgumentType]  # each of the kinds
    assert "\x1b" not in made
    assert "\u202e" not in made
    assert not [one for one in made.splitlines()[1:] if not one.startswith("  ")]


def test_the_users_own_hooks_stay_on_where_a_project_switches_its_hooks_off(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (users := tmp_path / "config" / "tenter").mkdir(parents=True)
    told = {"version": 1, "hooks": {"events": {"pre.iteration.start": [command_hook(users, "house", "exit 1")]}}}
    (users / "tenter.yaml").write_text(json.dumps(told))
    off = {"enabled": False, "events": {"pre.loop.start": [command_hook(project, "own", "exit 1")]}}
    loop_project(project, DONE, spec={"hooks": off})
    done = tenter("loop", "run", "--prompt", "do it", cwd=project, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.code == 1, done
    assert "blocked at iteration 1" in done.err
    assert "'house' blocked it at pre.iteration.start" in done.err


def test_what_a_loop_tells_names_the_project_in_its_commands_and_not_in_what_its_agent_puts_out() -> None:
    heard: list[Told] = []
    tell = naming("u.yaml", heard.append)
    text = "'tenter loop resume loop-1' continues it"
    tell(Told(kind="held", loop_id="loop-1", text=text))
    tell(Told(kind="output", loop_id="loop-1", text=text))
    assert [one.text for one in heard] == ["'tenter loop resume loop-1 -c u.yaml' continues it", text]
