import base64
import json
import random
import re
import urllib.parse
from collections.abc import Callable
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import assume, example, given, strategies as st

from tenter.kernel.masking import MASK, FuzzyPair, KeyPattern, TextMask, is_ignored

CARD = KeyPattern(name="card", prefix="card_", body="[a-z]{8}", chars="a-z")
BLOCK = KeyPattern(name="block", prefix="<<<", body="[a-z]{4,}", chars="a-z", embedded=True)
PAIR = FuzzyPair(name="pair", text=r"pin=(\S+)", key="pin")

TOLD = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("aZ0/+=%\\\"' \n\té€😀"), min_size=8, max_size=40
)


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def backslash_u(text: str) -> str:
    utf16 = text.encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[at : at + 4]}" for at in range(0, len(utf16), 4))


FORMS: dict[str, Callable[[str], str]] = {
    "as written": lambda text: text,
    "URL, all but slashes": urllib.parse.quote,
    "URL, slashes too": lambda text: urllib.parse.quote(text, safe=""),
    "URL, plus for space": urllib.parse.quote_plus,
    "URL, every byte": percent,
    "URL, every byte, upper case": lambda text: percent(text).upper().replace("%", "%"),
    "URL, twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "JSON, ASCII": lambda text: json.dumps(text)[1:-1],
    "JSON": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON, every character": backslash_u,
    "JSON, escaped slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "hex": lambda text: text.encode().hex(),
    "hex, upper case": lambda text: text.encode().hex().upper(),
    "bytes, as Python shows them": lambda text: repr(text.encode())[2:-1],
    "bytes, octal": lambda text: "".join(chr(byte) if byte < 128 else f"\\{byte:o}" for byte in text.encode()),
}


@pytest.mark.promise(4)
@pytest.mark.fault(63)
@pytest.mark.parametrize("form", FORMS)
@given(told=TOLD)
@example(told="0000000Ã")
def test_a_told_value_is_masked_in_every_form(form: str, told: str) -> None:
    assume(not is_ignored(told))
    written = FORMS[form](told)
    assert TextMask([told]).mask(f"<{written}>") == f"<{MASK}>"


