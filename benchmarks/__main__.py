"""All benchmarks, one after the other, as one table: `python -m benchmarks`, or `make bench`."""

from collections.abc import Mapping

from benchmarks import approvals, command, dispatch, loop, resume, run, steps, syncs, validate


def rows() -> list[tuple[str, str, float]]:
    """Benchmark, figure, value."""
    measured: list[tuple[str, Mapping[str, float | Mapping[str, float]]]] = [
        ("dispatch", dispatch.measure()),
        ("command", command.measure()),
        ("run", run.measure()),
        ("steps", steps.measure()),
        ("syncs", syncs.measure()),
        ("resume", resume.measure()),
        ("approvals", approvals.measure()),
        ("loop", loop.measure()),
        ("validate", validate.measure()),
    ]
    return [(name, *row) for name, figures in measured for row in _flat(figures)]


def _flat(figures: Mapping[str, float | Mapping[str, float]]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, figure in figures.items():
        if isinstance(figure, Mapping):
            found += [(f"{name}: {inner}", value) for inner, value in figure.items()]
        else:
            found.append((name, figure))
    return found


def main() -> None:
    table = rows()
    width = max(len(figure) for _, figure, _ in table)
    for name, figure, value in table:
        print(f"| {name:9} | {figure:{width}} | {value:>12.4g} |")


if __name__ == "__main__":
    main()
