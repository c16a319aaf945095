"""What a project's owner trusts by now, file by file, while what was looked at earlier still runs (D§3.14).

A loop may be suspended for days. Its owner mends the script of a hook, trusts that, and lets the loop go on: the new
content counts, because the owner's record names it. Nothing else of the record does: what the configuration says stays
what was loaded.
"""

import os
from collections.abc import Mapping
from functools import partial

from tenter.config.footprint import key_of
from tenter.config.trust_record import UnusableRecord, read_record
from tenter.executors import Accepts


class TrustedSince:
    """Asks the record of the configuration at the real path `project`, and only about a file that changed."""

    def __init__(self, project: str, environment: Mapping[str, str] = os.environ) -> None:
        self._project = project
        self._environment = environment
        self._latest: dict[str, str] = {}
        """Digests of files that were trusted anew, by path. They take the place of those that were pinned."""

    def at(self, workspace: str) -> Accepts:
        """For what runs in `workspace`: its copy of a file may be what the record says that the project's is."""
        return partial(self._accepts, os.path.realpath(workspace))

    def _accepts(self, workspace: str, path: str, pinned: str, found: str) -> bool:
        if found == self._latest.get(path, pinned):
            return True
        if self._recorded(workspace, path) != found:
            return False
        self._latest[path] = found
        return True

    def _recorded(self, workspace: str, path: str) -> str | None:
        try:
            record = read_record(self._project, self._environment)
        except UnusableRecord:  # whoever gives trust anew is told; here nobody did
            return None
        if record is None:
            return None
        # A worktree lies inside the project, so it comes first.
        names = (key_of(path, root) for root in (workspace, os.path.dirname(self._project)))  # noqa: PTH120
        facts = next((record.files[name] for name in names if name in record.files), None)
        return None if facts is None else facts.digest
