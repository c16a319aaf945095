"""What of a project runs, and which of its files that names."""

import os
from pathlib import Path

import pytest

from tenter.config.loading import load, parse_spec
from tenter.config.named_files import NamedCode, named_code
from tenter.config.outline import hook_files, outline

PATH = "/usr/bin:/bin"


def executable(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def named(folder: Path, text: str, search: str = PATH) -> tuple[NamedCode, ...]:
    (folder / "tenter.yaml").write_text(f"version: 1\n{text}")
    spec = load(folder / "tenter.yaml")
    planned = outline(hook_files(spec, None), search)
    assert planned.problems == ()
    return named_code(spec, planned, search)


def files(folder: Path, hook: str, search: str = PATH) -> set[str]:
    """The files of one hook, as it finds them."""
    (code,) = named(folder, f"hooks: {{events: {{tool.before: [{{name: a, on_error: warn, {hook}}}]}}}}", search)
    return {file.found_as.replace(str(folder), "P") for file in code.files}


def test_everything_that_runs_is_named_with_its_place(tmp_path: Path) -> None:
    executable(tmp_path / "guard.sh")
    (tmp_path / "nam_m.py").write_text(
        "from tenter import Hook\nclass A(Hook):\n    def on_run_end(self, event): ...\ndef f(event): ...\n"
    )
    found = named(
        tmp_path,
        """\
models: {m: {provider: scripted, file: script.yaml}}
tasks: {t: {version: 1, model: m, instructions: x, tools: [look]}}
tools: {look: {python: "nam_m:f"}}
hooks:
  plugins: ["nam_m:A"]
  events:
    tool.before: [{name: a, command: [./guard.sh, "x y"], on_error: warn}, {name: b, python: "nam_m:f"}]
    run.end: [{name: c, script: "exit 0", on_error: warn}]
loop: {backend: {command: [./guard.sh]}, hats: {h: {triggers: [x], backend: {command: [sh, guard.sh]}}}}
""",
    )
    shown = [(one.kind, one.name, one.path, one.runs, [Path(file.path).name for file in one.files]) for one in found]
    assert shown == [
        ("plugin", "nam_m:A", ("hooks", "plugins", 0), "nam_m:A", ["nam_m.py"]),
        ("hook", "a at tool.before", ("hooks", "events", "tool.before", 0), "./guard.sh 'x y'", ["guard.sh"]),
        ("hook", "b at tool.before", ("hooks", "events", "tool.before", 1), "nam_m:f", ["nam_m.py"]),
        ("hook", "c at run.end", ("hooks", "events", "run.end", 0), "exit 0", []),
        ("tool", "look", ("tools", "look"), "nam_m:f", ["nam_m.py"]),
        ("model", "m", ("models", "m"), "script.yaml", ["script.yaml"]),
        ("backend", "loop", ("loop", "backend"), "./guard.sh", ["guard.sh"]),
        ("backend", "h", ("loop", "hats", "h", "backend"), "sh guard.sh", ["guard.sh"]),
    ]


def test_a_file_of_tools_with_nothing_of_its_own_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\ntools: {shell: {idempotent: true}}\nloop: {max_iterations: 3}\n")
    spec = load(tmp_path / "tenter.yaml", builtin_tools=["shell"])
    assert named_code(spec, outline(hook_files(spec, None), PATH), PATH) == ()


def test_the_program_and_the_arguments_that_are_files_are_named(tmp_path: Path) -> None:
    executable(tmp_path / "hooks" / "guard.sh")
    for name in ("check.py", "rules", "sub"):
        (tmp_path / name).write_text("") if name != "sub" else (tmp_path / name).mkdir()
    assert files(tmp_path, "command: [./hooks/guard.sh, ./check.py, gone, sub, --rules=rules, /etc/passwd]") == {
        "P/hooks/guard.sh",
        "./check.py",
        "rules",
    }
    assert files(tmp_path, f"command: [sh, '{tmp_path}/check.py']") == {"P/check.py"}


def test_arguments_are_seen_from_the_hooks_working_folder(tmp_path: Path) -> None:
    executable(tmp_path / "guard.sh")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text("")
    (tmp_path / "b.py").write_text("")
    assert files(tmp_path, "command: [./guard.sh, a.py, b.py, ../b.py], cwd: sub") == {"P/guard.sh", "a.py", "../b.py"}


def test_a_program_that_path_finds_in_the_project_is_the_projects(tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "guard")
    assert files(tmp_path, "command: [guard]", f"{tmp_path}/bin:{PATH}") == {"P/bin/guard"}
    assert files(tmp_path, "command: [sh]") == set()


def test_what_is_installed_beside_the_python_that_runs_tenter_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / ".venv" / "bin" / "lint")
    monkeypatch.setattr("sys.executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert files(tmp_path, "command: [lint]", f"{tmp_path}/.venv/bin:{PATH}") == set()
    assert files(tmp_path, "command: [./.venv/bin/lint]") == {"P/.venv/bin/lint"}


def test_of_a_script_the_programs_are_named_and_not_the_files_that_come_and_go(tmp_path: Path) -> None:
    executable(tmp_path / "bare")
    for name, text in (("a.sh", ""), ("shebang", "#!/bin/sh\n"), ("flag", ""), ("lib", ""), ("out.py", "")):
        (tmp_path / name).write_text(text)
    script = "./bare && ./a.sh; ./shebang; . ./lib; test -e flag; echo x > out.py"
    assert files(tmp_path, f"script: '{script}'") == {"./bare", "./a.sh", "./shebang", "./lib"}
    assert files(tmp_path, f"command: [sh, -c, '{script}']") == {"./bare", "./a.sh", "./shebang", "./lib"}


@pytest.mark.promise(14)
def test_the_words_of_a_script_are_looked_for_in_the_folders_that_it_goes_to(tmp_path: Path) -> None:
    for name in ("scripts/guard.sh", "scripts/deep/guard.sh", "guard.sh", "other/rules.py"):
        executable(tmp_path / name)
    assert files(tmp_path, 'script: "cd scripts && ./guard.sh"') == {"./guard.sh", "scripts/guard.sh"}
    assert files(tmp_path, "command: [sh, -c, cd scripts && exec ./guard.sh]") == {"./guard.sh", "scripts/guard.sh"}
    assert files(tmp_path, 'script: "cd scripts; cd deep; sh guard.sh"') == {
        "guard.sh",
        "scripts/guard.sh",
        "scripts/deep/guard.sh",
    }
    assert files(tmp_path, "script: '(cd \"$TENTER_PROJECT_DIR/scripts\"; ./guard.sh)'") == {
        "./guard.sh",
        "P/scripts/guard.sh",
    }
    assert files(tmp_path, 'script: "cd ../other && python3 rules.py", cwd: scripts') == {"../other/rules.py"}
    assert files(tmp_path, 'script: "cd missing && python3 rules.py"') == set()


def test_files_behind_an_option_of_make_and_its_like_are_named(tmp_path: Path) -> None:
    for name in ("build.mk", "rules", "notes"):
        (tmp_path / name).write_text("")
    assert files(tmp_path, "script: 'make -f build.mk; jq -rf rules notes; rm -f notes'") == {"build.mk", "rules"}


@pytest.mark.parametrize(
    ("hook", "unseen"),
    [
        ("script: './guard.sh; ../up.sh && ./gone.sh > ./out; ls bare'", ("../up.sh", "./gone.sh")),
        ("script: 'cd sub && ./inner.sh && ./gone.sh'", ("./gone.sh",)),
        ("script: 'for f in ./*.sh; do $f; done'", ("./*.sh",)),
        ("command: [./guard.sh, ./gone.sh, ./sub, --out=./there, gone]", ("./gone.sh", "./there")),
        ("command: [./guard.sh, ./..., ..]", ()),
    ],
)
def test_words_that_look_like_files_and_are_nowhere_are_told(
    hook: str, unseen: tuple[str, ...], tmp_path: Path
) -> None:
    executable(tmp_path / "project" / "guard.sh")
    executable(tmp_path / "project" / "sub" / "inner.sh")
    (code,) = named(tmp_path / "project", f"hooks: {{events: {{tool.before: [{{name: a, on_error: warn, {hook}}}]}}}}")
    assert code.unseen == unseen


def test_words_of_a_backend_that_are_nowhere_are_told(tmp_path: Path) -> None:
    (code,) = named(tmp_path, "loop: {backend: {command: [sh, -c, cd sub && ./agent.sh]}}")
    assert (code.files, code.unseen) == ((), ("./agent.sh",))


def test_a_variable_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("")
    assert files(tmp_path, "script: 'exit 0', env: {BASH_ENV: ./rc, OTHER: x}") == {"./rc"}


def test_a_link_into_the_project_and_one_out_of_it_are_the_projects(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    executable(tmp_path / "outside.sh")
    executable(project / "inside.sh")
    (project / "link.sh").symlink_to(tmp_path / "outside.sh")
    (tmp_path / "into.sh").symlink_to(project / "inside.sh")
    assert files(project, "command: [./link.sh]") == {"P/link.sh"}
    assert files(project, "command: [../into.sh]") == {"P/../into.sh"}
    assert files(project, "command: [../outside.sh]") == set()


def test_arguments_that_are_no_names_of_files_do_no_harm(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    long = "x" * 5000
    assert files(tmp_path, f"command: [sh, fifo, '{long}', '', '-', '=', '$(', ..]") == set()


def test_hooks_that_are_switched_off_do_not_run(tmp_path: Path) -> None:
    assert named(tmp_path, "hooks: {enabled: false, events: {run.end: [{name: a, script: x, on_error: warn}]}}") == ()


def test_a_rule_is_no_code() -> None:
    rules = "[{name: a, at: model.before, then: block, reason: x}, {name: b, at: tool.before, then: block, reason: x}]"
    spec = parse_spec(f"version: 1\npolicy: {rules}".encode(), "f")
    planned = outline(hook_files(spec, None), PATH)
    assert [one.name for one in planned.declarations] == ["a"]
    assert named_code(spec, planned, PATH) == ()


def test_a_backend_that_is_not_installed_is_named_all_the_same(tmp_path: Path) -> None:
    (code,) = named(tmp_path, "loop: {backend: {command: [no-such-agent, -p]}}")
    assert (code.kind, code.runs, code.files) == ("backend", "no-such-agent -p", ())
