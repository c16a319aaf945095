"""Strict YAML: words stay words, every key and value has its place, and nothing in a file can make reading dear."""

import pytest
from hypothesis import given, strategies as st

from tenter.config.document import DEEPEST, LARGEST, MOST_VALUES, Broken, Listing, Mapping, Node, Plain, Scalar, parse
from tenter.config.problem import Position


def root_of(text: str) -> Node:
    document = parse(text.encode(), "f")
    assert document.problems == ()
    assert document.root is not None
    return document.root


def value_of(text: str) -> object:
    return plain(root_of(text))


def plain(node: Node) -> object:
    match node:
        case Scalar():
            return node.value
        case Listing():
            return [plain(item) for item in node.items]
        case Mapping():
            return {entry.key: plain(entry.node) for entry in node.entries}
        case Broken():
            return "broken"


def problems_of(data: str | bytes) -> list[str]:
    return [str(one) for one in parse(data.encode() if isinstance(data, str) else data, "f").problems]


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    "word",
    [
        *["on", "off", "yes", "no", "y", "n", "Yes", "True", "TRUE", "False", "Null", "NULL", "~", "1:30", "017"],
        *["0o17", "0x1f", "0b1", "1_000", "1e3", "1.5e3", ".5", "5.", "+5", "-017", ".inf", ".nan", "2001-01-01"],
        *["00", "1" * 19],
    ],
)
def test_a_word_stays_a_word(word: str) -> None:
    assert value_of(f"a: {word}") == {"a": word}
    assert value_of(f"[{word}]") == [word]


@pytest.mark.fault(54)
@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "True", "1:30", "017", "0x1f", "2001-01-01"])
def test_a_word_stays_a_word_as_a_key(word: str) -> None:
    assert value_of(f"{word}: a") == {word: "a"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("true", True), ("false", False), ("null", None), ("", None), ("0", 0), ("-0", 0), ("30", 30), ("-7", -7)],
        *[("1.5", 1.5), ("-0.25", -0.25), ("10.0", 10.0), ("1" * 18, int("1" * 18))],
    ],
)
def test_only_plain_flags_null_and_decimal_numbers_become_values(text: str, value: Plain) -> None:
    root = root_of(f"a: {text}")
    assert isinstance(root, Mapping)
    read = plain(root.entries[0].node)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", ["true", "null", "30", "1.5", "-7"])
@pytest.mark.parametrize("form", ["'{}'", '"{}"', "|-\n  {}", ">-\n  {}"])
def test_what_is_quoted_is_text(text: str, form: str) -> None:
    assert value_of("a: " + form.format(text)) == {"a": text}


@given(st.from_regex(r"[A-Za-z0-9+._]{1,20}", fullmatch=True))
def test_a_plain_word_is_read_as_written_or_as_the_number_it_spells(word: str) -> None:
    root = root_of(f"a: {word}")
    assert isinstance(root, Mapping)
    read = plain(root.entries[0].node)
    match read:
        case str():
            assert read == word
        case bool() | None:
            assert {True: "true", False: "false", None: "null"}[read] == word
        case int():
            assert str(read) == word
        case float():
            assert read == float(word)
            assert word.replace(".", "").isdigit()
        case _:
            pytest.fail(f"{word!r} became {read!r}")


def test_keys_and_values_have_their_line_and_column_in_characters() -> None:
    root = root_of("ü: ä\nlist:\n  - {k: ßß, l: x}\n")
    assert isinstance(root, Mapping)
    first, second = root.entries
    assert (first.where, first.node.where) == (Position("f", 1, 1), Position("f", 1, 4))
    assert isinstance(second.node, Listing)
    inner = second.node.items[0]
    assert isinstance(inner, Mapping)
    assert (inner.where, inner.entries[1].where, inner.entries[1].node.where) == (
        Position("f", 3, 5),
        Position("f", 3, 13),
        Position("f", 3, 16),
    )


def test_lines_are_counted_alike_with_windows_line_ends_and_a_byte_order_mark() -> None:
    root = root_of("\ufeffa: 1\r\nb: 2\r\n")
    assert isinstance(root, Mapping)
    assert [entry.where for entry in root.entries] == [Position("f", 1, 1), Position("f", 2, 1)]


@pytest.mark.fault(51)
def test_a_repeated_key_is_an_error_with_both_lines() -> None:
    assert problems_of("hooks:\n  enabled: true\n  plugins: []\n  enabled: false\n") == [
        "f:4:3: at hooks.enabled: the key 'enabled' stands here again; it stands first at line 2; keep one of the two"
    ]


@pytest.mark.fault(51)
def test_every_repeated_key_is_reported_however_it_is_written() -> None:
    said = problems_of("a: {b: 1, 'b': 2}\n\"a\": 3\n? a\n: 4\n")
    assert [one.split(":")[1:3] for one in said] == [["1", "11"], ["2", "1"], ["3", "3"]]


