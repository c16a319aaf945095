"""How much a process of the sandbox `process` may have, and that a shell takes it."""

import math
import os
import resource
import subprocess

import pytest

from tenter.harness.rlimits import GIB, NAMES, limiting, process_limits


def test_the_limits_are_those_of_the_manifest_and_cpu_time_follows_the_deadline() -> None:
    limits = process_limits(29.2)
    assert limits == {
        "RLIMIT_AS": 4 * GIB,
        "RLIMIT_FSIZE": GIB,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": 31,
    }
    assert set(limits) == NAMES


def test_a_deadline_that_has_passed_leaves_a_second_and_none_leaves_all_the_time() -> None:
    assert process_limits(-5)["RLIMIT_CPU"] == 1
    assert "RLIMIT_CPU" not in process_limits(math.inf)


def test_nothing_is_asked_for_that_this_process_may_not_have_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def getrlimit(_: int) -> tuple[int, int]:
        return 10, 20

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    assert process_limits(100) == dict.fromkeys(NAMES - {"RLIMIT_CORE"}, 20) | {"RLIMIT_CORE": 0}


@pytest.mark.parametrize("shell", [("/bin/sh", "-c"), ("bash", "--posix", "-c")])
def test_a_shell_sets_the_limits_of_itself_and_of_what_it_runs(shell: tuple[str, ...]) -> None:
    command = f"{limiting(process_limits(29.2))} && exec cat /proc/self/limits"
    done = subprocess.run([*shell, command], capture_output=True, text=True, check=True, timeout=10)
    told = {line[:26].strip(): line[26:].split()[:2] for line in done.stdout.splitlines()[1:]}
    assert told["Max cpu time"] == ["31", "31"]
    assert told["Max address space"] == [str(4 * GIB)] * 2
    assert told["Max file size"] == [str(GIB)] * 2
    assert told["Max open files"] == ["256", "256"]
    assert told["Max core file size"] == ["0", "0"]


def test_a_shell_that_cannot_set_a_limit_fails() -> None:
    command = f"{{ {limiting(process_limits(29.2))}; }} || exit 126; echo ran"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=10, preexec_fn=_without_rights
    )
    assert done.returncode != 0
    assert "ran" not in done.stdout


def _without_rights() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    if os.geteuid() == 0:
        os.setuid(65534)  # whoever is root may raise any limit
