"""The pages that are generated are fresh, every declaration is documented, and the README's example runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenter.catalogue import CATALOGUE
from tenter.config.keys import HOOK

ROOT = Path(__file__).parent.parent


def test_the_hook_reference_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("point", CATALOGUE)
def test_a_point_says_when_it_fires(point: str) -> None:
    assert re.search(r"\w+ \w+.*\.$", CATALOGUE[point].rule.fires)
    assert CATALOGUE[point].operation.doc


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    assert len(blocks[0].splitlines()) <= 25
    (tmp_path / "example.py").write_text(blocks[0])
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout.lower()


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/decisions/README.md"])
def test_a_link_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert links
    for link in links:
        assert ((ROOT / page).parent / link).exists(), f"{page} links to {link}"


@pytest.mark.parametrize("key", HOOK.keys)
def test_a_key_of_a_hook_is_documented(key: str) -> None:
    assert f"`{key}`" in (ROOT / "docs" / "configuration.md").read_text()
