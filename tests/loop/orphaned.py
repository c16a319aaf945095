"""A process that a loop left running when its own process died."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Generator

LONGEST = 20.0
LOOP = f"loop-dead-{os.getpid()}"
"""Of these tests alone, whatever runs beside them."""


def environment(loop_id: str) -> dict[str, str]:
    """What agents and hooks of a loop have in their environment."""
    return {"PATH": os.environ["PATH"], "TENTER_LOOP_ID": loop_id}


@contextlib.contextmanager
def orphan(script: str = "exec sleep 60", *, loop_id: str = LOOP, begin: str = "") -> Generator[int]:
    """A process whose parent has ended, with the mark of a loop; `begin` is what its parent did before it began."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"{begin}\n({script}) > /dev/null 2>&1 &\necho $!"],
        env=environment(loop_id),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=LONGEST,
        check=True,
    )
    process = int(done.stdout)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
