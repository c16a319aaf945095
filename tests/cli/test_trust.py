"""`tenter hooks trust`, and what the other verbs do with a project that nobody trusts.

Where a test says `TENTER_TRUST=""`, nobody vouches for its project but by a record.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.commandline import (
    LONGEST,
    TENTER,
    calls,
    digest_of,
    environment,
    hook_script,
    on_terminal,
    tenter,
    trust,
    write_project,
)

from tenter.cli.inside import INSIDE
from tenter.executors import COOKIES

KEY = "ghp_" + "a1B2" * 9


def project(folder: Path) -> Path:
    """A project with one command hook that leaves a mark when it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    guard = hook_script(folder, "guard.sh", 'cat > /dev/null; touch "$TENTER_PROJECT_DIR/ran"')
    hook = {"name": "guard", "command": [guard], "on_error": "block"}
    return write_project(folder, [{"text": "done"}], events={"run.start": [hook]})


def records(folder: Path) -> list[Path]:
    return list((folder.parent / f"{folder.name}-state").rglob("*.json"))


@pytest.mark.promise(14)
def test_trust_shows_what_would_run_and_records_it_and_then_it_runs(tmp_path: Path) -> None:
    project(tmp_path)
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 6
    done = tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, done.err) == (0, "")
    shown = [" ".join(line.split()) for line in done.out.splitlines()]
    assert shown[0] == f"{tmp_path}/tenter.yaml names what runs:"
    assert shown[1:3] == ["hook guard at run.start ./guard.sh", "model default script.yaml"]
    assert [line.split()[-1] for line in shown[4:6]] == ["guard.sh", "script.yaml"]
    assert shown[6].startswith("trusted: tenter.yaml (sha256:")
    assert len(records(tmp_path)) == 1
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 0
    assert (tmp_path / "ran").exists()


@pytest.mark.promise(14)
@pytest.mark.fault(56)
def test_what_changed_is_shown_before_it_is_trusted_again(tmp_path: Path) -> None:
    project(tmp_path)
    tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="")
    hook_script(tmp_path, "guard.sh", "exit 0")
    refused = tenter("run", "job", cwd=tmp_path, TENTER_TRUST="")
    assert refused.code == 6
    assert "the file guard.sh: content " in refused.err
    done = tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="")
    assert "since you trusted it, this changed:\n  the file guard.sh: content " in done.out
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 0
    again = tenter("hooks", "trust", cwd=tmp_path, TENTER_TRUST="")
    assert again.out.splitlines()[-1] == "tenter.yaml is as you trusted it"
    assert "this changed" not in again.out


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_it_asks(typed: str, code: int, tmp_path: Path) -> None:
    project(tmp_path)
    with on_terminal("hooks", "trust", cwd=tmp_path, TENTER_TRUST="") as terminal:
        shown = terminal.wait_for("Trust this? [y/N]")
        assert "guard at run.start" in shown
        assert records(tmp_path) == []
        terminal.type(typed)
        done = terminal.end()
    assert done.code == code
    assert len(records(tmp_path)) == (code == 0)
    assert ("trusted: tenter.yaml" in done.err) is (code == 0)
    assert ("nothing was recorded" in done.err) is (code == 1)


@pytest.mark.promise(14)
@pytest.mark.fault(58)
@pytest.mark.parametrize("stdin", [b"", b"n\n", b"y\n", b"yes\n" * 100_000])
def test_without_a_terminal_nothing_is_recorded_unless_yes_is_an_option(stdin: bytes, tmp_path: Path) -> None:
    project(tmp_path)
    done = tenter("hooks", "trust", cwd=tmp_path, stdin=stdin, TENTER_TRUST="")
    assert done.code == 6
    assert "hook   guard at run.start  ./guard.sh" in done.out
    assert "tenter.yaml is not trusted, and nothing was recorded: there is no terminal to ask on" in done.err
    assert "'tenter hooks trust --yes'" in done.err
    assert "'tenter hooks trust --digest'" in done.err
    assert records(tmp_path) == []
    as_json = tenter("hooks", "trust", "--json", cwd=tmp_path, stdin=stdin, TENTER_TRUST="")
    document = json.loads(as_json.out)
    assert (as_json.code, document["trusted"], document["recorded"]) == (6, False, False)
    assert "'tenter hooks trust --yes'" in as_json.err
    assert records(tmp_path) == []
    assert tenter("hooks", "trust", "--yes", cwd=tmp_path, stdin=stdin, TENTER_TRUST="").code == 0
    assert tenter("hooks", "trust", cwd=tmp_path, stdin=stdin, TENTER_TRUST="").code == 0, "it is trusted already"


