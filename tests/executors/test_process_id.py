"""A process is told by its number and its start, so that a later one with the same number is not taken for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tenter.executors.process_id import ProcessId, is_alive, parse_stat, started_by_proc, started_by_ps, this_process
from tenter.kernel import TenterError

CHILD = """
import ctypes, json, sys
import tenter.executors.process_id as process_id
ctypes.CDLL(None).prctl(15, b") Z 1 (x\\n", 0, 0, 0)  # PR_SET_NAME
own = process_id.this_process()
print(json.dumps([own.pid, own.started]), flush=True)
sys.stdin.read()
"""

needs_ps = pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps here")


def test_this_process_is_alive_and_stays_the_same() -> None:
    assert is_alive(this_process())
    assert this_process() == this_process()


@pytest.mark.fault(48)
def test_a_process_is_alive_until_it_ends_whatever_it_calls_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        process = ProcessId(*json.loads(child.stdout.readline()))
        assert process.pid == child.pid
        assert is_alive(process)
        child.stdin.close()
        assert child.wait(10) == 0
    assert not is_alive(process)


@pytest.mark.fault(48)
def test_a_zombie_is_dead() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        started = started_by_proc(child.pid)
        assert started is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has collected it
        assert Path(f"/proc/{child.pid}").exists()
        assert not is_alive(ProcessId(child.pid, started))


@pytest.mark.fault(48)
def test_the_same_number_with_another_start_is_another_process() -> None:
    own = this_process()
    boot, _, ticks = own.started.partition("/")
    assert not is_alive(ProcessId(own.pid, f"{boot}/{int(ticks) - 1}"))
    assert not is_alive(ProcessId(own.pid, f"earlier-boot/{ticks}"))
    assert not is_alive(ProcessId(own.pid, ""))


@pytest.mark.parametrize("pid", [0, -1, pytest.param(-os.getpid(), id="minus-ours"), 2**31 - 1, 2**60])
def test_a_number_of_no_process_is_dead(pid: int) -> None:
    assert not is_alive(ProcessId(pid, this_process().started))


@given(st.binary(max_size=40), st.sampled_from(["R", "S", "D", "T"]), st.integers(0, 2**60))
def test_the_start_is_found_behind_any_name(name: bytes, state: str, ticks: int) -> None:
    fields = [state, *map(str, range(4, 22)), str(ticks), "23"]
    assert parse_stat(b"7 (" + name + b") " + " ".join(fields).encode() + b"\n") == str(ticks)


@needs_ps
def test_without_proc_ps_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    by_proc = this_process()
    monkeypatch.setattr("tenter.executors.process_id.PROC", tmp_path)
    own = this_process()
    assert own.pid == by_proc.pid
    assert own.started != by_proc.started
    assert is_alive(own)
    assert not is_alive(ProcessId(own.pid, "Thu Jan 1 00:00:00 1970"))


def test_a_system_that_tells_of_no_process_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tenter.executors.process_id.PROC", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TenterError, match="neither /proc nor ps"):
        this_process()


@needs_ps
def test_ps_knows_no_zombie_and_no_missing_process() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert started_by_ps(child.pid) is None
    assert started_by_ps(2**31 - 1) is None
