"""A file becomes a spec, or an error that holds everything that is wrong with it; quickly, and nothing is run."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenter.config.loading import load, load_user, parse_draft, parse_spec, secret_names
from tenter.config.problem import ConfigError, Position
from tenter.config.spec import HookSpec, ModelSpec, Spec, TaskSpec, ToolSpec
from tenter.kernel import FrozenDict

WHOLE = """\
version: 1
secrets: [OPENAI_API_KEY]
models: {default: {provider: scripted, file: script.yaml}}
tasks:
  fix: {version: 1, model: default, instructions: make it work, tools: [shell, lookup]}
tools:
  shell: {timeout_seconds: 30, idempotent: false}
  lookup: {python: my_tools:lookup}
hooks:
  enabled: true
  defaults: {timeout_seconds: 20, max_output_bytes: 4096}
  plugins: [my_hooks:Audit]
  events:
    tool.before:
      - {name: guard, match: {tool: shell}, command: [./hooks/guard.sh], on_error: block}
      - name: style
        python: my_hooks:style_gate
        match: {tool: [edit, write_*]}
    tool.invoked.post:
      - name: log
        script: |
          cat >> log
        on_error: warn
        observe: true
        mode: shadow
        match: {tool: {re: "sh|shell"}}
        priority: 0
        timeout_seconds: 1.5
        grace_seconds: 2
        max_output_bytes: 100
        cwd: logs
        env: {A: "no"}
        pass_env: [HOME]
