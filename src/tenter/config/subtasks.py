"""Which tasks may spawn which, held against one another: what no schema of a single key can say (D§12).

Looks at a `Spec` alone. A name that is no task is none of its business: the schema refuses that.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tenter.config.problem import Problem
from tenter.config.spec import Spec, TaskSpec

_SHOWN: Final = 4
"""So many tasks at each end of a long circle are named."""


def subtask_problems(spec: Spec) -> Iterator[Problem]:
    """Each circle in which a task would spawn itself, and each tool with the name of the one that spawns."""
    if not any(one.subtasks for one in spec.tasks.values()):
        return
    from tenter.agent import SPAWN  # here, because most files have no subtasks

    for task, index, circle in _circles(spec.tasks):
        path = ("tasks", task, "subtasks", index)
        message = f"the task {circle[0]!r} would spawn itself: {_rendered(circle)}"
        hint = "take one of them out of the 'subtasks' that it stands in"
        yield Problem(where=spec.where(*path), path=path, message=message, hint=hint)
    for task, one in spec.tasks.items():
        if one.subtasks and SPAWN in one.tools:
            path = ("tasks", task, "tools", one.tools.index(SPAWN))
            message = f"a task with subtasks has a tool {SPAWN!r} by itself"
            yield Problem(where=spec.where(*path), path=path, message=message, hint="give yours another name")


def _circles(tasks: Mapping[str, TaskSpec]) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """The task and the index of the subtask that close a circle, and the circle from one task back to it."""
    done: set[str] = set()
    for first in tasks:
        way = {} if first in done else {first: _subtasks(tasks[first])}
        while way:
            here = next(reversed(way))
            index, name = next(way[here], (0, None))
            if name is None:
                done.add(here)
                del way[here]
            elif name in way:
                names = list(way)
                yield here, index, (*names[names.index(name) :], name)
            elif name in tasks and name not in done:
                way[name] = _subtasks(tasks[name])


def _subtasks(task: TaskSpec) -> Iterator[tuple[int, str]]:
    return iter(enumerate(task.subtasks))


def _rendered(circle: tuple[str, ...]) -> str:
    if len(circle) > 2 * _SHOWN:
        circle = (*circle[:_SHOWN], "…", *circle[-_SHOWN:])
    return " -> ".join(circle)
