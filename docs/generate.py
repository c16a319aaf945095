"""Writes docs/hooks.md from the catalogue's declarations: `make docs`. `--check` says whether the page is stale."""

import sys
from pathlib import Path

from tenter.catalogue import AGENT_OPERATIONS, CATALOGUE, LOOP_OPERATIONS
from tenter.kernel import FOLD, Event, Operation, Point

PAGE = Path(__file__).parent / "hooks.md"

HEAD = """\
# Hook reference

Generated from the declarations in `src/tenter/catalogue` by `make docs`; do not edit it. A point that nothing fires is
not here. Both names of a point work everywhere; `pre.<operation>` is another name of `<operation>.pre`.
"""

AGENTS = """\
## Points of an agent's run
"""

LOOPS = """\
## Points of a loop

They fire in `tenter loop`, and have `pre` and `post` only. At each of them a Suspend holds the loop until an operator
resumes, stops or restarts it, and an Escalate ends it with `escalated`, except where it has ended anyway. What a loop
does cannot be replaced there, and no hook has `on_error: fail`. Which loop it is, how far it is, and what it is about
stand in `event.op.loop`; hooks outside the process get these as `loop`, `iteration` and `context`.
"""

SECTIONS = {AGENTS: AGENT_OPERATIONS, LOOPS: LOOP_OPERATIONS}


def page() -> str:
    """The whole page."""
    parts = [HEAD, _overview()]
    for head, operations in SECTIONS.items():
        parts += [head, *map(_operation, operations)]
    return "\n".join([*parts, _fold()])


def _overview() -> str:
    rows = ["| point | portable name | a hook may answer | default `on_error` |", "|---|---|---|---|"]
    rows += [
        f"| `{point.name}` | {_code(point.portable)} | {_answers(point)} | `{point.default_policy}` |"
        for point in CATALOGUE.values()
    ]
    return "\n".join(["## Overview\n", *rows, ""])


def _operation(operation: Operation[Event, Event]) -> str:
    lines = [f"### {operation.name}\n", f"{operation.doc} ({operation.shape})\n"]
    if operation.matches:
        fields = ", ".join(f"`{word}` (`event.{path}`)" for word, path in sorted(operation.matches.items()))
        lines.append(f"`match` can look at {fields}.\n")
    for phase in operation.rules:
        lines.append(_point(CATALOGUE[operation.point(phase)]))
    return "\n".join(lines)


def _point(point: Point) -> str:
    portable = f" = `{point.portable}`" if point.portable else ""
    block = f" A Block means: {point.rule.block_means}." if point.rule.block_means else ""
    fields = ", ".join(f"`{name}`" for name in point.event.__struct_fields__ if name not in ("envelope", "op"))
    event = point.event.__name__
    article = "an" if event[0] in "AEIOU" else "a"
    return (
        f"**`{point.name}`**{portable} hands out {article} `{event}` with {fields or 'no field of its own'}.\n\n"
        f"{point.rule.fires}{block}\n\n"
        f"Answers: {_answers(point)}. Failure policies: {', '.join(f'`{policy}`' for policy in point.policies)}.\n"
    )


def _answers(point: Point) -> str:
    if not point.answerable:
        return "nothing (it observes)"
    names = ["a replacement"] if point.rule.replaces else []
    return ", ".join(names + sorted(f"`{outcome.__name__}`" for outcome in point.rule.takes))


def _fold() -> str:
    rows = ["| outcome | ends the chain | rank | means |", "|---|---|---|---|"]
    rows += [
        f"| `{outcome.__name__}` | {'yes' if row.ends else 'no'} | {row.rank} | {row.means} |"
        for outcome, row in sorted(FOLD.items(), key=lambda item: item[1].rank)
    ]
    head = "## How answers combine\n\nOf several answers the one with the highest rank is the chain's.\n"
    return "\n".join([head, *rows, ""])


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def main() -> int:
    """Exit code 1 where `--check` finds the page stale."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write("docs/hooks.md is stale; run 'make docs' and commit it\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
