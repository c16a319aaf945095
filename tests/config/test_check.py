"""A check finds every problem at once and gives plain frozen values with their places."""

import pytest

from tenter.config.check import MOST_GUESSES, Checked, check
from tenter.config.document import parse
from tenter.config.problem import Position
from tenter.config.schema import (
    Choice,
    Clash,
    Dollars,
    Either,
    Flag,
    ListOf,
    MapOf,
    Needs,
    Refused,
    Schema,
    Seconds,
    Slug,
    Table,
    Text,
    Whole,
)
from tenter.kernel import FrozenDict


def checked(schema: Schema, text: str, **known: list[str]) -> Checked:
    document = parse(text.encode(), "f")
    assert document.root is not None
    return check(schema, document.root, known)


def value_of(schema: Schema, text: str, **known: list[str]) -> object:
    outcome = checked(schema, text, **known)
    assert outcome.problems == ()
    return outcome.value


def said(schema: Schema, text: str, **known: list[str]) -> list[str]:
    return [str(one) for one in checked(schema, text, **known).problems]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (Text(), "no", "no"),
        (Text(), "'5'", "5"),
        (Slug(), "017", "017"),
        (Whole(least=0, most=999), "999", 999),
        (Seconds(most=60), "60", 60.0),
        (Seconds(most=60), "0.5", 0.5),
        (Dollars(most=60), "60", 60.0),
        (Dollars(most=60), "0.25", 0.25),
        (Dollars(most=60, free=True), "0", 0.0),
        (Flag(), "true", True),
        (Choice(words=("warn", "block")), "block", "block"),
        (ListOf(item=Text()), "[a, b]", ("a", "b")),
        (ListOf(item=Text()), "[]", ()),
        (MapOf(key=Slug(), value=Flag()), "{a: true}", {"a": True}),
        (Table(keys={"a": Text(), "b": Text()}), "{b: x}", {"b": "x"}),
    ],
)
def test_what_the_schema_allows_is_read(schema: Schema, text: str, value: object) -> None:
    read = value_of(schema, text)
    assert read == value
    assert type(read) is (FrozenDict if isinstance(value, dict) else type(value))


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        (Text(), "5", 'f:1:1: expected text, got 5; put it in quotes: "5"'),
        (Text(), "true", 'f:1:1: expected text, got true; put it in quotes: "true"'),
        (Text(), "null", "f:1:1: expected text, got null"),
        (Text(), "''", "f:1:1: expected text, got ''"),
        (Text(), "[]", "f:1:1: expected text, got a list"),
        (Text(), '"a\\0"', "f:1:1: expected text without NUL characters, got 'a\\x00'"),
        (Text(what="a word", pattern="[a-z]+"), '"ab\\n"', "f:1:1: expected a word, got 'ab\\n'"),
        (Text(private=True), "5", "f:1:1: expected text, got something else (not shown); put it in quotes"),
        (Flag(), "yes", "f:1:1: expected true or false, got 'yes'; write true"),
        (Flag(), "Off", "f:1:1: expected true or false, got 'Off'; write false"),
        (Flag(), "FALSE", "f:1:1: expected true or false, got 'FALSE'; write false"),
        (Flag(), "1", "f:1:1: expected true or false, got 1"),
        (
            Choice(words=("warn", "block")),
            "blok",
            "f:1:1: expected 'warn' or 'block', got 'blok'; did you mean 'block'?",
        ),
        (ListOf(item=Text(), what="words"), "./x", "f:1:1: expected words, got './x'; write a list: ['./x']"),
        (ListOf(item=Text(), what="words", least=1), "[]", "f:1:1: expected words, got an empty list"),
        (
            ListOf(item=Text(), distinct=True),
            "[a,\n a]",
            "f:2:2: at [1]: the same stands at line 1 already; keep one of the two",
        ),
        (MapOf(key=Slug(), value=Text(), what="words", least=1), "{}", "f:1:1: expected words, got an empty mapping"),
        (Table(keys={}), "[]", "f:1:1: expected a mapping, got a list"),
        (Table(keys={"a": Text()}, required=("a",)), "{}", "f:1:1: the key 'a' is missing"),
    ],
)
def test_what_the_schema_does_not_allow_is_said_with_what_was_expected(schema: Schema, text: str, problem: str) -> None:
    assert said(schema, text) == [problem]


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    "text", ["true", "1:30", "017", "0x1f", "1_000", "1e3", "'30'", "30s", "null", "1.5", "-1", "101"]
)
def test_a_whole_number_is_nothing_but_a_whole_number(text: str) -> None:
    assert len(said(Whole(least=0, most=100), text)) == 1


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    "text", ["true", "1:30", "017", "'30'", "30s", "null", "0", "-1", "0.0", "60.1", "9" * 400, ".inf", ".nan"]
)
def test_seconds_and_dollars_are_a_number_above_zero_and_bounded(text: str) -> None:
    assert len(said(Seconds(most=60), text)) == 1
    assert len(said(Dollars(most=60), text)) == 1


