"""`tenter emit` publishes one event from anywhere inside a loop, or says why not, and is cheap to start."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.commandline import TENTER, Ended, environment, tenter

HEAVY = {"asyncio", "sqlite3", "subprocess", "rich", "httpx", "jsonschema", "re2", "yaml"}
MB = 1 << 20


def emit(folder: Path, *arguments: str, stdin: bytes = b"", **variables: str) -> Ended:
    given = {"TENTER_EVENTS_FILE": str(folder / "events.jsonl"), **variables}
    return tenter("emit", *arguments, cwd=folder, stdin=stdin, **given)


def events(folder: Path) -> list[Any]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_text_is_published_and_nothing_is_printed(tmp_path: Path) -> None:
    assert emit(tmp_path, "build.done", "all $(green) \n'now'") == Ended(0, "", "")
    (event,) = events(tmp_path)
    assert event.pop("at") > 1_700_000_000
    assert event == {"schema_version": 1, "topic": "build.done", "payload": "all $(green) \n'now'"}


def test_with_json_the_payload_is_a_value_and_the_event_is_printed(tmp_path: Path) -> None:
    done = emit(tmp_path, "a", '{"n": [1, null, "é\\u2028"]}', "--json")
    assert (done.code, done.err, done.out.isascii(), len(done.out.splitlines())) == (0, "", True, 1)
    assert [json.loads(done.out)] == events(tmp_path)
    assert events(tmp_path)[0]["payload"] == {"n": [1, None, "é\u2028"]}


@pytest.mark.parametrize(
    ("arguments", "stdin", "payload"),
    [
        ((), b"not read", None),
        (("--json",), b"", None),
        (("",), b"", ""),
        (("-",), b"two\nlines\n\n", "two\nlines\n"),
        (("-",), b"", ""),
        (("-",), b"no text \xff\0", "no text \\xff\0"),
        (("-", "--json"), b' {"a": 1}\n', {"a": 1}),
        (("7",), b"", "7"),
        (("7", "--json"), b"", 7),
        (("--", "--json"), b"", "--json"),
        ((os.fsdecode(b"\xff"),), b"", "\\xff"),
        (("-",), b"x" * MB + b"\n", "x" * MB),
    ],
)
def test_the_payload_is_what_was_given(
    arguments: tuple[str, ...], stdin: bytes, payload: object, tmp_path: Path
) -> None:
    assert emit(tmp_path, "a.b", *arguments, stdin=stdin).code == 0
    assert [event["payload"] for event in events(tmp_path)] == [payload]


def test_it_works_from_any_folder(tmp_path: Path) -> None:
    inner = tmp_path / "some where"
    inner.mkdir()
    assert tenter("emit", "a", cwd=inner, TENTER_EVENTS_FILE=str(tmp_path / "events.jsonl")).code == 0
    assert len(events(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (None, "works only inside a loop, whose agent has the variable TENTER_EVENTS_FILE"),
        ("", "works only inside a loop, whose agent has the variable TENTER_EVENTS_FILE"),
        ("events.jsonl", "TENTER_EVENTS_FILE must be an absolute path, not 'events.jsonl'"),
    ],
)
def test_outside_a_loop_it_is_refused_and_writes_nothing(
    file: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENTER_EVENTS_FILE", raising=False)
    if file is not None:
        monkeypatch.setenv("TENTER_EVENTS_FILE", file)
    done = tenter("emit", "a.b", "text", cwd=tmp_path)
    assert (done.code, done.out, says in done.err) == (2, "", True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("topic", ["", "a b", "a..b", ".a", "a/b", "é", "a\n", "x" * 201, "*", "a.*"])
def test_what_is_no_topic_is_refused_and_shown_on_one_line(topic: str, tmp_path: Path) -> None:
    done = emit(tmp_path, topic, "text")
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "is no topic; expected words of letters, digits" in done.err
    assert events(tmp_path) == []


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' stands twice in one object"),
        ("NaN", "NaN is no JSON value"),
        ("text", "Expecting value"),
        ("1 2", "Extra data"),
        ("", "it is empty"),
        ('"\\ud800"', "the text holds half a surrogate pair"),
    ],
)
def test_json_that_readers_would_take_differently_is_refused(payload: str, why: str, tmp_path: Path) -> None:
    done = emit(tmp_path, "a", payload, "--json")
    assert (done.code, json.loads(done.out)["error"]["exit_code"]) == (2, 2)
    assert f"the payload is not one JSON value: {why}" in done.err
    assert events(tmp_path) == []


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_more_than_a_mebibyte_is_refused_without_reading_on(as_json: tuple[str, ...], tmp_path: Path) -> None:
    source = subprocess.Popen(["/usr/bin/env", "yes"], stdout=subprocess.PIPE)
    try:
        done = subprocess.run(
            [TENTER, "emit", "a", "-", *as_json],
            stdin=source.stdout,
            env=environment(tmp_path, TENTER_EVENTS_FILE=str(tmp_path / "events.jsonl")),
            capture_output=True,
            timeout=20,
            check=False,
        )
    finally:
        source.kill()
        source.communicate(timeout=5)
    assert done.returncode == 2
    assert b"the payload has more than 1048576 bytes (1 MiB); put it into a file and publish its name" in done.stderr
    assert events(tmp_path) == []


def test_a_loop_that_is_gone_is_a_failure_that_says_so(tmp_path: Path) -> None:
    done = emit(tmp_path, "a", TENTER_EVENTS_FILE=str(tmp_path / "gone" / "events.jsonl"))
    assert (done.code, done.out) == (1, "")
    assert "is not there any more; is the loop over?" in done.err


@pytest.mark.fault(38)
def test_a_full_disk_is_a_failure_and_leaves_no_part_of_an_event(tmp_path: Path) -> None:
    emit(tmp_path, "a", "first")
    before = (tmp_path / "events.jsonl").read_bytes()
    done = subprocess.run(
        [TENTER, "emit", "a", "-"],
        input=b"x" * 100_000,
        env=environment(tmp_path, TENTER_EVENTS_FILE=str(tmp_path / "events.jsonl")),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the event was not published" in done.stderr
    assert (tmp_path / "events.jsonl").read_bytes() == before


@pytest.mark.fault(39)
def test_eight_processes_at_once_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    script = f'for each in 1 2 3 4 5; do "{TENTER}" emit "w$1.e$each" - < "$2" || exit 1; done'
    (tmp_path / "payload").write_bytes(b"y" * 50_000)
    variables = environment(tmp_path, TENTER_EVENTS_FILE=str(tmp_path / "events.jsonl"))
    writers = [
        subprocess.Popen(["/bin/sh", "-c", script, "sh", str(number), str(tmp_path / "payload")], env=variables)
        for number in range(8)
    ]
    assert [writer.wait(50) for writer in writers] == [0] * 8
    found = [(event["topic"], event["payload"]) for event in events(tmp_path)]
    assert sorted(found) == sorted((f"w{n}.e{each}", "y" * 50_000) for n in range(8) for each in range(1, 6))
    of_one = [topic for topic, _ in found if topic.startswith("w3.")]
    assert of_one == [f"w3.e{each}" for each in range(1, 6)]


def test_it_loads_no_event_loop_and_no_harness(tmp_path: Path) -> None:
    code = (
        "import json, sys\nfrom tenter.cli.entry import run\n"
        "run(['emit', 'a.b', '{}', '--json'])\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path, TENTER_EVENTS_FILE=str(tmp_path / "events.jsonl")),
        capture_output=True,
        timeout=20,
        check=True,
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "tenter.cli.emit" in loaded
    assert not loaded & HEAVY
    assert not [name for name in loaded if name.startswith(("tenter.harness", "tenter.executors", "tenter.journal"))]
