"""Lazy doors: a layer names what it offers and loads a file only when somebody takes a name of it (D§14)."""

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType


class _Door(ModuleType):
    """A package whose names stand before its files of the same name, whichever is loaded first.

    Python binds each file that it loads in the package, so that `tool` could be the function or the file `tool.py`.
    """

    __offers__: Mapping[str, str]

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in self.__offers__:
            if self.__offers__[name] != name:
                return
            value = getattr(value, name)
        super().__setattr__(name, value)


def opener(package: str, files: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """A package's `__getattr__` (PEP 562) that finds each name in the file that `files` says has it."""
    where = {name: file for file, names in files.items() for name in names}
    door = sys.modules[package]
    door.__dict__["__offers__"] = where
    door.__class__ = _Door

    def open_door(name: str) -> object:
        if name not in where:
            raise AttributeError(f"{package} has no {name!r}")
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(door, name, value)
        return value

    return open_door
