"""Who trusts a project, and what is said where nobody does."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenter.config.problem import ConfigError
from tenter.config.trust import Reason, Trusted, Untrusted, require_trust, trust_state
from tenter.config.trust_changes import MOST_CHANGES
from tenter.config.trust_record import write_record

FILE = "version: 1\nhooks: {events: {run.end: [{name: a, command: [./told.sh], on_error: warn}]}}\n"


def project(folder: Path, text: str = FILE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "told.sh").write_text("#!/bin/sh\n")
    (folder / "told.sh").chmod(0o755)
    (folder / "tenter.yaml").write_text(text)
    return folder / "tenter.yaml"


def given(folder: Path, **more: str) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder / "state"), "PATH": "/usr/bin:/bin", **more}


def trust(path: Path, environment: Mapping[str, str]) -> None:
    write_record(trust_state(path, environment=environment).now, 0, environment)


def untrusted(path: Path, environment: Mapping[str, str], why: Reason) -> str:
    """What is said of a project that is not trusted for this reason."""
    state = trust_state(path, environment=environment)
    assert isinstance(state, Untrusted)
    assert state.why == why
    with pytest.raises(Untrusted) as caught:
        require_trust(path, environment=environment)
    assert str(caught.value) == str(state)
    return str(state)


def ground(path: Path, environment: Mapping[str, str]) -> str:
    return require_trust(path, environment=environment).ground


@pytest.mark.promise(14)
def test_a_project_is_not_trusted_until_somebody_records_it(tmp_path: Path) -> None:
    path, environment = project(tmp_path), given(tmp_path)
    said = untrusted(path, environment, "new")
    assert "is not trusted, so nothing of it runs: it names code (1 hook) that you have not trusted" in said
    assert f"'tenter hooks trust --config {path}'" in said
    assert f"TENTER_TRUST={trust_state(path, environment=environment).now.digest}" in said
    trust(path, environment)
    assert ground(path, environment) == "record"


@pytest.mark.promise(14)
@pytest.mark.fault(56)
def test_a_change_asks_again_and_what_changed_is_told(tmp_path: Path) -> None:
    path, environment = project(tmp_path), given(tmp_path)
    trust(path, environment)
    (tmp_path / "told.sh").write_text("#!/bin/sh\nrm -rf /\n")
    path.write_text(FILE.replace("name: a", "name: b"))
    said = untrusted(path, environment, "changed")
    assert "it changed since you trusted it:\n  the file told.sh: content " in said
    assert "\n  hooks.events.run.end[0].name: 'a' -> 'b'\n" in said
    path.write_text(FILE)
    (tmp_path / "told.sh").write_text("#!/bin/sh\n")
    assert ground(path, environment) == "record", "it is again what was trusted"


def test_of_many_changes_some_are_told_and_how_many_more_there_are(tmp_path: Path) -> None:
    tasks = "".join(f"t{n}: {{version: 1, model: m, instructions: %s}}, " for n in range(50))
    text = f"{FILE}models: {{m: {{provider: scripted, file: told.sh}}}}\ntasks: {{{tasks}}}\n"
    path, environment = project(tmp_path, text.replace("%s", "x")), given(tmp_path)
    trust(path, environment)
    path.write_text(text.replace("%s", "y"))
    said = untrusted(path, environment, "changed")
    assert said.count(".instructions: 'x' -> 'y'") == MOST_CHANGES
    assert "and 30 more" in said


@pytest.mark.fault(58)
def test_the_digest_of_what_is_there_is_trust_enough_and_another_is_told_of(tmp_path: Path) -> None:
    path = project(tmp_path)
    digest = trust_state(path, environment=given(tmp_path)).now.digest
    assert ground(path, given(tmp_path, TENTER_TRUST=digest)) == "digest"
    (tmp_path / "told.sh").write_text("#!/bin/sh\nother\n")
    for wrong in (digest, "yes", "sha256:"):
        said = untrusted(path, given(tmp_path, TENTER_TRUST=wrong), "new")
        assert "TENTER_TRUST is set, and is not the digest of what is there now" in said
    assert "TENTER_TRUST is set" not in untrusted(path, given(tmp_path), "new")


def test_a_wrong_digest_takes_no_trust_away(tmp_path: Path) -> None:
    path = project(tmp_path)
    trust(path, given(tmp_path))
    assert ground(path, given(tmp_path, TENTER_TRUST="sha256:1")) == "record"


@pytest.mark.promise(14)
def test_a_project_that_was_moved_or_copied_is_another_one(tmp_path: Path) -> None:
    path, environment = project(tmp_path / "a"), given(tmp_path)
    trust(path, environment)
    (tmp_path / "a").rename(tmp_path / "b")
    assert "is not trusted" in untrusted(tmp_path / "b" / "tenter.yaml", environment, "new")


def test_two_configurations_in_one_folder_are_trusted_one_by_one(tmp_path: Path) -> None:
    path, environment = project(tmp_path), given(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text(FILE)
    trust(path, environment)
    untrusted(other, environment, "new")
    trust(other, environment)
    assert ground(path, environment) == ground(other, environment) == "record"


def test_a_link_to_a_configuration_is_the_configuration(tmp_path: Path) -> None:
    path, environment = project(tmp_path / "real"), given(tmp_path)
    (tmp_path / "tenter.yaml").symlink_to(path)
    trust(tmp_path / "tenter.yaml", environment)
    assert ground(path, environment) == "record"
    (tmp_path / "tenter.yaml").unlink()
    (tmp_path / "tenter.yaml").symlink_to(project(tmp_path / "evil"))
    untrusted(tmp_path / "tenter.yaml", environment, "new")


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\n",
        "version: 1\nsecrets: [A_KEY]\nhooks: {defaults: {timeout_seconds: 3}}\nloop: {max_iterations: 5}\n",
        "version: 1\nhooks: {enabled: false, events: {run.end: [{name: a, script: x, on_error: warn}]}}\n",
    ],
)
def test_a_project_that_names_no_code_needs_no_trust(text: str, tmp_path: Path) -> None:
    assert ground(project(tmp_path, text), given(tmp_path)) == "no code"


@pytest.mark.promise(14)
def test_hooks_that_are_switched_on_again_are_not_trusted(tmp_path: Path) -> None:
    off = FILE.replace("hooks: {", "hooks: {enabled: false, ")
    path, environment = project(tmp_path, off), given(tmp_path)
    trust(path, environment)
    path.write_text(FILE)
    assert "is not trusted" in untrusted(path, environment, "changed")


def test_a_record_that_does_not_count_is_told(tmp_path: Path) -> None:
    path, environment = project(tmp_path), given(tmp_path)
    trust(path, environment)
    (record,) = (tmp_path / "state" / "tenter" / "trust").iterdir()
    record.write_text("nonsense")
    assert f"the record '{record}' is broken" in untrusted(path, environment, "unusable record")
    record.chmod(0o666)
    assert "can be written by others than you" in untrusted(path, environment, "unusable record")


def test_a_file_that_cannot_be_read_cannot_be_trusted(tmp_path: Path) -> None:
    path = project(tmp_path, FILE + "models: {m: {provider: scripted, file: gone.yaml}}\n")
    environment = given(tmp_path)
    said = untrusted(path, environment, "unreadable file")
    assert "what it names cannot be read: 'gone.yaml'" in said
    digest = trust_state(path, environment=environment).now.digest
    untrusted(path, given(tmp_path, TENTER_TRUST=digest), "unreadable file")


def test_a_mistake_in_the_file_comes_before_trust(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        trust_state(project(tmp_path, "version: 2\n"), environment=given(tmp_path))


@pytest.mark.promise(14)
@pytest.mark.fault(56)
def test_a_module_that_a_python_hook_imports_is_part_of_it(tmp_path: Path) -> None:
    text = "version: 1\nhooks: {events: {run.end: [{name: a, python: 'tru_a:f'}]}}\n"
    (tmp_path / "tru_a.py").write_text("from tru_b import x\ndef f(event): ...\n")
    (tmp_path / "tru_b.py").write_text("x = 1\n")
    path, environment = project(tmp_path, text), given(tmp_path)
    trust(path, environment)
    (tmp_path / "tru_b.py").write_text("x = 2\n")
    assert "the file tru_b.py: content" in untrusted(path, environment, "changed")


@pytest.mark.fault(56)
def test_the_value_of_a_variable_that_changed_is_told_of_and_not_told(tmp_path: Path) -> None:
    text = FILE.replace("on_error", "env: {TOKEN: opensesame}, on_error")
    path, environment = project(tmp_path, text), given(tmp_path)
    trust(path, environment)
    path.write_text(text.replace("opensesame", "openbarley"))
    said = untrusted(path, environment, "changed")
    assert "hooks.events.run.end[0].env.TOKEN: a value -> another value" in said
    assert "opensesame" not in said
    assert "openbarley" not in said


def test_asking_changes_nothing(tmp_path: Path) -> None:
    path, environment = project(tmp_path), given(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        trust_state(path, environment=environment)
    assert sorted(tmp_path.rglob("*")) == before
    assert os.path.lexists(tmp_path / "state") is False


def test_it_is_said_of_the_usual_file_without_naming_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path)
    monkeypatch.chdir(tmp_path)
    state = trust_state("tenter.yaml", environment=given(tmp_path))
    assert not isinstance(state, Trusted)
    assert "'tenter hooks trust' shows" in str(state)
