"""Git worktrees for loops that cannot work in the project itself, because another one does.

Git is run, and nothing that a repository brings along is run with it: no hook of it, no file system monitor, no filter
of its own configuration, no transport. Filters of the user's configuration are. It blocks as long as git takes.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tenter.config import printable
from tenter.kernel import TenterError
from tenter.loop.place import is_loop_id

WORKTREES: Final = ".worktrees"
"""The folder of a repository that its loops' worktrees are in."""

BRANCHES: Final = "tenter/"

GIT_SECONDS: Final = 600.0
"""How long git may take; a large repository is checked out in minutes."""

LOOK_SECONDS: Final = 10.0
"""How long git may take to tell what a repository has."""

STATUS_SECONDS: Final = 5.0
"""How long git may take to find out whether anything is not committed."""

_UNTRUSTED: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "gc.auto=0",
)
"""What else a repository's own configuration could have git run."""

_KEPT: Final = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
"""Where the user says that the user's own configuration is."""

_FILTER: Final = re.compile(r"filter\.(.+)\.(clean|smudge|process|required)", re.DOTALL)
_LONGEST_WORDS: Final = 600


class Worktree(msgspec.Struct, frozen=True):
    """A worktree of its own for one loop."""

    path: Path
    branch: str


Removal = Literal["removed", "branch_kept"]
"""`branch_kept`: it has commits that are nowhere else."""


def repo_root(folder: Path) -> Path | None:
    """The top of the main worktree of the repository that `folder` is in, also from a linked worktree; links followed.

    None outside of a repository, and without git. Where the main repository has no worktree (it is bare), the top of
    the linked one. Raises TenterError with git's words where git refuses, as for a repository of another user.
    """
    if _program() is None:
        return None
    done = _git(folder, "rev-parse", "--git-common-dir", "--git-dir", "--show-toplevel")
    if done.returncode:
        if b"not a git repository (or any" in done.stderr:
            return None
        raise _refused(done, f"the repository of {str(folder)!r} cannot be used")
    lines = done.stdout.split(b"\n")
    if len(lines) != 4:
        raise TenterError(f"the path of the repository of {str(folder)!r} has a line break in it; move it")
    common, own, top = ((folder / os.fsdecode(line)).resolve() for line in lines[:3])
    if own == common:
        return top
    if common.name == ".git":
        return common.parent
    main = _git(folder, f"--git-dir={common}", "rev-parse", "--show-toplevel")  # of a submodule: its core.worktree
    return Path(os.fsdecode(main.stdout.rstrip(b"\n"))).resolve() if main.returncode == 0 else top


def worktree_of(root: Path, loop_id: str) -> Worktree:
    """The worktree that a loop has, or would have."""
    return Worktree(root / WORKTREES / loop_id, BRANCHES + loop_id)


def has_git() -> bool:
    """Whether git is installed."""
    return _program() is not None


def has_commit(folder: Path) -> bool:
    """Whether `folder` is in a repository with a commit. Raises TenterError where git does not answer soon."""
    return _git(folder, "rev-parse", "--quiet", "--verify", "HEAD^{commit}", seconds=LOOK_SECONDS).returncode == 0


def tracked(folder: Path, name: str) -> tuple[str, ...]:
    """What git tracks of `name`, and of what is below it, in `folder` and at the top of the repository.

    By the path from the top; nothing outside of a repository. Raises TenterError where git does not answer soon.
    """
    places = (f":(literal){name}", f":(top,literal){name}")
    done = _git(folder, "ls-files", "-z", "--full-name", "--", *places, seconds=LOOK_SECONDS)
    return tuple(os.fsdecode(path) for path in done.stdout.split(b"\0") if path) if done.returncode == 0 else ()


def add_worktree(root: Path, loop_id: str) -> Worktree:
    """A new worktree `<root>/.worktrees/<loop id>` on a new branch `tenter/<loop id>`, from what HEAD of `root` is.

    Git's status does not show the folder. Raises TenterError with git's words where it cannot be made, and leaves
    nothing of it then.
    """
    if not is_loop_id(loop_id):
        raise TenterError(f"{loop_id!r} is no id of a loop; one looks like 'loop-12ab-34cd'")
    if _program() is None:
        raise TenterError("a second loop at once needs a git worktree, and git is not on the PATH; install it")
    made = worktree_of(root, loop_id)
    failed = f"the worktree {str(made.path)!r} cannot be made"
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.returncode:
        if not head.stderr:
            raise TenterError(f"{failed}: the repository {str(root)!r} has no commit yet; make one")
        raise _refused(head, failed)
    if made.path.parent.is_symlink():
        raise TenterError(f"{failed}: {str(made.path.parent)!r} is a link; take it away")
    if os.path.lexists(made.path):  # a link that leads nowhere is in the way, too
        raise TenterError(f"{failed}: something is there already; take it away")
    if _commit(root, made.branch) is not None:
        raise TenterError(f"{failed}: there is a branch {made.branch!r} already; rename or delete it")
    _exclude(root)
    add = ("worktree", "add", "--quiet", "--no-track", "-b", made.branch, str(made.path), "HEAD")
    done = _git(root, *_own_filters_off(root), *add)
    if done.returncode:
        _delete_branch(root, made.branch)
        raise _refused(done, failed)
    return made