@pytest.mark.fault(64)
@pytest.mark.parametrize(
    "name",
    [
        *["../../x", "/etc/x", '"a\\0"', '"a\\n"', "..", "con", "nul", "com1", "lpt9", "a" * 300],
        *["caf\u00e9", "cafe\u0301", "'%2e%2e'", "'-a'", "A", "a.b", "''", "a b", "'a/b'", '"\\u202ea"'],
    ],
)
def test_a_name_that_could_leave_its_folder_is_refused_as_a_value_and_as_a_key(name: str) -> None:
    assert len(said(Slug(), name)) == 1
    assert len(said(MapOf(key=Slug(), value=Flag()), f"? {name}\n: true")) == 1


@pytest.mark.fault(53)
def test_an_unknown_key_is_an_error_with_path_line_and_the_nearest_name() -> None:
    schema = Table(keys={"hooks": Table(keys={"timeout_seconds": Seconds(most=60), "name": Slug()})})
    assert said(schema, "hooks:\n  timeout: 5\n") == [
        "f:2:3: at hooks.timeout: unknown key 'timeout'; did you mean 'timeout_seconds'?"
    ]


@pytest.mark.fault(53)
def test_an_unknown_key_that_is_near_to_none_is_told_which_keys_there_are() -> None:
    schema = Table(keys={"b": Text(), "a": Text(), "later": Refused("is not supported yet", "remove it")})
    assert said(schema, "zzz: 5") == ["f:1:1: at zzz: unknown key 'zzz'; the keys here are a, b"]


def test_all_problems_are_found_at_once() -> None:
    schema = Table(keys={"a": Flag(), "b": ListOf(item=Whole(least=0, most=9)), "c": Text()}, required=("c",))
    assert [one.split(":")[1] for one in said(schema, "a: x\nb: [1,\n 10,\n y]\nd: 1\n")] == ["1", "3", "4", "5", "1"]


def test_a_misspelt_required_key_is_not_missing_as_well() -> None:
    schema = Table(
        keys={"command": Text(), "script": Text(), "name": Slug()}, required=("name",), one_of=("command", "script")
    )
    assert [one.split("; ")[1] for one in said(schema, "nmae: a\ncomand: x\n")] == [
        "did you mean 'name'?",
        "did you mean 'command'?",
    ]


def test_a_key_that_is_refused_says_why_at_its_place_and_its_value_is_not_looked_into() -> None:
    schema = Table(keys={"url": Refused("is not supported yet", "remove it")})
    assert said(schema, "url: {any: [thing]}") == ["f:1:1: at url: 'url' is not supported yet; remove it"]


def test_exactly_one_of_several_keys_stands() -> None:
    later = Refused("is not supported yet", "remove it")
    schema = Table(keys={"a": Text(), "b": Text(), "url": later}, one_of=("a", "b", "url"))
    assert value_of(schema, "a: x") == {"a": "x"}
    assert said(schema, "{}") == ["f:1:1: expected exactly one of 'a', 'b', got none"]
    assert said(schema, "{a: x, b: y}") == ["f:1:1: expected exactly one of 'a', 'b', got 'a' and 'b'; keep one"]
    assert said(schema, "url: x") == ["f:1:1: at url: 'url' is not supported yet; remove it"]


def test_a_table_with_a_kind_says_which_of_its_keys_stands() -> None:
    schema = Table(keys={"a": Text(), "b": Text()}, one_of=("a", "b"), kind_key="kind")
    assert value_of(schema, "a: x") == {"a": "x", "kind": "a"}
    assert value_of(schema, "b: x") == {"b": "x", "kind": "b"}
    assert "kind" not in str(checked(schema, "{a: x, b: y}").value)
    assert "kind" not in str(checked(schema, "{}").value)


def test_a_key_needs_the_keys_that_its_rule_names() -> None:
    schema = Table(keys={"a": Text(), "b": Text(), "c": Text()}, rules=(Needs(("a",), ("b", "c"), "say it"),))
    assert value_of(schema, "{a: x, c: y}") == {"a": "x", "c": "y"}
    assert value_of(schema, "b: x") == {"b": "x"}
    assert said(schema, "a: x") == ["f:1:1: at a: 'a' needs 'b' or 'c' beside it; say it"]


def test_a_key_cannot_stand_where_its_rule_forbids_it() -> None:
    schema = Table(keys={"a": Text(), "b": Flag()}, rules=(Clash("a", "b", True, "because"),))
    assert value_of(schema, "{a: x, b: false}") == {"a": "x", "b": False}
    assert said(schema, "{a: x, b: true}") == ["f:1:2: at a: 'a' cannot stand where 'b' is true; because"]
    but = Table(keys={"a": Text(), "b": Flag()}, rules=(Clash("a", "b", True, "because", unless="no"),))
    assert value_of(but, "{a: no, b: true}") == {"a": "no", "b": True}
    assert said(but, "{a: x, b: true}") == ["f:1:2: at a: 'a' cannot stand where 'b' is true; because"]


