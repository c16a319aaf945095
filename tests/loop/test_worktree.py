"""Worktrees, by the real git: what a repository brings along is not run, and no commit is lost."""

import os
import subprocess
from pathlib import Path

import pytest

from tenter.kernel import TenterError
from tenter.loop import worktree
from tenter.loop.worktree import (
    Worktree,
    add_worktree,
    has_changes,
    has_commit,
    remove_worktree,
    repo_root,
    tracked,
)

ID = "loop-12ab-34cd"
BRANCH = f"tenter/{ID}"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, check=True, timeout=30)
    return done.stdout.decode().strip()


def repository(folder: Path, *, commit: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    if commit:
        (folder / "file").write_text("one\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "one")
    return folder.resolve()


def branches(root: Path) -> list[str]:
    return git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def program(path: Path, mark: Path) -> Path:
    """A program that leaves a mark when somebody runs it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch '{mark}'\nexec cat\n")
    path.chmod(0o755)
    return path


def test_the_root_is_that_of_the_main_worktree_wherever_one_stands(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / "a" / "b").mkdir(parents=True)
    git(root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    (tmp_path / "linked" / "c").mkdir()
    (tmp_path / "way").symlink_to(root / "a")
    for folder in (root, root / "a" / "b", tmp_path / "linked", tmp_path / "linked" / "c", tmp_path / "way"):
        assert repo_root(folder) == root


def test_without_a_repository_or_without_git_there_is_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repo_root(tmp_path) is None
    root = repository(tmp_path / "repo", commit=False)
    assert repo_root(root) == root
    monkeypatch.setenv("PATH", str(tmp_path))
    assert repo_root(root) is None
    with pytest.raises(TenterError, match="git is not on the PATH; install it"):
        add_worktree(root, ID)


def test_a_git_of_the_working_folder_is_not_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "git", tmp_path / "ran")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert repo_root(tmp_path) is None
    assert not (tmp_path / "ran").exists()


def test_of_a_submodule_and_of_a_bare_repository_a_worktree_is_the_root(tmp_path: Path) -> None:
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "submodule", "--quiet", "add", str(inner), "sub")
    git(outer / "sub", "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    assert repo_root(outer / "sub") == outer / "sub"
    assert repo_root(tmp_path / "linked") == outer / "sub"
    git(tmp_path, "clone", "-q", "--bare", str(inner), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "of-bare"), "main")
    assert repo_root(tmp_path / "of-bare") == tmp_path / "of-bare"


def test_what_git_refuses_is_told_in_its_words_and_escaped(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /gone\u202e/repo\n")
    says = rf"'{tmp_path}' cannot be used; git says: fatal: not a git repository: /gone\\u202e/repo"
    with pytest.raises(TenterError, match=says):
        repo_root(tmp_path)


def test_variables_of_another_repository_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, other = repository(tmp_path / "repo"), repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert repo_root(root) == root
    made = add_worktree(root, ID)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert BRANCH in branches(root)
    assert branches(other) == ["main"]
    assert (made.path / "file").read_text() == "one\n"


def test_what_git_tracks_of_a_folder_is_told_here_and_at_the_top(tmp_path: Path) -> None:
    root = repository(tmp_path / "main", commit=False)
    assert not has_commit(root)
    for name in ("sub/.tenter/a", ".tenter/b", "other/.tenter/c", "sub/.tenter-d", "sub/.tenter/loose"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    git(root, "add", ".")
    git(root, "rm", "-q", "--cached", "sub/.tenter/loose")
    assert set(tracked(root / "sub", ".tenter")) == {"sub/.tenter/a", ".tenter/b"}
    assert tracked(root, ".tenter") == (".tenter/b",)
    git(root, "commit", "-q", "-m", "one")
    assert has_commit(root / "sub")
    outside = tmp_path / "outside"
    outside.mkdir()
    assert (has_commit(outside), tracked(outside, ".tenter")) == (False, ())


@pytest.mark.promise(14)
def test_looking_runs_no_program_of_the_repository_and_is_led_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, other, mark = repository(tmp_path / "main"), repository(tmp_path / "other", commit=False), tmp_path / "ran"
    git(root, "config", "core.fsmonitor", str(program(tmp_path / "monitor", mark)))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert (has_commit(root), tracked(root, "file")) == (True, ("file",))
    assert not mark.exists()


def test_a_worktree_begins_at_head_on_a_branch_of_its_own_and_git_does_not_show_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / ".git" / "info" / "exclude").write_text("mine")
    made = add_worktree(root, ID)
    assert made == Worktree(root / ".worktrees" / ID, BRANCH)
    assert (made.path / "file").read_text() == "one\n"
    assert git(made.path, "branch", "--show-current") == BRANCH
    assert git(root, "status", "--porcelain", "--untracked-files=all") == ""
    add_worktree(root, "loop-other")
    assert (root / ".git" / "info" / "exclude").read_text() == "mine\n/.worktrees/\n"
    assert repo_root(made.path) == root


@pytest.mark.parametrize(
    ("stands", "says"),
    [
        ("no commit", "has no commit yet; make one"),
        ("a folder", "something is there already"),
        ("a link to nowhere", "something is there already"),
        ("a branch", f"there is a branch '{BRANCH}' already"),
        ("a branch in the way", "git says: .*tenter"),
        ("a file for the folder of worktrees", "git says: .*Not a directory"),
        ("a link for the folder of worktrees", "is a link; take it away"),
        ("no repository", "git says: .*not a git repository"),
        ("a file for the list of what git leaves out", "cannot be kept out of git's status"),
    ],
)
def test_a_worktree_that_cannot_be_made_is_told_and_leaves_nothing(stands: str, says: str, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir()
    if stands != "no repository":
        root = repository(root, commit=stands != "no commit")
    match stands:
        case "a folder":
            (root / ".worktrees" / ID).mkdir(parents=True)
        case "a link to nowhere":
            (root / ".worktrees").mkdir()
            (root / ".worktrees" / ID).symlink_to("nowhere")
        case "a branch":
            git(root, "branch", BRANCH)
        case "a branch in the way":
            git(root, "branch", "tenter")
        case "a file for the folder of worktrees":
            (root / ".worktrees").touch()
        case "a link for the folder of worktrees":
            (root / ".worktrees").symlink_to(elsewhere)
        case "a file for the list of what git leaves out":
            (root / ".git" / "info" / "exclude").unlink()
            (root / ".git" / "info" / "exclude").mkdir()
        case _:
            pass
    before = branches(root) if stands != "no repository" else []
    with pytest.raises(TenterError, match=f"the worktree '{root / '.worktrees' / ID}' cannot be made.*{says}|{says}"):
        add_worktree(root, ID)
    assert list(elsewhere.iterdir()) == []
    if stands != "no repository":
        assert branches(root) == before
        assert ID not in git(root, "worktree", "list")


def test_an_id_that_could_lead_elsewhere_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    with pytest.raises(TenterError, match="is no id of a loop"):
        add_worktree(root, "../../x")
    assert not (root / ".worktrees").exists()


def test_no_program_of_the_repository_is_run(tmp_path: Path) -> None:
    root, mark = repository(tmp_path / "repo"), tmp_path / "ran"
    (root / ".gitattributes").write_text("* filter=theirs\nfile filter=included\nthird filter=third\n")
    (root / "third").touch()
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "attributes")
    evil = program(tmp_path / "evil", mark)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        program(root / ".git" / "hooks" / hook, mark)
    (root / "theirs.config").write_text(
        f'[filter "included"]\n\tsmudge = {evil}\n\tclean = {evil}\n\trequired = true\n'
    )
    with (root / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\thooksPath = {root / '.git' / 'hooks'}\n\tfsmonitor = {evil}\n")
        config.write(f'[filter "theirs"]\n\tsmudge = {evil}\n\tclean = {evil}\n\tprocess = {evil}\n\trequired = true\n')
        config.write("[include]\n\tpath = ../theirs.config\n[extensions]\n\tworktreeConfig = true\n")
    (root / ".git" / "config.worktree").write_text(f'[filter "third"]\n\tsmudge = {evil}\n')
    made = add_worktree(root, ID)
    assert (made.path / "file").read_text() == "one\n"
    os.utime(made.path / "file", (1, 1))
    assert repo_root(made.path) == root
    assert remove_worktree(root, made.path, made.branch, force=False) == "removed"
    os.utime(root / "file", (1, 1))
    assert has_changes(root)  # the file of the included configuration is not committed
    assert not mark.exists()


@pytest.mark.parametrize("change", ["new", "file"])
def test_what_is_not_committed_is_a_change_and_a_worktree_is_none(change: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    add_worktree(root, ID)
    assert not has_changes(root)
    (root / change).write_text("two\n")
    assert has_changes(root)


def test_changes_that_cannot_be_told_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo")
    (root / "new").write_text("two\n")
    assert not has_changes(tmp_path)
    monkeypatch.setattr(worktree, "STATUS_SECONDS", 0.0)
    assert not has_changes(root)


def test_a_filter_of_the_users_own_configuration_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, mark = repository(tmp_path / "repo"), tmp_path / "ran"
    (root / ".gitattributes").write_text("file filter=mine\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "attributes")
    evil, mine = program(tmp_path / "evil", tmp_path / "evil-ran"), program(tmp_path / "mine", mark)
    git(root, "config", "filter.mine.smudge", str(evil))
    (tmp_path / "gitconfig").write_text(f'[filter "mine"]\n\tsmudge = {mine}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    add_worktree(root, ID)
    assert mark.exists()
    assert not (tmp_path / "evil-ran").exists()


def test_a_filter_that_could_not_be_switched_off_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    git(root, "config", "filter.a=b.smudge", "true")
    with pytest.raises(TenterError, match=r"configures a filter 'filter\.a=b\.smudge'"):
        add_worktree(root, ID)
    assert branches(root) == ["main"]


@pytest.mark.parametrize("where", ["a branch", "a tag", "head", "a remote"])
def test_a_branch_whose_commits_are_somewhere_else_goes_with_its_worktree(where: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    made = add_worktree(root, ID)
    git(made.path, "commit", "-q", "--allow-empty", "-m", "work")
    match where:
        case "a branch":
            git(root, "merge", "-q", "--ff-only", BRANCH)
        case "a tag":
            git(root, "tag", "kept", BRANCH)
        case "head":
            git(root, "checkout", "-q", "--detach", BRANCH)
        case _:
            git(root, "update-ref", "refs/remotes/origin/work", BRANCH)
    assert remove_worktree(root, made.path, made.branch, force=False) == "removed"
    assert branches(root) == ["main"]
    assert not made.path.exists()


@pytest.mark.parametrize("force", [False, True])
def test_a_branch_with_commits_that_are_nowhere_else_stays(force: bool, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    made = add_worktree(root, ID)
    git(made.path, "commit", "-q", "--allow-empty", "-m", "work")
    git(root, "branch", "tenter/loop-other")  # another one like it is not where these commits are
    assert remove_worktree(root, made.path, made.branch, force=force) == "branch_kept"
    assert not made.path.exists()
    assert git(root, "log", "-1", "--format=%s", BRANCH) == "work"


@pytest.mark.parametrize("change", ["a file that git does not know", "a change"])
def test_changes_that_are_not_committed_stay_unless_forced(change: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    made = add_worktree(root, ID)
    changed = made.path / ("new" if change.startswith("a file") else "file")
    changed.write_text("two\n")
    with pytest.raises(
        TenterError, match=r"cannot be removed; git says: .*use --force.*; commit what is worth it"
    ) as it:
        remove_worktree(root, made.path, made.branch, force=False)
    assert str(it.value).endswith(f", or give it up with 'git worktree remove --force {made.path}'")
    assert changed.read_text() == "two\n"
    assert remove_worktree(root, made.path, made.branch, force=True) == "removed"
    assert not made.path.exists()


def test_a_worktree_that_is_gone_is_forgotten_and_once_more_is_no_error(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    made = add_worktree(root, ID)
    made.path.rename(tmp_path / "moved")
    for _ in range(2):
        assert remove_worktree(root, made.path, made.branch, force=False) == "removed"
    assert branches(root) == ["main"]
    assert ID not in git(root, "worktree", "list")


def test_what_is_none_of_ours_is_not_removed(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    git(root, "worktree", "add", "-q", "-b", "theirs", str(root / "theirs"))
    ours = root / ".worktrees" / ID
    for path, branch in ((root / "theirs", "theirs"), (ours, "main"), (ours / ".." / "x", "tenter/x"), (root, BRANCH)):
        with pytest.raises(TenterError, match="is no worktree of a loop; remove it yourself"):
            remove_worktree(root, path, branch, force=True)
    assert (root / "theirs" / "file").exists()
    assert branches(root) == ["main", "theirs"]


def test_a_folder_that_is_no_worktree_stays(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / ".worktrees" / ID).mkdir(parents=True)
    with pytest.raises(TenterError, match=r"git says: .*is not a working tree"):
        remove_worktree(root, root / ".worktrees" / ID, BRANCH, force=True)
    assert (root / ".worktrees" / ID).is_dir()
