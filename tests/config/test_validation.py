"""Everything that is wrong is found at once, with its place, and nothing that a file names is run or imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from tenter.config.problem import ConfigError, Position, Problem
from tenter.config.validation import validate

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def problems(path: Path, **environment: str) -> list[str]:
    found = validate(path, builtin_tools=["shell"], environment={**ENVIRONMENT, **environment})
    return [str(one).replace(str(path.parent), "DIR") for one in found]


def test_a_file_that_is_right_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("")
    (tmp_path / "mine.py").write_text("def lookup(): ...\ndef f(event): ...\n")
    path = tmp_path / "tenter.yaml"
    path.write_text("""\
version: 1
models: {default: {provider: scripted, file: script.yaml}}
tasks: {fix: {version: 1, model: default, instructions: x, tools: [shell, lookup], budgets: {tool_calls: 3}}}
tools: {lookup: {python: "mine:lookup"}}
policy: [{name: r, at: tool.before, match: {tool: shell}, then: suspend, reason: x, editable: [command]}]
hooks:
  events:
    tool.before:
      - {name: a, command: [sh, -c, "exit 0"], on_error: block, verdict: json, mutate: {enabled: true}}
      - {name: b, python: "mine:f"}
""")
    assert problems(path) == []


def test_a_circle_of_subtasks_and_a_rule_at_no_point_are_found_beside_other_problems(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("")
    path = tmp_path / "tenter.yaml"
    path.write_text("""\
version: 1
models: {default: {provider: scripted, file: script.yaml}}
tasks:
  a: {version: 1, model: default, instructions: x, subtasks: [b], budgets: {tokens: none}}
  b: {version: 1, model: default, instructions: x, subtasks: [a, c]}
policy:
  - {name: r, at: tool.befor, then: block, reason: x, queue: ops}
  - {name: s, at: run.start, then: escalate, reason: x}
""")
    assert [one.removeprefix("DIR/tenter.yaml:") for one in problems(path)] == [
        (
            "4:85: at tasks.a.budgets.tokens: expected a whole number from 1 to 1000000000000, got 'none'; "
            "write a plain decimal number, without quotes"
        ),
        (
            "5:63: at tasks.b.subtasks[0]: the task 'a' would spawn itself: a -> b -> a; "
            "take one of them out of the 'subtasks' that it stands in"
        ),
        "5:66: at tasks.b.subtasks[1]: expected the name of a task, got 'c'; there are a, b",
        "7:19: at policy[0].at: there is no point 'tool.befor'; did you mean 'tool.before'?",
        (
            "7:55: at policy[0].queue: 'queue' cannot stand where 'then' is block; "
            "it names the people whom an escalation is handed to"
        ),
        "8:36: at policy[1].then: the rule 's' at 'run.start' cannot escalate; this point takes block",
    ]


@pytest.mark.fault(53)
@pytest.mark.promise(2)
def test_problems_of_every_kind_are_found_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def lookup(): ...\n")
    path = tmp_path / "tenter.yaml"
    path.write_text("""\
version: 1
modles: {}
models: {default: {provider: scripted, file: gone.yaml}}
tasks: {fix: {version: 1, model: default, instructions: x, tools: [shel]}}
tools: {lookup: {python: "mine:look"}}
hooks:
  plugins: ["gone:Audit"]
  events:
    tool.befor:
      - {name: a, script: x, on_error: block}
    run.start:
      - {name: a, script: x, on_error: suspend, prioritty: 3}
      - {name: a, command: [./gone], on_error: block, suspend_mode: later}
      - {name: b, python: "mine:nothing", when: x}
      - {name: ../../x, script: x, on_error: block}
""")
    assert [one.removeprefix("DIR/tenter.yaml:") for one in problems(path)] == [
        "2:1: at modles: unknown key 'modles'; did you mean 'models'?",
        (
            "3:46: at models.default.file: the script 'gone.yaml' of the model 'default' cannot be read: "
            "No such file or directory; a path starts at this file"
        ),
        "4:68: at tasks.fix.tools[0]: expected the name of a tool, got 'shel'; did you mean 'shell'?",
        (
            "5:26: at tools.lookup.python: the target 'mine:look': there is no 'look' in DIR/mine.py; "
            "did you mean 'lookup'?"
        ),
        "7:13: at hooks.plugins[0]: the plugin 'gone:Audit': there is no module 'gone', neither installed nor in 'DIR'",
        "9:5: at hooks.events.tool.befor: there is no point 'tool.befor'; did you mean 'tool.before'?",
        (
            "12:40: at hooks.events.run.start[0].on_error: hook 'a' at 'run.start' has on_error 'suspend'; "
            "this point takes 'warn', 'block', 'fail'"
        ),
        "12:49: at hooks.events.run.start[0].prioritty: unknown key 'prioritty'; did you mean 'priority'?",
        (
            "13:16: at hooks.events.run.start[1].name: the name 'a' is taken at 'run.start', by DIR/tenter.yaml:12:16; "
            "give it another name"
        ),
        (
            "13:29: at hooks.events.run.start[1].command[0]: the program './gone' does not exist: "
            "there is no file 'DIR/gone'; a path starts at this file"
        ),
        (
            "13:69: at hooks.events.run.start[1].suspend_mode: expected 'wait_for_resume' or 'retry_backoff' or "
            "'wait_then_retry', got 'later'"
        ),
        "14:27: at hooks.events.run.start[2].python: the target 'mine:nothing': there is no 'nothing' in DIR/mine.py",
        "14:43: at hooks.events.run.start[2].when: 'when' is not supported yet; remove it",
        (
            "15:16: at hooks.events.run.start[3].name: expected a name (lower-case letters, digits, '_' and '-', "
            "not '-' first, at most 64, no device such as 'con'), got '../../x'"
        ),
    ]


@pytest.mark.fault(10)
def test_the_programs_of_backends_are_looked_for_also_where_the_loop_has_other_problems(tmp_path: Path) -> None:
    path = tmp_path / "tenter.yaml"
    path.write_text("""\
