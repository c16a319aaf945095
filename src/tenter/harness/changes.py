"""What a run rests on, as it was when the run began and as it is now (D§11).

What has changed is named, and accepted by that name or not at all. It decides; it begins nothing.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from tenter.agent import LOOP_VERSION
from tenter.harness.held import HOLDER
from tenter.harness.recording import Recording
from tenter.harness.setup import Setup
from tenter.journal import Store, Stream
from tenter.kernel import FrozenDict, TenterError
from tenter.wire import digest

LOOP: Final = "loop_version"
"""By this name a change of the agent loop is accepted, others by those of `Spec.parts`."""
WORKSPACE: Final = "workspace"
"""The same of the folder that the run works in."""


class SpecChanged(TenterError):
    """The run was begun with something else. `changed` names what."""

    def __init__(self, run_id: str, changed: tuple[str, ...], details: Sequence[str] = ()) -> None:
        accepted = " ".join(f"--accept {name}" for name in changed)
        said = f" ({'; '.join(details)})" if details else ""
        super().__init__(
            f"the run {run_id} was begun with other {', '.join(changed)}{said}: bring these back, or accept what "
            f"changed by name ('tenter resume {run_id} {accepted}')"
        )
        self.changed = changed


def changes(setup: Setup, recording: Recording, *, run_id: str, accept: Collection[str]) -> tuple[str, ...]:
    """Names what changed since the run began, all of it accepted.

    Raises SpecChanged where something is not, TenterError for a name of nothing and for a task that is gone.
    """
    compared = _compared(setup, recording)
    known = (*compared, HOLDER)
    if unknown := sorted(set(accept) - set(known)):
        raise TenterError(f"{unknown[0]!r} is nothing that can be accepted; there are {', '.join(known)}")
    changed = tuple(name for name, is_same in compared.items() if not is_same)
    if refused := tuple(name for name in changed if name not in accept):
        raise SpecChanged(run_id, refused, _details(setup, recording, refused))
    return changed


def parts_of(setup: Setup, task: str) -> Mapping[str, str]:
    """Digests of what a run of the task rests on, in the project's file and in the user's (D§11)."""
    parts = setup.spec.parts(task)
    return FrozenDict({**parts, "hooks": digest([parts["hooks"], setup.user_digest])})


def workspace_of(setup: Setup) -> str:
    """The folder that a run works in, as it is on record, masked; empty for the file's own, which may be moved."""
    root = setup.workspace.root
    return "" if root == Path(os.path.realpath(setup.spec.file)).parent else setup.redactor.mask_text(str(root))


async def begun_in(store: Store, stream: Stream) -> str | None:
    """The workspace that a run was begun in; None for the folder of its file. Raises TenterError and JournalError."""
    return _workspace(await Recording.begin(store, stream)) or None


def _workspace(recording: Recording) -> str:
    return str(recording.first.get(WORKSPACE, ""))


def _compared(setup: Setup, recording: Recording) -> Mapping[str, bool]:
    """Whether each part is as it was when the run began. Raises TenterError for a task that is not there any more."""
    first = recording.first
    task = str(first.get("task"))
    setup.task(task)
    now = {**parts_of(setup, task), WORKSPACE: workspace_of(setup), LOOP: LOOP_VERSION}
    then = {
        **cast("Mapping[str, object]", first.get("parts") or {}),
        WORKSPACE: _workspace(recording),
        LOOP: first.get("loop_version"),
    }
    compared = {name: then.get(name) == now[name] for name in now}
    return compared | {"hooks": compared["hooks"] and not _missing(setup, recording)}


def _missing(setup: Setup, recording: Recording) -> list[str]:
    """The hooks that the run's program gave it and that it would lack here. More of them than then change nothing."""
    return [one for one in recording.first.get("callers_hooks", ()) if one not in setup.callers_hooks]


def _details(setup: Setup, recording: Recording, changed: tuple[str, ...]) -> list[str]:
    """What its caller must know of what changed, since no file tells it."""
    said: list[str] = []
    if WORKSPACE in changed:
        said.append(f"it was {_workspace(recording) or 'the folder of the file'}")
    if "hooks" in changed:
        said += [f"its program gave it the hook {one}" for one in _missing(setup, recording)]
    return said