"""


def problems(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return [str(one) for one in caught.value.problems]


def test_everything_that_a_file_may_say_is_in_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "tenter.yaml"
    path.write_text(WHOLE)
    spec = load(path, builtin_tools=["shell"])
    assert (spec.file, spec.version, spec.secrets) == (str(path), 1, ("OPENAI_API_KEY",))
    assert spec.models == {"default": ModelSpec(provider="scripted", file="script.yaml")}
    assert spec.tasks == {
        "fix": TaskSpec(version=1, model="default", instructions="make it work", tools=("shell", "lookup"))
    }
    assert spec.tools == {
        "shell": ToolSpec(timeout_seconds=30.0, idempotent=False),
        "lookup": ToolSpec(python="my_tools:lookup"),
    }
    assert (spec.hooks.enabled, spec.hooks.plugins) == (True, ("my_hooks:Audit",))
    assert (spec.hooks.defaults.timeout_seconds, spec.hooks.defaults.max_output_bytes) == (20.0, 4096)
    assert spec.hooks.events["tool.invoked.post"] == (
        HookSpec(
            where=Position(str(path), 20, 9),
            path=("hooks", "events", "tool.invoked.post", 0),
            name="log",
            script="cat >> log\n",
            on_error="warn",
            observe=True,
            mode="shadow",
            match={"tool": {"re": "sh|shell"}},
            priority=0,
            timeout_seconds=1.5,
            grace_seconds=2.0,
            max_output_bytes=100,
            cwd="logs",
            env={"A": "no"},
            pass_env=("HOME",),
        ),
    )


def test_hooks_keep_the_order_of_the_file_and_their_places() -> None:
    spec = parse_spec(WHOLE.encode(), "t.yaml", builtin_tools=["shell"])
    assert list(spec.hooks.events) == ["tool.before", "tool.invoked.post"]
    assert [(hook.name, hook.where.line, hook.kind) for hook in spec.hooks.events["tool.before"]] == [
        ("guard", 15, "command"),
        ("style", 16, "python"),
    ]
    assert spec.where("hooks", "events", "tool.before") == Position("t.yaml", 14, 5)
    assert spec.where("hooks", "events", "tool.before", 1, "python") == Position("t.yaml", 17, 17)
    assert spec.where("hooks", "plugins", 0) == Position("t.yaml", 12, 13)


@pytest.mark.promise(3)
def test_a_spec_is_frozen_all_the_way_down() -> None:
    spec = parse_spec(WHOLE.encode(), "t.yaml", builtin_tools=["shell"])
    hook = spec.hooks.events["tool.invoked.post"][0]
    assert [type(one) for one in (spec.models, spec.hooks.events, hook.env, hook.match, spec.positions)] == [
        FrozenDict
    ] * 5
    assert isinstance(hash(spec), int)


def test_a_file_that_only_says_its_version_is_an_empty_spec() -> None:
    spec = parse_spec(b"version: 1\n", "t.yaml")
    assert spec == Spec(file="t.yaml", digest=spec.digest, version=1, positions=spec.positions)


def test_a_spec_has_the_digest_of_the_bytes_of_its_file() -> None:
    spec = parse_spec(b"version: 1\n", "t.yaml")
    assert spec.digest == f"sha256:{hashlib.sha256(b'version: 1' + bytes([10])).hexdigest()}"
    assert spec.digest != parse_spec(b"version: 1\n\n", "t.yaml").digest


def test_the_users_file_is_in_the_configuration_folder_that_the_environment_names(tmp_path: Path) -> None:
    for folder in ("xdg", "home/.config"):
        (tmp_path / folder / "tenter").mkdir(parents=True)
        (tmp_path / folder / "tenter" / "tenter.yaml").write_text(f"version: 1\nsecrets: [{folder[:3].upper()}]\n")
    home, xdg = str(tmp_path / "home"), str(tmp_path / "xdg")
    secrets = [
        found.secrets if (found := load_user(environment)) else None
        for environment in (
            {"HOME": home, "XDG_CONFIG_HOME": xdg},
            {"HOME": home},
            {"HOME": home, "XDG_CONFIG_HOME": "relative"},
            {"HOME": str(tmp_path)},
            {},
        )
    ]
    assert secrets == [("XDG",), ("HOM",), ("HOM",), None, None]


def test_a_users_file_that_cannot_be_read_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tenter").mkdir()
    (tmp_path / "tenter" / "tenter.yaml").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_user({"XDG_CONFIG_HOME": str(tmp_path)})


def dangling(folder: Path) -> None:
    folder.symlink_to(folder.parent / "not-mounted")


def loop(folder: Path) -> None:
    folder.symlink_to(folder.name)


def plain_file(folder: Path) -> None:
    folder.write_text("")


@pytest.mark.parametrize("depth", ["tenter", "."])
@pytest.mark.parametrize(
    ("stands", "says"),
    [(dangling, "there is no such file"), (loop, "Too many levels"), (plain_file, "Not a directory")],
)
def test_a_folder_of_the_users_file_that_leads_nowhere_does_not_lose_its_guards_in_silence(
    depth: str, stands: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    xdg = tmp_path / "xdg"
    if depth == "tenter":
        xdg.mkdir()
    stands(xdg / "tenter" if depth == "tenter" else xdg)
    with pytest.raises(ConfigError, match=rf"{says}.*; mend what stands there"):
        load_user({"XDG_CONFIG_HOME": str(xdg)})


def test_a_users_folder_that_may_not_be_looked_into_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", refused)  # root may look everywhere
    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied; mend what stands there"):
        load_user({"XDG_CONFIG_HOME": str(tmp_path)})


def test_what_is_right_in_a_file_with_problems_is_read_as_well() -> None:
    text = """\
version: 2
secrets: [A]
models: {good: {provider: scripted, file: a}, bad: {provider: scripted}}
tools: {mine: {python: "m:f"}}
hooks:
  events:
    tool.before:
      - {name: bad name, script: x, on_error: warn}
      - {name: good, script: x, on_error: warn, prioritty: 3}
      - {name: both, script: x, command: [y], on_error: warn}
      - 3
    tool.after: 3
