"""A hook suspends a loop, and an operator resumes it: see suspension.feature."""

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pytest_bdd import parsers, scenarios, then, when
from tests.features.hooks.world import PROMPT, World, opened, read_json, rows, wait_until
from tests.outside import alive

scenarios("suspension.feature")

CONTRACT = {
    "schema_version",
    "state",
    "loop_id",
    "phase_event",
    "hook_name",
    "reason",
    "suspend_mode",
    "suspended_at",
}
"""The keys of a suspend state in the contract."""
OWN = {"suspension_id", "suspensions", "path"}


# -- AC-10 -------------------------------------------------------------------------------------------------------------


@then("its state file has exactly these keys of the contract, and more of its own:")
def state_file(world: World, docstring: str) -> None:
    expected: dict[str, object] = json.loads(docstring.replace("{id}", world.loop.id))
    state = world.states[-1]
    assert set(state) == CONTRACT | OWN
    assert {key: state[key] for key in expected} == expected


@then(parsers.parse('its state file\'s "reason" has "{text}"'))
def state_reason(world: World, text: str) -> None:
    assert text in str(world.states[-1]["reason"])


@then('its state file\'s "suspended_at" is a time in UTC')
def state_time(world: World) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(world.states[-1]["suspended_at"]))


@then("its state file names these suspensions, the first one at its top:")
def suspensions(world: World, datatable: list[list[str]]) -> None:
    expected, state = rows(datatable), world.states[-1]
    found: Any = state["suspensions"]
    for row, one in zip(expected, found, strict=True):
        assert (one["hook_name"], one["suspend_mode"]) == (row["hook_name"], row["suspend_mode"])
        assert row["reason"] in one["reason"]
    assert {key: state[key] for key in ("hook_name", "suspend_mode")} == {
        key: expected[0][key] for key in ("hook_name", "suspend_mode")
    }


@then("the loop's process is alive")
def is_alive(world: World) -> None:
    assert world.loop.process.poll() is None
    assert alive(world.loop.process.pid)


@then(parsers.parse('the list of loops shows it as "{status}", since when, where, by which hook and why'))
def listed_suspended(world: World, status: str) -> None:
    row, state = world.listed(world.loop), world.states[-1]
    assert row["status"] == status
    assert row["process_alive"] == (world.loop.process.poll() is None)
    suspension = row["suspension"]
    assert isinstance(suspension, dict)
    told = ("suspension_id", "suspended_at", "phase_event", "hook_name", "reason", "suspend_mode")
    assert {key: suspension[key] for key in told} == {key: state[key] for key in told}
    text = world.tenter("loop", "list").out
    for key in ("loop_id", "suspended_at", "phase_event", "hook_name", "reason"):
        assert str(state[key]) in text


# -- resuming ----------------------------------------------------------------------------------------------------------


@then(parsers.parse('the operator is told "{result}" with exit code {code:d}'))
def told(world: World, result: str, code: int) -> None:
    done = world.answers[-1]
    assert done.code == code, done
    document = json.loads(done.out)
    assert document["loop_id"] == world.loops[0].id
    assert document["result"] == result
    assert document["message"]


@when(parsers.parse('the operator resumes the loop "{loop_id}"'))
def resumes_other(world: World, loop_id: str) -> None:
    world.answers.append(world.tenter("loop", "resume", loop_id))


@when("the agent is at work")
def at_work(world: World) -> None:
    world.loop.until(lambda: "agent 1" in world.timeline, "the agent is at work")


@when(parsers.parse('the agent may go on after "{gate}"'))
def opens(world: World, gate: str) -> None:
    wait_until(lambda: opened(world.records / gate), "the agent waits there")


@when("its process stands still")
def stands_still(world: World) -> None:
    world.loop.process.send_signal(signal.SIGSTOP)


@when("two operators resume it, and its process goes on")
def two_operators(world: World) -> None:
    arguments = ("loop", "resume", world.loop.id, "--json")
    with ThreadPoolExecutor(2) as operators:
        asked = [operators.submit(world.tenter, *arguments) for _ in range(2)]
        request = world.loop.workspace / ".tenter" / "resume-requested"
        wait_until(request.exists, "one of them has asked")
        world.loop.process.send_signal(signal.SIGCONT)
        world.answers += [one.result() for one in asked]


