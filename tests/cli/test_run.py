"""`tenter run`, as a user runs it: its exit codes, what goes to which stream, and how it is interrupted."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.commandline import (
    LONGEST,
    calls,
    gate,
    heard,
    hook_script,
    on_terminal,
    run_json,
    started,
    tenter,
    write_project,
)
from tests.outside import alive

from tenter.harness import RunResult

KEY = "ghp_" + "a1B2" * 9
HOSTILE = "red\x1b[31m\x9b2J\u202e\u2028end"
ESCAPED = "red\\x1b[31m\\x9b2J\\u202e\\u2028end"


def verdict(folder: Path, answer: dict[str, object]) -> dict[str, object]:
    """A command hook that answers always the same."""
    (folder / "answer.json").write_text(json.dumps(answer))
    command = hook_script(folder, "answer.sh", 'cat > /dev/null; cat "$TENTER_PROJECT_DIR/answer.json"')
    return {"name": "guard", "command": [command], "verdict": "json", "on_error": "block"}


def statuses(folder: Path) -> list[str]:
    """The statuses of the runs on record, the last first."""
    done = tenter("runs", "list", "--json", cwd=folder)
    return [row["status"] for row in json.loads(done.out)]


def test_a_completed_run_prints_its_result_on_standard_output_and_ends_with_0(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "two\nlines"}])
    done = tenter("run", "job", cwd=tmp_path)
    assert (done.code, done.out) == (0, "two\nlines\n")
    assert len(done.err.splitlines()) == 1, "in a pipe there is no progress"
    assert "completed" in done.err


def test_a_failed_run_ends_with_1_and_says_why(tmp_path: Path) -> None:
    done = tenter("run", "job", cwd=write_project(tmp_path, [calls("shell", command="true")]))
    assert (done.code, done.out) == (1, "")
    assert "failed: the scripted model has no turn 2" in done.err
    assert statuses(tmp_path) == ["failed"]


def test_a_run_whose_time_is_up_ends_with_1(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="sleep 60"), {"text": "late"}])
    done = tenter("run", "job", "--timeout", "0.5", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "failed: " in done.err
    assert statuses(tmp_path) == ["failed"]


def test_a_run_that_took_all_its_steps_ends_with_1_and_says_how_to_allow_more(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="true"), {"text": "late"}])
    done = tenter("run", "job", "--max-steps", "1", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "no end after 1 steps; allow more: max_steps, or 'run --max-steps'" in done.err
    assert tenter("run", "job", "--max-steps", "2", cwd=tmp_path).code == 0
    assert tenter("run", "job", "--max-steps", "0", cwd=tmp_path).code == 2


@pytest.mark.parametrize(
    ("task", "says"), [("jub", "has no task 'jub'; did you mean 'job'?"), ("x", "has no task 'x'; it has 'job'")]
)
def test_an_unknown_task_ends_with_2_and_the_nearest_name(task: str, says: str, tmp_path: Path) -> None:
    done = tenter("run", task, cwd=write_project(tmp_path, [{"text": "x"}]))
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert statuses(tmp_path) == []


def test_a_missing_configuration_or_workspace_ends_with_2(tmp_path: Path) -> None:
    done = tenter("run", "job", cwd=tmp_path)
    assert (done.code, done.err) == (
        2,
        "tenter: tenter.yaml: there is no such file; make one with 'tenter init', or name another\n",
    )
    done = tenter("run", "job", "--workspace", "nowhere", cwd=write_project(tmp_path, [{"text": "x"}]))
    assert done.code == 2
    assert "nowhere" in done.err


def test_a_blocked_run_ends_with_3_and_names_the_hook_and_its_reason(tmp_path: Path) -> None:
    hook = verdict(tmp_path, {"decision": "block", "reason": "not today"})
    done = tenter("run", "job", cwd=write_project(tmp_path, [{"text": "x"}], events={"input.before": [hook]}))
    assert (done.code, done.out) == (3, "")
    assert "blocked by the hook 'guard': not today" in done.err
    assert statuses(tmp_path) == ["blocked"]


def test_a_run_that_waits_for_a_person_ends_with_4_and_says_how_to_answer(tmp_path: Path) -> None:
    hook = verdict(tmp_path, {"decision": "suspend", "reason": "it costs money"})
    turns = [calls("shell", command="buy"), {"text": "x"}]
    done = tenter("run", "job", cwd=write_project(tmp_path, turns, events={"tool.before": [hook]}))
    assert (done.code, done.out) == (4, "")
    assert "waiting for a person to decide on tool.invoked" in done.err
    assert '"command":"buy"' in done.err
    assert "asked by 'guard': it costs money" in done.err
    assert "'tenter approvals approve " in done.err
    assert statuses(tmp_path) == ["awaiting_approval"]


def test_an_escalated_run_ends_with_5_and_names_the_queue(tmp_path: Path) -> None:
    hook = verdict(tmp_path, {"decision": "escalate", "reason": "too big", "queue": "ops"})
    done = tenter("run", "job", cwd=write_project(tmp_path, [{"text": "x"}], events={"input.before": [hook]}))
    assert (done.code, done.out) == (5, "")
    assert "escalated to 'ops' by the hook 'guard': too big" in done.err
    assert statuses(tmp_path) == ["escalated"]


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
    ],
)
def test_an_interrupted_run_ends_its_tools_and_is_cancelled_on_record(
    number: signal.Signals, code: int, says: str, tmp_path: Path
) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}])
    with gate(tmp_path / "begun") as begun, started("run", "job", cwd=tmp_path) as process:
        tool = int(heard(begun))
        assert alive(tool)
        process.send_signal(number)
        out, err = process.communicate(timeout=LONGEST)
    assert process.returncode == code
    assert not alive(tool)
    assert out == ""
    assert says in err
    assert ": cancelled" in err
    assert "Traceback" not in err
    assert statuses(tmp_path) == ["cancelled"]


def test_ctrl_c_on_a_terminal_interrupts_the_run(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="exec sleep 60"), {"text": "late"}])
    with on_terminal("run", "job", cwd=tmp_path) as terminal:
        terminal.wait_for("sleep 60")
        os.kill(terminal.process.pid, signal.SIGINT)
        done = terminal.end()
    assert done.code == 130
    assert "cancelled" in done.err
    assert "Traceback" not in done.err
    assert statuses(tmp_path) == ["cancelled"]


def test_ctrl_c_in_the_midst_of_a_hook_interrupts_the_run_and_is_not_taken_for_the_hooks_doing(tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text("import os, signal\ndef press(event):\n    os.kill(os.getpid(), signal.SIGINT)\n")
    hook = {"name": "presses", "python": "./h.py:press", "on_error": "block"}
    write_project(tmp_path, [calls("shell", command="exec sleep 60"), {"text": "late"}], events={"tool.before": [hook]})
    with started("run", "job", cwd=tmp_path) as process:
        _, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, statuses(tmp_path)) == (130, ["cancelled"])
    assert "interrupted" in err


def test_on_a_terminal_the_steps_are_shown_as_they_happen(tmp_path: Path) -> None:
    hook = {"name": "guard", "match": {"tool": "write_file"}, "script": "exit 1", "on_error": "block"}
    turns = [
        {"text": "I write.", **calls("write_file", path="x", content="y")},
        calls("shell", command="cat go"),
        {"text": "the result"},
    ]
    write_project(tmp_path, turns, events={"tool.before": [hook]}, tools=["write_file", "shell"])
    os.mkfifo(tmp_path / "go")
    with on_terminal("run", "job", cwd=tmp_path, piped_out=True, NO_COLOR="1") as terminal:
        shown = terminal.wait_for('tool     shell(command="cat go")')
        assert "model    I write." in shown
        assert "blocked by the failure of guard: " in shown
        assert "what the hooks did" not in shown
        (tmp_path / "go").write_text("went\n")
        done = terminal.end()
    assert (done.code, done.out) == (0, "the result\n")
    assert "  ok     exit code 0 … went (2 lines)" in done.err
    assert "tool.before  guard  failed (crashed), which blocks 1x" in done.err


@pytest.mark.parametrize("asked", ["--steps", "--no-steps"])
def test_steps_are_shown_in_a_pipe_where_they_are_asked_for_and_not_on_a_terminal_where_not(
    asked: str, tmp_path: Path
) -> None:
    write_project(tmp_path, [{"text": "hello"}])
    if asked == "--steps":
        assert "model    hello" in tenter("run", "job", asked, cwd=tmp_path).err
    else:
        with on_terminal("run", "job", asked, cwd=tmp_path) as terminal:
            assert "model" not in terminal.end().err


def test_json_is_one_document_with_every_field_of_the_result(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="true"), {"text": HOSTILE}])
    document = run_json("run", "job", cwd=tmp_path)
    assert set(document) == set(RunResult.__struct_fields__)
    assert (document["status"], document["output"], document["error"]) == ("completed", HOSTILE, None)
    assert document["approval"] is None
    assert document["trace"]


def test_json_tells_of_an_approval_and_of_an_error(tmp_path: Path) -> None:
    hook = verdict(tmp_path, {"decision": "suspend", "reason": "it costs money"})
    write_project(tmp_path, [calls("shell", command="buy")], events={"tool.before": [hook]})
    approval = run_json("run", "job", cwd=tmp_path)["approval"]
    assert isinstance(approval, dict)
    assert approval["call"]["call"]["arguments"] == {"command": "buy"}
    (tmp_path / "answer.json").write_text('{"decision": "block", "stop": true, "reason": "password: hunter2hunter2"}')
    error = run_json("run", "job", cwd=tmp_path)["error"]
    assert isinstance(error, dict)
    assert error["code"] == "policy"
    assert "hunter2hunter2" not in error["message"], "an error is masked like every error"


def test_what_hooks_and_their_children_print_does_not_get_into_the_result(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import os, subprocess\n"
        "def noisy(event):\n"
        "    print('from python')\n"
        "    os.write(1, b'from a library\\n')\n"
        "    subprocess.run(['echo', 'from a child'])\n"
    )
    hook = {"name": "noisy", "python": "./noisy.py:noisy"}
    write_project(tmp_path, [{"text": "the result"}], events={"input.before": [hook]})
    assert run_json("run", "job", cwd=tmp_path)["output"] == "the result"
    done = tenter("run", "job", cwd=tmp_path)
    assert done.out == "the result\n"
    assert done.err.startswith("from python\nfrom a library\nfrom a child\n")


@pytest.mark.fault(43)
def test_all_that_is_shown_of_models_tools_and_files_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(HOSTILE)
    turns = [
        {"text": HOSTILE, "tool_calls": [{"name": "read_file", "arguments": {"path": "file"}}]},
        {"text": "", "tool_calls": [{"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}]},
        {"text": HOSTILE},
    ]
    done = tenter("run", "job", HOSTILE, "--steps", cwd=write_project(tmp_path, turns))
    assert (done.code, done.out) == (0, ESCAPED + "\n")
    assert all(line.isprintable() for line in done.err.splitlines()), done.err
    assert "model    red\\x1b[31m\\x9b2J\\u202e" in done.err


@pytest.mark.fault(1)
def test_the_reason_of_a_block_by_a_failure_is_the_whole_end_of_stderr_escaped(tmp_path: Path) -> None:
    said = "\n".join(f"line {n} \x1b[31m \u202e" for n in range(100))
    (tmp_path / "said").write_text(said)
    hook = {"name": "guard", "script": "cat said >&2; exit 3", "on_error": "block"}
    turns = [calls("shell", command="true"), {"text": "x"}]
    write_project(tmp_path, turns, events={"tool.before": [hook], "output.before": [hook]})
    done = tenter("run", "job", "--steps", cwd=tmp_path)
    assert (done.code, done.out) == (3, "")
    lines = done.err.splitlines()
    whole = [f"  | line {n} \\x1b[31m \\u202e" for n in range(100)]
    first = lines.index("  blocked by the failure of guard:")
    assert lines[first + 1 : first + 101] == whole, "of the tool call, among the steps"
    last = lines.index("blocked by the hook 'guard':")
    assert lines[last + 1 :] == whole, "of the run, at its end"


@pytest.mark.promise(4)
def test_no_secret_is_shown(tmp_path: Path) -> None:
    turns = [
        calls("shell", command=f"echo password: hunter2hunter2 {KEY} opensesame"),
        {"text": f"It was {KEY}, opensesame, password: hunter2hunter2"},
    ]
    write_project(tmp_path, turns, secrets=["TOLD"])
    done = tenter("run", "job", "--steps", cwd=tmp_path, TOLD="opensesame")
    assert done.code == 0
    for secret in (KEY, "opensesame", "hunter2"):
        assert secret not in done.out + done.err


def test_the_input_comes_from_standard_input_where_it_is_a_dash(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "read"}])
    assert tenter("run", "job", "-", cwd=tmp_path, stdin="größer".encode()).code == 0
    done = tenter("run", "job", "-", cwd=tmp_path, stdin=b"ab\xff")
    assert (done.code, done.out) == (2, "")
    assert "standard input is not UTF-8 (byte 2)" in done.err


def test_the_workspace_is_where_tools_work_and_the_journal_stays_with_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "work").mkdir()
    write_project(tmp_path / "project", [calls("write_file", path="made", content="x"), {"text": "done"}])
    assert tenter("run", "job", "-c", "project/tenter.yaml", "-w", "work", cwd=tmp_path).code == 0
    assert (tmp_path / "work" / "made").read_text() == "x"
    assert (tmp_path / "project" / ".tenter" / "journal.db").exists()
    assert not (tmp_path / "work" / ".tenter").exists()


def test_a_reader_of_the_steps_that_goes_away_does_not_stop_the_run(tmp_path: Path) -> None:
    turns = [calls("shell", command="echo $$ > begun; cat go"), calls("write_file", path="made", content="x")]
    write_project(tmp_path, [*turns, {"text": "done"}])
    os.mkfifo(tmp_path / "go")
    reading, writing = os.pipe()
    with (
        gate(tmp_path / "begun") as begun,
        started("run", "job", "--steps", cwd=tmp_path, stderr=writing) as process,
    ):
        os.close(writing)
        heard(begun)
        os.close(reading)
        (tmp_path / "go").write_text("went\n")
        process.wait(LONGEST)
    assert (tmp_path / "made").read_text() == "x"
    assert statuses(tmp_path) == ["completed"]


@pytest.mark.fault(38)
def test_a_journal_that_cannot_be_written_ends_the_run_with_1_and_names_the_file(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "x"}])
    (tmp_path / ".tenter").mkdir()
    (tmp_path / ".tenter" / "journal.db").write_bytes(b"this is no database at all" * 400)
    done = tenter("run", "job", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "journal.db" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "left",
    [
        "asyncio.get_running_loop().call_soon(sys.exit, 0)",
        "KEPT.append(asyncio.ensure_future(leaves()))",
        "asyncio.get_running_loop().stop()",
    ],
)
def test_a_run_that_a_hook_cuts_short_is_cancelled_and_ends_with_1(left: str, tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text(
        f"import asyncio, sys\nKEPT = []\nasync def leaves():\n    sys.exit(0)\nasync def f(event):\n    {left}\n"
    )
    events = {
        "input.before": [{"name": "evil", "python": "./h.py:f", "on_error": "block"}],
        "output.before": [{"name": "gate", "script": "exit 1", "on_error": "block"}],
    }
    write_project(tmp_path, [calls("shell", command="true"), {"text": "done"}], events=events)
    done = tenter("run", "job", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "the run did not end by itself: the event loop was" in done.err
    assert "Traceback" not in done.err
    assert statuses(tmp_path) == ["cancelled"]


def test_what_a_hook_leaves_running_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text(
        "import asyncio, threading, time\n"
        "async def f(event):\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "    asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)\n"
    )
    hook = {"name": "leaver", "python": "./h.py:f", "on_error": "block"}
    write_project(tmp_path, [{"text": "done"}], events={"input.before": [hook]})
    done = tenter("run", "job", cwd=tmp_path)
    assert (done.code, done.out) == (0, "done\n")


def test_a_run_without_its_hooks_says_so(tmp_path: Path) -> None:
    hook = {"name": "guard", "script": "exit 1", "on_error": "block"}
    hooks = {"enabled": False, "events": {"tool.before": [hook]}}
    done = tenter("run", "job", cwd=write_project(tmp_path, [calls("shell", command="true"), "done"], hooks=hooks))
    assert (done.code, done.out) == (0, "done\n")
    line = next(n for n, text in enumerate((tmp_path / "tenter.yaml").read_text().splitlines(), 1) if "enabled" in text)
    assert f"hooks are switched off (tenter.yaml:{line})\n" in done.err


def test_a_run_that_cannot_start_says_where_the_rest_of_the_problems_is_told(tmp_path: Path) -> None:
    hook = {"name": "guard", "command": ["./gone"], "on_error": "block"}
    write_project(tmp_path, ["x"], events={"tool.before": [hook]}, modles={})
    done = tenter("run", "job", cwd=tmp_path)
    assert done.code == 2
    assert "unknown key 'modles'" in done.err
    assert done.err.endswith("\n'tenter hooks validate' shows all 2 problems\n")
    write_project(tmp_path, ["x"], events={"tool.before": [hook]})
    assert "hooks validate" not in tenter("run", "job", cwd=tmp_path).err


def test_a_hook_that_wanted_a_person_is_told_of_with_who_waived_that_and_nobody_was_asked(tmp_path: Path) -> None:
    rule = {"name": "sign", "at": "tool.before", "then": "suspend", "reason": "sign it"}
    allow = verdict(tmp_path, {"decision": "allow", "reason": "fine"})
    turns = [calls("shell", command="true"), {"text": "done"}]
    write_project(tmp_path, turns, events={"tool.before": [{**allow, "name": "nolook"}]}, policy=[rule])
    done = tenter("run", "job", "--steps", cwd=tmp_path)
    assert done.code == 0
    assert "\n  hook   policy wanted a person: waived by nolook\n" in done.err
    assert "policy  wanted a person: waived by nolook 1x  (" in done.err
    assert "asked for a person" not in done.err


def test_why_a_hook_failed_that_was_let_pass_is_on_the_screen_and_not_in_the_trace(tmp_path: Path) -> None:
    (tmp_path / "hk.py").write_text("def crash(event):\n    return {'gold': 5}['password: hunter2hunter2']\n")
    events = {
        "tool.before": [
            {"name": "warns", "python": "./hk.py:crash", "on_error": "warn"},
            {"name": "looks", "python": "./hk.py:crash", "observe": True},
            {"name": "shade", "python": "./hk.py:crash", "mode": "shadow"},
        ]
    }
    write_project(tmp_path, [calls("shell", command="true"), {"text": "done"}], events=events)
    shown = tenter("run", "job", "--steps", cwd=tmp_path)
    assert shown.code == 0
    steps, summary = shown.err.split("what the hooks did:")
    for name in ("warns", "looks", "shade"):
        why = f"the hook '{name}' failed at hk.py:2: KeyError: "
        (step,) = [line for line in steps.splitlines() if f"  hook   {name} failed (crashed), " in line]
        assert f": {why}" in step
        assert f"\n    {why}" in summary
    assert "hunter2" not in shown.err
    trace = run_json("run", "job", "--steps", cwd=tmp_path)["trace"]
    assert "KeyError" in json.dumps(trace)
    assert "hk.py" not in json.dumps(trace)


def test_the_steps_of_calls_side_by_side_tell_what_hooks_said_of_each_once(tmp_path: Path) -> None:
    (tmp_path / "hk.py").write_text(
        "from tenter import Block\n"
        "async def look(event):\n"
        "    import asyncio\n"
        "    await asyncio.sleep(0)\n"
        "    is_b = event.call.arguments['command'] == 'b'\n"
        "    return Block('no') if is_b else event.with_arguments({'command': 'true'})\n"
    )
    task = {"version": 1, "model": "default", "instructions": "x", "tools": ["shell"], "parallel_tools": True}
    both = {"tool_calls": [{"name": "shell", "arguments": {"command": command}} for command in ("a", "b", "c")]}
    events = {"tool.before": [{"name": "look", "python": "./hk.py:look"}]}
    write_project(tmp_path, [both, {"text": "done"}], events=events, tasks={"job": task})
    done = tenter("run", "job", "--steps", cwd=tmp_path)
    lines = [line.strip() for line in done.err.splitlines()]
    assert lines.count("hook   look rewrote it") == 2
    assert lines.count("blocked by look: no") == 1
    assert not [line for line in lines if line.startswith("hook   look blocked it")]


def test_the_summary_says_where_the_reason_of_a_failed_command_is(tmp_path: Path) -> None:
    hook = {"name": "guard", "script": "exit 1", "on_error": "warn"}
    write_project(tmp_path, [calls("shell", command="true"), "done"], events={"tool.before": [hook]})
    done = tenter("run", "job", "--steps", cwd=tmp_path)
    assert done.code == 0
    assert "failed (crashed), which was let pass" in done.err
    assert "\n'tenter hooks log' tells why a command failed\n" in done.err


@pytest.mark.parametrize(("principal", "said"), [("ops-ann", "done"), ("ann", "not"), ("", "not")])
def test_a_run_is_for_the_principal_that_is_named(principal: str, said: str, tmp_path: Path) -> None:
    turns = [calls("shell", command="echo acted > acted"), {"text": "done"}]
    write_project(tmp_path, turns, tools=("shell",))
    spec = json.loads((tmp_path / "tenter.yaml").read_text())
    (tmp_path / "tenter.yaml").write_text(json.dumps({**spec, "tools": {"shell": {"principals": ["ops-*"]}}}))
    words = ("--principal", principal) if principal else ()
    assert tenter("run", "job", *words, cwd=tmp_path).code == 0
    assert (tmp_path / "acted").exists() == (said == "done")