@pytest.mark.promise(4)
@pytest.mark.fault(63)
@given(
    told=TOLD, before=st.binary(max_size=5), after=st.binary(max_size=5), urlsafe=st.booleans(), padded=st.booleans()
)
def test_a_told_value_is_masked_in_base64_in_each_alignment(
    told: str, before: bytes, after: bytes, urlsafe: bool, padded: bool
) -> None:
    assume(not is_ignored(told))
    code = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    written = code(before + told.encode() + after).decode()
    masked = TextMask([told]).mask(f"<{written if padded else written.rstrip('=')}>")
    kept = masked.replace(MASK, "")
    assert MASK in masked
    assert len(kept) <= 2 + 4 * (len(before) // 3 + 1) + 4 * (len(after) // 3 + 1)


@pytest.mark.fault(63)
def test_a_told_value_is_masked_in_base64_that_is_wrapped() -> None:
    told = "a value that is longer than what is left of the line"
    written = base64.encodebytes(b"x" * 40 + told.encode()).decode()
    assert written.count("\n") > 1
    assert base64.b64encode(told.encode())[8:16].decode() not in TextMask([told]).mask(written)


@pytest.mark.parametrize("told", ["abcd", "a=b/", "pä&7"])
def test_a_value_of_four_to_seven_characters_is_masked_as_written_only(told: str) -> None:
    mask = TextMask([told])
    assert mask.mask(f"x{told}y") == f"x{MASK}y"
    for form in (urllib.parse.quote(told, safe=""), told.encode().hex(), base64.b64encode(told.encode()).decode()):
        if form != told:
            assert mask.mask(form) == form


@pytest.mark.parametrize("told", ["", "abc", "    ", "\n\t  ", "redacted", b"abc", "[red"])
def test_a_value_too_short_blank_or_of_the_mask_itself_is_not_looked_for(told: str | bytes) -> None:
    assert is_ignored(told)
    assert not TextMask([told])
    assert TextMask([told]).mask("abc    \n\t  redacted [red") == "abc    \n\t  redacted [red"


def test_of_values_inside_each_other_the_longest_is_masked() -> None:
    for told in (["abcd", "abcdefgh"], ["abcdefgh", "abcd"], ["cdef", "abcdefgh"]):
        assert TextMask(told).mask("-abcdefgh-") == f"-{MASK}-"


def test_values_that_overlap_are_masked_together() -> None:
    assert TextMask(["abcdefgh", "efghijkl"]).mask("-abcdefghijkl-") == f"-{MASK}-"


def test_a_value_that_the_mask_completes_is_masked() -> None:
    assert "x[red" not in TextMask(["x[red", "abcdefgh"]).mask("xabcdefgh")


def test_a_value_of_bytes_is_masked_in_text_and_bytes() -> None:
    assert TextMask(["schlüssel".encode()]).mask("<schlüssel>") == f"<{MASK}>"
    assert TextMask([b"\xff\xfe\x00secret"]).mask_bytes(b"<\xff\xfe\x00secret>") == f"<{MASK}>".encode()
    assert TextMask([b"\xff\xfe\x00secret"]).mask("<\\xff\\xfe\\x00secret> fffe00736563726574") == f"<{MASK}> {MASK}"


def test_a_value_of_odd_bytes_takes_whole_characters_of_a_text_with_it() -> None:
    odd = "é€😀".encode()[1:-1]
    assert TextMask([odd]).mask("<é€😀>") == f"<{MASK}>"


def test_lone_surrogates_pass_and_are_found() -> None:
    assert TextMask(["secret-value"]).mask("\ud800 secret-value \udfff") == f"\ud800 {MASK} \udfff"
    assert TextMask(["secret\udc80value"]).mask("<secret\udc80value>") == f"<{MASK}>"


@given(st.text(), st.lists(TOLD, max_size=3))
def test_masking_twice_is_masking_once_and_nothing_told_is_left(text: str, told: list[str]) -> None:
    mask = TextMask(told, patterns=[CARD], fuzzy=[PAIR])
    masked = mask.mask(f"{text}{''.join(told)}{text} pin={text}")
    assert mask.mask(masked) is masked
    assert not [value for value in told if value in masked and not is_ignored(value)]


@given(st.text())
def test_a_text_with_nothing_to_mask_is_the_same_object(text: str) -> None:
    assert TextMask(["secret-value"], patterns=[CARD]).mask(text) is text


@pytest.mark.parametrize(
    "around",
    [
        *(
            "{}",
            "<{}>",
            '"{}"',
            "a={}",
            "({})",
            "x {} y",
            "_{}_",
            "-{}-",
            "https://u:{}@h/?k={}&x",
            "%3D{}%26",
            "\\n{}\\n",
        ),
        *("\\u003d{}", "\\t{}", "\x1b[32m{}\x1b[0m", "é{}é", "{},{}", "{} {}", "{}\n{}"),
    ],
)
def test_a_key_is_found_between_whatever_is_no_letter_or_digit(around: str) -> None:
    text = around.replace("{}", "card_abcdefgh")
    assert TextMask(patterns=[CARD]).mask(text) == around.replace("{}", MASK)


@pytest.mark.parametrize(
    "text",
    ["card_abcdefghi", "xcard_abcdefgh", "card_abcdefg", "card_ABCDEFGH", "card_abcdefgh1", "card_", "0card_abcdefgh"],
)
def test_a_longer_word_that_holds_a_key_is_no_key(text: str) -> None:
    assert TextMask(patterns=[CARD]).mask(text) is text


def test_an_embedded_key_is_found_inside_a_word() -> None:
    assert TextMask(patterns=[BLOCK]).mask("x<<<abcd.") == f"x{MASK}."


def test_of_a_pair_the_value_is_masked() -> None:
    mask = TextMask(fuzzy=[PAIR])
    assert mask.mask("a pin=1234 b") == f"a pin={MASK} b"
    assert mask.is_named("pin")
    assert not mask.is_named("pins")
    assert not mask.is_named(7)


@pytest.mark.parametrize("kept", range(4, 12))
def test_what_a_cut_left_of_a_told_value_at_the_end_is_masked(kept: int) -> None:
    mask = TextMask(["abcd/fgh ijkl"])
    for form in ("as written", "URL, slashes too", "URL, plus for space", "JSON, ASCII", "hex", "hex, upper case"):
        written = FORMS[form]("abcd/fgh ijkl")
        assert mask.mask_cut(f"log: {written[:kept]}") == f"log: {MASK}"
    for shift in range(3):
        written = base64.b64encode(bytes(shift) + b"abcd/fgh ijkl")[(0, 2, 3)[shift] :].decode()
        assert mask.mask_cut(f"log: {written[:kept]}") == f"log: {MASK}"


def test_what_a_cut_left_of_a_told_value_at_the_start_is_masked() -> None:
    mask = TextMask(["abcdefgh"])
    assert mask.mask_cut("efgh log", start=True, end=False) == f"{MASK} log"
    assert mask.mask_cut("efgh log abcd", start=True) == f"{MASK} log {MASK}"
    assert mask.mask_cut("fgh log abc", start=True) == "fgh log abc"


def test_what_a_cut_left_of_a_key_is_masked_and_a_whole_one_too() -> None:
    mask = TextMask(["abcdefgh"], patterns=[CARD])
    assert mask.mask_cut("x card_abcd") == f"x {MASK}"
    assert mask.mask_cut("x card_abc") == "x card_abc"
    assert mask.mask_cut("x card_abcdefgh abcdefgh y") == f"x {MASK} {MASK} y"
    assert mask.mask_cut("card_abcd y") == "card_abcd y"


def test_a_rule_that_cannot_be_looked_for_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"key pattern 'bad' cannot be looked for: .*missing"):
        TextMask(patterns=[CARD, KeyPattern(name="bad", prefix="(", body="a")])
    with pytest.raises(ValueError, match="fuzzy pair 'bad' has 0 groups; it needs exactly one"):
        TextMask(fuzzy=[FuzzyPair(name="bad", text="a")])


