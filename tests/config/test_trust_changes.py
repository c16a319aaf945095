"""A change is told by the file or key, before and after, on one harmless line."""

import pytest

from tenter.config.footprint import FileFacts, Setting
from tenter.config.trust_changes import Change, changes, short

A, B = (f"sha256:{letter * 64}" for letter in "ab")


def keys(before: tuple[Setting, ...], after: tuple[Setting, ...]) -> list[str]:
    return [str(one) for one in changes((before, after), ({}, {}))]


HOOK = ("hooks", "events", "tool.before")


def hook(index: int, name: str, **more: object) -> tuple[Setting, ...]:
    """A hook as it stands in a footprint: what it does not say is there as nothing."""
    told: dict[str, object] = {"name": name, "script": None, "cwd": None, "match": {}, **more}
    return (*(((*HOOK, index, key), value) for key, value in told.items()), ((*HOOK, index, "command", 0), f"./{name}"))


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
    there = ((*path[:4], "name"), "a")
    assert keys((there,), (there, (path, B))) == ["hooks.events.tool.before[0].env.TOKEN: new, a value"]


@pytest.mark.fault(43)
def test_what_a_terminal_would_obey_is_escaped_and_what_is_long_is_cut() -> None:
    hostile = "x\x1b[2J\u202e\n\u2028"
    found = changes(((), ((("tasks", hostile), hostile),)), ({}, {hostile: FileFacts(A, hostile)}))
    assert all(str(one).isprintable() for one in found)
    assert "\\x1b[2J" in str(found[0])
    (long,) = keys(((("a",), "x" * 5000),), ((("a",), "y" * 5000),))
    assert len(long) < 250


def test_a_hook_that_goes_is_one_line_and_those_behind_it_did_not_change() -> None:
    before = (*hook(0, "a"), *hook(1, "b"), *hook(2, "c"))
    assert keys(before, (*hook(0, "b"), *hook(1, "c"))) == [
        "hooks.events.tool.before[0]: gone, it was the hook 'a', './a'"
    ]
    assert keys(before, ((HOOK[:2], {}),)) == [
        f"hooks.events.tool.before[{index}]: gone, it was the hook '{name}', './{name}'"
        for index, name in enumerate("abc")
    ]


def test_a_hook_that_comes_is_one_line_and_says_what_it_runs() -> None:
    found = keys(hook(0, "b"), (*hook(0, "a", env={}), *hook(1, "b", cwd="x")))
    assert found == [
        "hooks.events.tool.before[1].cwd: nothing -> 'x'",
        "hooks.events.tool.before[0]: new, the hook 'a', './a'",
    ]
    (nested,) = keys((), (((*HOOK, 0, "name"), "a"), ((*HOOK, 0, "script"), "x\ny"), ((*HOOK, 0, "env", "T"), "s")))
    assert nested == "hooks.events.tool.before[0]: new, the hook 'a', 'x\\ny'"


@pytest.mark.fault(56)
def test_a_hook_that_takes_the_place_of_another_is_that_hook_changed() -> None:
    assert keys(hook(0, "a"), hook(0, "b")) == [
        "hooks.events.tool.before[0].name: 'a' -> 'b'",
        "hooks.events.tool.before[0].command[0]: './a' -> './b'",
    ]


@pytest.mark.fault(56)
def test_hooks_that_change_places_are_told_also_beside_another_change() -> None:
    found = keys((*hook(0, "a"), *hook(1, "b")), (*hook(0, "b"), *hook(1, "a", cwd="x")))
    assert found == ["hooks.events.tool.before[1].cwd: nothing -> 'x'", "hooks.events.tool.before: in another order"]


def test_what_has_a_name_in_the_file_is_one_line_when_it_comes_or_goes() -> None:
    hat = ((("loop", "hats", "h", "instructions"), "Build."), (("loop", "hats", "h", "backend"), None))
    task = ((("tasks", "t", "instructions"), "Do it."), (("tasks", "t", "tools", 0), "shell"))
    backend = ((("loop", "backend", "command", 0), "./a"), (("loop", "backend", "command", 1), "b c"))
    found = keys((*hat, (("tasks",), {}), (("loop", "backend"), None)), ((("loop", "hats"), {}), *task, *backend))
    assert found == [
        "loop.hats.h: gone, it was the hat, 'Build.'",
        "loop.backend: new, the backend, \"./a 'b c'\"",
        "tasks.t: new, the task, 'Do it.'",
    ]


def test_a_hat_that_gets_a_backend_is_told_so_in_one_line() -> None:
    place = ("loop", "hats", "h", "backend")
    hat = ((*place[:3], "triggers", 0), "a.b")
    backend = (((*place, "command", 0), "./a"), ((*place, "prompt"), "stdin"))
    assert keys((hat, (place, None)), (hat, *backend)) == ["loop.hats.h.backend: new, the backend, './a'"]
    assert keys((hat, *backend), (hat, (place, None))) == ["loop.hats.h.backend: gone, it was the backend, './a'"]


def test_a_list_that_was_empty_is_told_by_what_it_has_now() -> None:
    path = ("loop", "required_events")
    assert keys(((path, []),), (((*path, 0), "a.b"),)) == ["loop.required_events[0]: new, 'a.b'"]
    assert keys((((*path, 0), "a.b"),), ((path, []),)) == ["loop.required_events[0]: gone, it was 'a.b'"]


def test_another_order_alone_is_told_as_such() -> None:
    one, two = (("a",), 1), (("b",), 2)
    assert changes(((one, two), (two, one)), ({}, {})) == (Change(what="order", name="keys", before="", after=""),)
    assert keys((one, two), (two, one)) == ["keys: in another order"]
    assert keys((one, two), (one, two)) == []


def test_a_digest_is_known_again_by_its_beginning() -> None:
    assert short(A) == "a" * 12


def rule(index: int, name: str, **more: object) -> tuple[Setting, ...]:
    """A rule as it stands in a footprint."""
    told: dict[str, object] = {"name": name, "at": "tool.before", "then": "block", "reason": f"not {name}", **more}
    return tuple((("policy", index, key), value) for key, value in told.items())


def test_a_rule_that_came_or_went_is_one_line_and_the_others_are_told_apart_by_their_names() -> None:
    was = (*rule(0, "a"), *rule(1, "b"), *rule(2, "c"))
    assert keys(was, (*rule(0, "b"), *rule(1, "c", then="suspend"))) == [
        "policy[0]: gone, it was the rule 'a', 'not a'",
        "policy[1].then: 'block' -> 'suspend'",
    ]
    assert keys(was, (*rule(0, "new"), *was[:0], *rule(1, "a"), *rule(2, "b"), *rule(3, "c"))) == [
        "policy[0]: new, the rule 'new', 'not new'"
    ]
    assert keys(was, (*rule(0, "b"), *rule(1, "a"), *rule(2, "c"))) == ["policy: in another order"]
    assert keys((*rule(0, "a"), *hook(0, "a")), (*rule(0, "b"), *hook(0, "a"))) == [
        "policy[0].name: 'a' -> 'b'",
        "policy[0].reason: 'not a' -> 'not b'",
    ]
