"""Targets are found from text alone: nothing is imported, and what the text cannot show is taken to be there."""

import sys
from pathlib import Path

import pytest

from tenter.config.problem import Unresolved
from tenter.config.targets import Target, find_target


def trouble(target: str, folder: Path) -> tuple[str, str]:
    found = find_target(target, folder)
    assert isinstance(found, Unresolved), found
    return found.message.replace(str(folder), "DIR"), found.hint


def is_there(target: str, folder: Path) -> bool:
    return isinstance(find_target(target, folder), Target)


BINDINGS = """\
import os as system, sys
from json import loads as read
X: int = 3
Y = Z = (A, [B, *C]) = 1, [2, 3]
for each in (): pass
with open("x") as opened: pass
if (walrus := 1): inside_if = 1
try: tried = 1
except E: handled = 1
match X:
    case {"a": captured, **others}: pass
async def later(): local = 1
def sooner():
    global declared
class Kind:
    def method(self): ...
    value = 1
class Heir(Kind): ...
"""


NAMES = """
system sys read X Y Z A B C each opened walrus inside_if tried handled captured others later sooner declared
Kind Kind.method Kind.value Heir.anything X.real
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_whatever_binds_a_name_at_the_top_of_a_module_makes_it_be_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BINDINGS)
    assert is_there(f"mine:{name}", tmp_path)
    assert is_there(f"./mine.py:{name}", tmp_path)


def test_what_is_not_there_is_said_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BINDINGS)
    assert trouble("mine:soner", tmp_path) == ("there is no 'soner' in DIR/mine.py", "did you mean 'sooner'?")
    assert trouble("mine:local", tmp_path)[0] == "there is no 'local' in DIR/mine.py"
    in_class = ("there is no 'metod' in DIR/mine.py, in the class 'Kind'", "did you mean 'method'?")
    assert trouble("mine:Kind.metod", tmp_path) == in_class
    where = "neither installed nor in 'DIR'"
    assert trouble("mime:x", tmp_path) == (f"there is no module 'mime', {where}", "did you mean 'mine'?")
    assert trouble("json.gone:x", tmp_path) == (f"there is no module 'json.gone', {where}", "")
    assert trouble("./mime.py:x", tmp_path) == ("'DIR/mime.py': No such file or directory", "did you mean 'mine.py'?")


@pytest.mark.parametrize(
    "text", ["from os.path import *", "def __getattr__(name): ...", "globals()['x'] = 1", "exec('x = 1')"]
)
def test_what_the_text_cannot_show_is_taken_to_be_there(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    assert is_there("mine:x", tmp_path)


@pytest.mark.promise(14)
def test_finding_runs_no_code_and_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for file in ("package/__init__.py", "package/mine.py", "single.py"):
        (tmp_path / file).write_text("raise SystemExit(3)\ndef f(): ...\n")
    before = set(sys.modules)
    for target in ("package:f", "package.mine:f", "single:f", "./single.py:f", "email.mime.text:MIMEText"):
        assert is_there(target, tmp_path)
    assert set(sys.modules) == before


def test_packages_are_found_where_an_import_would_find_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "tenter_found" / "inner").mkdir(parents=True)
    (elsewhere / "tenter_found" / "__init__.py").write_text("1 / 0\n")
    (elsewhere / "tenter_found" / "inner" / "__init__.py").write_text("def f(): ...\n")
    monkeypatch.setattr(sys, "path", [str(elsewhere), *sys.path])
    assert is_there("tenter_found.inner:f", tmp_path)
    assert is_there("tenter_found:inner", tmp_path)
    assert trouble("tenter_found.inner:g", tmp_path)[0].startswith(
        "there is no 'g' in DIR/elsewhere/tenter_found/inner"
    )


def test_modules_without_text_are_taken_to_hold_what_is_asked_of_them(tmp_path: Path) -> None:
    assert find_target("sys:anything", tmp_path) == Target(None, "anything")
    assert find_target("_json:anything", tmp_path) == Target(None, "anything")


def test_a_module_that_another_one_hides_is_to_be_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def f(): ...\n")
    message, hint = trouble("json:f", tmp_path)
    assert message.startswith("another module is called 'json' (")
    assert message.endswith(" and comes before 'DIR/json.py'")
    assert hint == "name the file: 'json.py'"
    assert is_there("json.py:f", tmp_path)


@pytest.mark.parametrize("text", [b"def f(:\n", b"\xff\xfe", b"x = 'a\0b'", b"(" * 1000, b"-" * 100_000 + b"1"])
def test_what_is_no_python_is_said(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(text)
    assert "not Python: " in trouble("mine:f", tmp_path)[0]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "mine.py").mkdir()
    assert trouble("./mine.py:f", tmp_path)[0] == "'DIR/mine.py' is not a regular file"


def test_a_module_of_five_megabytes_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(b"#" * (5 << 20))
    assert find_target("mine:f", tmp_path) == Target(None, "f")


def test_a_doubtful_escape_in_the_text_warns_nobody(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = '\\d'\n")
    assert is_there("mine:x", tmp_path)