@pytest.mark.parametrize("length", [128, 129, 4_000, 40_000])
def test_a_long_value_is_known_by_its_ends(length: int) -> None:
    told = "".join(random.Random(1).choices("abc/é \n", k=length))
    mask = TextMask([told])
    for form in FORMS.values():
        assert mask.mask(f"<{form(told)}> <{form(told)}>") == f"<{MASK}> <{MASK}>"
    assert mask.mask(f"<{base64.b64encode(told.encode()).decode()}>") == f"<{MASK}>"
    assert mask.mask(f"<{told[:15]}>") == f"<{told[:15]}>"


@pytest.mark.promise(4)
def test_each_long_line_of_a_told_value_is_masked_by_itself() -> None:
    told = (
        '-----BEGIN SECRET-----\nfirst line of the secret\r\n  second/line+of "it"\nshort line\n-----END SECRET-----\n'
    )
    mask = TextMask([told])
    assert mask.mask('a.txt:2: first line of the secret\n     3\t  second/line+of "it"\n     4\tshort line') == (
        f"a.txt:2: {MASK}\n     3\t  {MASK}\n     4\tshort line"
    )
    assert mask.mask(json.dumps('second/line+of "it"')) == f'"{MASK}"'
    assert mask.mask("-----BEGIN SECRET-----") == "-----BEGIN SECRET-----"
    assert mask.mask(f"<{told}>") == f"<{MASK}>"
    assert mask.mask_cut("a.txt:2: first line of the s") == f"a.txt:2: {MASK}"
    assert TextMask(["one line, and no other"]).mask("one line, and") == "one line, and"
    assert TextMask([b"\xff\nsecond line of bytes"]).mask_bytes(b"2:second line of bytes") == b"2:" + MASK.encode()


@pytest.mark.promise(4)
@pytest.mark.parametrize("code", ["latin-1", "utf-16-le", "utf-16-be"])
def test_a_told_value_is_masked_in_bytes_of_another_encoding(code: str) -> None:
    assert TextMask(["pässwörd-lang"]).mask_bytes(b"<%b>" % "pässwörd-lang".encode(code)) == f"<{MASK}>".encode()
    assert TextMask(["€-password"]).mask_bytes("<€-password>".encode()) == f"<{MASK}>".encode()


@given(st.text("abcd", min_size=4, max_size=12), st.text("abcd", min_size=4, max_size=12), st.text("abcd/"))
def test_what_is_found_without_the_automaton_is_what_it_finds(one: str, other: str, text: str) -> None:
    told = {one, other}
    covered = {place + shift for value in told for place in _places(value, text) for shift in range(len(value))}
    runs = "".join("#" if place in covered else char for place, char in enumerate(text))
    expected = MASK.join(part for part in re.split("#+", runs))
    assert TextMask(sorted(told)).mask(text) == expected


def _places(value: str, text: str) -> list[int]:
    """Where `value` is found from left to right, one after the other."""
    return [found.start() for found in re.finditer(re.escape(value), text)]


UNIT = UUID("550e8400-e29b-41d4-a716-446655440000")


@pytest.mark.promise(4)
@pytest.mark.parametrize(
    ("told", "value"),
    [
        ("8374650199", 8374650199),
        ("8374650199", -118374650199),
        ("83746501", 83746501.0),
        ("83746.501", 83746.501),
        ("8374650199", Decimal("8374650199.5")),
        (str(UNIT), UNIT),
        (UNIT.hex, UNIT),
        ("8374", 8374),
        ("83.5", Decimal("83.5")),
    ],
)
def test_a_number_that_shows_a_told_value_is_known(told: str, value: object) -> None:
    mask = TextMask([told])
    assert mask.has_numerals
    assert mask.is_numeral(value)
    assert mask.is_numeral(value, short=False) == (len(told) >= 8)


@pytest.mark.parametrize(
    "value", [18374, 8374.5, True, pytest.param(10**5000, id="huge"), 3j, None, "8374", Decimal("1E+1000000000")]
)
def test_a_number_that_only_holds_four_digits_or_cannot_be_written_is_not(value: object) -> None:
    assert not TextMask(["8374"]).is_numeral(value)


def test_where_no_told_value_can_be_a_number_none_is_looked_at() -> None:
    assert not TextMask(["hunter2-secret"]).has_numerals
    assert not TextMask().has_numerals
