"""`tenter hooks` says what will run, what is wrong, what the documents are, and what ran, and runs nothing itself."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from tests.commandline import trust

from tenter.cli.entry import run
from tenter.journal import Entry, SqliteStore, Stream
from tenter.kernel import FrozenDict, TenterError

FILE = """\
version: 1
secrets: [TENTER_TEST_VALUE]
hooks:
  defaults: {timeout_seconds: 20}
  events:
    tool.before:
      - {name: guard, match: {tool: [shell, "w*"]}, command: [sh], on_error: block}
      - {name: watch, script: "exit 0", on_error: warn, observe: true, mode: shadow, timeout_seconds: 1.5}
    tool.invoked.in:
      - {name: cache, script: "exit 0", on_error: fail, priority: 7, match: {tool: {re: "a|b"}}}
"""


def project(folder: Path, text: str = FILE) -> list[str]:
    """A project that is trusted as it is, where its file can be used."""
    (folder / "tenter.yaml").write_text(text)
    with contextlib.suppress(TenterError):
        trust(folder / "tenter.yaml")
    return ["--config", str(folder / "tenter.yaml")]


def out(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 0) -> str:
    assert run(["hooks", *arguments]) == code
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def no_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of whoever runs the tests do not count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


CHECKS = tuple(enumerate(("resolve", "offered", "arguments", "principal", "policy", "budget", "duplicate", "risk"), 2))
"""The governor's checks of a tool call, after one hook of the project."""


@pytest.mark.promise(15)
def test_a_listing_shows_each_point_with_its_hooks_in_running_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = out(capsys, ["list", *project(tmp_path)]).replace(str(tmp_path), "DIR").splitlines()
    rows = [" ".join(line.split()) for line in shown]
    assert rows == [
        "# hook band prio kind match on_error deadline abandon declared at",
        "model.before (llm.invoked.pre)",
        "1 budget gate 1 governor - block none (inline) no tenter",
        "tool.before (tool.invoked.pre)",
        "1 guard app 500 command tool=shell|w* block 20 s hard no DIR/tenter.yaml:7",
        *(f"{order} {check} gate {order - 1} governor - block none (inline) no tenter" for order, check in CHECKS),
        "10 watch [observe] [shadow] app 500 command - warn 1.5 s hard no DIR/tenter.yaml:8",
        "tool.invoked.in",
        "1 cache app 7 command tool=/a|b/ fail 20 s hard no DIR/tenter.yaml:10",
        "2 tool.invoked - 1000 body - - - - tenter",
    ]


def test_a_listing_of_one_point_takes_any_of_its_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path)
    shown = out(capsys, ["list", "tool.before", *config])
    assert shown == out(capsys, ["list", "pre.tool.invoked", *config])
    assert "guard" in shown
    assert "cache" not in shown


def test_an_unknown_point_is_a_mistake_with_the_nearest_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["hooks", "list", "tool.befor", *project(tmp_path)]) == 2
    assert "did you mean 'tool.before'?" in capsys.readouterr().err


def test_all_points_are_listed_with_when_they_fire_and_what_they_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = out(capsys, ["list", "--all", *project(tmp_path, "version: 1\n")])
    assert "run.end (run.post)\n  Once for every terminal state" in shown
    assert "  answers: block, retry, replace\n" in shown


def test_a_listing_as_json_has_the_same_rows_and_the_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(out(capsys, ["list", "--json", *project(tmp_path)]))
    assert [one["point"] for one in shown["points"]] == ["model.before", "tool.before", "tool.invoked.in"]
    assert [(row["name"], row["order"], row["on_error"]) for row in shown["rows"]] == [
        ("budget", 1, "block"),
        *(("guard", 1, "block"), *((check, order, "block") for order, check in CHECKS), ("watch", 10, "warn")),
        *(("cache", 1, "fail"), ("tool.invoked", 2, None)),
    ]
    assert (shown["rows"][1]["match"], shown["unlisted"]) == ({"tool": ["shell", "w*"]}, [])


def test_what_only_loading_would_tell_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("made = print\n")
    text = "version: 1\nhooks: {plugins: ['mine:made'], events: {run.end: [{name: a, python: 'mine:made'}]}}"
    shown = out(capsys, ["list", *project(tmp_path, text)])
    assert "1  a*" in shown
    assert "* a Python hook may say otherwise" in shown
    assert f"plugin mine:made ({tmp_path}/tenter.yaml:2): known when it is loaded" in shown


