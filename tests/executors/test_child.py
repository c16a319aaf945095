"""A child is signalled as a group, and reaped once, by whomever."""

import errno
import fcntl
import os
import select
import signal
import subprocess
from collections.abc import Callable
from typing import NoReturn

import pytest
from tests.outside import alive, children_of, comes_true

from tenter.executors.child import Child


def child_of(*argv: str) -> Child:
    return Child(subprocess.Popen(argv, start_new_session=True))


def wait_for_exit(child: Child) -> None:
    """Wait until it is a zombie; for 5 s at most."""
    assert child.pidfd is not None
    assert select.select([child.pidfd], [], [], 5)[0]


def refusing(number: int) -> Callable[..., NoReturn]:
    """A system call that fails with this errno."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    ("body", "status"), [("exit 0", 0), ("exit 3", 3), ("exit 139", 139), ("kill -KILL $$", -signal.SIGKILL)]
)
def test_the_status_is_the_exit_code_or_minus_the_signal(body: str, status: int) -> None:
    child = child_of("/bin/sh", "-c", body)
    wait_for_exit(child)
    assert child.has_exited()
    assert child.pid in children_of(os.getpid())
    assert (child.reap(), child.status, child.reaped) == (True, status, True)
    assert child.pid not in children_of(os.getpid())
    assert child.reap()
    child.close()


def test_without_waitid_the_exit_is_seen_by_reaping(monkeypatch: pytest.MonkeyPatch) -> None:
    child = child_of("/bin/sh", "-c", "exit 3")
    wait_for_exit(child)
    monkeypatch.delattr(os, "waitid")
    assert (child.has_exited(), child.reaped, child.status) == (True, True, 3)
    child.close()


def test_a_child_that_lives_is_not_reaped() -> None:
    child = child_of("/bin/sleep", "60")
    assert (child.has_exited(), child.reap(), child.reap_within(0.01), child.status) == (False, False, False, None)
    child.signal_group(signal.SIGKILL)
    assert child.reap_within(5)
    assert child.status == -signal.SIGKILL
    child.close()


@pytest.mark.parametrize("kernel", ["new", "old", "none"])
async def test_a_signal_reaches_the_whole_group(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    if kernel == "old":
        monkeypatch.setattr(signal, "pidfd_send_signal", refusing(errno.EINVAL))
    if kernel == "none":
        monkeypatch.delattr(os, "pidfd_open")
    process = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 60 & echo $!; wait"], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as output:
        grandchild = int(output.readline())
        child = Child(process)
        child.signal_group(signal.SIGKILL)
        assert output.read() == b""  # nobody has the pipe any more
    assert child.reap_within(5)
    assert await comes_true(lambda: not alive(grandchild))
    child.close()


def test_a_signal_to_a_group_that_is_gone_is_no_error() -> None:
    child = child_of("/bin/true")
    assert child.reap_within(5)
    child.signal_group(signal.SIGKILL)
    child.close()


def test_after_the_reaping_no_signal_is_sent_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id may be another's by then."""
    monkeypatch.delattr(os, "pidfd_open")
    child = child_of("/bin/true")
    assert child.reap_within(5)
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: sent.append((group, number)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # as in os
    child.signal_group(signal.SIGKILL)
    assert sent == []


def test_a_status_that_somebody_else_took_is_asked_of_the_pidfd() -> None:
    child = child_of("/bin/sh", "-c", "exit 3")
    os.waitpid(child.pid, 0)
    assert child.has_exited()
    assert child.reap()
    assert child.status in {3, None}  # None before Linux 6.15
    child.close()


def test_a_status_that_nobody_tells_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "ioctl", refusing(errno.ENOTTY))
    child = child_of("/bin/sh", "-c", "exit 3")
    os.waitpid(child.pid, 0)
    assert (child.reap(), child.reaped, child.status) == (True, True, None)
    child.close()


def test_a_child_that_was_reaped_by_others_before_it_could_be_watched_has_exited() -> None:
    process = subprocess.Popen(["/bin/true"])
    os.waitpid(process.pid, 0)
    child = Child(process)
    assert (child.pidfd, child.has_exited(), child.reap(), child.status) == (None, True, True, None)


def test_who_is_in_the_group_is_told() -> None:
    child = child_of("/bin/sleep", "60")
    assert (child.has_in_group(child.pid), child.has_in_group(os.getpid())) == (True, False)
    child.signal_group(signal.SIGKILL)
    assert child.reap_within(5)
    assert not child.has_in_group(child.pid)
    child.close()
