"""Agents that write what no loop should have to read, and programs that do not behave (issue "Bad input").

The agent of each test is a real program, and what it publishes lands in a real file.
"""

import json
import resource
import sys
from pathlib import Path

import pytest
from tests.faults.living import DONE, ended_well, kept, run_measured, summary
from tests.looping import EMIT, loop_project, run_loop

PYTHON = sys.executable
EVENTS = '"$TENTER_EVENTS_FILE"'
GOOD = '{"schema_version": 1, "topic": "%s", "payload": null, "at": 1}'
ONCE = '[ "$TENTER_ITERATION" = 1 ]'
LAST = f'[ "$TENTER_ITERATION" = 2 ] && {DONE}'
"""What an agent says in its second iteration."""


def python_agent(folder: Path, text: str) -> str:
    """An agent that runs Python once, with `events`, the events file opened for appending; then it is done."""
    opened = "events = open(os.environ['TENTER_EVENTS_FILE'], 'ab')"
    (folder / "agent.py").write_text(f"import json, os\n{opened}\n{text}\n")
    return f"cat > prompt$TENTER_ITERATION; {ONCE} && {PYTHON} agent.py; {LAST}"


# an events file that is none


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"schema_version": 1, "topic": "a"', "of the events file was no event: "),
        ("a\\0b", "NUL"),
        ("\\377\\376", "UTF-8"),
        ('{"schema_version": 1, "topic": "a", "topic": "b"}', "topic"),
        ('{"schema_version": 2, "topic": "a"}', "newer"),
        ('{"schema_version": 1, "topic": "a b"}', "topic"),
        ("[1]", "no JSON object"),
        ("NaN", ""),
    ],
)
def test_a_line_that_is_no_event_is_told_to_the_next_iteration_and_the_rest_is_kept(
    line: str, says: str, tmp_path: Path
) -> None:
    publishes = f"printf '%b\\n' '{line}' >> {EVENTS}; {EMIT} work.after"
    loop_project(tmp_path, f"cat > prompt; {ONCE} && {{ {EMIT} work.before; {publishes}; }}; {LAST}")
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert summary(tmp_path)["topics"] == {"work.before": 1, "work.after": 1}
    prompt = (tmp_path / "prompt").read_text()
    assert "| line 2 of the events file was no event: " in prompt
    assert says in prompt


def test_the_third_line_that_is_no_event_ends_the_loop_across_iterations_and_keeps_the_events(tmp_path: Path) -> None:
    loop_project(tmp_path, f"{EMIT} work.n$TENTER_ITERATION; echo no >> {EVENTS}; {EMIT} work.m$TENTER_ITERATION")
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=1, reason="validation_failure")
    assert "3 lines of the events file were no events; line 8" in done.err
    assert summary(tmp_path)["published"] == 6


def test_a_torn_last_line_is_closed_off_by_the_next_event(tmp_path: Path) -> None:
    loop_project(tmp_path, f"printf '{{\"schema_vers' >> {EVENTS}; {EMIT} work.done; {EMIT} LOOP_COMPLETE")
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert summary(tmp_path)["topics"] == {"work.done": 1, "LOOP_COMPLETE": 1}


def test_an_event_without_its_line_end_counts(tmp_path: Path) -> None:
    loop_project(tmp_path, f"printf '%s' '{GOOD % 'LOOP_COMPLETE'}' >> {EVENTS}")
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert summary(tmp_path)["topics"] == {"LOOP_COMPLETE": 1}


def test_a_line_of_10_mb_is_no_event_and_its_neighbours_are(tmp_path: Path) -> None:
    writes = """
good = lambda topic: json.dumps({"schema_version": 1, "topic": topic}).encode() + b"\\n"
events.write(good("work.before") + b'{"schema_version": 1, "topic": "big", "payload": "' + b"x" * 10_000_000 + b'"}\\n')
events.write(good("work.after"))
"""
    loop_project(tmp_path, python_agent(tmp_path, writes))
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert summary(tmp_path)["topics"] == {"work.before": 1, "work.after": 1}
    prompt = (tmp_path / "prompt2").read_text()
    assert "line 2 of the events file was no event: it is longer than" in prompt
    assert len(prompt) < 10_000


def test_a_file_that_is_cut_under_the_loop_is_told_to_the_agent_and_the_loop_goes_on(tmp_path: Path) -> None:
    cut = f'[ "$TENTER_ITERATION" = 2 ] && : > {EVENTS}'
    loop_project(tmp_path, f'cat > prompt; {ONCE} && {EMIT} work.first; {cut}; [ "$TENTER_ITERATION" = 3 ] && {DONE}')
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert "it was cut or removed" in (tmp_path / "prompt").read_text()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (f"rm -f {EVENTS}; mkdir {EVENTS}", "not a regular file"),
        (f"rm -f {EVENTS}; mkfifo {EVENTS}", "not a regular file"),
    ],
)
def test_a_stranger_in_the_place_of_the_events_file_ends_the_loop_with_1(harm: str, says: str, tmp_path: Path) -> None:
    loop_project(tmp_path, f"{EMIT} work.first; {harm}")
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=1, reason="failed")
    assert "events.jsonl'" in done.err
    assert says in done.err


