"""The words of `tenter loop`: every verb has help and `--json`, and loads no more than it needs."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import click
import pytest
from tests.commandline import LONGEST, environment, hook_script, started, tenter
from tests.looping import loop_project, wait_for

from tenter.cli.loop import loop

VERBS = ["answer", "list", "logs", "preflight", "prune", "restart", "resume", "run", "show", "stop"]


def test_the_verbs_are_those_of_the_design() -> None:
    assert sorted(loop.commands) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_help_and_json(verb: str) -> None:
    command = loop.commands[verb]
    assert command.help
    assert "--json" in {option for one in command.params for option in one.opts}
    assert isinstance(command, click.Command)


@pytest.mark.parametrize("verb", ["resume", "stop", "restart", "show", "logs", "answer"])
def test_a_verb_about_one_loop_needs_one(verb: str, tmp_path: Path) -> None:
    done = tenter("loop", verb, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "Missing argument 'LOOP'" in done.err


def test_help_says_every_exit_code_of_a_run(tmp_path: Path) -> None:
    shown = tenter("loop", "run", "--help", cwd=tmp_path)
    assert shown.code == 0
    assert all(f" {code} " in " ".join(shown.out.split()) for code in (0, 1, 2, 3, 5, 6, 130))


@pytest.mark.parametrize("words", [["loop", "--help"], ["loop", "list"]])
def test_looking_loads_no_orchestrator(words: list[str], tmp_path: Path) -> None:
    loop_project(tmp_path, "true")
    code = f"import sys\nfrom tenter.cli.entry import run\nrun({words!r})\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "tenter.cli.loop" in loaded
    assert not [
        name for name in loaded if name in ("tenter.loop.orchestrator", "tenter.loop.starting", "tenter.journal.sqlite")
    ]


def test_the_loop_of_the_readme_works(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text().split("\n## Loops\n")[1].split("\n## ")[0]
    (tmp_path / "tenter.yaml").write_text(re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)[0])
    hook_script(tmp_path, "agent.sh", "cat > given; echo LOOP_COMPLETE")
    assert 'tenter loop run --prompt "write the report"' in text
    assert re.search(r"^tenter loop resume loop-[0-9a-f]{4}-[0-9a-f]{4} +# the id that `loop run` printed", text, re.M)
    with started("loop", "run", "--prompt", "write the report", cwd=tmp_path) as running:
        held = cast("Mapping[str, object]", wait_for(tmp_path, "suspended")["suspension"])
        assert "by gate" in tenter("loop", "list", cwd=tmp_path).out
        (tmp_path / "approved").touch()
        assert running.stderr is not None
        printed = re.fullmatch(r"loop (loop-[0-9a-f]{4}-[0-9a-f]{4}) in .*\n", running.stderr.readline())
        assert printed is not None
        assert tenter("loop", "resume", printed[1], cwd=tmp_path).code == 0
        assert running.wait(LONGEST) == 0
    assert (held["phase_event"], held["hook_name"]) == ("pre.iteration.start", "gate")
    assert "write the report" in (tmp_path / "given").read_text()
