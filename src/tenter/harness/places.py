"""What an engine remembers of the paths of one run, for as long as its loop may ask: the step that it is in."""

from typing import Final

from tenter.kernel import Event

LASTING: Final = "0."
"""The beginning of paths that are of no step: they may come again at any time."""


class Places:
    """How often each path was run and its work begun, and what came of it last."""

    def __init__(self) -> None:
        self.passes: dict[str, int] = {}
        self.executions: dict[str, int] = {}
        self.times: dict[str, float] = {}
        self.worked: dict[str, Event | None] = {}
        self.once: dict[str, bool] = {}
        """Whether the work that was begun last must not be done twice."""
        self._step = "0"

    def next(self, path: str) -> int:
        """The number of the pass that begins; with a new step, what was of the one before is forgotten."""
        step = path.partition(".")[0]
        if step not in ("0", self._step):
            self._step = step
            for old in [name for name in self.passes if not name.startswith(LASTING)]:
                for kept in (self.passes, self.executions, self.times, self.worked, self.once):
                    kept.pop(old, None)
        number = self.passes[path] = self.passes.get(path, 0) + 1
        return number
