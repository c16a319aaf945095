"""The stand-in that is made of a text declares what the real thing declares, or there is none."""

from dataclasses import replace
from pathlib import Path

import pytest

from tenter.catalogue import CATALOGUE
from tenter.config.sketch import stand_in
from tenter.config.targets import Target, find_target
from tenter.executors import load_target
from tenter.kernel import Declaration, Hook, Redactor, declarations

PLAIN = """\
from tenter.kernel import hook, hook as at
import tenter.kernel
import tenter.kernel as k
counter = 0

@hook("tool.before", "model.before", name="first", match={"tool": ["a", "b*"]}, priority=3, timeout=2)
@at("tool.after", observe=True, mode="shadow")
async def decorated(event, ended=print("no")): ...

@k.hook("tool.before", on_error="warn", band="control")
def by_module(event):
    global counter
    counter += 1

@tenter.kernel.hook("run.end")
def by_full_name(event): ...
"""

CLASSES = """\
import tenter.kernel as k
from tenter.kernel import Hook

class Audit(Hook):
    "Looks on."
    observe = True
    priority: int = 7
    match = {"tool": {"re": "sh.*"}}
    seen: int
    helper = print

    def __init__(self, path, *, level=1):
        self.path = path
        self.seen = 0

    async def on_tool_before(self, event, ended): ...

    def on_tool_after(self, event): ...

    def abandon(self, point, event, error): ...

    def other(self): ...

    @property
    def size(self): ...

    class Inner: ...

class Guard(k.Hook):
    on_error = "block"
    def on_model_before(self, event): ...

audit = Audit("where", level=2)
"""


def declared(found: object) -> list[Declaration]:
    return [replace(one, call=print, abandon=one.abandon and print) for one in declarations(found, CATALOGUE)]


def sketched(text: str, name: str, folder: Path) -> object | None:
    (folder / "mine.py").write_text(text)
    target = find_target(f"./mine.py:{name}", folder)
    assert isinstance(target, Target)
    return stand_in(target)


@pytest.mark.promise(15)
@pytest.mark.parametrize(
    ("text", "name"),
    [(PLAIN, "decorated"), (PLAIN, "by_module"), (PLAIN, "by_full_name"), (CLASSES, "Guard"), (CLASSES, "audit")],
)
def test_a_stand_in_declares_what_the_real_one_declares(text: str, name: str, tmp_path: Path) -> None:
    found = sketched(text, name, tmp_path)
    real = load_target(f"./mine.py:{name}", str(tmp_path), redactor=Redactor())
    assert found is not None
    assert declared(found) == declared(real)
    assert [one.call.__code__.co_flags & 0x380 for one in declarations(found, CATALOGUE)] == [  # async, generator
        one.call.__code__.co_flags & 0x380 for one in declarations(real, CATALOGUE)
    ]


HEAD = "from tenter.kernel import Hook, hook\n"


@pytest.mark.parametrize(
    "text",
    [
        "import functools\n@functools.cache\ndef f(event): ...",
        "POINT = 'tool.before'\n@hook(POINT)\ndef f(event): ...",
        "more = {}\n@hook('tool.before', **more)\ndef f(event): ...",
        "@hook('tool.before', priority=1 + 1)\ndef f(event): ...",
        "def hook(*a): return lambda f: f\n@hook('tool.before')\ndef f(event): ...",
        "try:\n    def f(event): ...\nfinally: pass",
        "def f(event): ...\nf = print",
        "f = hook('tool.before')(print)",
        "from json import loads as f",
        "class f(Hook):\n    priority = int('3')\n    def on_tool_before(self, event): ...",
        "class f(Hook):\n    on_tool_before = print",
        "class f(Hook):\n    on_tool_before, x = print, 1",
        "class f(Hook):\n    if True:\n        def on_tool_before(self, event): ...",
        "class f(Hook):\n    def __init__(self): self.priority = 3\n    def on_tool_before(self, event): ...",
        "class f(Hook):\n    def __init__(self): super().__init__()\n    def on_tool_before(self, event): ...",
        "class f(Hook):\n    def __new__(cls): ...\n    def on_tool_before(self, event): ...",
        "class f(Hook):\n    @property\n    def name(self): ...\n    def on_tool_before(self, event): ...",
        "class f(Hook):\n    @staticmethod\n    def on_tool_before(event): ...",
        "class f(Hook):\n    def on_tool_before(self, event): ...\nf.priority = 3",
        "class Mine(Hook): ...\nclass f(Mine):\n    def on_tool_before(self, event): ...",
        "class f(Hook, metaclass=type): ...",
        "class f(Hook):\n    class on_tool_before: ...",
        "class A(Hook):\n    def on_tool_before(self, event): ...\nx = ()\nf = A(*x)",
        "class A(Hook):\n    def on_tool_before(self, event): ...\nf = A(1)",
        "class A(Hook):\n    def on_tool_before(self, event): ...\nA.priority = 2\nf = A()",
    ],
)
def test_there_is_no_stand_in_where_the_text_does_not_say_it_in_literals(text: str, tmp_path: Path) -> None:
    assert sketched(HEAD + text, "f", tmp_path) is None


@pytest.mark.promise(14)
def test_nothing_of_the_text_is_run(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    touch = f"__import__('pathlib').Path({str(touched)!r}).touch()"
    text = f"""\
{HEAD}
{touch}
class A(Hook):
    x = {touch}
    def __init__(self, x={touch}): {touch}
    def on_tool_before(self, event: {touch}): {touch}
f = A({touch})
@hook("tool.before")
def g(event: {touch}, x={touch}, *, y={touch}) -> {touch}: {touch}
"""
    made = sketched(text, "f", tmp_path)
    assert isinstance(made, Hook)
    assert sketched(text, "g", tmp_path) is not None
    assert declarations(made, CATALOGUE)[0].call(None) is None
    assert not touched.exists()


def test_a_generator_is_known_as_one_and_one_inside_a_function_is_not_its_own(tmp_path: Path) -> None:
    text = "def f(event): yield\ndef g(event):\n    def inner(): yield\n"
    found = [sketched(text, name, tmp_path) for name in "fg"]
    assert [one.__code__.co_flags & 0x20 != 0 for one in found] == [True, False]  # type: ignore[attr-defined]  # functions
