"""What the redactor is given to look for (D§3.4): keys that nobody mistakes for something else, and likely pairs.

A key is listed when its vendor publishes a prefix and a length; what only looks random is not, for a commit digest, a
UUID and an image in base64 must stay as written. It knows nothing of where text comes from or goes to.
"""

from typing import Final

from tenter.kernel import MASK, FuzzyPair, KeyPattern

_TOKEN: Final = "A-Za-z0-9_-"
_BASE64: Final = "[A-Za-z0-9+/=]"
_BETWEEN_LINES: Final = r"(?:\\+[nrt]|[\s\"'+,>|\\])*"  # as in a file, in JSON, in a quoted mail, in source code
_NUMBERED: Final = (
    r"(?:[^\r\n\\]*[:-][0-9]{1,9}[:-]|[ \t]*[0-9]{1,9}(?:[ \t:|.)]|\\+t))"  # as search and listing tools show lines
)
_NEXT: Final = rf"{_BETWEEN_LINES}(?:(?:\\+[nr]|[\r\n]){_NUMBERED}{_BETWEEN_LINES})?"
_KEY_LABEL: Final = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"


def _key(name: str, prefix: str, body: str, chars: str = "A-Za-z0-9") -> KeyPattern:
    return KeyPattern(name=name, prefix=prefix, body=body, chars=chars)


