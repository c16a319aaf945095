"""The pages that are generated are fresh, every declaration is documented, and the README's example runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenter.catalogue import CATALOGUE
from tenter.config.keys import BUDGETS, HOOK, MODEL, RULE, TASK, project_keys
from tenter.config.loading import parse_spec
from tenter.config.outline import hook_files, outline
from tenter.config.schema import MapOf, Refused, Schema, Table

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


def test_the_examples_of_the_configuration_page_are_a_file_without_problems() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    blocks = re.findall(r"```yaml\n((?:models|tasks|policy|secrets):\n?.*?)```", page, flags=re.DOTALL)
    assert [block.split(":")[0] for block in blocks] == ["tasks", "models", "policy", "secrets"]
    builtin = ["read_file", "edit", "grep", "shell"]
    spec = parse_spec(("version: 1\n" + "".join(blocks)).encode(), "tenter.yaml", builtin_tools=builtin)
    assert outline(hook_files(spec, None), "").problems == ()


TOOLS = project_keys(()).keys["tools"]
assert isinstance(TOOLS, MapOf)
assert isinstance(TOOLS.value, Table)


@pytest.mark.parametrize(
    ("section", "prefix", "key", "schema"),
    [
        *(("Top level", "", *one) for one in project_keys(()).keys.items()),
        *(("Models", "", *one) for one in MODEL.keys.items()),
        *(("Tasks", "", *one) for one in TASK.keys.items()),
        *(("Tasks", "budgets.", *one) for one in BUDGETS.keys.items()),
        *(("Tools", "", *one) for one in TOOLS.value.keys.items()),
        *(("Policy", "", *one) for one in RULE.keys.items()),
        *(("hooks", "", *one) for one in HOOK.keys.items()),
    ],
)
def test_a_key_of_the_configuration_is_documented_where_it_belongs(
    section: str, prefix: str, key: str, schema: Schema
) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    if isinstance(schema, Refused):
        assert f"`{key}`" in page.partition(" are refused as not supported yet")[0].rsplit("\n\n", 1)[1]
        return
    _, heading, rest = page.partition(f"\n## {section}\n")
    assert heading
    assert f"`{prefix}{key}`" in rest.partition("\n## ")[0]
