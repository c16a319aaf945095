"""Of a project's modules only those run that were trusted, from the very text that was."""

import importlib
import importlib.util
import marshal
import os
import py_compile
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tenter.executors.function import load_target
from tenter.executors.pinned import file_digest
from tenter.executors.pinned_imports import PinnedImports, in_project, is_below
from tenter.kernel import RegistrationError


@contextmanager
def pinned(root: Path, *names: str) -> Generator[None]:
    """The project at `root`, of which these files are trusted as they are; its modules are forgotten afterwards."""
    finder = PinnedImports(str(root), {str(root / name): file_digest(root / name) for name in names})
    before = set(sys.modules)
    finder.install()
    try:
        yield
    finally:
        finder.remove()
        for name in set(sys.modules) - before:
            del sys.modules[name]


def load(target: str, folder: Path) -> object:
    found = load_target(target, str(folder))
    return found() if callable(found) else found


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_trusted_module_and_what_it_imports_run(tmp_path: Path) -> None:
    write(tmp_path, {"pinned_a.py": "import pinned_b\nx = pinned_b.y\n", "pinned_b.py": "y = 1\n"})
    with pinned(tmp_path, "pinned_a.py", "pinned_b.py"):
        assert load("pinned_a:x", tmp_path) == 1
    with pinned(tmp_path, "pinned_b.py"):
        assert load("./pinned_b.py:y", tmp_path) == 1


@pytest.mark.fault(56)
@pytest.mark.parametrize("target", ["pinned_c:x", "./pinned_c.py:x", "pinned_d:x"])
def test_a_module_that_changed_does_not_run(target: str, tmp_path: Path) -> None:
    write(tmp_path, {"pinned_c.py": "x = 1\n", "pinned_d.py": "import pinned_c\nx = 1\n"})
    with pinned(tmp_path, "pinned_c.py", "pinned_d.py"):
        ran = tmp_path / "ran"
        (tmp_path / "pinned_c.py").write_text(f"open({str(ran)!r}, 'w').close()\nx = 2\n")
        with pytest.raises(RegistrationError, match="changed since it was trusted"):
            load(target, tmp_path)
        assert not ran.exists()


@pytest.mark.fault(56)
def test_a_module_that_is_imported_by_a_call_and_was_not_trusted_does_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    call = "import importlib\ndef x(): return importlib.import_module('pinned_f').z\n"
    write(tmp_path, {"pinned_e.py": call, "pinned_f.py": f"open({str(ran)!r}, 'w').close()\nz = 1\n"})
    sys.path.append(str(tmp_path))
    try:
        with pinned(tmp_path, "pinned_e.py"):
            with pytest.raises(ImportError, match="not among the files that were trusted"):
                load("pinned_e:x", tmp_path)
            assert not ran.exists()
        with pinned(tmp_path, "pinned_e.py", "pinned_f.py"):
            assert load("pinned_e:x", tmp_path) == 1
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.fault(56)
def test_bytecode_that_a_project_brings_along_is_not_run(tmp_path: Path) -> None:
    """An unchecked .pyc runs in place of the source, whatever that says."""
    write(tmp_path, {"pinned_g.py": "x = 'evil'\n"})
    cached = importlib.util.cache_from_source(str(tmp_path / "pinned_g.py"))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(tmp_path / "pinned_g.py"), cached, invalidation_mode=mode)
    write(tmp_path, {"pinned_g.py": "x = 'good'\n"})
    before = set(sys.modules)
    assert load("pinned_g:x", tmp_path) == "evil", "so Python does it"
    for name in set(sys.modules) - before:
        del sys.modules[name]
    data = Path(cached).read_bytes()
    with pinned(tmp_path, "pinned_g.py"):
        assert load("pinned_g:x", tmp_path) == "good"
    assert Path(cached).read_bytes() == data, "nor is any written"


@pytest.mark.fault(56)
def test_bytecode_without_a_source_is_a_file_like_any_other(tmp_path: Path) -> None:
    code = compile("x = 1", "pinned_h.py", "exec")
    (tmp_path / "pinned_h.pyc").write_bytes(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
    with pinned(tmp_path), pytest.raises(RegistrationError, match="not among the files that were trusted"):
        load("pinned_h:x", tmp_path)
    with pinned(tmp_path, "pinned_h.pyc"):
        assert load("pinned_h:x", tmp_path) == 1


def test_what_is_no_project_file_is_imported_as_ever(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    write(tmp_path, {"outside/pinned_i.py": "x = 1\n"})
    with pinned(tmp_path / "project"):
        assert load("pinned_i:x", tmp_path / "outside") == 1
        assert isinstance(importlib.import_module("wave"), ModuleType)
        with pytest.raises(RegistrationError, match="there is no module"):
            load("pinned_nowhere:x", tmp_path)


def test_a_second_look_at_the_same_project_takes_the_place_of_the_first(tmp_path: Path) -> None:
    first, second = (PinnedImports(str(tmp_path), {}) for _ in range(2))
    other, before = PinnedImports(str(tmp_path / "x"), {}), list(sys.meta_path)
    for one in (other, first, second):
        one.install()
    try:
        assert [one for one in sys.meta_path if one not in before] == [second, other]
        second.remove()
        second.remove()
        assert second not in sys.meta_path
    finally:
        for one in (other, first, second):
            one.remove()


def test_the_code_of_a_project_is_what_is_in_its_folder_and_not_installed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, installed = tmp_path / "project", tmp_path / "project" / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (tmp_path / "out.py").touch()
    (project / "link.py").symlink_to(tmp_path / "out.py")
    (tmp_path / "into.py").symlink_to(project / "a.py")
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed)])
    root = str(project)
    assert in_project(f"{root}/a.py", root)
    assert in_project(f"{root}/link.py", root)
    assert in_project(str(tmp_path / "into.py"), root)
    assert not in_project(str(tmp_path / "out.py"), root)
    assert not in_project(f"{root}/../out.py", root)
    assert not in_project(str(installed / "a.py"), root)
    assert in_project(str(installed / "a.py"), str(installed)), "a project that is installed itself"
    assert not in_project(os.__file__, "/")
    assert not in_project(__import__("tenter").__file__ or "", "/")


def test_a_folder_is_no_part_of_one_whose_name_begins_alike() -> None:
    assert is_below("/a/b", "/a")
    assert is_below("/a", "/")
    assert not is_below("/ab", "/a")
    assert not is_below("/a", "/a")


def test_many_projects_in_one_process_do_not_multiply_the_looks_for_a_module(tmp_path: Path) -> None:
    asked: list[str] = []

    class Last:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            asked.append(name)

    before = [one for one in sys.meta_path if isinstance(one, PinnedImports)]
    finders = [PinnedImports(str(tmp_path / str(number)), {}) for number in range(20)]
    last = Last()
    sys.meta_path.append(last)
    try:
        for one in finders:
            one.install()
        assert importlib.util.find_spec("no_such_module_anywhere") is None
    finally:
        for one in finders:
            one.remove()
        sys.meta_path.remove(last)
    assert len(asked) == len(before) + len(finders) + 1
