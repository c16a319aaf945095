"""The lines of a loop's events file, read strictly: an event each, or what is wrong with it (issue "The loop").

Agents write there, and whatever runs beside them. Nothing is guessed; what is no event is told to the next iteration.
Pure: it reads no file.
"""

from typing import Final, cast

from tenter.kernel import FrozenStruct
from tenter.loop.events_file import EVENT_VERSION
from tenter.loop.state import Published
from tenter.loop.topic import is_topic
from tenter.wire import NotJson, one_value

LONGEST_LINE: Final = 8 << 20
"""In bytes, without its end: more than any payload that `tenter emit` takes comes to when it is written in ASCII."""


class Malformed(FrozenStruct, frozen=True):
    """A line that is no event: its number, from 1, and a clause that says why, on one line and never long."""

    line: int
    why: str


def parse_events(data: bytes, first_line: int = 1) -> tuple[Published | Malformed, ...]:
    """What each line of `data` is, in order. Lines without a word are left aside; the last may lack its end.

    A line is `{"schema_version": 1, "topic": "…", "payload": any, "at": seconds}`; `payload` and `at` may be missing,
    other keys are left aside.
    """
    lines = enumerate(data.split(b"\n"), first_line)
    return tuple(_event(line, number) for number, line in lines if line and not line.isspace())


def count_lines(data: bytes) -> int:
    """How many lines `data` has, with those that have no word, and with the last where it lacks its end."""
    return data.count(b"\n") + (data[-1:] not in (b"", b"\n"))


def _event(line: bytes, number: int) -> Published | Malformed:
    if len(line) > LONGEST_LINE:
        return Malformed(number, f"it is longer than {LONGEST_LINE} bytes; put it into a file and publish its name")
    try:
        found = one_value(line)
    except NotJson as error:
        return Malformed(number, str(error).replace("line 1, ", ""))  # it is one line
    if not isinstance(found, dict):
        return Malformed(number, "it is no JSON object")
    members = cast("dict[str, object]", found)
    why = _refusal(members)
    return Malformed(number, why) if why else Published(str(members["topic"]), members.get("payload"))


def _refusal(found: dict[str, object]) -> str:
    """Why an object is no event, empty where it is one."""
    version, topic = found.get("schema_version"), found.get("topic")
    if type(version) is not int or version < EVENT_VERSION:
        return f"it has no 'schema_version': {EVENT_VERSION}"
    if version > EVENT_VERSION:
        return f"its schema_version is newer than this tenter reads ({EVENT_VERSION})"
    if not isinstance(topic, str) or not is_topic(topic):
        return "its 'topic' is not words of letters, digits, '_' and '-' joined by dots, at most 200 characters"
    if type(found.get("at", 0)) not in (int, float):
        return "its 'at' is no number of seconds"
    return ""
