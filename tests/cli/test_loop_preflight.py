"""`tenter loop preflight` says whether a loop could start, and starts nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from tests.commandline import run_json, tenter
from tests.looping import loop_project

CHECKS = ["config", "hooks", "trust", "backend", "git", "paths"]


def test_every_check_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    loop_project(tmp_path, "touch ran")
    before = sorted(tmp_path.rglob("*"))
    done = tenter("loop", "preflight", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == CHECKS
    assert sorted(tmp_path.rglob("*")) == before


def test_json_says_whether_all_is_well_and_every_finding(tmp_path: Path) -> None:
    told = run_json("loop", "preflight", cwd=loop_project(tmp_path, "true"))
    findings = cast("Sequence[Mapping[str, object]]", told["findings"])
    assert told["ok"] is True
    assert [one["check"] for one in findings] == CHECKS
    assert findings[0].keys() == {"check", "level", "message", "hint"}


def test_a_check_that_failed_ends_with_2_and_says_what_to_do(tmp_path: Path) -> None:
    loop_project(tmp_path, "true")
    (tmp_path / "agent.sh").unlink()
    done = tenter("loop", "preflight", cwd=tmp_path)
    assert done.code == 2
    assert "backend   failed" in done.out
    assert "failed; a loop would not start" in done.err
    done = tenter("loop", "preflight", "--check", "git", cwd=tmp_path)
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert tenter("loop", "preflight", "--check", "backend", cwd=tmp_path).code == 2


@pytest.mark.parametrize(
    ("name", "says"), [("hoks", "did you mean 'hooks'?"), ("x", "there are config, hooks, trust, backend")]
)
def test_a_check_that_does_not_exist_ends_with_2_and_the_nearest_name(name: str, says: str, tmp_path: Path) -> None:
    done = tenter("loop", "preflight", "--check", name, cwd=loop_project(tmp_path, "true"))
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.promise(4)
def test_secrets_are_masked_and_nothing_is_obeyed(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text('version: 1\nsecrets: [PLAIN_NAME]\n"opensesame\\e[31m": 1\n')
    for more in ((), ("--json",)):
        done = tenter("loop", "preflight", *more, cwd=tmp_path, PLAIN_NAME="opensesame")
        assert done.code == 2
        assert "[redacted]" in done.out
        assert "opensesame" not in done.out
        assert "\x1b" not in done.out
