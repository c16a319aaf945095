"""Where the files of one loop are, and how their folders are made. It knows names and folders, and no content.

What belongs to the workspace (the suspend state, what a loop is asked) is in `<workspace>/.tenter`; what is kept of a
loop is in `<project>/.tenter/loops/<loop id>`. The two differ where the loop works in a git worktree.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tenter.executors import is_below
from tenter.kernel import TenterError
from tenter.loop.whole_file import put_new, sync_folder

STATE_FOLDER: Final = ".tenter"

SignalKind = Literal["resume", "stop", "restart", "answer"]
"""What a loop can be told through a file in its workspace."""

SIGNAL_FILES: Final[Mapping[SignalKind, str]] = {
    "resume": "resume-requested",
    "stop": "stop-requested",
    "restart": "restart-requested",
    "answer": "answer-given",
}

_LOOP_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class Place:
    """The files of the loop `loop_id`. Raises TenterError for an id that could not name a folder of ours (FAULTS 64).

    `project` is the folder of the configuration, `workspace` where backend and hooks work; both absolute.
    """

    loop_id: str
    project: Path
    workspace: Path

    def __post_init__(self) -> None:
        if not is_loop_id(self.loop_id):
            raise TenterError(f"{self.loop_id!r} is no id of a loop; one looks like 'loop-12ab-34cd'")

    @property
    def signals(self) -> Path:
        """The folder of the suspend state and of the signals."""
        return self.workspace / STATE_FOLDER

    @property
    def suspend_state(self) -> Path:
        return self.signals / "suspend-state.json"

    def signal(self, kind: SignalKind) -> Path:
        """The file through which the loop is told."""
        return self.signals / SIGNAL_FILES[kind]

    @property
    def folder(self) -> Path:
        """What is kept of this loop alone, also after its end."""
        return self.project / STATE_FOLDER / "loops" / self.loop_id

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def output(self) -> Path:
        return self.folder / "output.log"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.json"

    def make(self) -> None:
        """Makes the folders, for their owner alone (0700), and keeps them out of git. What is there is left as it is.

        Neither project nor workspace are made. Raises TenterError, naming the folder, where one cannot be made, where
        something else is in its place, or where it is a link that leads out of the project or the workspace.
        """
        make_state_folder(self.signals)
        make_state_folder(self.project / STATE_FOLDER)
        for folder in (self.folder.parent, self.folder):
            _make(folder, within=self.project)

    def remove(self) -> None:
        """Takes away what is kept of this loop alone; that there is nothing is no error.

        Raises TenterError where it cannot be taken away, or is reached through a link that leads out of the project.
        """
        folder = self.folder
        if not is_below(os.path.realpath(folder), os.path.realpath(self.project)):
            raise TenterError(f"{str(folder)!r} is reached through a link that leads out of the project; take it away")
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise TenterError(
                f"{str(folder)!r} cannot be taken away: {error.strerror or error}; take it away yourself"
            ) from error


def is_loop_id(text: str) -> bool:
    """Whether a loop can be called so: letters, digits and dashes in lower case, at most 64."""
    return _LOOP_ID.fullmatch(text) is not None


def make_state_folder(folder: Path) -> None:
    """Makes a `.tenter` folder (0700) where there is none, with a `.gitignore` that leaves all of it out of git.

    Raises TenterError as `Place.make` does.
    """
    _make(folder, within=folder.parent)
    rules = folder / ".gitignore"
    try:
        if not os.path.lexists(rules):  # somebody's own rules stay
            put_new(rules, b"*\n")
    except OSError as error:
        raise _cannot(folder, error) from error


def check_state_folder(folder: Path) -> None:
    """Raises TenterError where a `.tenter` folder that is there is none, or a link that leads out of its own folder."""
    _check(folder, folder.parent)


def _make(folder: Path, *, within: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _check(folder, within)
    except OSError as error:
        raise _cannot(folder, error) from error
    else:
        with contextlib.suppress(OSError):  # a file system that syncs no folders keeps them in its own way
            sync_folder(folder.parent)


def _check(folder: Path, within: Path) -> None:
    """A repository may hold such a link, so that what tenter writes would land among somebody's own files."""
    try:
        leads_out = folder.is_symlink() and not folder.resolve().is_relative_to(within.resolve())
        is_folder = folder.is_dir()
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise TenterError(f"{str(folder)!r} cannot be used ({error}); take it away") from error
    if leads_out:
        raise TenterError(f"{str(folder)!r} is a link that leads out of {str(within)!r}; take it away")
    if not is_folder:
        raise TenterError(f"{str(folder)!r} is no folder; take it away")


def _cannot(folder: Path, error: OSError) -> TenterError:
    return TenterError(
        f"the folder {str(folder)!r} cannot be made or written ({error.strerror}); a loop keeps its files there: check "
        "that the folder above it is there and may be written"
    )
