import importlib
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import pytest

import tenter.catalogue
import tenter.kernel

PACKAGE = """
from tenter.kernel.door import opener
__all__ = ["Screw", "gear", "size", "tool"]
__getattr__ = opener(__name__, {"tool": ("Screw", "tool"), "gear": ("size",), "shop": ("gear",)})
"""


@pytest.fixture(name="shop")
def a_package_behind_a_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    package = tmp_path / "doored"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "tool.py").write_text("class Screw: ...\ndef tool(): return 'tool'\n")
    (package / "gear.py").write_text("size = 3\n")
    (package / "shop.py").write_text("def gear(): return 'gear'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield "doored"
    for name in [name for name in sys.modules if name.partition(".")[0] == "doored"]:
        del sys.modules[name]


def loaded() -> set[str]:
    return {name for name in sys.modules if name.startswith("doored.")}


def test_a_file_is_loaded_only_when_a_name_of_it_is_taken(shop: str) -> None:
    door = importlib.import_module(shop)
    assert loaded() == set()
    assert door.size == 3
    assert loaded() == {"doored.gear"}


def test_a_name_that_was_taken_stays_and_is_the_same(shop: str) -> None:
    door = importlib.import_module(shop)
    first = door.Screw
    assert vars(door)["Screw"] is first is door.Screw


def test_a_name_that_the_door_does_not_offer_is_no_attribute(shop: str) -> None:
    door = importlib.import_module(shop)
    with pytest.raises(AttributeError, match="doored has no 'hammer'"):
        door.hammer  # noqa: B018  # taking it is the test


@pytest.mark.parametrize("first", [None, "doored.tool", "doored.gear"])
def test_a_name_stands_before_a_file_of_that_name_whatever_is_loaded_first(shop: str, first: str | None) -> None:
    door = importlib.import_module(shop)
    if first is not None:
        assert isinstance(importlib.import_module(first), ModuleType)
    assert door.tool() == "tool"
    assert door.gear() == "gear"


@pytest.mark.parametrize("door", [tenter.kernel, tenter.catalogue], ids=lambda door: door.__name__)
def test_a_layer_offers_what_its_door_lists_and_lists_nothing_twice(door: ModuleType) -> None:
    assert len(door.__all__) == len(set(door.__all__))
    for name in door.__all__:
        assert getattr(door, name) is not None


def test_taking_what_a_hook_author_needs_loads_no_event_loop() -> None:
    code = "import sys; from tenter.kernel import Block, Hook, hook; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "False\n"