@then('one of them is told "resumed" and the other that it was resumed before, both with exit code 0')
def both_told(world: World) -> None:
    """The other may have come so late that the loop is not suspended any more."""
    assert [one.code for one in world.answers] == [0, 0]
    results = [json.loads(one.out)["result"] for one in world.answers]
    assert results.count("resumed") == 1
    assert results.count("already_requested") + results.count("not_suspended") == 1


@when('operators ask it to "resume", "restart" and "stop", and its process goes on')
def three_operators(world: World) -> None:
    folder = world.loop.workspace / ".tenter"
    with ThreadPoolExecutor(3) as operators:
        verbs = ("resume", "restart", "stop")
        asked = [operators.submit(world.tenter, "loop", verb, world.loop.id, "--json") for verb in verbs]
        wait_until(lambda: all((folder / f"{verb}-requested").exists() for verb in verbs), "all have asked")
        world.loop.process.send_signal(signal.SIGCONT)
        world.answers += [one.result() for one in asked]


# -- killed, two at once, stopped --------------------------------------------------------------------------------------


@when("its process is killed")
def killed(world: World) -> None:
    world.loop.process.kill()
    assert world.loop.end().code == -signal.SIGKILL


@when("the operator continues it")
def continues(world: World) -> None:
    assert world.loops[0].id
    world.start("loop", "resume", world.loops[0].id)


@then(parsers.parse("the operator's process ended with exit code {code:d}"))
def continued(world: World, code: int) -> None:
    done = world.loops.pop().end()
    assert done.code == code, done.err


@when("another loop runs beside it")
def beside(world: World) -> None:
    world.start("loop", "run", "--prompt", PROMPT)


@then(parsers.parse("the other loop ended with exit code {code:d}"))
def other_ended(world: World, code: int) -> None:
    done = world.loops[1].end()
    assert done.code == code, done.err


@then(parsers.parse('the other loop worked in "{folder}", in a folder and a branch of its id'))
def in_worktree(world: World, folder: str) -> None:
    other = world.loops[1]
    assert other.workspace == world.project / folder / other.id
    row = world.listed(other)
    assert (row["primary"], row["workspace"], row["branch"]) == (False, str(other.workspace), f"tenter/{other.id}")
    assert world.listed(world.loops[0])["primary"] is True
    assert (world.records / f"calls of {other.id}").read_text() == "xx"


@then("the first loop is suspended as before")
def as_before(world: World) -> None:
    first = world.loops[0]
    assert first.process.poll() is None
    assert read_json(world.suspend_state(first)) == world.states[-1]
    assert world.listed(first)["status"] == "suspended"


@when("the operator resumes the first loop")
def resumes_first(world: World) -> None:
    world.answers.append(world.tenter("loop", "resume", world.loops[0].id, "--json"))


@then(parsers.parse("the first loop ended with exit code {code:d}"))
def first_ended(world: World, code: int) -> None:
    done = world.loops[0].end()
    assert done.code == code, done.err


@when(parsers.parse("the operator asks it to {verb}"))
def steers(world: World, verb: str) -> None:
    done = world.tenter("loop", verb, world.loop.id)
    assert done.code == 0, done


@when("its user presses Ctrl-C")
def interrupts(world: World) -> None:
    world.loop.process.send_signal(signal.SIGINT)


# -- signals of another suspension -------------------------------------------------------------------------------------


@when("the operator resumes it, and a copy of the signal is kept")
def resumes_with_copy(world: World) -> None:
    """The loop stands still while its operator writes the signal, so that there is something to copy."""
    request = world.loop.workspace / ".tenter" / "resume-requested"
    world.loop.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as operator:
        asked = operator.submit(world.tenter, "loop", "resume", world.loop.id, "--json")
        wait_until(request.exists, "the operator has asked")
        (world.records / "copy").write_bytes(request.read_bytes())
        world.loop.process.send_signal(signal.SIGCONT)
        assert asked.result().code == 0, asked.result()


@when("the copy of the signal is put back")
def puts_back(world: World) -> None:
    """In one move, as the signal itself is written."""
    (world.records / "copy").rename(world.loop.workspace / ".tenter" / "resume-requested")


@then("the signal is taken away")
def taken(world: World) -> None:
    request = world.loop.workspace / ".tenter" / "resume-requested"
    world.loop.until(lambda: not request.exists(), "the signal is taken away")
