"""Hooks of files become hooks that run, and what `hooks list` prints is what runs (promise 15)."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tenter.catalogue import CATALOGUE, ModelRequest
from tenter.config.build import build_hooks
from tenter.config.footprint import footprint
from tenter.config.listing import list_hooks, rows
from tenter.config.loading import load
from tenter.config.problem import ConfigError
from tenter.config.spec import Spec
from tenter.controls import GATES
from tenter.executors import HookEnded, HookStarted, Surroundings
from tenter.kernel import SYSTEM_CLOCK, SYSTEM_RANDOM, Block, Escalate, Event, FrozenDict, Redactor, Runtime
from tenter.testing import sample_event

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIVEN": "given"}


class Records:
    """Keeps what hooks outside the process hand over."""

    def __init__(self) -> None:
        self.ended_records: list[HookEnded] = []

    async def started(self, event: Event, record: HookStarted, /) -> None: ...

    async def ended(self, event: Event, record: HookEnded, /) -> None:
        self.ended_records.append(record)

    def accumulated(self, event: Event, /) -> FrozenDict[str, object]:
        return FrozenDict()


def surroundings(folder: Path, sink: Records | None = None) -> Surroundings:
    return Surroundings(
        workspace=str(folder),
        project_dir=str(folder),
        environment=ENVIRONMENT,
        sink=sink or Records(),
        redactor=Redactor(),
        clock=SYSTEM_CLOCK,
        random=SYSTEM_RANDOM,
    )


def runtime_of(folder: Path, sink: Records | None = None, *, user: Spec | None = None) -> Runtime:
    for module in ("mine", "theirs"):  # of the test before
        sys.modules.pop(module, None)
    spec = load(folder / "tenter.yaml")
    built = build_hooks(spec, surroundings(folder, sink), user=user)
    return Runtime(CATALOGUE, built, gates=GATES, timeout=spec.hooks.defaults.timeout_seconds)


def problems(folder: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        runtime_of(folder)
    return [str(one) for one in caught.value.problems]


MODULE = """\
from tenter.kernel import Block, Hook, hook

class Audit(Hook):
    observe = True
    def __init__(self, path=None): self.path = path
    def on_tool_before(self, event): ...
    async def on_tool_after(self, event, ended): ...
    def abandon(self, point, event, error): ...

class Guard(Hook):
    name = "guarding"
    priority = 10
    on_error = "fail"
    async def on_tool_invoked_pre(self, event): return Block("no")
    async def on_model_before(self, event): ...

audit = Audit("x")

@hook("tool.before", "model.after", match={"tool": "sh*"} and {"task": "fix"}, timeout=3)
def unsure(event): ...

@hook("tool.before", match={"tool": "sh*"}, priority=3, timeout=2, mode="shadow")
async def style(event): ...

@hook("task.created.in", name="deco")
def work(event): ...

def plain(event): return Block("plain")
"""

RICH = """\
version: 1
hooks:
  defaults: {timeout_seconds: 20}
  plugins: ["mine:audit", "mine.py:Guard", "mine:work"]
  events:
    tool.before:
      - {name: guard, match: {tool: [shell, "w*"]}, command: [true], on_error: block}
      - {name: style, python: "mine:style"}
      - {name: plain, python: "./mine.py:plain", priority: 900, on_error: warn}
      - {name: log, script: "exit 0", on_error: warn, observe: true, priority: 1}
    pre.tool.invoked:
      - {name: late, script: "exit 0", on_error: suspend, timeout_seconds: 3, mode: shadow}
    tool.invoked.in:
      - {name: cache, script: "exit 0", on_error: fail, verdict: json}
      - {name: seen, script: "exit 0", on_error: warn, observe: true}
    tool.after:
      - {name: z, script: "exit 0", on_error: block, priority: 1}
      - {name: a, script: "exit 0", on_error: block, priority: 2}
    model.before:
      - {name: of-class, python: "mine:Guard", timeout_seconds: 1}
    run.end:
      - {name: told, python: "mine:plain", match: {task: {re: "f.x"}}}
policy:
  - {name: rule, at: llm.invoked.pre, match: {alias: [a, "b*"]}, then: suspend, reason: x, expires_in_seconds: 5}
"""

USER = """\
version: 1
hooks:
  defaults: {timeout_seconds: 9}
  plugins: ["theirs:audit"]
  events:
    tool.before:
      - {name: first, script: "exit 0", on_error: block}
      - {name: theirs, python: "theirs:plain"}
