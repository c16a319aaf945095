"""A program is found once, where the configuration says, or it is said why it cannot be run and what to do."""

import os
from pathlib import Path

import pytest

from tenter.config.commands import resolve_program
from tenter.config.problem import Unresolved


def program(path: Path, text: str | bytes = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def trouble(name: str, folder: Path, search: str = "") -> tuple[str, str]:
    found = resolve_program(name, folder=folder, search=search)
    assert isinstance(found, Unresolved)
    return found.message.replace(str(folder), "DIR"), found.hint.replace(str(folder), "DIR")


def test_a_program_with_a_slash_is_seen_from_the_folder_of_the_file(tmp_path: Path) -> None:
    made = program(tmp_path / "hooks" / "guard.sh")
    for name in ("./hooks/guard.sh", "hooks/guard.sh", str(made)):
        assert resolve_program(name, folder=tmp_path, search="") == str(made)


def test_a_bare_word_is_the_first_that_can_be_run_on_the_path(tmp_path: Path) -> None:
    program(tmp_path / "a" / "tool", mode=0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    third = program(tmp_path / "c" / "tool")
    program(tmp_path / "d" / "tool")
    search = os.pathsep.join(["", ".", *(str(tmp_path / one) for one in "abcd")])
    assert resolve_program("tool", folder=tmp_path, search=search) == str(third)


def test_a_bare_word_is_not_looked_for_where_tenter_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "tool")
    monkeypatch.chdir(tmp_path)
    said = ("the program 'tool' is not on PATH", "write './tool' for the file beside the configuration")
    assert trouble("tool", tmp_path, f".{os.pathsep}") == said


@pytest.mark.fault(10)
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "expected a program, got ''", "name it first: [program, argument, …]"),
        ("./gone", "the program './gone' does not exist: there is no file 'DIR/gone'", "a path starts at this file"),
        ("./no/x", "the program './no/x' does not exist: there is no folder 'DIR/no'", "a path starts at this file"),
        ("./dir", "the program './dir' is a folder", "name a file that can be run"),
        ("./pipe", "the program './pipe' is not a regular file", "name a file that can be run"),
        ("./plain", "the program './plain' is not executable", "chmod +x DIR/plain"),
        ("./bare", "the program './bare' is a text without a '#!' line", "begin it with a line such as #!/bin/sh"),
        ("./empty", "the program './empty' is a text without a '#!' line", "begin it with a line such as #!/bin/sh"),
        ("./lost", "the program './lost' names the interpreter '/no/sh', which does not exist", "mend its first line"),
        (
            "./dos",
            "the program './dos' names the interpreter '/bin/sh\\r', which does not exist",
            "save it with Unix line ends",
        ),
        ("./link", "the program './link' is a link to 'nowhere', which does not exist", "mend the link"),
        ("./circle", "the program './circle' cannot be looked at: Too many levels of symbolic links", ""),
        ("gone", "the program 'gone' is not on PATH", "install it, or name its path, such as ./hooks/guard.sh"),
        (
            "a" * 300,
            f"the program '{'a' * 300}' is not on PATH",
            "install it, or name its path, such as ./hooks/guard.sh",
        ),
        ("./" + "a" * 300, f"the program './{'a' * 300}' cannot be looked at: File name too long", ""),
    ],
)
def test_what_cannot_be_run_is_said_with_what_to_do(name: str, message: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "pipe")
    program(tmp_path / "plain", mode=0o644)
    program(tmp_path / "bare", "echo\n")
    program(tmp_path / "empty", "")
    program(tmp_path / "lost", "#! /no/sh -e\n")
    program(tmp_path / "dos", "#!/bin/sh\r\n")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    assert trouble(name, tmp_path, str(tmp_path / "bin")) == (message, hint)


def test_what_is_found_on_the_path_and_cannot_be_run_is_named(tmp_path: Path) -> None:
    found = program(tmp_path / "tool", mode=0o644)
    assert trouble("tool", tmp_path / "other", str(tmp_path))[1] == f"{found} is not executable: chmod +x {found}"


def test_a_program_that_is_no_text_needs_no_interpreter_line(tmp_path: Path) -> None:
    made = program(tmp_path / "binary", b"\x7fELF\0\0")
    assert resolve_program("./binary", folder=tmp_path, search="") == str(made)