"""
    draft = parse_draft(text.encode(), "t.yaml")
    assert draft.spec is not None
    assert [(one.path, one.name) for one in draft.spec.hooks.events["tool.before"]] == [
        (("hooks", "events", "tool.before", 1), "good")
    ]
    assert (draft.spec.secrets, list(draft.spec.models), list(draft.spec.tools)) == (("A",), ["good"], ["mine"])
    assert [one.where.line for one in draft.problems] == [1, 3, 8, 9, 10, 11, 12]


def test_problems_of_the_text_and_of_its_meaning_are_reported_together_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("version: 2\nsecrets: [A]\nsecrets: [B]\npolciy: []\nmodels: &x {}\nhooks:\n  enabled: on\n")
    assert [one.removeprefix(str(path)).split(": ", 2)[:2] for one in problems(path)] == [
        [":1:10", "at version"],
        [":3:1", "at secrets"],
        [":4:1", "at polciy"],
        [":5:9", "at models"],
        [":7:12", "at hooks.enabled"],
    ]


def test_the_users_file_is_read_by_its_own_keys(tmp_path: Path) -> None:
    path = tmp_path / "user.yaml"
    path.write_text("version: 1\nhooks: {plugins: [m:f]}\n")
    assert load(path, level="user").hooks.plugins == ("m:f",)
    path.write_text("version: 1\ntasks: {}\n")
    with pytest.raises(ConfigError, match="'tasks' does not belong in the user's file"):
        load(path, level="user")


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "tenter.yaml"
    assert problems(path) == [f"{path}: there is no such file; make one with 'tenter init', or name another"]


def test_what_is_no_file_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert problems(tmp_path) == [f"{tmp_path}: this is not a regular file; name a file"]
    assert problems(tmp_path / "pipe") == [f"{tmp_path / 'pipe'}: this is not a regular file; name a file"]
    assert problems(Path("/dev/zero")) == ["/dev/zero: this is not a regular file; name a file"]


def test_a_name_that_no_file_can_have_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    assert "this is not the name of a file" in problems(tmp_path / "a\0b")[0]
    assert "the file cannot be read" in problems(tmp_path / ("a" * 300))[0]


HOSTILE = {
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{'*a,' * 9}*a]\n" for n in range(900)),
    "merge keys": "a: &a {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{'*a,' * 9}*a]}}\n" for n in range(400)),
    "flow levels": "[" * 20_000 + "]" * 20_000,
    "block levels": "- " * 20_000 + "x",
    "indented levels": "".join(f"{' ' * n}a:\n" for n in range(1_400)),
    "key levels": "? " * 20_000 + "x",
    "keys": "".join(f"k{n}: x\n" for n in range(90_000)),
    "repeated keys": "a: b\n" * 200_000,
    "near misses": "".join(f"secret{n}: x\n" for n in range(4_900)),
    "one long value": "version: " + "1" * 1_000_000,
    "megabytes": "x" * 100_000_000,
}

MEASURE = """
import re, sys, time
from tenter.config.loading import load
from tenter.config.problem import ConfigError
def peak():
    # Not getrusage, which begins with what the parent had when it started this process.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
before, start = peak(), time.perf_counter()
try:
    load(sys.argv[1])
except ConfigError as error:
    print(time.perf_counter() - start, (peak() - before) * 1024, len(error.problems))
"""


@pytest.mark.timed
@pytest.mark.fault(52)
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_within_100_ms_and_64_mb(case: str, tmp_path: Path) -> None:
    path = tmp_path / "tenter.yaml"
    path.write_text(HOSTILE[case])
    tries: list[tuple[float, int]] = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, timeout=30, check=True
        )
        seconds, grown, count = done.stdout.split()
        assert int(count) > 0
        tries.append((float(seconds), int(grown)))
        if float(seconds) <= 0.1:
            break
    assert min(seconds for seconds, _ in tries) <= 0.1
    assert max(grown for _, grown in tries) <= 64 << 20


def test_loading_imports_no_event_loop_database_process_or_network_library() -> None:
    script = (
        "import sys; from tenter.config.loading import parse_spec; parse_spec(b'version: 1', 'f');"
        "print(*{name.split('.')[0] for name in sys.modules} & {'asyncio', 'sqlite3', 'subprocess', 'rich', 'httpx'})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == ""


def test_the_secrets_that_files_name_are_known_as_far_as_the_files_can_be_read(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    project = tmp_path / "project.yaml"
    project.write_text("version: 1\nsecrets: [A]\nwrong: 1\n")
    assert secret_names(project, environment) == {"A"}
    (tmp_path / "tenter").mkdir()
    (tmp_path / "tenter" / "tenter.yaml").write_text("version: 1\nsecrets: [B]\n")
    assert secret_names(project, environment) == {"A", "B"}
    assert secret_names(tmp_path / "none.yaml", environment) == {"B"}
