"""A table a point, whatever stands in its cells on one line each."""

import msgspec

from tenter.catalogue import CATALOGUE
from tenter.cli.hook_table import POINTS, point_row, table
from tenter.config import Listing, Row, Unlisted

ROW = Row(
    point="tool.before",
    full_name="tool.invoked.pre",
    order=1,
    name="a",
    kind="function",
    band="baseline",
    priority=5,
    match={"tool": "x"},
    mode="active",
    observe=False,
    source="f:1",
    on_error="block",
    timeout_seconds=2.5,
    deadline="soft",
    abandon=True,
)


def lines(*rows: Row) -> list[str]:
    return list(table(Listing(rows), [CATALOGUE["tool.before"]], every=False, config="tenter.yaml"))


def test_columns_are_aligned_under_their_heads() -> None:
    head, point, row = lines(ROW)
    assert point == "tool.before (tool.invoked.pre)"
    assert row.split() == ["1", "a", "baseline", "5", "function", "tool=x", "block", "2.5", "s", "soft", "yes", "f:1"]
    for title, cell in (("band", "baseline"), ("on_error", "block"), ("declared at", "f:1")):
        assert head.index(title) == row.index(cell)


def test_what_would_move_the_terminal_is_escaped_and_long_patterns_are_cut() -> None:
    row = msgspec.structs.replace(ROW, match={"tool": ("\x1b[2J", "y" * 200)}, source="\u202ef:1")
    text = "\n".join(lines(row))
    assert text.replace("\n", "").isprintable()
    assert "y" * 60 not in text


def test_what_is_not_trusted_is_marked_and_has_no_place_in_the_order() -> None:
    row = lines(msgspec.structs.replace(ROW, order=0, untrusted=True))[-1]
    assert row.split()[:3] == ["-", "a", "[untrusted]"]
    plugin = list(table(Listing((), (Unlisted("m:P", "f:1", untrusted=True),)), [], every=False, config="tenter.yaml"))
    assert plugin == ["plugin m:P [untrusted] (f:1): known when it is loaded"]


def test_without_hooks_it_is_said_where_the_points_are() -> None:
    for config, named in (("tenter.yaml", ""), ("u.yaml", " -c u.yaml")):
        (line,) = table(Listing(()), [], every=False, config=config)
        assert line == f"no hooks; 'tenter hooks list --all{named}' prints all points"


def test_a_point_says_what_may_be_answered_there() -> None:
    by_name = {row["full_name"]: row for row in map(point_row, POINTS)}
    assert by_name["run.post"]["answers"] == []
    assert by_name["tool.invoked.pre"]["answers"] == ["allow", "block", "suspend", "escalate", "replace"]
    assert by_name["tool.invoked.pre"]["policies"] == ["warn", "block", "suspend", "fail"]
    assert by_name["loop.start.post"]["answers"] == ["block", "suspend", "escalate"]
    assert by_name["loop.start.post"]["policies"] == ["warn", "block", "suspend"]
    assert len(by_name) == len(CATALOGUE)
