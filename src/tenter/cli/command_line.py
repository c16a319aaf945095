"""Commands of ours as they are printed: to be pasted, in the folder where this one was typed.

They name the configuration where it is not the one that every verb takes by itself, and are quoted for a shell. What
the layers below tell to type knows of no command line: `completed` adds what it lacks.
"""

import posixpath
import re
import shlex
from typing import Final

from tenter.cli.texts import escaped

TAKEN_BY_ITSELF: Final = "tenter.yaml"
"""The configuration of a verb to which none is named."""
_TOLD: Final = re.compile(
    r"(?P<quote>['`])(?P<command>tenter (?:run|resume|runs|approvals|hooks|loop)\b(?! schema)[^'`\n]*)(?P=quote)"
)
_NAMES_ONE: Final = re.compile(r" (?:-c|--config)\b")


def command_line(config: str, *words: str) -> str:
    """`tenter` with these words, for the project of the configuration."""
    return shlex.join(["tenter", *words, *_naming(config)])


def quoted(config: str, *words: str) -> str:
    """The same, escaped, in a sentence."""
    return _in_quotes(escaped(command_line(config, *words)))


def completed(text: str, config: str) -> str:
    """A text whose commands, which stand in quotes, name the configuration, as far as they do not."""
    naming = shlex.join(_naming(config))
    return _TOLD.sub(lambda told: _with(told, naming), text) if naming else text


def _with(told: re.Match[str], naming: str) -> str:
    command = told["command"]
    return told[0] if _NAMES_ONE.search(command) else _in_quotes(f"{command} {naming}", told["quote"])


def _in_quotes(command: str, quote: str = "'") -> str:
    """In other quotes than those in it, so that it is seen where it ends."""
    quote = "`" if "'" in command else quote
    return f"{quote}{command}{quote}"


def _naming(config: str) -> list[str]:
    return [] if posixpath.normpath(config) == TAKEN_BY_ITSELF else ["-c", config]
