import base64
import hashlib
import json
import random
import string
import time
import urllib.parse
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st
from tests.outside import one_of_three

from tenter.controls.secrets import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.kernel import MASK, Redactor

GUARD = Redactor(patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
DICE = random.Random(7)
ALNUM = string.ascii_letters + string.digits
TOKEN = ALNUM + "_-"
HEX = "0123456789abcdef"
MEGABYTE = 1 << 20


def some(length: int, chars: str = ALNUM) -> str:
    """Random characters that begin and end with a letter, as the middle of a key may not."""
    return "a" + "".join(DICE.choices(chars, k=length - 2)) + "b"


def pem(label: str = "RSA PRIVATE KEY", lines: int = 12, headers: str = "") -> str:
    body = base64.encodebytes(DICE.randbytes(48 * lines)).decode().replace("\n", "")
    wrapped = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {label}-----\n{headers}{wrapped}\n-----END {label}-----"


def jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "A"})
    head = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*head, some(43, TOKEN)])


def samples() -> dict[str, list[str]]:
    """Keys of the published forms, made up here and now, so that no scanner of this repository finds one."""
    return {
        "aws-access-key": [prefix + "A" * 15 + "7" for prefix in ("AKIA", "ASIA")],
        "google-api-key": ["AIza" + some(35, TOKEN)],
        "google-oauth-token": ["ya29." + some(120, TOKEN), "ya29.c." + some(40, TOKEN) + "." + some(90, TOKEN)],
        "google-oauth-secret": ["GOCSPX-" + some(28, TOKEN)],
        "azure-storage-key": ["AccountKey=" + some(86) + "=="],
        "digitalocean-token": ["dop_v1_" + some(64, HEX), "doo_v1_" + some(64, HEX)],
        "databricks-token": ["dapi" + some(32, HEX), "dapi" + some(32, HEX) + "-2"],
        "vault-token": ["hvs." + some(92, TOKEN)],
        "github-token": [f"gh{kind}_" + some(36) for kind in "pousr"] + ["ghs_" + some(200)],
        "github-fine-grained-token": ["github_pat_" + some(22) + "_" + some(59)],
        "gitlab-token": [
            "glpat-" + some(20, TOKEN),
            "glpat-" + some(27, TOKEN) + ".01.1a2b3c4d5",
            "glrt-" + some(20, TOKEN),
        ],
        "npm-token": ["npm_" + some(36)],
        "pypi-token": ["pypi-AgEIcHlwaS5vcmc" + some(150, TOKEN), "pypi-AgENdGVzdC5weXBpLm9yZw" + some(150, TOKEN)],
        "rubygems-key": ["rubygems_" + some(48, HEX)],
        "docker-token": ["dckr_pat_" + some(27, TOKEN)],
        "anthropic-key": ["sk-ant-api03-" + some(93, TOKEN) + "AA", "sk-ant-admin01-" + some(93, TOKEN) + "AA"],
        "openai-key": ["sk-proj-" + some(74, TOKEN) + "T3BlbkFJ" + some(74, TOKEN), "sk-svcacct-" + some(60, TOKEN)],
        "openai-legacy-key": ["sk-" + some(20) + "T3BlbkFJ" + some(20)],
        "openrouter-key": ["sk-or-v1-" + some(64, HEX)],
        "hugging-face-token": ["hf_" + some(34)],
        "groq-key": ["gsk_" + some(52)],
        "replicate-token": ["r8_" + some(37)],
        "xai-key": ["xai-" + some(80)],
        "perplexity-key": ["pplx-" + some(48)],
        "nvidia-key": ["nvapi-" + some(64, TOKEN)],
        "langsmith-key": ["lsv2_pt_" + some(32, HEX) + "_" + some(10, HEX)],
        "slack-token": [
            "xoxb-123456789012-1234567890123-" + some(24),
            "xoxp-123456789012-123456789012-123456789012-" + some(32),
            "xoxe-1-" + some(150),
        ],
        "slack-app-token": ["xapp-1-A012345678-1234567890123-" + some(64, HEX)],
        "stripe-key": [f"{kind}_{mode}_" + some(24) for kind in ("sk", "rk") for mode in ("live", "test")],
        "sendgrid-key": ["SG." + some(22, TOKEN) + "." + some(43, TOKEN)],
        "jwt": [jwt()],
        "age-key": ["AGE-SECRET-KEY-1" + "Q" * 58],
        "private-key": [
            *(pem(), pem("PRIVATE KEY", 1), pem("EC PRIVATE KEY", 2), pem("OPENSSH PRIVATE KEY")),
            pem("ENCRYPTED PRIVATE KEY", headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n"),
            pem("PGP PRIVATE KEY BLOCK", headers="Version: 1\n\n").replace("\n-----END", "\n=aB3d\n-----END"),
        ],
    }


SAMPLES = samples()
AROUND = [
    "{}",
    '"{}"',
    "x={} y",
    "https://host/p?key={}&x=1",
    "\\n{}\\n",
    "a\n{}\nb",
    "k: '{}',",
    "%22{}%22",
    "é{}é",
    "[{}](x)",
]

PROSE = f"""
The sk- prefix, a task-list, risk-based, desk-lamp, sk-learn, ask-me-anything-about-the-whole-of-this-long-slug-here.
git log: {hashlib.sha1(b"x").hexdigest()} {hashlib.sha256(b"x").hexdigest()} {hashlib.md5(b"x").hexdigest()}
{uuid.UUID(int=2**127 + 5)} hf_transfer hf_hub_download npm_config_registry npm_package_version ghp_ r8_x SG.a.b
-----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY----- mark a key; -----BEGIN PUBLIC KEY----- does not
-----BEGIN RSA PRIVATE KEY-----
...
-----END RSA PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
{base64.b64encode(bytes(range(48))).decode()}
-----END CERTIFICATE-----
eyJ0ZXh0IjoiYmFzZTY0In0= eyJhIjoxfQ.eyJ xoxo-xoxo AKIA AKIAxyz AIzaX sk_live_ password: str
def login(name: str, password: SecretStr) -> Token:
    return Token(password=password, secret=os.environ["SECRET"], url=f"https://{{user}}:{{password}}@host/")
data:image/png;base64,{base64.b64encode(random.Random(3).randbytes(30_000)).decode()}
data:x;base64,{base64.urlsafe_b64encode(random.Random(4).randbytes(30_000)).decode()}
"""


@pytest.mark.promise(4)
@pytest.mark.parametrize("name", [pattern.name for pattern in PUBLISHED_KEYS])
def test_a_published_key_is_masked_wherever_it_stands(name: str) -> None:
    for key in SAMPLES[name]:
        for around in AROUND:
            assert GUARD.mask_text(around.replace("{}", key)) == around.replace("{}", MASK)


@pytest.mark.promise(4)
@pytest.mark.parametrize("name", [pattern.name for pattern in PUBLISHED_KEYS if not pattern.embedded])
def test_a_key_that_is_part_of_a_longer_word_or_too_short_is_not_masked(name: str) -> None:
    alone = Redactor(patterns=[pattern for pattern in PUBLISHED_KEYS if pattern.name == name])
    for key in SAMPLES[name]:
        assert alone.mask_text(f"x{key}") == f"x{key}"
        assert alone.mask_text(f"7{key}!") == f"7{key}!"
        assert alone.mask_text(key[:18]) == key[:18]


def test_every_pattern_and_pair_has_a_name_of_its_own() -> None:
    names = [*(pattern.name for pattern in PUBLISHED_KEYS), *(pair.name for pair in FUZZY_PAIRS)]
    assert len(set(names)) == len(names)
    assert SAMPLES.keys() == {pattern.name for pattern in PUBLISHED_KEYS}


@pytest.mark.promise(4)
def test_ordinary_text_stays_as_written() -> None:
    for line in PROSE.splitlines():
        assert GUARD.mask_text(line) == line
    assert GUARD.mask_text(PROSE) is PROSE
    assert GUARD.redact({"content": PROSE})["content"] is PROSE


@given(st.binary(max_size=5000))
def test_coded_bytes_stay_as_written(data: bytes) -> None:
    for coded in (
        base64.b64encode(data),
        base64.urlsafe_b64encode(data),
        base64.b32encode(data),
        base64.b16encode(data),
    ):
        text = coded.decode()
        assert GUARD.mask_text(text) is text


@pytest.mark.promise(4)
@pytest.mark.fault(60)
def test_a_private_key_is_masked_in_json_in_source_code_and_in_a_quoted_mail() -> None:
    key = pem()
    assert GUARD.mask_text(json.dumps({"key": key, "b": 1})) == json.dumps({"key": MASK, "b": 1})
    assert GUARD.mask_text(json.dumps(json.dumps({"key": key}))) == json.dumps(json.dumps({"key": MASK}))
    code = "key = (" + "\n".join(f'    "{line}\\n"' for line in key.splitlines()) + ")"
    assert GUARD.mask_text(code) == f'key = (    "{MASK}\\n")'
    mail = "\n".join(f"> {line}" for line in key.splitlines())
    assert GUARD.mask_text(f"{mail}\n> bye") == f"> {MASK}\n> bye"


NUMBERED: dict[str, Callable[[int, str], str]] = {
    "path and number": lambda number, line: f"a/my key-2.pem:{number}: {line}",
    "path and number of a line beside it": lambda number, line: f"key.pem-{number}-{line}",
    "number and tab": lambda number, line: f"{number:6}\t{line}",
    "number": lambda number, line: f"{number}: {line}",
    "number and bar": lambda number, line: f" {number} | {line}",
}


@pytest.mark.promise(4)
@pytest.mark.fault(60)
@pytest.mark.parametrize("name", NUMBERED)
def test_a_private_key_is_masked_when_its_lines_are_shown_with_numbers(name: str) -> None:
    for key in SAMPLES["private-key"]:
        shown = "\n".join(NUMBERED[name](number, line) for number, line in enumerate(key.splitlines(), 7))
        first = NUMBERED[name](7, "")
        assert GUARD.mask_text(f"{shown}\nkey.pem:40: and a word") == f"{first}{MASK}\nkey.pem:40: and a word"
        assert GUARD.mask_text(json.dumps([shown])) == json.dumps([first + MASK])
        open_end = "\n".join(shown.splitlines()[:2])
        assert GUARD.mask_text(f"{open_end}\n   9\ta short one") == (
            f"{first}{MASK}\n   9\ta short one" if "\n\n" not in key else f"{open_end}\n   9\ta short one"
        )


def test_of_a_private_key_without_an_end_its_lines_are_masked_and_what_follows_is_kept() -> None:
    lines = pem().splitlines()
    open_end = "\n".join(lines[:-1])
    assert (
        GUARD.mask_text(f"{open_end}\n\nThen a sentence follows. And more.")
        == f"{MASK}\n\nThen a sentence follows. And more."
    )
    assert GUARD.mask_text(open_end[:-3]) == MASK
    assert GUARD.mask_text(open_end[: len(lines[0]) + 1 + 65 + 7]) == MASK


@pytest.mark.parametrize("name", [pattern.name for pattern in PUBLISHED_KEYS])
def test_what_a_cut_left_of_a_key_is_masked(name: str) -> None:
    for key in SAMPLES[name]:
        for kept in (len(key) - 1, len(key) - 3):
            shown = GUARD.mask_cut(f"log: {key[:kept]}").removeprefix(f"log: {MASK}")
            assert len(shown) <= len("\n=aB3d\n-----END PGP PRIVATE KEY BLOCK----")
            assert not shown or key.endswith(f"{shown}{key[kept:]}")


@pytest.mark.promise(4)
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password: hunter2", "password: {}"),
        ("Password = hunter2, user = me", "Password = {}, user = me"),
        ("DB_PASSWORD=hunter2", "DB_PASSWORD={}"),
        ("export AWS_SECRET_ACCESS_KEY='a/b c' X=1", "export AWS_SECRET_ACCESS_KEY='{}' X=1"),
        ('{"password": "hun\\"ter 2", "a": 1}', '{"password": "{}", "a": 1}'),
        ('{"token":"a","x-api-key":"b"}', '{"token":"{}","x-api-key":"{}"}'),
        (r'"{\"apiKey\": \"a b\", \"c\": 1}"', r'"{\"apiKey\": \"{}\", \"c\": 1}"'),
        ("{'passwd': 'a b'}", "{'passwd': '{}'}"),
        ("?access_token=abc&user=me", "?access_token={}&user=me"),
        ("client_secret := abc;", "client_secret := {};"),
        ("curl --token abc --password=def host", "curl --token {} --password={} host"),
        ("Authorization: Bearer abc.def\r\nHost: h", "Authorization: {}\r\nHost: h"),
        ("-H 'authorization: Basic YTpi' host", "-H 'authorization: {}' host"),
        ('Authorization: Digest username="u", response="r"\nHost: h', "Authorization: {}\nHost: h"),
        ("sent with bearer abcdefghijklmnop1 to", "sent with bearer {} to"),
        ("Cookie: a=b; c=d\nHost: h", "Cookie: {}\nHost: h"),
        ('"Set-Cookie": "sid=1; Path=/"', '"Set-Cookie": "{}"'),
        ("https://user:pa:s@s@host:8080/p?q=a@b", "https://user:{}@host:8080/p?q=a@b"),
        ("postgres://u:p@h/db and redis://:p@h", "postgres://u:{}@h/db and redis://:{}@h"),
        ("https://tok123@github.com/o/r", "https://{}@github.com/o/r"),
        ("password=[redacted] token=[redacted]x", "password={} token={}"),
        ("password: str", "password: {}"),
    ],
)
def test_a_likely_pair_is_masked_only_when_asked_and_its_name_is_kept(text: str, masked: str) -> None:
    expected = masked.replace("{}", MASK)
    assert GUARD.mask_text(text) == text
    assert GUARD.mask_fuzzy(text) == expected
    assert GUARD.mask_fuzzy(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "input_tokens: 5, max_tokens=100",
            "secrets: [OPENAI_API_KEY]",
            "PWD=/home/me",
            "tokenizer: bpe",
            "the password is",
        ),
        *(
            "ssh://git@github.com/o/r",
            "user@host: hello",
            "https://host:8080/a@b",
            "a cookie jar",
            "authorization was refused",
        ),
        *("", "password:", "token = ", "password: \n next", "passwords: a", "secret_name: x", "bearer of news"),
    ],
)
def test_what_only_resembles_a_pair_stays(text: str) -> None:
    assert GUARD.mask_fuzzy(text) is text


