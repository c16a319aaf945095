"""A change is told by the file or key, before and after, on one harmless line."""

import pytest

from tenter.config.footprint import FileFacts, Setting
from tenter.config.trust_changes import Change, changes, short

A, B = (f"sha256:{letter * 64}" for letter in "ab")


def keys(before: tuple[Setting, ...], after: tuple[Setting, ...]) -> list[str]:
    return [str(one) for one in changes((before, after), ({}, {}))]


@pytest.mark.fault(56)
def test_files_are_told_first_with_the_beginning_of_their_digests() -> None:
    was = {"same": FileFacts(A), "text": FileFacts(A), "link": FileFacts(A, "x"), "gone": FileFacts(A)}
    now = {"same": FileFacts(A), "text": FileFacts(B), "link": FileFacts(A, "y"), "new": FileFacts("")}
    found = changes((((("version",), 1),), ((("version",), 2),)), (was, now))
    assert [str(one) for one in found] == [
        "the file gone: gone, it was content aaaaaaaaaaaa",
        "the file link: content aaaaaaaaaaaa (a link to 'x') -> content aaaaaaaaaaaa (a link to 'y')",
        "the file new: new, unreadable",
        "the file text: content aaaaaaaaaaaa -> content bbbbbbbbbbbb",
        "version: 1 -> 2",
    ]


def test_keys_are_told_as_people_write_them() -> None:
    path = ("hooks", "events", "tool.before", 0)
    was: tuple[Setting, ...] = (((*path, "name"), "a"), ((*path, "observe"), None), ((*path, "mode"), "shadow"))
    now: tuple[Setting, ...] = (((*path, "name"), "b"), ((*path, "observe"), True), ((*path, "cwd"), "x"))
    assert keys(was, now) == [
        "hooks.events.tool.before[0].name: 'a' -> 'b'",
        "hooks.events.tool.before[0].observe: nothing -> true",
        "hooks.events.tool.before[0].mode: gone, it was 'shadow'",
        "hooks.events.tool.before[0].cwd: new, 'x'",
    ]


def test_the_value_of_a_variable_is_not_told() -> None:
    path = ("hooks", "events", "tool.before", 0, "env", "TOKEN")
    assert keys(((path, A),), ((path, B),)) == ["hooks.events.tool.before[0].env.TOKEN: a value -> another value"]
    assert keys((), ((path, B),)) == ["hooks.events.tool.before[0].env.TOKEN: new, a value"]


@pytest.mark.fault(43)
def test_what_a_terminal_would_obey_is_escaped_and_what_is_long_is_cut() -> None:
    hostile = "x\x1b[2J\u202e\n\u2028"
    found = changes(((), ((("tasks", hostile), hostile),)), ({}, {hostile: FileFacts(A, hostile)}))
    assert all(str(one).isprintable() for one in found)
    assert "\\x1b[2J" in str(found[0])
    (long,) = keys(((("a",), "x" * 5000),), ((("a",), "y" * 5000),))
    assert len(long) < 250


def test_another_order_alone_is_told_as_such() -> None:
    one, two = (("a",), 1), (("b",), 2)
    assert changes(((one, two), (two, one)), ({}, {})) == (Change(what="order", name="keys", before="", after=""),)
    assert keys((one, two), (two, one)) == ["keys: in another order"]
    assert keys((one, two), (one, two)) == []


def test_a_digest_is_known_again_by_its_beginning() -> None:
    assert short(A) == "a" * 12
