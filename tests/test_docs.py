"""The pages that are generated are fresh, every declaration is documented, and the README's example runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenter import Hook, Runtime
from tenter.catalogue import CATALOGUE
from tenter.config.keys import BUDGETS, HOOK, MODEL, RULE, TASK, project_keys
from tenter.config.loading import parse_spec
from tenter.config.outline import hook_files, outline
from tenter.config.schema import MapOf, Refused, Schema, Table
from tenter.harness import Tool

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


def test_the_python_of_the_configuration_page_is_hooks_and_tools_that_can_be_attached() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "configuration.md").read_text(), flags=re.DOTALL)
    made: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "configuration.md", "exec"), made)
    plugins = [one() for one in made.values() if isinstance(one, type) and issubclass(one, Hook) and one is not Hook]
    hooks = [one for one in made.values() if hasattr(one, "__tenter_hooks__")]
    attached = {link.hook.name for link in Runtime(CATALOGUE, hooks=[*hooks, *plugins]).links()}
    assert attached >= {"no_sudo", "patient", "audit"}
    assert [name for name, one in made.items() if isinstance(one, Tool)] == ["lookup"]


def service(folder: Path, *words: str) -> list[str]:
    """What the service of docs/python.md prints, in a process of its own: words."""
    done = subprocess.run(
        [sys.executable, "service.py", *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def blocks_of(page: str, *languages: str) -> list[str]:
    return re.findall(rf"```(?:{'|'.join(languages)})\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def write_files(page: str, folder: Path) -> None:
    """Writes those blocks of a page whose first line is a file's name."""
    for block in blocks_of(page, "python", "yaml"):
        if named := re.match(r"# (\w+\.\w+)\n", block):
            (folder / named[1]).write_text(block)


def test_the_service_of_the_python_page_waits_is_approved_elsewhere_and_goes_on(tmp_path: Path) -> None:
    write_files("docs/python.md", tmp_path)
    status, run_id, output = service(tmp_path, "begin", "pay ada 500")
    assert (status, output) == ("awaiting_approval", "None")
    asking, request_id, *why = service(tmp_path, "waiting")
    assert (asking, why) == (run_id, ["500", "four-eyes:", "more", "than", "100"])
    assert service(tmp_path, "decide", run_id, request_id, "120") == ["completed", run_id, "Done."]
    assert "was edited already by 'grace'" in " ".join(service(tmp_path, "decide", run_id, request_id, "120"))
    assert service(tmp_path, "waiting") == []


def test_the_other_examples_of_the_python_page_run(tmp_path: Path) -> None:
    write_files("docs/python.md", tmp_path)
    first, show, traced = (one for one in blocks_of("docs/python.md", "python") if not one.startswith("# "))
    watched = first.replace('ada 50"', 'ada 50", watcher=show')
    assert watched != first
    program = [show, traced, "import asyncio", "asyncio.run(test_it_pays())", watched]
    (tmp_path / "example.py").write_text("\n".join(program))
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "hook tool.before" in done.stdout
    assert re.search(r"\nthe run is [0-9a-f]{16}\ncompleted Done\.$", done.stdout.rstrip())


@pytest.mark.parametrize(
    "page", ["README.md", "docs/architecture.md", "docs/configuration.md", "docs/python.md", "docs/decisions/README.md"]
)
def test_a_link_leads_somewhere(page: str) -> None:
    prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)[)#]", prose)
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