@pytest.mark.fault(58)
def test_without_a_terminal_its_standard_input_is_not_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to, and nobody closes, would be waited for."""
    project(tmp_path)
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [TENTER, "hooks", "trust"],
            cwd=tmp_path,
            env=environment(tmp_path, TENTER_TRUST=""),
            stdin=reading,
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 6


def test_a_hook_that_was_taken_out_is_one_line(tmp_path: Path) -> None:
    hooks = [{"name": name, "script": f"echo {name}", "on_error": "warn"} for name in "abc"]
    write_project(tmp_path, [{"text": "done"}], events={"run.start": hooks})
    tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="")
    write_project(tmp_path, [{"text": "done"}], events={"run.start": hooks[1:], "run.end": hooks[:1]})
    changed = tenter("hooks", "trust", cwd=tmp_path, TENTER_TRUST="").out.partition("this changed:\n")[2]
    assert changed.splitlines() == [
        "  hooks.events.run.start[0]: gone, it was the hook 'a', 'echo a'",
        "  hooks.events.run.end[0]: new, the hook 'a', 'echo a'",
    ]
    write_project(tmp_path, [{"text": "done"}])
    changed = tenter("hooks", "trust", cwd=tmp_path, TENTER_TRUST="").out.partition("this changed:\n")[2]
    assert [line.split(":")[0].strip() for line in changed.splitlines()] == [
        f"hooks.events.run.start[{index}]" for index in range(3)
    ]


def test_on_a_terminal_yes_is_an_answer_and_what_is_trusted_is_not_asked_for(tmp_path: Path) -> None:
    project(tmp_path)
    for arguments in (["--yes"], []):
        with on_terminal("hooks", "trust", *arguments, cwd=tmp_path, TENTER_TRUST="") as terminal:
            done = terminal.end()
        assert done.code == 0
        assert "Trust this?" not in done.err


@pytest.mark.fault(58)
def test_a_run_never_asks_not_even_on_a_terminal(tmp_path: Path) -> None:
    project(tmp_path)
    with on_terminal("run", "job", "-", cwd=tmp_path, TENTER_TRUST="") as terminal:
        done = terminal.end()
    assert done.code == 6
    assert "is not trusted, so nothing of it runs" in done.err
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / ".tenter").exists()


@pytest.mark.fault(58)
def test_the_digest_is_printed_for_where_no_person_is(tmp_path: Path) -> None:
    project(tmp_path)
    done = tenter("hooks", "trust", "--digest", cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, done.out, done.err) == (0, f"{digest_of(tmp_path / 'tenter.yaml')}\n", "")
    as_json = tenter("hooks", "trust", "--digest", "--json", cwd=tmp_path, TENTER_TRUST="")
    assert json.loads(as_json.out) == {"digest": done.out.strip()}
    assert records(tmp_path) == []
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST=done.out.strip()).code == 0
    copy = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
    assert tenter("run", "job", cwd=copy, TENTER_TRUST=done.out.strip()).code == 0, "CI has it in another folder"
    hook_script(copy, "guard.sh", "exit 0")
    refused = tenter("run", "job", cwd=copy, TENTER_TRUST=done.out.strip())
    assert refused.code == 6
    assert "TENTER_TRUST is set, and is not the digest of what is there now" in refused.err


def test_the_variable_can_be_made_a_record(tmp_path: Path) -> None:
    project(tmp_path)
    assert tenter("hooks", "trust", "--yes", cwd=tmp_path).code == 0
    assert len(records(tmp_path)) == 1


def test_json_has_all_that_is_shown(tmp_path: Path) -> None:
    project(tmp_path)
    first = json.loads(tenter("hooks", "trust", "--yes", "--json", cwd=tmp_path, TENTER_TRUST="").out)
    assert {key: first[key] for key in ("path", "digest", "trusted", "recorded", "changes")} == {
        "path": str(tmp_path / "tenter.yaml"),
        "digest": digest_of(tmp_path / "tenter.yaml"),
        "trusted": True,
        "recorded": True,
        "changes": [],
    }
    assert [(one["kind"], one["name"]) for one in first["named"]] == [
        ("hook", "guard at run.start"),
        ("model", "default"),
    ]
    assert set(first["files"]) == {"guard.sh", "script.yaml"}
    hook_script(tmp_path, "guard.sh", "exit 0")
    second = json.loads(tenter("hooks", "trust", "--yes", "--json", cwd=tmp_path, TENTER_TRUST="").out)
    assert [(one["what"], one["name"]) for one in second["changes"]] == [("file", "guard.sh")]
    third = json.loads(tenter("hooks", "trust", "--json", cwd=tmp_path, TENTER_TRUST="").out)
    assert (third["trusted"], third["recorded"]) == (True, False)


def test_json_on_a_terminal_asks_on_standard_error(tmp_path: Path) -> None:
    project(tmp_path)
    with on_terminal("hooks", "trust", "--json", cwd=tmp_path, piped_out=True, TENTER_TRUST="") as terminal:
        terminal.wait_for("Trust this? [y/N]")
        terminal.type("y\n")
        done = terminal.end()
    assert done.code == 0
    assert json.loads(done.out)["recorded"] is True


@pytest.mark.promise(14)
@pytest.mark.parametrize("variable", INSIDE)
def test_nobody_vouches_for_themselves(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x")
    project(tmp_path)
    done = tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, done.out) == (1, "")
    assert f"{variable} is set: this was started by a run, a hook or a loop" in done.err
    made = tenter("init", "new", cwd=tmp_path, TENTER_TRUST="")
    assert made.code == 0
    assert f"not trusted yet ({variable} is set)" in made.out
    assert records(tmp_path) == []


@pytest.mark.promise(14)
def test_an_agent_cannot_trust_what_it_changed(tmp_path: Path) -> None:
    project(tmp_path)
    turns = [calls("shell", command="echo '# mine' >> guard.sh; tenter hooks trust --yes"), {"text": "done"}]
    (tmp_path / "script.yaml").write_text(json.dumps({"version": 1, "turns": turns}))
    done = tenter("run", "job", "--steps", cwd=tmp_path, PATH=f"{TENTER.parent}:/usr/bin:/bin")
    assert done.code == 0
    assert "TENTER_TOOL_CALL is set" in done.err
    assert records(tmp_path) == []
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 6


def test_the_marks_of_what_tenter_starts_are_all_known_here() -> None:
    assert set(COOKIES) <= set(INSIDE)


def test_a_mistake_in_the_file_comes_before_trust(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "script.yaml").write_text("version: 1\nturns: []\n")
    for verb in (["run", "job"], ["hooks", "trust"]):
        done = tenter(*verb, cwd=tmp_path, TENTER_TRUST="")
        assert done.code == 2
        assert "expected at least one turn" in done.err
    (tmp_path / "guard.sh").unlink()
    done = tenter("run", "job", cwd=tmp_path, TENTER_TRUST="")
    assert done.code == 2
    assert "'tenter hooks validate' shows all 2 problems" in done.err
    assert records(tmp_path) == []


def test_a_project_without_code_has_nothing_to_trust(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\n")
    done = tenter("hooks", "trust", cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, done.out) == (0, "tenter.yaml names no code: there is nothing to trust\n")
    assert records(tmp_path) == []
    assert json.loads(tenter("hooks", "list", "--json", cwd=tmp_path, TENTER_TRUST="").out)["trusted"] is True


def test_a_record_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "taken").write_text("")
    done = tenter("hooks", "trust", "--yes", cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "taken"), TENTER_TRUST="")
    assert done.code == 2
    assert "the record of trust cannot be written to" in done.err
    made = tenter("init", "new", cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "taken"), TENTER_TRUST="")
    assert made.code == 0
    assert "not trusted yet (the record of trust cannot be written" in made.out


@pytest.mark.promise(4)
@pytest.mark.fault(43)
def test_what_is_shown_is_escaped_and_holds_no_secret(tmp_path: Path) -> None:
    hostile = "x\x1b[2J\u202e\u2028"
    hooks = [
        {"name": "a", "script": f"echo {KEY} {hostile}\nexit 0", "on_error": "warn", "env": {"TOKEN": "opensesame"}},
        {"name": "b", "command": ["sh", f"./{hostile}"], "on_error": "warn"},
    ]
    (tmp_path / hostile).write_text("exit 0")
    write_project(tmp_path, [{"text": "done"}], events={"run.start": hooks})
    shown = [tenter("hooks", "trust", "--yes", *more, cwd=tmp_path, TENTER_TRUST="").out for more in ([], ["--json"])]
    (tmp_path / hostile).write_text("exit 1")
    hooks[0]["script"] = f"echo {KEY}2 {hostile}"
    write_project(tmp_path, [{"text": "done"}], events={"run.start": hooks})
    shown += [tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").err]
    shown += [tenter("hooks", "trust", *more, cwd=tmp_path, TENTER_TRUST="").out for more in ([], ["--json"])]
    for text in shown:
        assert all(line.isprintable() for line in text.splitlines())
        assert KEY not in text
        assert "opensesame" not in text
    assert "the file x\\x1b[2J\\u202e\\u2028: content " in shown[2]


@pytest.mark.fault(55)
def test_an_untrusted_project_is_listed_as_such_and_validated(tmp_path: Path) -> None:
    project(tmp_path)
    told = "untrusted: nothing of tenter.yaml runs; 'tenter hooks trust' shows what would"
    listed = tenter("hooks", "list", cwd=tmp_path, TENTER_TRUST="").out.splitlines()
    assert [line.split()[:3] for line in listed if "guard" in line] == [["-", "guard", "[untrusted]"]]
    assert listed[-1] == told
    as_json = json.loads(tenter("hooks", "list", "--json", cwd=tmp_path, TENTER_TRUST="").out)
    assert as_json["trusted"] is False
    assert [(row["name"], row["order"]) for row in as_json["rows"] if row["untrusted"]] == [("guard", 0)]
    assert tenter("hooks", "validate", cwd=tmp_path, TENTER_TRUST="").out.splitlines() == ["ok: tenter.yaml", told]
    assert json.loads(tenter("hooks", "validate", "--json", cwd=tmp_path, TENTER_TRUST="").out)["trusted"] is False
    assert json.loads(tenter("hooks", "validate", "--json", cwd=tmp_path).out)["trusted"] is True
    assert not (tmp_path / "ran").exists()


def test_init_trusts_what_it_has_just_written_and_nothing_later(tmp_path: Path) -> None:
    done = tenter("init", cwd=tmp_path, TENTER_TRUST="")
    assert "trusted what was written" in done.out
    assert tenter("run", "hello", cwd=tmp_path, TENTER_TRUST="").code == 0
    (tmp_path / "script.yaml").write_text((tmp_path / "script.yaml").read_text() + "\n# mine\n")
    assert tenter("run", "hello", cwd=tmp_path, TENTER_TRUST="").code == 6


def test_another_configuration_of_the_folder_is_named_in_what_to_do(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "other.yaml").write_text((tmp_path / "tenter.yaml").read_text())
    refused = tenter("run", "job", "-c", "other.yaml", cwd=tmp_path, TENTER_TRUST="")
    assert refused.code == 6
    assert "'tenter hooks trust --config other.yaml'" in refused.err
    unasked = tenter("hooks", "trust", "--config", "other.yaml", cwd=tmp_path, TENTER_TRUST="")
    assert "'tenter hooks trust --config other.yaml --yes'" in unasked.err
    assert tenter("hooks", "trust", "--yes", "--config", "other.yaml", cwd=tmp_path, TENTER_TRUST="").code == 0
    assert tenter("run", "job", "-c", "other.yaml", cwd=tmp_path, TENTER_TRUST="").code == 0
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 6


def test_what_was_trusted_from_a_program_counts_for_the_command_line(tmp_path: Path) -> None:
    project(tmp_path)
    trust(tmp_path / "tenter.yaml", {"XDG_STATE_HOME": str(tmp_path.parent / f"{tmp_path.name}-state")})
    assert tenter("run", "job", cwd=tmp_path, TENTER_TRUST="").code == 0


@pytest.mark.promise(14)
def test_words_that_look_like_files_and_are_nowhere_are_told_as_notes(tmp_path: Path) -> None:
    project(tmp_path)
    told = "note: hook late at run.start: there is nothing at './late.sh'; where that is a file that runs"
    assert tenter("hooks", "validate", cwd=tmp_path).out.count("note:") == 0
    hook = {"name": "late", "script": f"cd sub 2>/dev/null; ./late.sh {KEY}; ./{KEY}", "on_error": "warn"}
    write_project(tmp_path, [{"text": "done"}], events={"run.start": [hook]})
    validated = tenter("hooks", "validate", cwd=tmp_path)
    assert (validated.code, [line.startswith(told) for line in validated.out.splitlines()]) == (0, [False, True, False])
    as_json = tenter("hooks", "validate", "--json", cwd=tmp_path)
    assert [note.startswith(told) for note in json.loads(as_json.out)["notes"]] == [True, False]
    shown = tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST="")
    assert shown.code == 0
    assert shown.err.startswith(told)
    quiet = tenter("hooks", "trust", "--digest", cwd=tmp_path, TENTER_TRUST="")
    assert (quiet.code, quiet.err) == (0, "")
    assert KEY not in validated.out + as_json.out + shown.err
    (tmp_path / "sub").mkdir()
    hook_script(tmp_path / "sub", "late.sh", "exit 0")
    hook_script(tmp_path, KEY, "exit 0")
    refused = tenter("run", "job", cwd=tmp_path, TENTER_TRUST="")
    assert refused.code == 6, "what came there later is not what was trusted"
    assert "sub/late.sh" in refused.err
