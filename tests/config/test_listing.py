"""Rows say what runs at each point, in order, and why."""

from pathlib import Path

import pytest

from tenter.config.listing import Listing, Row, Unlisted, list_hooks
from tenter.config.loading import load, parse_spec
from tenter.config.problem import ConfigError

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
CHECKS = ("resolve", "offered", "arguments", "principal", "policy", "budget", "duplicate", "risk")
"""Of a tool call, in order."""


def listing(hooks: str) -> Listing:
    return list_hooks(parse_spec(f"version: 1\nhooks: {hooks}".encode(), "t.yaml"), None, ENVIRONMENT)


def at(found: Listing, point: str) -> tuple[Row, ...]:
    return tuple(row for row in found.rows if row.full_name == point)


def test_without_hooks_tenters_own_checks_are_listed() -> None:
    found = listing("{}")
    assert [(row.point, row.order, row.name) for row in found.rows] == [
        ("model.before", 1, "budget"),
        *(("tool.before", order, name) for order, name in enumerate(CHECKS, 1)),
    ]
    assert {(row.kind, row.band, row.source) for row in found.rows} == {("governor", "gate", "")}


@pytest.mark.promise(5)
def test_a_row_has_what_is_in_force_and_says_that_a_command_has_no_abandon() -> None:
    (row,) = at(
        listing(
            "{defaults: {timeout_seconds: 4}, events: {run.start: ["
            "{name: a, script: x, on_error: fail, match: {task: f}}]}}"
        ),
        "run.pre",
    )
    assert row == Row(
        point="run.start",
        full_name="run.pre",
        order=1,
        name="a",
        kind="command",
        band="app",
        priority=500,
        match={"task": "f"},
        mode="active",
        observe=False,
        source="t.yaml:2",
        on_error="fail",
        timeout_seconds=4,
        deadline="hard",
        abandon=False,
    )


def test_a_point_of_a_loop_is_listed_by_its_full_name_whichever_name_the_file_has() -> None:
    events = "pre.loop.start: [{name: a, script: x, on_error: suspend}], loop.start.pre: [{name: b, script: x, "
    found = listing(f"{{events: {{{events}on_error: warn}}]}}}}")
    rows = [(row.point, row.order, row.name, row.on_error) for row in at(found, "loop.start.pre")]
    assert rows == [("loop.start.pre", 1, "a", "suspend"), ("loop.start.pre", 2, "b", "warn")]


def test_a_point_of_a_loop_does_not_take_fail() -> None:
    with pytest.raises(ConfigError) as caught:
        listing("{events: {pre.loop.start: [{name: a, script: x, on_error: fail}]}}")
    assert "this point takes 'warn', 'block', 'suspend'" in str(caught.value)


def test_the_body_of_the_work_stands_after_the_hooks_and_before_those_that_only_look() -> None:
    hooks = "{name: b, script: x, on_error: warn, observe: true}, {name: a, script: x, on_error: fail}"
    found = at(listing(f"{{events: {{tool.invoked.in: [{hooks}]}}}}"), "tool.invoked.in")
    assert [(row.order, row.name, row.kind, row.priority) for row in found] == [
        (1, "a", "command", 500),
        (2, "tool.invoked", "body", 1000),
        (3, "b", "command", 500),
    ]


def test_the_policy_and_the_deadline_are_those_in_force(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(event): ...\nasync def g(event): ...\nh = f\n")
    (tmp_path / "tenter.yaml").write_text("""\
version: 1
hooks:
  events:
    tool.before:
      - {name: a, python: "mine:f"}
      - {name: b, python: "mine:g", mode: shadow}
      - {name: c, python: "mine:g", timeout_seconds: 5}
      - {name: d, python: "mine:h"}
    run.end: [{name: e, python: "mine:g"}]
""")
    found = list_hooks(load(tmp_path / "tenter.yaml"), None, ENVIRONMENT).rows
    assert [(r.name, r.on_error, r.timeout_seconds, r.deadline, r.certain) for r in found if r.band == "app"] == [
        ("e", "warn", 30, "soft", True),
        ("a", "block", 30, "none", True),
        ("b", "warn", 30, "soft", True),
        ("c", "block", 5, "hard", True),
        ("d", "block", 30, "unknown", False),
    ]


def test_a_plugin_whose_text_does_not_show_where_it_hangs_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("made = print\n")
    path = tmp_path / "tenter.yaml"
    path.write_text("version: 1\nhooks: {plugins: ['mine:made']}")
    assert list_hooks(load(path), None, ENVIRONMENT).unlisted == (Unlisted("mine:made", f"{path}:2"),)


def test_nothing_is_listed_where_something_is_wrong() -> None:
    with pytest.raises(ConfigError, match="there is no point"):
        listing("{events: {tool.befor: []}}")


@pytest.mark.promise(14)
@pytest.mark.fault(55)
def test_hooks_of_a_project_that_is_not_trusted_are_marked_and_change_nothing_of_the_others() -> None:
    spec = parse_spec(
        b"version: 1\nhooks: {defaults: {timeout_seconds: 2}, events: {"
        b"tool.before: [{name: first, script: x, on_error: warn, priority: 1}],"
        b"tool.invoked.in: [{name: work, script: x, on_error: fail}]}}",
        "p.yaml",
    )
    user = parse_spec(
        b"version: 1\nhooks: {events: {tool.before: [{name: mine, script: x, on_error: warn}]}}", "u.yaml", level="user"
    )
    found = list_hooks(spec, user, ENVIRONMENT, trusted=False)
    shown = [row for row in found.rows if row.full_name != "llm.invoked.pre"]
    assert [(row.full_name, row.name, row.order, row.untrusted, row.timeout_seconds) for row in shown] == [
        ("tool.invoked.pre", "mine", 1, False, 30),
        ("tool.invoked.pre", "first", 0, True, 2),
        *(("tool.invoked.pre", name, order, False, 30) for order, name in enumerate(CHECKS, 2)),
        ("tool.invoked.in", "work", 0, True, 2),
    ]
    assert not any(row.untrusted for row in list_hooks(spec, user, ENVIRONMENT).rows)


@pytest.mark.promise(14)
@pytest.mark.fault(55)
def test_a_rule_of_a_project_that_is_not_trusted_is_marked_as_its_hooks_are() -> None:
    rule = b"version: 1\npolicy: [{name: first, at: input.before, then: block, reason: x}]"
    spec = parse_spec(rule, "p.yaml")
    found = {trusted: list_hooks(spec, None, ENVIRONMENT, trusted=trusted).rows for trusted in (True, False)}
    for trusted, order in ((True, 1), (False, 0)):
        (row,) = [row for row in found[trusted] if row.point == "input.before"]
        assert (row.name, row.band, row.kind, row.order) == ("first", "control", "policy", order)
        assert (row.on_error, row.untrusted, row.certain) == ("block", not trusted, True)


@pytest.mark.fault(55)
def test_a_plugin_of_which_only_loading_would_tell_is_marked_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("made = print\n")
    (tmp_path / "tenter.yaml").write_text("version: 1\nhooks: {plugins: ['mine.py:made']}")
    found = list_hooks(load(tmp_path / "tenter.yaml"), None, ENVIRONMENT, trusted=False)
    assert found.unlisted == (Unlisted("mine.py:made", f"{tmp_path}/tenter.yaml:2", untrusted=True),)
