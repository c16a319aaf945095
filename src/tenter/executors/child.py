"""A started child as the system sees it: has it exited, how, and signals to its group.

It is reaped exactly once and by nobody but us; where the program around has its children reaped by somebody else
(SIGCHLD ignored, a foreign `waitpid(-1)`) the status is asked of the pidfd, and None where that does not tell. Knows no
pipe and no deadline.
"""

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import time

SIGNAL_PROCESS_GROUP = 4
"""The flag PIDFD_SIGNAL_PROCESS_GROUP (Linux 6.9): the group of exactly this child, never one with a recycled id."""
GET_INFO, INFO_SIZE, INFO_EXIT, EXIT_CODE_AT = 0xC040_FF0B, 64, 1 << 3, 60
"""The ioctl PIDFD_GET_INFO with its first struct: since Linux 6.15 it tells the status of what others have reaped."""


REAP_PAUSE = 0.001


class Child:
    """Owns the process: a pidfd where there are some, and the duty to reap. Close it at the end."""

    __slots__ = ("_process", "_reaped", "pid", "pidfd", "status")

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reaped = False
        self.pid = process.pid
        self.pidfd = _open_pidfd(process.pid)
        self.status: int | None = None
        """After `reap`: the exit code, minus the number of the signal that killed it, or None if nobody can tell."""

    @property
    def reaped(self) -> bool:
        return self._reaped

    def has_exited(self) -> bool:
        """Whether it has ended; leaves it a zombie, but on systems without `waitid`."""
        if self._reaped or not hasattr(os, "waitid"):
            return self.reap()
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def signal_group(self, number: int) -> None:
        """Send the signal to the child's group, if anybody is left in it."""
        # A group of which nobody is left, or (on macOS) only zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not self._signal_by_pidfd(number) and not self._reaped:
                os.killpg(self.pid, number)

    def reap(self) -> bool:
        """Take the exit status, so that no zombie is left; False as long as the child lives."""
        if self._reaped:
            return True
        try:
            process, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            self.status = self._told_status()
        else:
            if process == 0:
                return False
            self.status = os.waitstatus_to_exitcode(status)
        self._reaped = True
        # So that the garbage collector does not take it for a child that is running still.
        self._process.returncode = sys.maxsize if self.status is None else self.status
        return True

    def reap_within(self, seconds: float) -> bool:
        """`reap`, waiting without the event loop."""
        until = time.monotonic() + seconds
        while not self.reap():
            if time.monotonic() >= until:
                return False
            time.sleep(REAP_PAUSE)
        return True

    def has_in_group(self, process: int) -> bool:
        """Whether that process is in the child's group."""
        try:
            return os.getpgid(process) == self.pid
        except ProcessLookupError:
            return False

    def close(self) -> None:
        """Let go of the pidfd. A child that was not reaped is left to `subprocess`, which reaps and warns of it."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def _signal_by_pidfd(self, number: int) -> bool:
        if self.pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(self.pidfd, number, None, SIGNAL_PROCESS_GROUP)
        except ProcessLookupError:
            raise
        except OSError:
            return False
        return True

    def _told_status(self) -> int | None:
        if self.pidfd is None:
            return None
        info = bytearray(INFO_SIZE)
        struct.pack_into("=Q", info, 0, INFO_EXIT)
        try:
            fcntl.ioctl(self.pidfd, GET_INFO, info)
        except OSError:
            return None
        (told,) = struct.unpack_from("=Q", info)
        (status,) = struct.unpack_from("=i", info, EXIT_CODE_AT)
        return os.waitstatus_to_exitcode(status) if told & INFO_EXIT else None


def _open_pidfd(pid: int) -> int | None:
    # Another system, a kernel or sandbox without it, no free descriptor, or a child that somebody has reaped already.
    with contextlib.suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None
