"""The layout that the design asks for (D§14): tests mirror the source, files stay small, doors are true."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tenter"
FILES = sorted(path for path in SOURCE.glob("*/*.py") if path.name != "__init__.py")
LAYERS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
CEILING_FILE = 500
CEILING_FUNCTION = 60
MOST_PARAMETERS = 5

WITHOUT_A_MIRROR = {"features", "faults"}
"""Folders of tests that go through many files: acceptance scenarios, and hostile and faulty cases."""

OF_THE_DESIGN = {"run", "from_file", "hook", "run_sync"}
"""Functions whose parameters D§16 sets."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_source_file_has_its_test_file(path: Path) -> None:
    mirror = ROOT / "tests" / path.parent.name / f"test_{path.name}"
    assert mirror.exists(), f"{named(path)} needs {named(mirror)}"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*/test_*.py")), ids=named)
def test_a_test_file_has_its_source_file(path: Path) -> None:
    if path.parent.name in WITHOUT_A_MIRROR:
        return
    source = SOURCE / path.parent.name / path.name.removeprefix("test_")
    assert source.exists(), f"{named(path)} tests no file of its name"


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "tests").rglob("*.py"))], ids=named)
def test_a_file_stays_below_the_ceiling(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= CEILING_FILE


@pytest.mark.parametrize("path", FILES, ids=named)
def test_functions_stay_small(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= CEILING_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_another_layer_is_entered_through_its_door(path: Path) -> None:
    own = path.parent.name
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            parts = module.split(".")
            inside = parts[0] == "tenter" and len(parts) > 2 and parts[1] != own
            assert not inside, f"{module} is behind the door of {parts[1]}"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_door_is_sorted_and_gives_what_it_names(layer: str) -> None:
    door = importlib.import_module(f"tenter.{layer}")
    names: list[str] = door.__all__ if hasattr(door, "__all__") else []
    assert names == sorted(names)
    files = {path.stem for path in (SOURCE / layer).glob("*.py")}
    for name in names:
        assert getattr(door, name) is not None
        assert name not in files, f"{name} of {layer} is hidden by the file of the same name"
