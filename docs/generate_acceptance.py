"""Writes docs/acceptance.md from the feature files: `--check` says whether the page is stale.

It refuses a criterion without a scenario, and a scenario without a criterion.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pytest_bdd.feature import get_features

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "acceptance.md"
FEATURES = ROOT / "tests" / "features" / "hooks"

CRITERIA: Final = {
    "AC-01": "Hooks come from the project's own file; nothing outside the project is needed",
    "AC-02": "All six events of a loop are dispatched, with structured payloads",
    "AC-03": "`pre` hooks run before the work of an event, `post` hooks after it",
    "AC-04": "The hooks of a phase run one at a time, in the order of the file",
    "AC-05": "A hook gets a JSON payload on stdin and a few variables",
    "AC-06": "A hook past its deadline is ended and recorded as timed out",
    "AC-07": "Output past its limit is cut, always at the same place",
    "AC-08": "`on_error: warn`: the failure is recorded and the loop goes on",
    "AC-09": "`on_error: block`: the step does not happen, and the reason is told",
    "AC-10": "`on_error: suspend` without a mode waits for a resume",
    "AC-11": "`tenter loop resume` lets a suspended loop go on from where it stood",
    "AC-12": "A resume that is not needed changes nothing and says so",
    "AC-13": "Metadata of a hook without `mutate.enabled` is left aside",
    "AC-14": "With `mutate.enabled`, metadata is all that a hook can change",
    "AC-15": "Metadata that is no JSON is an error of its own",
    "AC-16": "Every run of a hook leaves a whole telemetry record",
    "AC-17": "`tenter hooks validate` tells what to mend and starts nothing",
    "AC-18": "The preflight of `tenter loop run` checks the hooks and can refuse the start",
    "LS-01": "The `TENTER_*` variables are enough for a guard to decide by",
    "LS-02": "A hook of an agent's point is told of the loop around the run",
    "LS-03": "A Block at a boundary ends the loop, and `loop.error` sees `blocked`",
    "LS-04": "A Block before a plan or a question refuses just that, and the agent is told",
    "LS-05": "A Block at `loop.error` changes nothing more",
    "LS-06": "Of two resumes at once there is one effect, and both are told",
    "LS-07": "A loop that was killed while suspended is continued in a new process",
    "LS-08": "A suspended loop and another one beside it do not touch each other",
    "LS-09": "`stop` and `restart` end a loop that is suspended",
    "LS-10": "Ctrl-C ends a loop that is suspended",
    "LS-11": "A signal for another suspension resumes nothing",
    "LS-12": "`wait_then_retry`: the hook must pass after the resume, every time",
    "LS-13": "`retry_backoff`: the hook is tried again in its place, each try on record",
    "LS-14": "Metadata that is no JSON blocks where the hook's failure blocks",
    "LS-15": "Nothing of an untrusted project runs",
    "LS-16": "A hook that changed after it was trusted asks for trust again",
    "LS-17": "What was trusted is what runs, also when a file changes while the loop runs",
    "LS-18": "Hooks that suspend at the same boundary share one wait",
    "LS-19": "What hooks said survives a suspension and a crash",
    "LS-20": "While suspended, stop goes before restart, and restart before resume",
    "LS-21": "What is trusted again while a loop is suspended is what it runs from then on",
}
"""Every criterion: AC from the contract, LS what was decided beside it. An id is never used for anything else."""

HEAD = """\
# Acceptance

Generated from `tests/features/hooks/*.feature` by `docs/generate_acceptance.py`; do not edit it. Each scenario drives
the real command line in real processes, with real hook scripts, a real git repository and a scripted agent; CI fails
when one fails. AC are the criteria of the contract, LS what was decided beside it.

| id | criterion | feature file | scenario |
|---|---|---|---|
"""


class Traced(NamedTuple):
    """A scenario that shows a criterion."""

    id: str
    file: str
    name: str


def traced() -> Iterator[Traced]:
    """Every scenario, by the ids of its tags. Raises SystemExit for one that has none."""
    for feature in get_features([str(FEATURES)]):
        for name, scenario in feature.scenarios.items():
            ids = sorted(scenario.tags)
            if not ids:
                raise SystemExit(f"{Path(feature.filename).name}: the scenario {name!r} has no id, such as @LS-21")
            for one in ids:
                yield Traced(one, Path(feature.filename).name, name)


def page() -> str:
    """The whole page. Raises SystemExit where criteria and scenarios do not match one to one."""
    found = list(traced())
    ids = sorted(one.id for one in found)
    if ids != sorted(CRITERIA):
        missing = sorted(set(CRITERIA) - set(ids))
        unknown = sorted(set(ids) - set(CRITERIA))
        twice = sorted({one for one in ids if ids.count(one) > 1})
        raise SystemExit(f"without a scenario: {missing}; not in CRITERIA: {unknown}; more than once: {twice}")
    rows = [f"| {one.id} | {CRITERIA[one.id]} | `{one.file}` | {_cell(one.name)} |" for one in sorted(found)]
    return HEAD + "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


def main() -> int:
    """Exit code 1 where `--check` finds the page stale, or where a criterion has no scenario."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write("docs/acceptance.md is stale; run 'make docs' and commit it\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