"""


def rich(folder: Path) -> tuple[Spec, Spec]:
    (folder / "user").mkdir()
    (folder / "mine.py").write_text(MODULE)
    (folder / "user" / "theirs.py").write_text(
        MODULE.replace("class Audit(Hook):", "class Audit(Hook):\n    name = 'x'")
    )
    (folder / "tenter.yaml").write_text(RICH.replace("[true]", "['true']"))
    (folder / "user" / "tenter.yaml").write_text(USER)
    return load(folder / "tenter.yaml"), load(folder / "user" / "tenter.yaml", level="user")


@pytest.mark.promise(15)
def test_what_is_listed_without_loading_anything_is_what_runs(tmp_path: Path) -> None:
    spec, user = rich(tmp_path)
    listed = list_hooks(spec, user, ENVIRONMENT)
    assert listed.unlisted == ()
    assert listed.rows == rows(runtime_of(tmp_path, user=user).chains.values())
    at_tool = [row.name for row in listed.rows if row.full_name == "tool.invoked.pre"]
    assert at_tool == [
        *("first", "theirs", "style", "guarding", "guard", "late", "plain"),
        *(gate.name for gate in GATES if gate.point == "tool.invoked.pre"),
        *("x", "log", "audit"),
    ]
    assert [row.name for row in listed.rows if row.band == "control"] == ["rule"]


async def test_a_built_command_runs_its_program_in_the_workspace_and_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("""\
version: 1
hooks:
  defaults: {max_output_bytes: 5}
  events:
    tool.before:
      - {name: told, script: 'pwd > where; echo "$A $B" > what; echo 0123456789', on_error: block, env: {A: a}}
      - {name: kept, script: 'echo 0123456789', on_error: block, max_output_bytes: 7}
      - {name: deny, script: 'echo ''{"decision": "block", "reason": "no"}''', on_error: fail, verdict: json}
""")
    records = Records()
    decision = await runtime_of(tmp_path, records).dispatch("tool.before", sample_event("tool.before", tool="shell"))
    assert isinstance(decision.outcome, Block)
    assert decision.outcome.reason == "no"
    assert (tmp_path / "where").read_text() == f"{tmp_path}\n"
    assert (tmp_path / "what").read_text() == "a \n"
    assert [(one.hook, one.stdout) for one in records.ended_records][:2] == [("told", "01234"), ("kept", "0123456")]
    assert records.ended_records[2].result == "denied"


async def test_every_setting_of_a_process_reaches_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "tenter.yaml").write_text("""\
version: 1
hooks:
  events:
    tool.before:
      - {name: env, script: 'pwd; echo "$GIVEN"', on_error: warn, cwd: sub, pass_env: [GIVEN]}
      - {name: told, script: 'echo "$A"', env: {A: '{"metadata": {"x": 1}}'}, on_error: warn, verdict: json,
         mutate: {enabled: true}}
      - {name: untold, script: 'echo "$A"', env: {A: '{"metadata": {"x": 1}}'}, on_error: warn, verdict: json}
      - name: hung
        script: "trap '' TERM; while :; do :; done"
        on_error: warn
        timeout_seconds: 0.2
        grace_seconds: 0.1
""")
    records = Records()
    await runtime_of(tmp_path, records).dispatch("tool.before", sample_event("tool.before", tool="shell"))
    env, told, untold, hung = records.ended_records
    assert env.stdout == f"{tmp_path}/sub\ngiven\n"
    assert (told.metadata, untold.metadata) == ({"x": 1}, None)
    assert (hung.result, hung.duration_ms < 1_000) == ("timeout", True)


async def test_only_a_command_at_the_point_of_a_loop_is_tried_again_in_place(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("""\
version: 1
hooks:
  defaults: {suspend_mode: retry_backoff}
  events:
    tool.before: [{name: a, script: "exit 1", on_error: suspend}]
    loop.start.pre:
      - {name: b, script: "exit 1", on_error: suspend}
      - {name: c, script: "exit 1", on_error: suspend, suspend_mode: wait_then_retry}
""")
    pauses: list[float] = []

    async def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return True

    spec, records = load(tmp_path / "tenter.yaml"), Records()
    built = build_hooks(spec, replace(surroundings(tmp_path, records), pause=pause))
    runtime = Runtime(CATALOGUE, built)
    for point in ("tool.invoked.pre", "loop.start.pre"):
        await runtime.dispatch(point, sample_event(point, **({"tool": "shell"} if "tool" in point else {})))
    attempts = {name: [one.attempt for one in records.ended_records if one.hook == name] for name in "abc"}
    assert attempts == {"a": [1], "b": [1, 2, 3, 4, 5], "c": [1]}
    assert len(pauses) == 4


@pytest.mark.promise(15)
async def test_a_rule_is_in_force_also_where_hooks_are_switched_off_and_is_listed_as_it_runs(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("""\
version: 1
hooks: {enabled: false, events: {model.before: [{name: off, script: x, on_error: block}]}}
policy:
  - {name: night, at: model.before, match: {model: "big-*"}, then: escalate, reason: not at night, queue: ops}
  - {name: judged, at: tool.before, then: block, reason: x}
