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


def test_a_loop_loses_what_is_broken_and_a_hat_without_triggers() -> None:
    command: dict[str, object] = {"kind": "command", "command": ("x",)}
    made = usable(
        {
            "loop": {
                "backend": {**command, "prompt": None},
                "hats": {
                    "a": {"triggers": ("t",), "backend": {"command": ("x",), "harness": "y"}, "description": None},
                    "b": {"triggers": None},
                    "c": {"triggers": ("t",), "backend": {**command, "command": ("x", None)}},
                    "d": {"triggers": ("t",), "backend": command},
                    "e": None,
                },
                "max_iterations": None,
                "max_cost_usd": 5.0,
                "required_events": ("a", None),
                "preflight": {"enabled": None, "skip": ("git",)},
            }
        }
    )
    assert made["loop"] == {
        "backend": command,
        "hats": {"a": {"triggers": ("t",)}, "c": {"triggers": ("t",)}, "d": {"triggers": ("t",), "backend": command}},
        "max_cost_usd": 5.0,
        "preflight": {"skip": ("git",)},
    }
    assert usable({"loop": None})["loop"] == {"hats": {}}


def test_a_rule_loses_a_broken_setting_and_is_left_out_where_it_says_nothing() -> None:
    where = {"file": "f", "line": 1, "column": 1}
    whole = {"where": where, "path": (), "name": "a", "at": "p", "then": "block", "reason": "x"}
    rules = (
        {**whole, "queue": None, "match": {"tool": {"re": None}, "task": "t"}},
        {**whole, "then": None},
        {**whole, "reason": None},
        None,
    )
    assert usable({"policy": rules})["policy"] == ({**whole, "match": {"task": "t"}},)
    assert usable({"policy": None})["policy"] == ()


def test_a_task_loses_a_broken_budget_and_keeps_the_others() -> None:
    task = {"version": 1, "model": "m", "instructions": "x"}
    values = {"tasks": {"t": {**task, "budgets": {"tokens": None, "tool_calls": 3}, "subtasks": ("a", None)}}}
    assert usable(values)["tasks"] == {"t": {**task, "budgets": {"tool_calls": 3}}}


def test_a_file_that_is_no_mapping_gives_nothing() -> None:
    assert usable(None) == {"version": 1, "models": {}, "tasks": {}, "tools": {}}