@pytest.mark.parametrize(
    ("key", "is_masked"),
    [
        *(("password", True), ("db_password", True), ("X-Auth-Token", True), ("apiKey", True), ("Authorization", True)),
        *(
            ("proxy-authorization", True),
            ("Set-Cookie", True),
            ("cookies", True),
            ("client.secret", True),
            ("a\ntoken", True),
        ),
        *(
            ("input_tokens", False),
            ("key", False),
            ("idempotency_key", False),
            ("content", False),
            ("cache_key", False),
        ),
        *(("secrets", False), ("path", False), ("session_id", False)),
    ],
)
def test_text_under_a_telling_key_is_masked_when_asked(key: str, is_masked: bool) -> None:
    assert GUARD.redact({key: "value", "n": 1}, fuzzy=True) == {key: MASK if is_masked else "value", "n": 1}
    assert GUARD.redact({key: 7}, fuzzy=True) == {key: 7}


@given(st.text(st.sampled_from("pasword:=\"'\\ \n@/h[]redact;{}&,tokn")))
def test_masking_pairs_twice_is_masking_them_once(text: str) -> None:
    masked = GUARD.mask_fuzzy(f"password={text} token: {text}")
    assert GUARD.mask_fuzzy(masked) == masked


HOSTILE = {
    "sk-": "sk-" * (MEGABYTE // 3),
    "begin": "-----BEGIN " * (MEGABYTE // 11),
    "begin key": "-----BEGIN RSA PRIVATE KEY-----\n" * (MEGABYTE // 32),
    "half keys": ("-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 40) * (MEGABYTE // 72),
    "numbered": ("-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 40 + "\n" + ":1:" * 40) * (MEGABYTE // 193),
    "one line": ("-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 40 + "\n:1:" + "-----BEGIN RSA PRIVATE KEY-----" * 9)
    * (MEGABYTE // 350),
    "long lines": ("-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 40 + "\n" + "a:1:" * 25_000) * 10,
    "eyJ": "eyJ" * (MEGABYTE // 3),
    "eyJ.": "eyJaaaaaaaaaaaa." * (MEGABYTE // 16),
    "keys": ("ghp_" + "a" * 36 + " ") * (MEGABYTE // 41),
    "names": "password" * (MEGABYTE // 8),
    "pairs": "password=" * (MEGABYTE // 9),
    "gap": "password:" + " " * MEGABYTE,
    "urls": "a://b:" * (MEGABYTE // 6),
    "quotes": 'password="' + "\\" * MEGABYTE,
    "base64": base64.b64encode(random.Random(5).randbytes(MEGABYTE * 3 // 4)).decode(),
}


@pytest.mark.timed
@pytest.mark.promise(4)
@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_text_costs_no_more_than_its_length(name: str) -> None:
    text = HOSTILE[name]

    async def attempt() -> None:
        start = time.perf_counter()
        GUARD.mask_text(text)
        GUARD.mask_fuzzy(text)
        assert time.perf_counter() - start < 5

    await one_of_three(attempt)


@given(st.text(ALNUM + "_-. =&%/", max_size=40), st.text(ALNUM + "_-. =&%/", max_size=40))
def test_a_key_in_a_url_is_masked_whatever_stands_beside_it(before: str, after: str) -> None:
    key = SAMPLES["github-token"][0]
    url = f"https://host/{urllib.parse.quote(before, safe='')}?key={key}&{urllib.parse.quote(after, safe='')}"
    assert key not in GUARD.mask_text(url)