version: 1
loop:
  backend: {command: [./agent.sh], prompt: stdni}
  max_iterations: 0
  hats:
    builder: {triggers: [build..x], backend: {command: [./lost]}}
    tester: {triggers: [a], backend: {command: [coder-x]}}
""")
    assert [one.split("; ")[0].removeprefix("DIR/tenter.yaml:") for one in problems(path)] == [
        "3:23: at loop.backend.command[0]: the program './agent.sh' does not exist: there is no file 'DIR/agent.sh'",
        "3:44: at loop.backend.prompt: expected 'stdin' or 'argument', got 'stdni'",
        "4:19: at loop.max_iterations: expected a whole number from 1 to 1000000, got 0",
        (
            "6:26: at loop.hats.builder.triggers[0]: expected a topic, in which '*' may stand for any of the words "
            "between its dots, got 'build..x'"
        ),
        "7:49: at loop.hats.tester.backend.command[0]: the program 'coder-x' is not on PATH",
    ]


def test_the_users_file_is_held_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "tenter").mkdir()
    (tmp_path / "tenter" / "tenter.yaml").write_text("version: 1\nhooks: {events: {tool.befor: []}}\ntasks: {}\n")
    (tmp_path / "tenter.yaml").write_text("version: 1\nhooks: {events: {tool.aftr: []}}\n")
    assert [one.split(": ")[0] for one in problems(tmp_path / "tenter.yaml", XDG_CONFIG_HOME=str(tmp_path))] == [
        "DIR/tenter.yaml:2:18",
        "DIR/tenter/tenter.yaml:2:18",
        "DIR/tenter/tenter.yaml:3:1",
    ]


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "tenter.yaml") == [
        "DIR/tenter.yaml: there is no such file; make one with 'tenter init', or name another"
    ]


@pytest.mark.fault(55)
def test_validating_and_listing_run_nothing_and_import_nothing(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    (tmp_path / "mine.py").write_text(f"open({str(touched)!r}, 'w').close()\ndef f(event): ...\n")
    guard = tmp_path / "guard.sh"
    guard.write_text(f"#!/bin/sh\ntouch {touched}\n")
    guard.chmod(0o755)
    (tmp_path / "tenter.yaml").write_text(f"""\
version: 1
hooks:
  events:
    tool.before:
      - {{name: a, command: [./guard.sh], on_error: block}}
      - {{name: b, script: "touch {touched}", on_error: block}}
      - {{name: c, python: "mine:f"}}
""")
    script = (
        "import sys; from tenter.config import list_hooks, load, validate\n"
        "assert validate('tenter.yaml', environment={'PATH': '/bin'}) == ()\n"
        "listed = list_hooks(load('tenter.yaml'), None, {'PATH': '/bin'}).rows\n"
        "assert [row.name for row in listed if row.band == 'app'] == ['a', 'b', 'c']\n"
        "heavy = {'asyncio', 'sqlite3', 'subprocess', 'rich', 'httpx', 'mine'}\n"
        "print(*{name.split('.')[0] for name in sys.modules} & heavy)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == ""
    assert not touched.exists()


def test_a_wrong_key_in_a_pattern_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "tenter.yaml"
    path.write_text("""\
version: 1
hooks:
  events:
    tool.before:
      - {name: a, script: x, on_error: warn, match: {tool: {regex: a}}}
""")
    (said,) = problems(path)
    assert said.endswith("at hooks.events.tool.before[0].match.tool.regex: unknown key 'regex'; the keys here are re")


def test_what_the_checker_of_scripts_finds_is_told_once_for_each_script(tmp_path: Path) -> None:
    path, script = tmp_path / "tenter.yaml", tmp_path / "script.yaml"
    script.write_text("turns: []\n")
    model = "{provider: scripted, file: script.yaml}"
    path.write_text(f"version: 1\nmodels: {{a: {model}, b: {model}}}\n")

    def refuse(asked: Path) -> None:
        raise ConfigError([Problem(where=Position(str(asked), 1, 8), message="no turns")])

    assert [str(one) for one in validate(path, environment=ENVIRONMENT, check_script=refuse)] == [
        f"{script}:1:8: no turns"
    ]


def test_a_working_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "tenter.yaml"
    (tmp_path / "sub").mkdir()
    path.write_text("""\
version: 1
hooks:
  events:
    tool.before:
      - {name: a, script: x, on_error: warn, cwd: sub}
      - {name: b, script: x, on_error: warn, cwd: nodir}
""")
    (said,) = problems(path)
    assert said.startswith("DIR/tenter.yaml:6:51: at hooks.events.tool.before[1].cwd: there is no folder 'nodir'; ")
    off = path.read_text().replace("hooks:", "hooks:\n  enabled: false")
    path.write_text(f"{off}policy: [{{name: r, at: tool.before, then: block, reason: x}}]\n")
    assert problems(path) == [], "what is switched off needs no folder, whatever the rules are"