PUBLISHED_KEYS: Final[tuple[KeyPattern, ...]] = (
    # clouds
    _key("aws-access-key", "AKIA|ASIA|ABIA|ACCA", "[A-Z0-9]{16}", "A-Z0-9"),
    _key("google-api-key", "AIza", f"[{_TOKEN}]{{35}}", _TOKEN),
    _key("google-oauth-token", r"ya29\.", r"(?:[a-z]\.)?[A-Za-z0-9_-]{30,}(?:\.[A-Za-z0-9_-]+)*", "A-Za-z0-9_.-"),
    _key("google-oauth-secret", "GOCSPX-", f"[{_TOKEN}]{{28}}", _TOKEN),
    _key("azure-storage-key", "AccountKey=", r"[A-Za-z0-9+/]{86}==", "A-Za-z0-9+/="),
    _key("digitalocean-token", "do[opr]_v1_", "[a-f0-9]{64}", "a-f0-9"),
    _key("databricks-token", "dapi", "[a-f0-9]{32}(?:-[0-9]{1,2})?", "a-f0-9"),
    _key("vault-token", r"hv[bs]\.", f"[{_TOKEN}]{{90,300}}", _TOKEN),
    # forges and package indexes
    _key("github-token", "gh[pousr]_", "[A-Za-z0-9]{36,251}"),
    _key("github-fine-grained-token", "github_pat_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}", "A-Za-z0-9_"),
    _key(
        "gitlab-token",
        "gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent)-",
        rf"(?:[{_TOKEN}]{{27,300}}\.[a-z0-9]{{2}}\.?[a-z0-9]{{7,20}}|[{_TOKEN}]{{20,64}})",
        "A-Za-z0-9_.-",
    ),
    _key("npm-token", "npm_", "[A-Za-z0-9]{36}"),
    _key("pypi-token", "pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)", f"[{_TOKEN}]{{50,}}", _TOKEN),
    _key("rubygems-key", "rubygems_", "[a-f0-9]{48}", "a-f0-9"),
    _key("docker-token", "dckr_(?:pat|oat)_", f"[{_TOKEN}]{{27,32}}", _TOKEN),
    # model providers
    _key("anthropic-key", "sk-ant-(?:[a-z]{3,5}[0-9]{2})-", f"[{_TOKEN}]{{80,}}", _TOKEN),
    _key("openai-key", "sk-(?:proj|svcacct|admin|None)-", f"[{_TOKEN}]{{40,}}", _TOKEN),
    _key("openai-legacy-key", "sk-", "[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    _key("openrouter-key", "sk-or-v1-", "[a-f0-9]{64}", "a-f0-9"),
    _key("hugging-face-token", "hf_|api_org_", "[A-Za-z0-9]{34}"),
    _key("groq-key", "gsk_", "[A-Za-z0-9]{52}"),
    _key("replicate-token", "r8_", "[A-Za-z0-9]{37}"),
    _key("xai-key", "xai-", "[A-Za-z0-9]{80}"),
    _key("perplexity-key", "pplx-", "[A-Za-z0-9]{48}"),
    _key("nvidia-key", "nvapi-", f"[{_TOKEN}]{{64}}", _TOKEN),
    _key("langsmith-key", "lsv2_(?:pt|sk)_", "[a-f0-9]{32}_[a-f0-9]{10}", "a-f0-9_"),
    # messaging and payment
    _key("slack-token", r"(?:xoxe\.)?xox[abeoprs]-", r"(?:[0-9]{1,16}-){1,4}[A-Za-z0-9-]{18,200}", "A-Za-z0-9-"),
    _key("slack-app-token", "xapp-", "[0-9]-[A-Z0-9]{8,16}-[0-9]{8,16}-[a-f0-9]{64}", "A-Za-z0-9-"),
    _key("stripe-key", "(?:sk|rk)_(?:live|test)_", "[A-Za-z0-9]{24,247}"),
    _key("sendgrid-key", r"SG\.", rf"[{_TOKEN}]{{22}}\.[{_TOKEN}]{{43}}", "A-Za-z0-9_.-"),
    # any vendor
    _key("jwt", "eyJ", rf"[{_TOKEN}]{{10,}}\.eyJ[{_TOKEN}]{{10,}}\.[{_TOKEN}]{{10,}}", "A-Za-z0-9_.-"),
    _key("age-key", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}", "A-Z0-9"),
    KeyPattern(
        name="private-key",
        prefix=f"-----BEGIN {_KEY_LABEL}",
        body=rf"{_NEXT}(?:[A-Z][A-Za-z-]+: [^\r\n\\]+{_NEXT}){{0,6}}(?:{_NEXT})?"
        rf"{_BASE64}{{32,}}(?:{_NEXT}{_BASE64}{{16,}})*"
        rf"(?:(?:{_NEXT}{_BASE64}{{1,80}}){{0,2}}{_NEXT}-----END {_KEY_LABEL}"
        rf"|{_NEXT}{_BASE64}{{1,15}}\z)?",
        chars=r"A-Za-z0-9+/=\s\\",
        embedded=True,
    ),
)
"""Masked everywhere. A private key needs a body: the words BEGIN PRIVATE KEY alone are ordinary text; one whose end is
missing is masked as far as its lines go."""

_NAME: Final = (
    "(?:passw(?:or)?d|passphrase|_pwd|secret|token|credential"
    "|(?:api|access|private|secret|auth|encryption|signing)[_-]?key)"
)
_IS: Final = r"""(?:\\*["'])?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}"""
_MASK: Final = MASK.replace("[", r"\[").replace("]", r"\]")
_BARE: Final = rf"""(?:{_MASK}|[^\s"'\\,;&(){{}}\[\]<>])(?:{_MASK}|[^\s"'\\,;&)}}\]])*"""

FUZZY_PAIRS: Final[tuple[FuzzyPair, ...]] = (
    FuzzyPair(
        name="named-bare",
        text=rf"(?i){_NAME}{_IS}({_BARE})",
        key=rf"(?is).*{_NAME}|(?:.*-)?authorization|(?:set-)?cookies?",
    ),
    FuzzyPair(name="named-double-quoted", text=rf"""(?i){_NAME}{_IS}"((?:[^"\\\r\n]|\\[^\r\n])+)"""),
    FuzzyPair(name="named-single-quoted", text=rf"""(?i){_NAME}{_IS}'((?:[^'\\\r\n]|\\[^\r\n])+)"""),
    FuzzyPair(name="named-escaped-quoted", text=rf"""(?i){_NAME}{_IS}\\+["']([^"'\\\r\n]+)"""),
    FuzzyPair(name="option", text=rf"""(?i)--[a-z-]{{0,40}}{_NAME}[ \t]+({_BARE})"""),
    FuzzyPair(
        name="authorization",
        text=rf"""(?i)authorization{_IS}(?:\\*["'])?((?:digest|aws4-hmac-sha256) [^\r\n]+|[^\s"'\\][^\r\n"'\\]*)""",
    ),
    FuzzyPair(name="bearer", text=r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/=-]{16,})"),
    FuzzyPair(name="cookie", text=rf"""(?i)\bcookies?{_IS}(?:\\*["'])?([^\s"'\\{{\[][^\r\n"'\\]*)"""),
    FuzzyPair(name="url-password", text=r"""(?i)[a-z]://[^\s/?#:@"'<>\\]*:([^\s/?#"'<>\\]+)@"""),
    FuzzyPair(name="url-user", text=r"""(?i)https?://([^\s/?#:@"'<>\\]+)@"""),
)
"""Masked where D§3.4 says so: names whose value may be a secret, and the user's part of a URL."""