# very many events


@pytest.mark.timed
def test_100000_events_are_all_kept_in_linear_time_and_bounded_memory(tmp_path: Path) -> None:
    spent: dict[int, float] = {}
    for count in (10_000, 100_000):
        (folder := tmp_path / str(count)).mkdir()
        writes = f"""
for n in range({count}):
    topic = "work.n" + str(n % 7)
    events.write(json.dumps({{"schema_version": 1, "topic": topic, "payload": n, "at": 1.5}}).encode() + b"\\n")
"""
        loop_project(folder, python_agent(folder, writes))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done, peak = run_measured(folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended_well(done, folder, code=0, reason="completed")
        spent[count] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told = summary(folder)
        assert told["published"] == count
        assert sum(count for count in told["topics"].values()) == count  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]  # JSON
        prompt = (folder / "prompt2").read_text()
        assert len(prompt) < 20_000
        assert f"and {count - 100 + 1 - 1} more in" in prompt
        assert len(done.err) < 2000
        assert peak < 400_000, "in KiB, of the largest process"
    assert spent[100_000] < 10 * spent[10_000] + 5


@pytest.mark.timed
def test_events_of_40_processes_at_once_are_all_kept(tmp_path: Path) -> None:
    many = f"seq 40 | xargs -P 8 -I N {EMIT} work.nN payload-N"
    loop_project(tmp_path, f"{ONCE} && {many}; {LAST}")
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    lines = [json.loads(line) for line in kept(tmp_path, "events.jsonl").read_text().splitlines()]
    assert sorted(line["topic"] for line in lines) == sorted(f"work.n{n}" for n in range(1, 41))
    assert summary(tmp_path)["published"] == 40


def test_100000_plans_that_no_hook_hears_of_cost_no_more_than_other_events(tmp_path: Path) -> None:
    count = 100_000
    writes = f"""
for n in range({count}):
    topic = "plan.n" + str(n % 7)
    events.write(json.dumps({{"schema_version": 1, "topic": topic, "payload": n}}).encode() + b"\\n")
"""
    loop_project(tmp_path, python_agent(tmp_path, writes))
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert summary(tmp_path)["published"] == count


# programs that do not behave

DAEMON = """\
import os, signal
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
signal.pause()
"""


@pytest.mark.timed
@pytest.mark.fault(7)
@pytest.mark.parametrize("prints", ["head -c 40000000 /dev/zero", "yes a line of no great length | head -c 20000000"])
def test_an_agent_that_prints_without_end_costs_no_memory(prints: str, tmp_path: Path) -> None:
    loop_project(tmp_path, f"{prints}; echo; {DONE}")
    done, peak = run_measured(tmp_path)
    ended_well(done, tmp_path, code=0, reason="completed")
    assert peak < 400_000, "in KiB, of the largest process"


@pytest.mark.parametrize(
    "agent",
    [
        f"{DONE}; exec >&- 2>&-; echo $$ > still; sleep 0.3",
        f"exec 0<&-; {DONE}",
        f"printf 'half \\303\\n'; printf '\\342\\202' >&2; {DONE}",
        f"{DONE}; printf '\\n\\n  \\n'",
        f"{DONE}; echo LOOP_COMPLETED >&2",
        "printf LOOP_COMPLETE",
        "printf 'LOOP_COMPLETE\\r\\n'",
    ],
)
def test_how_an_agent_ends_its_output_does_not_matter(agent: str, tmp_path: Path) -> None:
    loop_project(tmp_path, agent)
    ended_well(run_loop(tmp_path), tmp_path, code=0, reason="completed")
    assert kept(tmp_path, "output.log").read_text().count("LOOP_COMPLETE") >= 1


@pytest.mark.parametrize(
    "agent",
    [
        "setsid sleep 60 & setsid sh -c 'trap \"\" TERM; sleep 60' &",
        "(trap '' TERM HUP INT; setsid sleep 60 >/dev/null 2>&1 </dev/null &) &",
        f"{PYTHON} daemon.py",
    ],
)
def test_what_an_agent_leaves_running_is_ended_with_its_iteration(agent: str, tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    loop_project(tmp_path, f"{agent}\n{DONE}")
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=0, reason="completed")
    assert "left running" in kept(tmp_path, "output.log").read_text()


def test_an_agent_that_says_nothing_for_too_long_is_ended_although_it_ignores_that(tmp_path: Path) -> None:
    loop_project(tmp_path, "trap '' TERM; while :; do sleep 1; done", loop={"max_consecutive_failures": 1})
    document = json.loads((tmp_path / "tenter.yaml").read_text())
    document["loop"]["backend"]["inactivity_timeout_seconds"] = 0.2
    (tmp_path / "tenter.yaml").write_text(json.dumps(document))
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=1, reason="consecutive_failures")
    assert "inactivity_timeout_seconds" in done.err