@pytest.mark.promise(4)
def test_a_secret_in_the_file_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENTER_TEST_VALUE", "wonderland")
    config = project(tmp_path, FILE.replace("[shell,", "[wonderland, ghp_" + "a" * 36 + ","))
    for arguments in (["list"], ["list", "--json"]):
        shown = out(capsys, [*arguments, *config])
        assert "wonderland" not in shown
        assert "ghp_a" not in shown
    config = project(tmp_path, f"version: ghp_{'a' * 36}\n")
    for arguments in (["validate"], ["validate", "--json"], ["list"]):
        assert run(["hooks", *arguments, *config]) == 2
        captured = capsys.readouterr()
        assert "expected 1, got" in captured.out + captured.err
        assert "ghp_a" not in captured.out + captured.err


def test_a_file_that_is_right_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path)
    assert out(capsys, ["validate", *config]) == f"ok: {config[1]}\n"
    assert json.loads(out(capsys, ["validate", "--json", *config])) == {
        "ok": True,
        "problems": [],
        "switched_off": [],
        "trusted": True,
        "notes": [],
    }


def test_hooks_that_are_switched_off_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path, FILE.replace("hooks:\n", "hooks:\n  enabled: false\n"))
    said = f"hooks are switched off ({config[1]}:4)"
    assert out(capsys, ["list", *config]).splitlines()[-1] == said
    assert out(capsys, ["validate", *config]).splitlines() == [f"ok: {config[1]}", said]
    for verb in ("list", "validate"):
        assert json.loads(out(capsys, [verb, "--json", *config]))["switched_off"] == [said]


def test_the_script_of_a_model_is_validated_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.yaml").write_text("version: 1\nturns: []\n")
    config = project(tmp_path, "version: 1\nmodels: {default: {provider: scripted, file: script.yaml}}\n")
    said = out(capsys, ["validate", *config], 2)
    assert "script.yaml:2:1: at turns: expected at least one turn; write the model's first answer" in said


@pytest.mark.fault(53)
@pytest.mark.fault(64)
def test_every_problem_is_printed_on_one_harmless_line_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("../../x", "/etc/x", "a\\0b", "a\\nb", "..", "con", "a" * 300, "e\\u0301", "%2e%2e", "\\e[2J")
    hooks = "".join(f'      - {{name: "{name}", script: x, on_error: warn}}\n' for name in names)
    config = project(tmp_path, f"version: 1\nhoks: {{}}\nhooks:\n  events:\n    tool.befor:\n{hooks}")
    assert run(["hooks", "validate", *config]) == 2
    captured = capsys.readouterr()
    lines = captured.out.replace(f"{tmp_path}/", "").splitlines()
    assert lines[0] == "tenter.yaml:2:1: at hoks: unknown key 'hoks'; did you mean 'hooks'?"
    assert len(lines) == len(names) + 2
    assert all(line.isprintable() for line in lines)
    assert captured.err == f"{len(lines)} problems\n"


def test_problems_as_json_have_place_path_message_and_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path, "version: 1\nhooks: {events: {tool.befor: []}}\n")
    assert json.loads(out(capsys, ["validate", "--json", *config], 2)) == {
        "ok": False,
        "problems": [
            {
                "file": config[1],
                "line": 2,
                "column": 18,
                "path": ["hooks", "events", "tool.befor"],
                "message": "there is no point 'tool.befor'",
                "hint": "did you mean 'tool.before'?",
            }
        ],
        "switched_off": [],
        "trusted": None,
        "notes": [],
    }


def test_listing_what_is_wrong_is_a_mistake_that_tells_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = project(tmp_path, "version: 1\nhooks: {events: {tool.befor: [], tool.aftr: []}}\n")
    assert run(["hooks", "list", *config]) == 2
    assert capsys.readouterr().err.count("there is no point") == 2


