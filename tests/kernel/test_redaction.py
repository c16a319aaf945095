import asyncio
import base64
import json
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.outside import one_of_three, steady_loop

from tenter.kernel.frozen import FrozenDict, freeze
from tenter.kernel.masking import MASK, FuzzyPair, KeyPattern
from tenter.kernel.redaction import CHARACTERS_AT_ONCE, LONGEST_EXCEPTION, Redactor

SECRET = "hunter2/é hunter2"
CARD = KeyPattern(name="card", prefix="card_", body="[a-z]{8}", chars="a-z")
PIN = FuzzyPair(name="pin", text=r"pin=([^\s&]+)", key="pin")
TEN_MEGABYTES = 10 << 20

FORMS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: json.dumps(text)[1:-1],
    urllib.parse.quote,
    urllib.parse.quote_plus,
    lambda text: text.encode().hex(),
    lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
)


class Turn(msgspec.Struct, frozen=True):
    __opaque__: ClassVar[tuple[str, ...]] = ("extensions",)

    text: object = ""
    extensions: Mapping[str, object] = FrozenDict()


WRITTEN = st.sampled_from([form(SECRET) for form in FORMS]).map(lambda form: f"<{form}>")
DATA = st.recursive(
    st.none() | st.integers() | st.text() | WRITTEN,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | WRITTEN, inner)
        | st.builds(Turn, inner, st.dictionaries(st.text() | WRITTEN, inner))
    ),
    max_leaves=30,
)


def redactor() -> Redactor:
    return Redactor(secrets=[SECRET], patterns=[CARD], fuzzy=[PIN])


@pytest.mark.promise(4)
@pytest.mark.fault(60)
@pytest.mark.fault(63)
@given(DATA)
def test_nothing_told_is_left_in_what_is_encoded_or_shown(value: object) -> None:
    guard = redactor()
    result = guard.redact(freeze(value))
    shown = (
        repr(result) + json.dumps(msgspec.to_builtins(result), ensure_ascii=False) + repr(msgspec.json.encode(result))
    )
    assert [form(SECRET) for form in FORMS if form(SECRET) in shown] == []
    assert guard.redact(result) is result
    assert redactor().redact(result) is result


@pytest.mark.promise(4)
def test_keys_are_masked_in_values_and_likely_pairs_only_when_asked() -> None:
    guard = redactor()
    value = freeze({"text": "card_abcdefgh pin=1234", "pin": "5678"})
    assert guard.redact(value) == {"text": f"{MASK} pin=1234", "pin": "5678"}
    assert guard.redact(value, fuzzy=True) == {"text": f"{MASK} pin={MASK}", "pin": MASK}
    assert guard.mask_text("card_abcdefgh pin=1") == f"{MASK} pin=1"
    assert guard.mask_fuzzy("card_abcdefgh pin=1") == f"{MASK} pin={MASK}"


def test_what_is_clean_is_not_what_is_clean_when_likely_pairs_count() -> None:
    guard = redactor()
    value = freeze({"text": "pin=1234"})
    assert guard.redact(value) is value
    assert guard.known_clean(value)
    assert guard.redact(value, fuzzy=True) == {"text": f"pin={MASK}"}
    assert guard.redact(value) is value


def test_a_redactor_without_rules_changes_nothing_and_still_says_what_is_frozen() -> None:
    guard = Redactor()
    value, loose = freeze({"a": [SECRET]}), {"a": [SECRET]}
    assert guard.redact(value) is value
    assert guard.redact(loose) is loose
    assert guard.known_clean(value)
    assert not guard.known_clean(loose)


def test_ignored_secrets_are_told_by_their_positions() -> None:
    guard = Redactor(secrets=["abc", SECRET, "", b"   \n", "redacted"])
    assert guard.ignored == (0, 2, 3, 4)
    assert guard.mask_text("abc redacted") == "abc redacted"


def test_what_was_dropped_is_noted() -> None:
    notes: list[str] = []
    turn = Turn("a", freeze({"blob": [SECRET], "kept": 1}))
    assert redactor().redact(turn, note=notes.append) == Turn("a", FrozenDict({"kept": 1}))
    assert notes == ["dropped Turn.extensions.blob"]


async def test_apply_says_what_redact_says() -> None:
    guard, notes = redactor(), list[str]()
    turn = Turn(SECRET, freeze({"blob": [SECRET]}))
    assert await guard.apply(turn, note=notes.append) == Turn(MASK)
    assert notes == ["dropped Turn.extensions.blob"]
    assert await guard.apply({"pin": "1"}, fuzzy=True) == {"pin": MASK}
    clean = Turn("clean")
    assert await guard.apply(clean) is clean
    assert guard.known_clean(clean)