def has_changes(root: Path) -> bool:
    """Whether something in the worktree `root` is not committed, new files too; False where nobody can tell soon."""
    words = ("--no-optional-locks", *_own_filters_off(root), "status", "--porcelain", "--ignore-submodules=all")
    try:
        done = _git(root, *words, seconds=STATUS_SECONDS)
    except TenterError:
        return False
    return done.returncode == 0 and done.stdout != b""


def remove_worktree(root: Path, path: Path, branch: str, *, force: bool) -> Removal:
    """Takes a worktree of ours away, and its branch, unless that has commits that are nowhere else.

    Without `force` a worktree with changes that are not committed stays, and TenterError says so with git's words; it
    also says when something else cannot be taken away, or is none of ours. One that is gone already is no error.
    """
    if path.parent != root / WORKTREES or branch != BRANCHES + path.name or not is_loop_id(path.name):
        raise TenterError(f"{str(path)!r} on the branch {branch!r} is no worktree of a loop; remove it yourself")
    is_there = os.path.lexists(path)  # a link that leads nowhere is there, too
    off = _own_filters_off(path if path.is_dir() else root)  # a worktree may have a configuration of its own
    done = _git(root, *off, "worktree", "remove", *(["--force"] if force else []), str(path))
    if done.returncode and (is_there or b"is not a working tree" not in done.stderr):
        forced = f"git worktree remove --force {shlex.quote(str(path))}"
        hint = "" if force else f"; commit what is worth it, or give it up with '{forced}'"
        raise _refused(done, f"the worktree {str(path)!r} cannot be removed", hint)
    return "branch_kept" if not _delete_branch(root, branch) else "removed"


def _delete_branch(root: Path, branch: str) -> bool:
    """Whether the branch is gone: it is deleted where every commit of it is somewhere else, too."""
    commit = _commit(root, branch)
    if commit is None:
        return True
    others = (f"--exclude={branch}", "--branches", "--tags", "--remotes", "HEAD")
    alone = _git(root, "rev-list", "--max-count=1", commit, "--not", *others)
    if alone.returncode or alone.stdout:
        return False
    return _git(root, "update-ref", "-d", f"refs/heads/{branch}", commit).returncode == 0


def _commit(root: Path, branch: str) -> str | None:
    done = _git(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
    return done.stdout.decode().strip() if done.returncode == 0 else None


def _exclude(root: Path) -> None:
    """Keeps the worktrees out of git's status, without changing a file that is committed."""
    done = _git(root, "rev-parse", "--git-path", "info/exclude")
    if done.returncode:
        raise _refused(done, f"the repository {str(root)!r} cannot be used")
    path, line = root / os.fsdecode(done.stdout.rstrip(b"\n")), f"/{WORKTREES}/".encode()
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("a+b") as file:
            file.seek(0)
            before = file.read()
            if line not in before.splitlines():
                file.write((b"" if not before or before.endswith(b"\n") else b"\n") + line + b"\n")
    except OSError as error:
        raise TenterError(
            f"the folder {WORKTREES!r} cannot be kept out of git's status: {str(path)!r} cannot be written "
            f"({error.strerror})"
        ) from error


def _own_filters_off(root: Path) -> Sequence[str]:
    """Options that switch off each filter that the repository's own configuration brings: it is a program."""
    done = _git(root, "config", "--null", "--show-scope", "--get-regexp", r"^filter\.")
    if done.returncode not in (0, 1):  # 1: there is none
        raise _refused(done, f"the configuration of the repository {str(root)!r} cannot be read")
    theirs: dict[str, str] = {}
    own: set[str] = set()
    fields = [os.fsdecode(field) for field in done.stdout.split(b"\0")]
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if _FILTER.fullmatch(key) is None:
            continue
        if scope in ("local", "worktree"):
            own.add(key)
        else:
            theirs[key] = value
    for key in own:
        if "=" in key:
            raise TenterError(f"the repository {str(root)!r} configures a filter {key!r}; its name may hold no '='")
    off = {key: "false" if key.endswith(".required") else "" for key in own}
    return [word for key in sorted(own) for word in ("-c", f"{key}={theirs.get(key, off[key])}")]


def _git(folder: Path, *arguments: str, seconds: float = GIT_SECONDS) -> "subprocess.CompletedProcess[bytes]":
    program = _program()
    if program is None:
        raise TenterError("git is not on the PATH; install it")
    settings = [word for one in _UNTRUSTED for word in ("-c", one)]
    try:
        return subprocess.run(
            [program, *settings, *arguments],
            cwd=folder,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except OSError as error:
        raise TenterError(f"git cannot be run in {str(folder)!r}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TenterError(f"git took more than {seconds:g} s in {str(folder)!r}; see what holds it up") from error


def _program() -> str | None:
    """Where git is; a program of the working folder is not meant."""
    found = shutil.which("git")
    return found if found is not None and Path(found).is_absolute() else None


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The user's, without what could lead git to another repository, and with git's words in English."""
    kept = {name: value for name, value in given.items() if not name.startswith("GIT_") or name in _KEPT}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


def _refused(done: "subprocess.CompletedProcess[bytes]", what: str, hint: str = "") -> TenterError:
    words = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())
    shown = printable(words[:_LONGEST_WORDS]) or f"it ended with exit code {done.returncode}"
    return TenterError(f"{what}; git says: {shown}{hint}")
