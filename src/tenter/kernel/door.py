"""Lazy doors: a layer's `__init__` names what it offers and loads a file only when somebody takes a name of it (D§14)."""

import importlib
import sys
from collections.abc import Callable, Mapping


def opener(package: str, files: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """A module's `__getattr__` (PEP 562) that finds each name in the file that `files` says has it."""
    where = {name: file for file, names in files.items() for name in names}

    def open_door(name: str) -> object:
        if name not in where:
            raise AttributeError(f"{package} has no {name!r}")
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return open_door
