"""Every criterion has its scenario, every scenario runs, and the table that says so is fresh."""

import re
import subprocess
import sys
from pathlib import Path

FEATURES = Path(__file__).parent
ROOT = FEATURES.parent.parent.parent
CONTRACT = [f"AC-{number:02}" for number in range(1, 19)]


def test_the_table_is_fresh_and_no_criterion_is_without_a_scenario() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate_acceptance.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_table_has_each_criterion_of_the_contract_once() -> None:
    ids = re.findall(r"^\| (AC-\d\d) \|", (ROOT / "docs" / "acceptance.md").read_text(), flags=re.MULTILINE)
    assert ids == CONTRACT


def test_every_feature_file_is_run() -> None:
    run = {
        name for path in FEATURES.glob("test_*.py") for name in re.findall(r'scenarios\("(.+?)"\)', path.read_text())
    }
    assert run == {path.name for path in FEATURES.glob("*.feature")}


def test_no_step_reaches_into_the_package() -> None:
    """What is accepted is what a user sees from outside."""
    steps = [*FEATURES.glob("*.py"), ROOT / "tests" / "outside.py"]
    beside = {found for path in steps for found in re.findall(r"^from (tests\S*)", path.read_text(), re.MULTILINE)}
    assert beside == {"tests.features.hooks.world", "tests.outside"}
    reaching = [
        path.name for path in steps if re.search(r"^\s*(?:import|from) tenter\b", path.read_text(), re.MULTILINE)
    ]
    assert reaching == []
