"""The digest of a project: it changes with all that counts, and with nothing else."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenter.config.footprint import FileFacts, Footprint, footprint
from tenter.config.problem import ConfigError
from tenter.executors import PinnedFile, file_digest

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
FILE = """\
version: 1
hooks:
  defaults: {timeout_seconds: 20}
  events:
    tool.before:
      - {name: guard, command: [./guard.sh, rules], on_error: block, env: {MODE: strict}}
    run.end:
      - {name: told, script: "exit 0", on_error: warn}
"""

MORE = """\
models: {m: {provider: scripted, file: rules, prices: {input: 1, output: 1}}}
tasks: {t: {version: 1, model: m, instructions: x, budgets: {tool_calls: 9}}}
tools: {shell: {risk: high, sandbox: process, principals: [ada]}}
policy: [{name: r, at: tool.before, match: {tool: shell}, then: block, reason: x}]
"""


def project(folder: Path, text: str = FILE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "guard.sh").write_text("#!/bin/sh\n")
    (folder / "guard.sh").chmod(0o755)
    (folder / "rules").write_text("none\n")
    (folder / "tenter.yaml").write_text(text)
    return folder / "tenter.yaml"


def print_of(path: Path, environment: Mapping[str, str] = ENVIRONMENT) -> Footprint:
    return footprint(path, environment=environment)


@pytest.mark.promise(14)
def test_the_digest_is_the_same_in_another_folder_and_with_other_comments(tmp_path: Path) -> None:
    here = print_of(project(tmp_path / "a"))
    there = print_of(project(tmp_path / "b" / "c", FILE.replace("hooks:\n", "# told\n\nhooks:\n  enabled: true\n", 1)))
    assert here.digest == there.digest
    assert here.path != there.path
    assert here.settings == there.settings


@pytest.mark.promise(14)
@pytest.mark.fault(56)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: guard", "name: gurd"),
        ("timeout_seconds: 20", "timeout_seconds: 21"),
        ("on_error: block", "on_error: warn"),
        ("MODE: strict", "MODE: lax"),
        ("exit 0", "exit 1"),
        ("hooks:\n", "secrets: [A_KEY]\nhooks:\n"),
        ("hooks:\n", "loop: {max_iterations: 3}\nhooks:\n"),
        ("tool_calls: 9", "tool_calls: 10"),
        ("budgets: {tool_calls: 9}", "parallel_tools: true"),
        ("risk: high", "risk: low"),
        ("sandbox: process, ", ""),
        ("principals: [ada]", "principals: [ada, bob]"),
        ("input: 1", "input: 2"),
        ("then: block", "then: escalate"),
        ("match: {tool: shell}", "match: {tool: shel}"),
    ],
)
def test_a_change_of_any_value_changes_it(before: str, after: str, tmp_path: Path) -> None:
    assert before in FILE + MORE
    first, second = (
        footprint(project(tmp_path, text), builtin_tools=["shell"], environment=ENVIRONMENT)
        for text in (FILE + MORE, (FILE + MORE).replace(before, after, 1))
    )
    assert first.digest != second.digest


@pytest.mark.fault(56)
@pytest.mark.parametrize("name", ["guard.sh", "rules"])
def test_a_change_of_a_file_that_is_named_changes_it_and_of_another_does_not(name: str, tmp_path: Path) -> None:
    path = project(tmp_path)
    first = print_of(path)
    (tmp_path / "other").write_text("x")
    assert print_of(path).digest == first.digest
    (tmp_path / name).write_text("#!/bin/sh\nother\n")
    assert print_of(path).digest != first.digest


@pytest.mark.fault(56)
def test_where_a_link_leads_counts_even_where_the_content_is_the_same(tmp_path: Path) -> None:
    path = project(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).write_text("same")
    digests: set[str] = set()
    for target in ("one", "two", "/etc/hostname"):
        (tmp_path / "rules").unlink()
        (tmp_path / "rules").symlink_to(target)
        found = print_of(path)
        assert found.files["rules"] == FileFacts(file_digest(tmp_path / "rules"), target)
        digests.add(found.digest)
    assert len(digests) == 3


def test_the_order_of_the_file_counts(tmp_path: Path) -> None:
    hats = "loop: {hats: {a: {triggers: [x]}, b: {triggers: [x]}}}\n"
    turned = "loop: {hats: {b: {triggers: [x]}, a: {triggers: [x]}}}\n"
    first, second = (print_of(project(tmp_path, FILE + text)) for text in (hats, turned))
    assert dict(first.settings) == dict(second.settings)
    assert first.digest != second.digest


def test_a_value_of_a_variable_is_not_kept(tmp_path: Path) -> None:
    found = print_of(project(tmp_path, FILE.replace("strict", "opensesame")))
    assert "opensesame" not in repr(found)
    kept = dict(found.settings)["hooks", "events", "tool.before", 0, "env", "MODE"]
    assert str(kept).startswith("sha256:")


def test_neither_places_in_the_file_nor_its_name_count(tmp_path: Path) -> None:
    first = print_of(project(tmp_path))
    shutil.copy(tmp_path / "tenter.yaml", tmp_path / "other.yaml")
    other = print_of(tmp_path / "other.yaml")
    assert other.digest == first.digest
    assert other.path == str(tmp_path / "other.yaml")
    assert not [path for path, _ in first.settings if path[-1] in ("where", "path", "positions", "digest")]


def test_a_file_reached_by_a_link_is_the_project_where_it_really_is(tmp_path: Path) -> None:
    path = project(tmp_path / "real")
    (tmp_path / "link.yaml").symlink_to(path)
    found = print_of(tmp_path / "link.yaml")
    assert (found.path, found.digest) == (str(path), print_of(path).digest)
    assert found.pins.file == str(tmp_path / "link.yaml")


def test_the_pins_have_every_file_as_whoever_uses_it_finds_it(tmp_path: Path) -> None:
    path = project(tmp_path)
    pins = print_of(path).pins
    guard, rules = file_digest(tmp_path / "guard.sh"), file_digest(tmp_path / "rules")
    assert pins.of(("hooks", "events", "tool.before", 0), str(tmp_path)) == (
        PinnedFile(str(tmp_path / "guard.sh"), guard),
        PinnedFile("rules", rules),
    )
    assert pins.of(("hooks", "events", "run.end", 0), str(tmp_path)) == ()
    assert pins.files == {str(tmp_path / "guard.sh"): guard, str(tmp_path / "rules"): rules}


def test_files_are_called_by_their_path_from_the_project(tmp_path: Path) -> None:
    path = project(tmp_path, FILE.replace("rules", "./sub/../rules"))
    (tmp_path / "sub").mkdir()
    assert set(print_of(path).files) == {"guard.sh", "rules"}
    shutil.rmtree(tmp_path / "sub")
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "rules").write_text("other")
    (tmp_path / "sub").symlink_to("far/away")
    assert set(print_of(path).files) == {"guard.sh", "far/rules"}, "`..` after a link means its target"


def test_a_file_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    path = project(tmp_path, FILE + "models: {m: {provider: scripted, file: gone.yaml}}\n")
    found = print_of(path)
    assert found.unreadable == ("gone.yaml",)


def test_a_file_with_a_mistake_has_none(tmp_path: Path) -> None:
    for text in ("version: 2\n", FILE.replace("./guard.sh", "./gone.sh"), FILE.replace("run.end", "run.ende")):
        with pytest.raises(ConfigError):
            print_of(project(tmp_path, text))