def test_the_same_key_in_two_mappings_is_no_repetition() -> None:
    assert value_of("- {a: 1}\n- {a: 2}") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1]\nb: *x\n", ["f:1:4: at a: an anchor (&name)", "f:2:4: at b: an alias (*name)"]),
        ("b: {<<: {a: 1}}\n", ["f:1:5: at b: a merge key (<<)"]),
        (
            "a: !!python/object/apply:os.system [x]\n",
            ["f:1:4: at a: a tag ('tag:yaml.org,2002:python/object/apply:os.system')"],
        ),
        ("a: !x 5\n", ["f:1:4: at a: a tag ('!x')"]),
        ("a: 1\n---\nb: 2\n", ["f:2:1: a second document begins here"]),
        ("%YAML 1.1\n---\na: 1\n", ["f:1:1: a directive (%YAML, %TAG)"]),
        ("*x : 1\n", ["f:1:1: an alias (*name)"]),
    ],
)
def test_what_strict_yaml_leaves_out_is_refused_at_its_place(text: str, said: list[str]) -> None:
    got = problems_of(text)
    assert [one[: len(want)] for one, want in zip(got, said, strict=True)] == said


@pytest.mark.parametrize("text", ["[*.done]", "[*]", "*done", "a: *.x"])
def test_a_star_that_begins_text_is_said_to_need_quotes(text: str) -> None:
    (said,) = problems_of(text)
    assert "in quotes" in said


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "[a]", "{a: b}"])
def test_a_key_that_is_not_text_is_refused(key: str) -> None:
    said = problems_of(f"? {key}\n: x\n")
    assert len(said) == 1
    assert "f:1:3: a key must be text" in said[0]


def test_a_number_in_quotes_is_a_key() -> None:
    assert value_of("'1': x") == {"1": "x"}


def test_the_value_of_a_refused_key_is_dropped_and_reading_goes_on() -> None:
    document = parse(b"1: {x: &a y}\nb: 2\nb: 3\n", "f")
    assert [one.where.line for one in document.problems] == [1, 1, 3]
    assert document.root is not None
    assert plain(document.root) == {"b": 2}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "f: the file is empty; begin with 'version: 1'"),
        (b"# nothing\n", "f: the file is empty; begin with 'version: 1'"),
        (b"a: 1\nb: \xfc\n", "f:2:4: byte 0xfc is not UTF-8; save the file as UTF-8"),
        ("a: 1".encode("utf-16"), "f:1:1: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"a: 1\nb: x\0y\n", "f:2:5: the character U+0000 must not stand in this file"),
        ("ä: \u202ex\n".encode(), "f:1:4: the character U+202E must not stand in this file"),
        ("a: x\u2028b: y\n".encode(), "f:1:5: the character U+2028 must not stand in this file"),
        (b"a: \x1b[2J\n", "f:1:4: the character U+001B must not stand in this file"),
        (b"a:\n\tb: 1\n", "f:2:1: a tab cannot indent a line or begin a value; use spaces"),
        (b"a: b: c\n", "f:1:5: this is not YAML: mapping values are not allowed in this context; a value that holds"),
        (b"a: @x\n", "f:1:4: this is not YAML: while scanning for the next token that begins at line 1"),
        (b"a: [1,\nb: 2\n", "f:3:1: this is not YAML: while parsing a flow sequence that begins at line 1"),
    ],
)
def test_what_cannot_be_read_is_one_problem_at_its_place(data: bytes, said: str) -> None:
    document = parse(data, "f")
    assert document.root is None
    assert len(document.problems) == 1
    assert str(document.problems[0])[: len(said)] == said


@pytest.mark.fault(52)
def test_data_that_is_too_long_is_refused_unread() -> None:
    assert parse(b"x" * LARGEST, "f").problems == ()
    assert problems_of(b"x" * (LARGEST + 1)) == [f"f: the file is longer than {LARGEST} bytes; make it smaller"]


def test_a_tab_inside_a_value_is_kept() -> None:
    assert value_of("a: |\n  x\ty\n") == {"a": "x\ty\n"}


@pytest.mark.fault(52)
@pytest.mark.parametrize("nest", ["[", "{a: ", "- ", "? "])
def test_nesting_is_refused_at_the_level_that_is_too_deep(nest: str) -> None:
    said = parse((nest * (DEEPEST + 1)).encode(), "f").problems
    assert [one.message for one in said] == [f"more than {DEEPEST} levels inside each other"]
    assert said[0].where.line == 1


def test_nesting_up_to_the_limit_is_read() -> None:
    assert value_of("[" * DEEPEST + "]" * DEEPEST) is not None


@pytest.mark.fault(52)
def test_reading_stops_at_the_value_that_is_too_many() -> None:
    said = parse(b"- x\n" * (MOST_VALUES + 1), "f").problems
    assert [(one.where.line, one.message) for one in said] == [
        (MOST_VALUES + 1, f"more than {MOST_VALUES} keys and values")
    ]


@given(st.text() | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#?, \n\t<~01"))
def test_no_text_makes_the_parser_raise_and_every_place_is_in_the_file(text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    document = parse(data, "f")
    lines = text.count("\n") + text.count("\r") + 2
    assert (document.root is None) <= bool(document.problems)
    assert all(one.where.line <= lines and str(one).isprintable() for one in document.problems)


@given(st.binary())
def test_no_bytes_make_the_parser_raise(data: bytes) -> None:
    document = parse(data, "f")
    assert document.root is not None or document.problems
