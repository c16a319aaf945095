"""RE2, linear in hostile text, silent and typed.

Python's own `re` is never used for what a model or a file says: `(a+)+$` on 29 characters takes it seconds
(FAULTS 34).
"""

import importlib
from functools import cache
from typing import Any


class RegexError(ValueError):
    """RE2 does not take the expression; the text says why."""


class Regex:
    """A compiled expression over text."""

    __slots__ = ("_compiled",)

    def __init__(self, expression: str, *, ignore_case: bool = False) -> None:
        """Raises RegexError."""
        re2 = _re2()
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.case_sensitive = not ignore_case
        try:
            self._compiled = re2.compile(expression, options)
        except re2.error as error:
            raise RegexError(error.args[0].decode("utf-8", "replace")) from None
        except UnicodeEncodeError:
            raise RegexError("it holds half a character") from None

    def search(self, text: str) -> bool:
        """Whether it matches somewhere in `text`; never for text with half a character in it."""
        return self._found("search", text)

    def fullmatch(self, text: str) -> bool:
        """Whether it matches all of `text`."""
        return self._found("fullmatch", text)

    @staticmethod
    def escape(text: str) -> str:
        """An expression that matches exactly `text`."""
        return _re2().escape(text)

    def _found(self, how: str, text: str) -> bool:
        try:
            return getattr(self._compiled, how)(text) is not None
        except UnicodeEncodeError:
            return False


@cache
def _re2() -> Any:
    """The module, which has no types; loaded at the first expression, because most starts need none."""
    return importlib.import_module("re2")
