"""What was looked at when a project was found trusted, so that this is what runs (D§3.14).

Whoever builds a runtime from the same file hands it on; it judges nobody's trust. Whether a file is trusted anew while
that runtime lives is asked of whom it was given for that.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tenter.config.named_files import files_named, words_of_hook
from tenter.config.problem import KeyPath
from tenter.config.spec import HookSpec, Spec
from tenter.executors import Accepts, PinnedFile, PinnedImports, file_digest
from tenter.kernel import TenterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The digests of a project's file and of all the files that it names."""

    file: str
    config_digest: str
    """Of the file's own bytes."""
    root: str
    """The real path of the project's folder."""
    files: Mapping[str, str]
    """Digests by real path."""
    commands: Mapping[KeyPath, tuple[PinnedFile, ...]]
    """The files of each thing that runs, by the place of that in the file."""
    since: Callable[[str], Accepts] | None = None
    """For a workspace, who says what of it is trusted by now; where there is none, what was looked at is all."""

    def of(self, path: KeyPath, workspace: str) -> tuple[PinnedFile, ...]:
        """The files of what stands at `path`, such as `("loop", "backend")`: to be checked before it is started."""
        return tuple(self._asking(self.commands.get(path, ()), workspace))

    def of_hook(self, hook: HookSpec, workspace: str) -> tuple[PinnedFile, ...]:
        """The files of a command hook that runs in `workspace`.

        With those that it names there and that are not in the project itself: nobody vouched for these.
        """
        known = self.of(hook.path, workspace)
        if os.path.realpath(workspace) == self.root:
            return known
        root, paths = Path(os.path.realpath(workspace)), {one.path for one in known}
        there = files_named(words_of_hook(hook, Path(self.root)), root, Path(root, hook.cwd or ""))
        strange = [PinnedFile(one.found_as, "") for one in there if one.found_as not in paths]
        return (*known, *self._asking(strange, workspace))

    def _asking(self, files: Iterable[PinnedFile], workspace: str) -> Iterator[PinnedFile]:
        accepts = None if self.since is None else self.since(workspace)
        return (replace(one, accepts=accepts) for one in files)

    def guard_imports(self) -> None:
        """From now on, only the modules of the project that were looked at can be imported, as they were."""
        PinnedImports(self.root, self.files).install()

    def check(self, spec: Spec) -> None:
        """Raises TenterError where `spec`, or a file that it names, is not what was looked at."""
        if spec.digest != self.config_digest:
            raise TenterError(f"{self.file} changed while it was being loaded; start again")
        for path, digest in self.files.items():
            try:
                is_same = file_digest(path) == digest
            except OSError:
                is_same = False
            if not is_same:
                raise TenterError(f"{path!r}, which {self.file} names, changed while it was being loaded; start again")
