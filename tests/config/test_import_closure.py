"""The files that loading a Python target runs, found without running them."""

import importlib.machinery
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenter.config.import_closure import project_modules


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def closure(target: str, folder: Path) -> set[str]:
    return {os.path.relpath(path, folder) for path in project_modules(target, folder)}


@pytest.mark.fault(56)
def test_imports_are_followed_from_module_to_module_and_none_is_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "clo_a.py": "import json, clo_b\nfrom tenter import hook\ndef f():\n    import clo_c.deep.er\n1 / 0\n",
            "clo_b.py": "try:\n    from clo_d import x\nexcept ImportError:\n    import clo_gone\n",
            "clo_c/__init__.py": "",
            "clo_c/deep/__init__.py": "from . import sub, er\nfrom .. import top\nfrom ..side import *\n",
            "clo_c/deep/er.py": "from .sub import inner\n",
            "clo_c/deep/sub/__init__.py": "",
            "clo_c/deep/sub/inner.py": "import clo_a",
            "clo_c/top.py": "",
            "clo_c/side.py": "",
            "clo_c/other.py": "",
            "clo_d.py": "x = 1",
            "clo_e.py": "",
        },
    )
    assert closure("clo_a:f", tmp_path) == {
        *("clo_a.py", "clo_b.py", "clo_d.py"),
        *("clo_c/__init__.py", "clo_c/top.py", "clo_c/side.py"),
        *("clo_c/deep/__init__.py", "clo_c/deep/er.py", "clo_c/deep/sub/__init__.py", "clo_c/deep/sub/inner.py"),
    }


def test_a_file_that_is_named_by_its_path_is_followed_too(tmp_path: Path) -> None:
    write(tmp_path, {"hooks/clo_f.py": "import clo_g", "clo_g.py": ""})
    assert closure("./hooks/clo_f.py:f", tmp_path) == {"hooks/clo_f.py", "clo_g.py"}
    assert closure("./gone.py:f", tmp_path) == {"gone.py"}


def test_packages_without_an_init_are_followed(tmp_path: Path) -> None:
    write(tmp_path, {"clo_ns/part/a.py": "from clo_ns.part import b", "clo_ns/part/b.py": ""})
    assert closure("clo_ns.part.a:f", tmp_path) == {"clo_ns/part/a.py", "clo_ns/part/b.py"}


def test_an_extension_module_that_comes_before_the_text_is_the_file(tmp_path: Path) -> None:
    library = f"clo_h{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    write(tmp_path, {"clo_h.py": "import clo_i", library: "", "clo_i.py": ""})
    assert closure("clo_h:f", tmp_path) == {library}


def test_what_is_installed_or_python_s_own_is_not_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / ".venv" / "site-packages"
    write(tmp_path, {"clo_j.py": "import wave, clo_k\n", ".venv/site-packages/clo_k.py": "", "wave.py": ""})
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed)])
    assert closure("clo_j:f", tmp_path) == {"clo_j.py"}


def test_text_that_is_no_python_is_a_file_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, {"clo_l.py": "import clo_m, clo_n", "clo_m.py": "def (", "clo_n.py": "(" * 100_000})
    (tmp_path / "clo_o.py").write_bytes(b"\xff\x00import clo_m")
    assert closure("clo_l:f", tmp_path) == {"clo_l.py", "clo_m.py", "clo_n.py"}
    assert closure("clo_o:f", tmp_path) == {"clo_o.py"}
    os.mkfifo(tmp_path / "clo_p.py")
    assert closure("./clo_p.py:f", tmp_path) == {"clo_p.py"}


def test_links_and_circles_come_to_an_end(tmp_path: Path) -> None:
    write(tmp_path, {"clo_q.py": "import clo_r", "clo_r.py": "import clo_q"})
    (tmp_path / "clo_s.py").symlink_to("clo_s.py")
    (tmp_path / "clo_t.py").symlink_to("clo_q.py")
    assert closure("clo_q:f", tmp_path) == {"clo_q.py", "clo_r.py"}
    assert closure("./clo_s.py:f", tmp_path) == {"clo_s.py"}
    assert closure("clo_t:f", tmp_path) == {"clo_t.py", "clo_q.py", "clo_r.py"}


def test_what_is_found_is_what_python_loads(tmp_path: Path) -> None:
    """Held against a Python that imports it for real."""
    files = {
        "clo_u.py": "import clo_v.w\nfrom clo_v import x\n",
        "clo_v/__init__.py": "from .y import z\n",
        "clo_v/w.py": "",
        "clo_v/x/__init__.py": "",
        "clo_v/y.py": "z = 1\n",
        "clo_v/unused.py": "",
    }
    write(tmp_path, files)
    code = "import clo_u, sys; print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('clo_')), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
    )
    loaded = {os.path.relpath(line, tmp_path) for line in done.stdout.splitlines()}
    assert closure("clo_u:x", tmp_path) == loaded
