"""What is right in a file with problems can be used; what is broken or incomplete is not in it."""

from tenter.config.usable import usable


def test_what_is_broken_is_left_out_with_all_that_needs_it() -> None:
    values = {
        "secrets": ("A", None),
        "models": {"good": {"provider": "scripted", "file": "f"}, "bad": {"provider": None, "file": "f"}},
        "tasks": None,
    }
    assert usable(values) == {
        "version": 1,
        "models": {"good": {"provider": "scripted", "file": "f"}},
        "tasks": {},
        "tools": {},
    }


def test_a_hook_loses_a_broken_setting_and_is_left_out_without_a_name_or_with_two_kinds() -> None:
    place = {"where": ("f", 1, 1), "path": ()}
    hooks = (
        {**place, "name": "a", "script": "x", "priority": None},
        {**place, "name": None, "script": "x"},
        {**place, "name": "b", "script": "x", "python": "m:f"},
        None,
    )
    made = usable({"hooks": {"enabled": None, "events": {"p": hooks, "q": None}}})
    assert made["hooks"] == {"events": {"p": (), "q": ()}}
    where = {"file": "f", "line": 1, "column": 1}
    first = {"where": where, "path": (), "name": "a", "script": "x"}
    assert usable({"hooks": {"events": {"p": ({**first, "priority": None},)}}})["hooks"] == {"events": {"p": (first,)}}


def test_a_file_that_is_no_mapping_gives_nothing() -> None:
    assert usable(None) == {"version": 1, "models": {}, "tasks": {}, "tools": {}}