""")
    spec = load(tmp_path / "tenter.yaml")
    runtime = runtime_of(tmp_path)
    for model, outcome in (("big-1", Escalate("not at night", queue="ops")), ("small", None)):
        request = ModelRequest(alias="default", model=model, messages=())
        decision = await runtime.dispatch("model.before", sample_event("model.before", request=request))
        assert decision.outcome == outcome
    listed = [row for row in list_hooks(spec, None, ENVIRONMENT).rows if row.band == "control"]
    assert [(row.point, row.name, row.kind, row.source) for row in listed] == [
        ("model.before", "night", "policy", f"{tmp_path}/tenter.yaml:4")
    ]
    assert [(link.name, link.hook.source) for link in runtime.links() if link.hook.band == "control"] == [
        ("night", f"{tmp_path}/tenter.yaml:4")
    ]


async def test_a_built_function_is_the_one_that_the_file_names(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "tenter.yaml").write_text(
        "version: 1\nhooks: {events: {tool.before: [{name: a, python: './mine.py:plain'}]}}"
    )
    decision = await runtime_of(tmp_path).dispatch("tool.before", sample_event("tool.before", tool="shell"))
    assert isinstance(decision.outcome, Block)
    assert decision.outcome.reason == "plain"


def test_everything_that_loading_shows_to_be_wrong_is_told_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""\
made = lambda: None
number = int("3")
raises = print
""")
    (tmp_path / "bad.py").write_text("f = print\n1 / 0\n")
    (tmp_path / "tenter.yaml").write_text("""\
version: 1
hooks:
  plugins: ["mine.py:number"]
  events:
    tool.before:
      - {name: a, python: "mine.py:made"}
      - {name: b, python: "mine.py:number"}
      - {name: c, python: "bad.py:f"}
""")
    found = problems(tmp_path)
    assert [one.removeprefix(f"{tmp_path}/tenter.yaml:").split(":")[0] for one in found] == ["3", "6", "7", "8"]
    assert "is no hook" in found[0]
    assert "has the signature ()" in found[1]
    assert "expected a function" in found[2]
    assert "ZeroDivisionError" in found[3]


@pytest.mark.promise(14)
def test_nothing_is_imported_where_the_files_have_problems_or_are_switched_off(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'touched')!r}, 'w').close()\nf = print\n")
    hooks = "events: {tool.before: [{name: a, python: 'mine.py:f'}, {name: b, script: x, on_error: warn}]}"
    for text in (
        f"version: 1\nhooks: {{{hooks.replace('name: b', 'name: a')}}}",
        f"version: 1\nhooks: {{enabled: false, {hooks}}}",
    ):
        (tmp_path / "tenter.yaml").write_text(text)
        try:
            assert {link.hook.band for link in runtime_of(tmp_path).links()} == {"gate"}
        except ConfigError as error:
            assert "is taken" in str(error)  # noqa: PT017  # one of two endings
    assert not (tmp_path / "touched").exists()


def test_a_users_module_is_looked_for_beside_the_users_file(tmp_path: Path) -> None:
    _, user = rich(tmp_path)
    (tmp_path / "theirs.py").write_text("raise SystemExit('the project hides the module of the user')\n")
    links = runtime_of(tmp_path, user=user).links()
    assert [link.hook.band for link in links if link.name == "theirs"] == ["baseline"]


@pytest.mark.promise(14)
@pytest.mark.fault(56)
async def test_a_command_of_the_project_is_held_to_what_was_looked_at_and_one_of_the_user_is_not(
    tmp_path: Path,
) -> None:
    text = "version: 1\nhooks: {events: {tool.before: [{name: %s, command: [sh, %s/said.sh], on_error: block}]}}"
    for folder in (tmp_path, tmp_path / "user"):
        folder.mkdir(exist_ok=True)
        (folder / "said.sh").write_text("exit 0")
        (folder / "tenter.yaml").write_text(text % ("theirs" if folder.name == "user" else "ours", folder))
    spec, user = load(tmp_path / "tenter.yaml"), load(tmp_path / "user" / "tenter.yaml", level="user")
    pins = footprint(tmp_path / "tenter.yaml", environment=ENVIRONMENT).pins
    (tmp_path / "said.sh").write_text("exit 1")
    (tmp_path / "user" / "said.sh").write_text("exit 0 # changed")
    results: dict[str, list[str]] = {}
    for name, given in (("pinned", pins), ("free", None)):
        sink = Records()
        built = build_hooks(spec, surroundings(tmp_path, sink), user=user, pins=given)
        runtime = Runtime(CATALOGUE, built, gates=GATES)
        await runtime.dispatch("tool.before", sample_event("tool.before"))
        results[name] = [one.result for one in sink.ended_records]
    assert results == {"pinned": ["ok", "untrusted"], "free": ["ok", "crashed"]}