async def test_a_large_value_is_walked_in_a_thread_that_is_gone_afterwards() -> None:
    guard, notes = redactor(), list[str]()
    turn = Turn("x" * TEN_MEGABYTES + SECRET, freeze({"blob": [SECRET]}))
    result = await asyncio.wait_for(guard.apply(turn, note=notes.append), 5)
    assert result == Turn("x" * TEN_MEGABYTES + MASK)
    assert notes == ["dropped Turn.extensions.blob"]
    for thread in threading.enumerate():
        if thread.name == "tenter-redaction":
            thread.join(5)
            assert not thread.is_alive()


async def test_what_is_wrong_with_a_large_value_is_said_where_it_was_given() -> None:
    with pytest.raises(TypeError, match="class 'object' cannot be looked into"):
        await asyncio.wait_for(redactor().apply([object(), "x" * TEN_MEGABYTES]), 5)


async def test_who_waits_for_a_large_value_can_be_cancelled() -> None:
    guard = redactor()
    task = asyncio.create_task(guard.apply(Turn("x" * TEN_MEGABYTES)))
    started = asyncio.Event()
    asyncio.get_running_loop().call_soon(started.set)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert guard.redact("still " + SECRET) == f"still {MASK}"


@pytest.mark.timed
@pytest.mark.promise(4)
@pytest.mark.parametrize(
    "text",
    [
        "a line of clean text\n" * (TEN_MEGABYTES // 21),
        "é€😀 " * (TEN_MEGABYTES // 10),
        "card_" * (TEN_MEGABYTES // 5),
        "card_abcdefgh " * (1 << 16),
        (SECRET + " ") * (1 << 16),
        SECRET[:-1] * (1 << 18),
        "pin=" * (1 << 18),
        "pin=1 " * (1 << 17),
    ],
    ids=["clean", "no ASCII", "prefixes", "keys", "secrets", "nearly secrets", "names", "pairs"],
)
async def test_the_loop_goes_on_while_a_large_or_hostile_text_is_masked(text: str) -> None:
    guard = redactor()

    async def attempt() -> None:
        async with steady_loop():
            result = await asyncio.wait_for(guard.apply(Turn([text, {"a": text}]), fuzzy=True), 20)
        assert SECRET not in cast(list[str], result.text)[0]

    await one_of_three(attempt)


@pytest.mark.timed
@pytest.mark.promise(4)
async def test_the_loop_goes_on_while_a_text_full_of_secrets_is_masked_that_is_not_long() -> None:
    text = (SECRET + " ") * ((CHARACTERS_AT_ONCE - 1) // (len(SECRET) + 1))

    async def attempt() -> None:
        guard = redactor()
        async with steady_loop(0.025):
            assert SECRET not in await asyncio.wait_for(guard.apply(text), 20)

    await one_of_three(attempt)


@pytest.mark.timed
async def test_the_loop_goes_on_while_wide_values_are_walked() -> None:
    guard = redactor()
    values = [{f"name {n}": n for n in range(100_000)}, [None] * 1_000_000, tuple(range(1_000_000))]

    async def attempt() -> None:
        async with steady_loop():
            for value in values:
                assert await asyncio.wait_for(guard.apply(value, fuzzy=True), 20) is value

    await one_of_three(attempt)


@pytest.mark.timed
async def test_the_loop_goes_on_while_very_many_values_are_walked() -> None:
    guard = redactor()
    value = [*({"key": f"value {n}", "n": n, "list": [n, str(n)]} for n in range(20_000)), SECRET]

    async def attempt() -> None:
        async with steady_loop():
            result = await asyncio.wait_for(guard.apply(value), 20)
        assert result == [*value[:-1], MASK]

    await one_of_three(attempt)


@pytest.mark.promise(4)
@pytest.mark.fault(61)
def test_an_exception_is_told_with_notes_cause_and_group_and_without_secrets() -> None:
    class Url:
        def __repr__(self) -> str:
            return f"URL('https://u:{urllib.parse.quote(SECRET)}@h/?pin=1234')"

    inner = KeyError(SECRET)
    inner.add_note(f"inner note {SECRET}")
    group = ExceptionGroup(f"group {SECRET}", [ValueError(Url()), TypeError("plain card_abcdefgh")])
    group.__cause__ = inner
    group.add_note(f"note {SECRET}")
    text = redactor().mask_exception_text(group)
    assert text.splitlines() == [
        f"ExceptionGroup: group {MASK} (2 sub-exceptions)",
        f"note {MASK}",
        f"ValueError: URL('https://u:{MASK}@h/?pin={MASK}",
        f"TypeError: plain {MASK}",
        f"because of KeyError: '{MASK}'",
        f"inner note {MASK}",
    ]


@pytest.mark.promise(4)
@pytest.mark.fault(61)
def test_a_traceback_is_told_without_secrets() -> None:
    def fail() -> None:
        raise RuntimeError(SECRET) from ValueError("hunter2/é hunter2")

    with pytest.raises(RuntimeError) as caught:
        fail()
    text = redactor().mask_exception_text(caught.value, stack=True)
    assert SECRET not in text
    assert f"RuntimeError: {MASK}" in text
    assert "test_redaction.py" in text
    assert f'from ValueError("{MASK}")' in text


@pytest.mark.fault(61)
def test_an_exception_that_cannot_tell_its_text_or_has_an_endless_cause_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    first, error = ValueError("first"), ValueError("last")
    error.__cause__ = first
    for n in range(1000):
        cause, error = error, ValueError(n)
        error.__cause__ = cause
    assert "Mute: <exception str() failed>" in redactor().mask_exception_text(Mute())
    assert redactor().mask_exception_text(error).startswith("ValueError: 999\nbecause of ValueError: 998\n")
    first.__cause__ = first
    assert redactor().mask_exception_text(first) == "ValueError: first"


@pytest.mark.timed
@pytest.mark.fault(61)
async def test_the_loop_goes_on_while_a_huge_exception_is_told() -> None:
    async def attempt() -> None:
        group = ExceptionGroup("wide", [ValueError("q" * 100) for _ in range(100_000)])
        long, chain = ValueError("q" * TEN_MEGABYTES), ValueError("last")
        for n in range(20_000):
            cause, chain = chain, ValueError(n)
            chain.__cause__ = cause
        for _ in range(10_000):
            long.add_note("n" * 1000)
        async with steady_loop():
            texts = [redactor().mask_exception_text(error) for error in (group, long, chain)]
        assert [len(text) <= LONGEST_EXCEPTION + 20 for text in texts] == [True] * 3
        assert texts[0].endswith("… (more exceptions)")
        assert texts[1].endswith("… (cut)")
        assert texts[2].endswith("… (more exceptions)")

    await one_of_three(attempt)


@pytest.mark.promise(4)
@pytest.mark.fault(61)
def test_the_end_of_a_long_exception_shows_no_half_of_a_secret() -> None:
    for spare in range(4, len(SECRET)):
        text = "q" * (LONGEST_EXCEPTION - len("ValueError: ") - spare) + SECRET
        assert redactor().mask_exception_text(ValueError(text + "q" * 100)).endswith(f"q{MASK}… (cut)")


@pytest.mark.promise(4)
@pytest.mark.fault(61)
def test_the_name_of_an_exceptions_class_is_masked() -> None:
    def made(name: str) -> Exception:
        return type(name, (Exception,), {})()

    guard = redactor()

    class Meta(type):
        @property
        def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  # a hook's class may do so
            raise SystemExit

    class Odd(Exception, metaclass=Meta): ...

    assert guard.mask_exception_name(Odd()) == "Odd"
    assert guard.mask_exception_name(ValueError(SECRET)) == "ValueError"
    assert guard.mask_exception_name(made(f"E{SECRET}")) == f"E{MASK}"
    assert guard.mask_exception_name(made("E" * 250 + SECRET)) == "E" * 250 + f"{MASK}… (cut)"
    assert SECRET not in guard.mask_exception_text(made(f"E{SECRET}"))


def test_a_syntax_error_is_told_with_its_place_and_its_notes() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("def f(:", "hook.py", "exec")
    caught.value.add_note("a note")
    lines = redactor().mask_exception_text(caught.value).splitlines()
    assert lines[0].endswith('File "hook.py", line 1')
    assert lines[-2:] == ["SyntaxError: invalid syntax", "a note"]
    odd = SyntaxError("odd")
    odd.args = (1, 2, 3)
    assert redactor().mask_exception_text(odd).startswith("SyntaxError: ")


def test_a_context_that_was_suppressed_is_not_told() -> None:
    error = ValueError("told")
    error.__context__ = KeyError("not told")
    assert "because of KeyError: 'not told'" in redactor().mask_exception_text(error)
    error.__suppress_context__ = True
    assert redactor().mask_exception_text(error) == "ValueError: told"


def test_a_text_that_was_cut_shows_no_half_of_a_secret() -> None:
    assert redactor().mask_cut(f"log {SECRET[:9]}") == f"log {MASK}"
    assert redactor().mask_cut(f"{SECRET[9:]} log card_abcd", start=True) == f"{MASK} log {MASK}"
    assert redactor().mask_cut("log pin=1234") == f"log pin={MASK}"


def test_a_redactor_shows_no_secret_of_its_own() -> None:
    assert SECRET not in repr(redactor()) + str(vars(redactor()))


def test_importing_the_redactor_loads_no_re2_before_there_is_a_rule() -> None:
    code = (
        "import sys; from tenter.kernel import Redactor; Redactor().redact({'a': 'b'}); print('re2' in sys.modules);"
        "Redactor(secrets=['secret-value']); print('re2' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert shown.stdout.split() == ["False", "True"]


def test_a_shared_redactor_serves_many_threads() -> None:
    guard, wrong = redactor(), list[Any]()

    def work(number: int) -> None:
        for n in range(200):
            value = Turn((f"{number} {n} {SECRET}",))
            result = guard.redact(value)
            if result != Turn((f"{number} {n} {MASK}",)) or not guard.known_clean(result):
                wrong.append(result)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert wrong == []
