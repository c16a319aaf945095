"""A loop that is named on the command line is found from wherever it is asked for."""

from pathlib import Path

import pytest
from tests.looping import loop_project, loops, run_loop

from tenter.cli.loops import loops_of, named_loop
from tenter.cli.masking import Masking
from tenter.kernel import TenterError
from tenter.loop import AmbiguousLoop, UnknownLoop

DONE = "echo LOOP_COMPLETE"


def test_a_loop_is_found_by_its_id_or_the_beginning_of_it_and_its_secrets_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "opensesame")
    run_loop(loop_project(tmp_path, DONE, spec={"secrets": ["PLAIN_NAME"]}))
    loop_id = str(loops(tmp_path)[0]["loop_id"])
    masks: list[Masking] = []
    for named in (loop_id, loop_id[:8]):
        found = named_loop(str(tmp_path / "tenter.yaml"), named, masks)
        assert found.row.loop_id == loop_id
        assert found.mask("opensesame") == "[redacted]"
    assert "[redacted]" in [mask("opensesame") for mask in masks]
    text = "'tenter loop list' has opensesame"
    for mask in masks:
        text = mask(text)
    assert text == f"'tenter loop list -c {tmp_path}/tenter.yaml' has [redacted]"


def test_one_that_does_not_exist_or_is_several_is_told(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE)
    config = str(tmp_path / "tenter.yaml")
    with pytest.raises(UnknownLoop, match="loop-x"):
        named_loop(config, "loop-x", [])
    for _ in range(2):
        run_loop(tmp_path)
    with pytest.raises(AmbiguousLoop, match="begins the ids of 2 loops"):
        named_loop(config, "loop-", [])


def test_without_a_configuration_the_working_folder_says_which_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_loop(loop_project(tmp_path, DONE))
    monkeypatch.chdir(tmp_path)
    assert len(loops_of(None).rows(everything=True)) == 1


def test_a_configuration_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TenterError, match="there is no configuration"):
        loops_of(str(tmp_path / "nowhere.yaml"))


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(TenterError, match="is not a regular file"):
        loops_of(str(tmp_path))
