"""The words by which a command or a script may name a file."""

import pytest

from tenter.config.command_words import MOST_FOLDERS, Word, words_of_arguments, words_of_script


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
        ('"$TENTER_PROJECT_DIR"/hooks/a.sh', "/p/hooks/a.sh"),
        ('sh "${TENTER_PROJECT_DIR}/"hooks/a.sh', "/p/hooks/a.sh"),
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


def folders_of(text: str) -> tuple[str, ...]:
    (folders,) = {word.folders for word in words_of_script(text, project="/p")}
    return folders


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("./guard.sh", ()),
        ("cd scripts && ./guard.sh", ("scripts",)),
        ("cd -P -- 'scripts'; ./guard.sh", ("scripts",)),
        ("pushd scripts >/dev/null\n./guard.sh", ("scripts",)),
        ("cd a && cd b && ./x", ("a", "b", "a/b")),
        ("(cd a; ./x); (cd b; ./y)", ("a", "b", "a/b")),
        ("cd a/b && cd .. && ./x", ("a/b", "..", "a/b/..")),
        ('cd "$TENTER_PROJECT_DIR" && ./x', ("/p/",)),
        ('cd "$TENTER_WORKSPACE/a" && ./x', ("a",)),
        ("cd $TENTER_WORKSPACE && ./x", (".",)),
        ("make -C sub -f a.mk", ("sub",)),
        ("bash -c 'cd scripts; ./guard.sh'", ("scripts",)),
        ("cd && ./x", ()),
        ("echo cd; ./x", ()),
    ],
)
def test_the_folders_that_a_script_goes_to_are_where_its_words_may_start(text: str, folders: tuple[str, ...]) -> None:
    assert folders_of(text) == folders


def test_a_script_that_goes_to_very_many_folders_is_not_followed_to_all_of_them() -> None:
    assert len(folders_of("".join(f"cd a{number}; " for number in range(1000)))) <= MOST_FOLDERS + 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("make -f build.mk check", frozenset({"build.mk"})),
        ("make -C sub --file=build.mk", frozenset({"build.mk"})),
        ("gmake -sfbuild.mk -fother.mk", frozenset({"other.mk"})),
        ("echo x | jq -rf rules", frozenset({"rules"})),
        ("jq --from-file rules", frozenset({"rules"})),
        ("awk -F '|' -f rules data", frozenset({"rules"})),
        ("sed -n -f rules data", frozenset({"rules"})),
        ("bash --rcfile rules", frozenset({"rules"})),
        ("make check \\\n -f build.mk", frozenset({"build.mk"})),
        ("make; rm -f notes", frozenset[str]()),
        ("make\nrm -f notes", frozenset[str]()),
        ("test -f notes", frozenset[str]()),
        ("grep -f words data", frozenset[str]()),
    ],
)
def test_what_an_option_gives_to_a_program_that_runs_files_is_surely_used(text: str, read: frozenset[str]) -> None:
    found = {path for path, is_read in of_script(text).items() if is_read and not path.startswith("-")}
    assert found == read


def test_a_file_that_is_joined_to_its_option_is_found_among_arguments() -> None:
    assert Word("build.mk", True) in of_arguments("-fbuild.mk")