@pytest.mark.parametrize("what", ["payload", "verdict", "tool.before", "post.llm.invoked"])
def test_a_schema_is_a_json_schema(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(out(capsys, ["schema", what]))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(out(capsys, ["schema", what, "--json"])) == schema


def test_a_schema_of_nothing_known_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hooks", "schema", "tool.befor"]) == 2
    assert "did you mean 'tool.before'?" in capsys.readouterr().err


async def journal(folder: Path) -> None:
    """One hook that ended and one that did not, in a run."""
    store = SqliteStore(folder / ".tenter" / "journal.db", lambda: 1_000.0)
    same = {"point": "tool.invoked.pre", "key": "k"}
    entries = [
        ("hook_started", {**same, "id": "1", "hook": "guard", "at": 1_000.0}),
        (
            "hook_ended",
            {**same, "id": "1", "hook": "guard", "started_at": 1_000.0, "ended_at": 1_001.0, "duration_ms": 1_000.0}
            | {"result": "crashed", "disposition": "block", "exit_code": 1, "error": "it \x1b[2J said no"},
        ),
        ("hook_started", {**same, "id": "2", "hook": "lost", "at": 1_002.0}),
    ]
    run_entries = [Entry(kind=kind, time=0, content=FrozenDict(content)) for kind, content in entries]
    await store.append(Stream("run", "abcdef"), [Entry(kind="run", time=0, content={"task": "fix"}), *run_entries])
    await store.close()


async def make(folder: Path) -> list[str]:
    await journal(folder)
    return project(folder)


def test_the_log_shows_what_ran_and_a_start_without_an_end_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = asyncio.run(make(tmp_path))
    assert out(capsys, ["log", *config]).splitlines() == [
        "1970-01-01T00:16:40Z  abcdef  tool.before  guard  crashed exit 1 -> block in 1.0 s: it \\x1b[2J said no",
        (
            "1970-01-01T00:16:42Z  abcdef  tool.before  lost  no end on record: it was running when its process ended, "
            "or still is"
        ),
    ]
    assert len(out(capsys, ["log", "--run", "abc", "--last", "1", *config]).splitlines()) == 1
    shown = json.loads(out(capsys, ["log", "--json", *config]))
    assert [(one["hook"], one["run_id"], one["finished"], one["started_at"]) for one in shown] == [
        ("guard", "abcdef", True, 1_000.0),
        ("lost", "abcdef", False, 1_002.0),
    ]
    assert run(["hooks", "log", "--run", "zzz", *config]) == 2
    assert "there is no run 'zzz'" in capsys.readouterr().err


async def loop_journal(folder: Path) -> list[str]:
    store = SqliteStore(folder / ".tenter" / "journal.db")
    content = {"id": "1", "key": "k", "hook": "guard", "point": "loop.start.pre", "at": 1_000.0, "attempt": 1}
    await store.append(Stream("loop", "loop-12ab-34cd"), [Entry(kind="hook_started", time=0, content=content)])
    await store.close()
    return await make(folder)


def test_the_log_of_a_loop_is_one_document_of_telemetry_or_lines_as_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = asyncio.run(loop_journal(tmp_path))
    (record,) = json.loads(out(capsys, ["log", "--loop", "loop-12", "--json", *config]))
    assert (record["loop_id"], record["phase_event"], record["hook_name"]) == (
        *("loop-12ab-34cd", "pre.loop.start"),
        "guard",
    )
    (line,) = out(capsys, ["log", "--loop", "loop-12ab-34cd", *config]).splitlines()
    assert line.startswith("1970-01-01T00:16:40Z  loop-12ab-34cd  loop.start.pre  guard  no end on record")
    every = json.loads(out(capsys, ["log", "--json", *config]))
    assert sorted((one["run_id"] or "", one["loop_id"] or "") for one in every) == [
        ("", "loop-12ab-34cd"),
        ("abcdef", ""),
        ("abcdef", ""),
    ]
    assert run(["hooks", "log", "--loop", "zzz", *config]) == 2
    assert "there is no loop 'zzz'" in capsys.readouterr().err
    assert run(["hooks", "log", "--loop", "loop-12", "--run", "abc", *config]) == 2
    assert "--run and --loop exclude each other" in capsys.readouterr().err


def test_a_log_without_a_journal_is_empty_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path)
    assert out(capsys, ["log", *config]) == ""
    assert out(capsys, ["log", "--json", *config]) == "[]\n"
    assert not (tmp_path / ".tenter").exists()


@pytest.mark.parametrize("verb", ["list", "validate"])
def test_looking_loads_no_event_loop_database_process_or_network_library(verb: str, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("version: 1\nturns: [[{when: {matches: a+}, text: b}, c]]\n")
    with_model = f"{FILE}models: {{default: {{provider: scripted, file: script.yaml}}}}\n"
    script = (
        "import sys; from tenter.cli.entry import run; code = run(sys.argv[1:]);"
        "print(*{name.split('.')[0] for name in sys.modules} & {'asyncio', 'sqlite3', 'subprocess', 'rich', 'httpx'},"
        "file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "hooks", verb, *project(tmp_path, with_model)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ},
    )
    assert done.stderr.strip() == ""
    assert "tenter.yaml" in done.stdout
