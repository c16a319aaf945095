"""The words by which a command or a script may name a file."""

import pytest

from tenter.config.command_words import Word, words_of_arguments, words_of_script


def of_script(text: str, cwd: str | None = None) -> dict[str, bool]:
    return {word.path: word.is_read for word in words_of_script(text, project="/p", cwd=cwd)}


def of_arguments(*arguments: str) -> list[Word]:
    return list(words_of_arguments(arguments, project="/p"))


def test_an_argument_is_a_word_and_so_is_what_stands_behind_an_equals_sign() -> None:
    assert of_arguments("-x", "my-file.py") == [Word("-x", True), Word("my-file.py", True)]
    assert Word("hooks/rules.yaml", True) in of_arguments("--rules=hooks/rules.yaml")


def test_an_argument_that_is_a_text_for_a_shell_is_read_as_one() -> None:
    assert Word("hooks/lib.sh", True) in of_arguments("-c", ". hooks/lib.sh; check")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (". ./lib.sh", "./lib.sh"),
        ("source lib && x", "lib"),
        ("sh -eu 'hooks/a.sh'", "hooks/a.sh"),
        ("x | python3.11 -B tool arg", "tool"),
        ("/usr/bin/env node a.mjs", "a.mjs"),
        ("grep x < list", "list"),
        ('"$TENTER_PROJECT_DIR/hooks/a"', "/p/hooks/a"),
        ("exec ${TENTER_PROJECT_DIR}/a.sh", "/p/a.sh"),
        ("$TENTER_WORKSPACE/a.sh", "a.sh"),
        ("x=$(./a.sh)", "./a.sh"),
    ],
)
def test_the_words_of_a_script_are_found_in_what_a_shell_reads(text: str, read: str) -> None:
    assert read in of_script(text)


def test_what_an_interpreter_is_given_is_surely_used() -> None:
    assert of_script("python3 -u tool < list; cat notes") == {
        "python3": False,
        "-u": True,
        "tool": True,
        "list": True,
        "cat": False,
        "notes": False,
    }


def test_what_is_written_is_not_named_for_being_read() -> None:
    assert set(of_script("date >> tool.log 2>err.log")) == {"date", "2"}


def test_the_workspace_is_seen_from_the_hooks_own_working_folder() -> None:
    assert "../../a.sh" in of_script("$TENTER_WORKSPACE/a.sh", cwd="sub/deep")
    assert "a.sh" in of_script("$TENTER_WORKSPACE/a.sh", cwd=".")
