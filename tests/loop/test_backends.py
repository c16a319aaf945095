"""The table of backends: what a configuration says of each hat becomes what does its work."""

from pathlib import Path

from tests.loop.equipment import world

from tenter.config import CommandBackendSpec, HarnessBackendSpec
from tenter.loop.backends import Program, backends_of
from tenter.loop.command_backend import CommandBackend
from tenter.loop.harness_backend import HarnessBackend


async def test_each_hat_gets_the_backend_that_the_file_says_with_its_program_resolved(tmp_path: Path) -> None:
    specs = {
        None: CommandBackendSpec(command=("sh", "-c", "exit 4")),
        "builder": HarnessBackendSpec(harness="work"),
        "tester": CommandBackendSpec(command=("./no", "-c", "exit 5"), inactivity_timeout_seconds=9),
    }
    programs = {hat: Program(("/bin/sh", "-c", f"exit {code}")) for hat, code in ((None, 4), ("tester", 5))}
    async with world(tmp_path, "All is built.") as here:
        made = backends_of(specs, programs, here.equipment)
        worked = {hat: await backend.run(here.work()) for hat, backend in made.items()}
    assert {hat: type(backend) for hat, backend in made.items()} == {
        None: CommandBackend,
        "builder": HarnessBackend,
        "tester": CommandBackend,
    }
    assert worked[None].error.startswith("'/bin/sh' exited with 4")
    assert worked["tester"].error.startswith("'/bin/sh' exited with 5")
    assert worked["builder"].last_line == "All is built."