def test_one_of_three_shapes_is_taken_by_what_stands_there() -> None:
    schema = Either(what="one or more", single=Text(), items=ListOf(item=Text()), mapping=Table(keys={"re": Text()}))
    assert value_of(schema, "a") == "a"
    assert value_of(schema, "[a]") == ("a",)
    assert value_of(schema, "{re: a}") == {"re": "a"}
    assert said(schema, "5") == ["f:1:1: expected one or more, got 5"]
    assert said(schema, "{rex: a}") == ["f:1:2: at rex: unknown key 'rex'; did you mean 're'?"]


def test_a_reference_is_to_something_that_the_file_defines_or_that_is_known() -> None:
    schema = Table(
        keys={
            "tools": MapOf(key=Slug(), value=Flag(), defines="tool"),
            "use": ListOf(item=Text(what="a tool", refers_to="tool")),
        }
    )
    assert value_of(schema, "{use: [a, shell], tools: {a: true}}", tool=["shell"]) == {
        "use": ("a", "shell"),
        "tools": {"a": True},
    }
    assert said(schema, "use: [shel]", tool=["shell"]) == [
        "f:1:7: at use[0]: expected the name of a tool, got 'shel'; did you mean 'shell'?"
    ]
    assert said(schema, "use: [x]") == ["f:1:7: at use[0]: expected the name of a tool, got 'x'; there is no tool yet"]


def test_a_price_may_be_nothing_and_never_less() -> None:
    assert said(Dollars(most=60), "0") == ["f:1:1: expected a number of US dollars above 0 and at most 60, got 0"]
    assert len(said(Dollars(most=60, free=True), "-0.01")) == 1
    assert len(said(Dollars(most=60, free=True), "false")) == 1


def test_the_items_of_a_list_can_be_referred_to_and_a_private_reference_is_not_shown() -> None:
    schema = Table(
        keys={
            "secrets": ListOf(item=Text(private=True), defines="secret"),
            "use": Text(refers_to="secret", private=True),
        }
    )
    assert value_of(schema, "{use: KEY, secrets: [OTHER, KEY]}") == {"use": "KEY", "secrets": ("OTHER", "KEY")}
    (found,) = said(schema, "{use: KEYS, secrets: [OTHER, KEY]}")
    assert found.endswith("expected the name of a secret, got something else (not shown); did you mean 'KEY'?")
    (found,) = said(schema, "{use: KEY, secrets: [[KEY]]}")[1:]
    assert found.endswith("there is no secret yet"), "what is no name defines nothing"


def test_a_name_of_a_map_can_have_a_schema_of_its_own() -> None:
    own = Table(keys={"python": Text()}, required=("python",), not_for=("shell",))
    schema = MapOf(key=Slug(), value=own, named={"shell": Table(keys={"fast": Flag()})})
    assert value_of(schema, "{shell: {fast: true}, mine: {python: a}}") == {
        "shell": {"fast": True},
        "mine": {"python": "a"},
    }
    assert said(schema, "shel: {}") == ["f:1:1: at shel: the key 'python' is missing; did you mean 'shell'?"]


def test_every_value_has_its_place_and_a_positioned_table_holds_its_own() -> None:
    schema = Table(
        keys={
            "hooks": ListOf(item=Table(keys={"name": Slug(), "env": MapOf(key=Slug(), value=Text())}, positioned=True))
        }
    )
    outcome = checked(schema, "hooks:\n  - name: a\n    env:\n      x: y\n")
    assert outcome.positions[("hooks",)] == Position("f", 1, 1)
    assert outcome.positions[("hooks", 0)] == Position("f", 2, 5)
    assert outcome.positions[("hooks", 0, "name")] == Position("f", 2, 11)
    assert outcome.positions[("hooks", 0, "env")] == Position("f", 3, 5)
    assert outcome.positions[("hooks", 0, "env", "x")] == Position("f", 4, 10)
    assert outcome.value == {
        "hooks": ({"name": "a", "env": {"x": "y"}, "where": Position("f", 2, 5), "path": ("hooks", 0)},)
    }


def test_nothing_more_is_said_about_what_the_document_reported_already() -> None:
    document = parse(b"a: !!str 5\nb: *x\n", "f")
    assert len(document.problems) == 2
    assert document.root is not None
    assert check(Table(keys={"a": Flag(), "b": Table(keys={}, required=("z",))}), document.root).problems == ()


def test_guessing_ends_after_a_hundred_mistakes() -> None:
    text = "".join(f"nam{n}: x\n" for n in range(MOST_GUESSES + 20))
    outcome = said(Table(keys={"name": Text()}), text)
    assert len(outcome) == MOST_GUESSES + 20
    assert sum("did you mean 'name'?" in one for one in outcome) == MOST_GUESSES
