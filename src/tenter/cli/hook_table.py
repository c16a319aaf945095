"""How the hooks of each point look on a screen: a table a point, in running order (promise 15)."""

from collections.abc import Iterator, Mapping, Sequence

from tenter.catalogue import CATALOGUE
from tenter.cli.command_line import quoted
from tenter.cli.texts import one_line
from tenter.config import Listing, Row, Spec
from tenter.kernel import OUTCOMES, Point

POINTS: Sequence[Point] = tuple(CATALOGUE[name] for name in CATALOGUE)
"""Every point, in the order of the catalogue."""

HEADS = ("#", "hook", "band", "prio", "kind", "match", "on_error", "deadline", "abandon", "declared at")
WIDEST = 60
UNTOLD = "* a Python hook may say otherwise of what the configuration leaves out; that is known when it is loaded"


def table(listing: Listing, points: Sequence[Point], *, every: bool, config: str) -> Iterator[str]:
    """The lines of a listing. With `every`, also when each point fires and what may be answered there."""
    cells = [_cells(row) for row in listing.rows]
    widths = [max(map(len, column)) for column in zip(HEADS, *cells, strict=True)]
    if cells:
        yield _line(HEADS, widths)
    for point in points:
        yield from _point(point, every=every)
        yield from (_line(_cells(row), widths) for row in listing.rows if row.full_name == point.name)
    if not all(row.certain for row in listing.rows):
        yield UNTOLD
    for one in listing.unlisted:
        mark = " [untrusted]" if one.untrusted else ""
        yield one_line(f"plugin {one.target}{mark} ({one.source}): known when it is loaded", 200)
    if not (points or listing.unlisted):
        yield f"no hooks; {quoted(config, 'hooks', 'list', '--all')} prints all points"


def switched_off(*specs: Spec | None) -> list[str]:
    """A line for each file whose hooks do not run since it says so."""
    off = [spec.where("hooks", "enabled") for spec in specs if spec is not None and not spec.hooks.enabled]
    return [f"hooks are switched off ({where.file}:{where.line})" for where in off]


def point_row(point: Point) -> Mapping[str, object]:
    """A point as JSON has it."""
    return {
        "point": point.label,
        "full_name": point.name,
        "fires": point.rule.fires,
        "answers": _answers(point),
        "policies": list(point.policies),
    }


def _point(point: Point, *, every: bool) -> Iterator[str]:
    yield point.label if point.label == point.name else f"{point.label} ({point.name})"
    if every:
        yield f"  {point.rule.fires}"
        yield f"  answers: {', '.join(_answers(point)) or 'none'}"


def _answers(point: Point) -> list[str]:
    """The words for what may be answered."""
    takes = [word for word, outcome in OUTCOMES.items() if point.takes(outcome)]
    return [*takes, *(["replace"] if point.rule.replaces else [])] if point.answerable else []


def _cells(row: Row) -> tuple[str, ...]:
    name = row.name if row.certain else f"{row.name}*"
    states = (("untrusted", row.untrusted), ("observe", row.observe), ("shadow", row.mode == "shadow"))
    marks = [word for word, on in states if on]
    body = row.kind == "body"
    return (
        "-" if row.untrusted else str(row.order),
        " ".join([name, *(f"[{mark}]" for mark in marks)]),
        row.band or "-",
        str(row.priority),
        row.kind,
        one_line(", ".join(f"{word}={_pattern(pattern)}" for word, pattern in row.match.items()), WIDEST) or "-",
        row.on_error or "-",
        "-" if body else _deadline(row),
        "yes" if row.abandon else "-" if body else "no",
        one_line(row.source, 200) or "tenter",
    )


def _pattern(pattern: object) -> str:
    if isinstance(pattern, Mapping):
        return f"/{pattern.get('re')}/"  # pyright: ignore[reportUnknownMemberType]  # checked by the configuration
    if isinstance(pattern, list | tuple):
        return "|".join(map(str, pattern))  # pyright: ignore[reportUnknownArgumentType]  # as above
    return str(pattern)


def _deadline(row: Row) -> str:
    seconds = f"{row.timeout_seconds:g} s"
    words = {"hard": f"{seconds} hard", "soft": f"{seconds} soft", "none": "none (inline)", "unknown": f"{seconds} *"}
    return words[row.deadline]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
