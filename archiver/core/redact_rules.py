"""What a secret looks like in text: one rule for each kind. Not where to look for them (prefilter), nor what to do then."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from archiver.core.secret_names import is_secret_value

MASK_BEGIN = "‹masked:".encode()


@dataclass(frozen=True, slots=True)
class Rule:
    """``trigger`` finds every place where the rule may hit and is cheap to look for: no look-around, no context.

    ``pattern`` decides, on one line or a part of it; the first of ``groups`` that matched is masked. ``literals`` are for
    machines without the multi-pattern scanner: whatever ``trigger`` finds contains one of them in lower case.
    """

    name: str
    trigger: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    groups: tuple[int | str, ...] = (0,)
    judge: Callable[[re.Match[bytes]], bool] | None = None


def mask(rule: str) -> bytes:
    """No secret can look like this, and a search for it finds all of them."""
    return MASK_BEGIN + f"{rule}›".encode()


def _token(name: str, expression: str, *literals: str) -> Rule:
    """A secret that shows by its own form."""
    # the shortest end is enough to look there; a scanner reports every longer one too
    trigger = re.sub(r"\{(\d+),\}(?=[|)]|$)", r"{\1}", expression)
    return Rule(name, trigger, tuple(each.lower().encode() for each in literals), re.compile(expression.encode()))


# A value: in quotes up to the closing one, otherwise up to what cannot belong to it. Backslashes: JSON within JSON.
_VALUE = (
    rb"""(?:\\*"(?P<double>[^"\n\\]{1,4096})\\*"|\\*'(?P<single>[^'\n\\]{1,4096})\\*'"""
    rb"""|(?P<bare>[^\s"'\\,;&<>(){}\[\]|`]{1,4096}+)(?![(\[]))"""
)
_VALUE_GROUPS = ("double", "single", "bare")
_STRONG_WORDS = (
    "password|passwd|passphrase|secret|credentials?|basic[_-]?auth|connection[_-]?string"
    "|(?:api|access|secret|private|account|encryption|signing|shared|auth|ssh|deploy|service|master)[_-]?key"
)
_WORDS = f"{_STRONG_WORDS}|token"
_GIVES = r"\\{0,4}[\"']?\]?[ \t]{0,3}(?::=|=>|[:=])[ \t]{0,3}b?"
_BEGINS = r"(?:\\{0,4}[\"']|[^\s\"'\\,;&<>(){}\[\]|`])"
# "password= -Dhome=x" gives nothing to the name: a blank behind the sign needs one before it, or quotes
_SIGN = rb"""(?:[ \t]{0,3}:[ \t]{0,3}|[ \t]{1,3}(?::=|=>|=)[ \t]{0,3}|(?::=|=>|=)(?:[ \t]{1,3}(?=\\*["']))?)"""
_NAME_BEFORE = re.compile(rb"[A-Za-z0-9_.-]{0,64}\Z")
_ASSIGNMENT = re.compile(rb"(?i)(?:%s)(?P<close>\\*[\"']?\]?)%s(?:b(?=[\"']))?%s" % (_WORDS.encode(), _SIGN, _VALUE))
_FLAG = re.compile(rb"(?i)--[a-z0-9-]{0,40}?(?:%s)[ \t]{1,3}(?!-)%s" % (_WORDS.encode(), _VALUE))


def _judge_assignment(found: re.Match[bytes]) -> bool:
    before = found.string[max(0, found.start() - 64) : found.start()]
    prefix = _NAME_BEFORE.search(before)
    word = re.match(rb"[A-Za-z_-]+", found[0])
    name = (prefix[0] if prefix else b"") + (word[0] if word else b"")
    is_quoted = found["bare"] is None
    value = _value(found)
    if not is_quoted and found["close"] and re.fullmatch(rb"[-+]?[0-9.]+", value):
        return False  # a number in JSON: what stands instead would break it
    return is_secret_value(name.decode(errors="replace"), value.decode(errors="replace"), is_quoted=is_quoted)


def _judge_flag(found: re.Match[bytes]) -> bool:
    name = found[0].split()[0].strip(b"-").decode(errors="replace")
    return is_secret_value(name, _value(found).decode(errors="replace"), is_quoted=found["bare"] is None)


def _value(found: re.Match[bytes]) -> bytes:
    return next((value for value in found.group(*_VALUE_GROUPS) if value is not None), b"")


RULES: tuple[Rule, ...] = (
    _token("aws-key-id", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", "akia", "asia", "abia", "acca"),
    Rule(
        "signed-url",
        r"(?i)(?:X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature|[?&]sig|Signature)=[A-Za-z0-9%+/=_-]{16}",
        (b"signature=", b"security-token=", b"sig="),
        re.compile(
            rb"(?i)(?:X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature|[?&]sig|Signature)=([A-Za-z0-9%+/=_-]{16,})"
        ),
        (1,),
    ),
    Rule(
        "gcp-service-account",
        r"\"private_key(?:_id)?\\*\"\s{0,3}:",
        (b'"private_key',),
        re.compile(rb"\"private_key(?:_id)?\\*\"\s{0,3}:\s{0,3}\\*\"([^\"]{8,8192}?)\\*\""),
        (1,),
    ),
    _token("google-key", r"\b(?:AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,})", "aiza", "ya29."),
    Rule(
        "azure-key",
        r"(?i)(?:AccountKey|SharedAccessKey|SharedAccessSignature)=",
        (b"accountkey=", b"sharedaccess"),
        re.compile(rb"(?i)(?:AccountKey|SharedAccessKey|SharedAccessSignature)=([A-Za-z0-9+/=%&_-]{16,})"),
        (1,),
    ),
    _token("azure-client-secret", r"\b[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}", "8q~"),
    _token("huggingface-token", r"\b(?:hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,})", "hf_", "api_org_"),
    _token("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})", "ghp_", "gho_", "ghu_", "ghs_",
           "ghr_", "github_pat_"),
    _token("gitlab-token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{20,}", "glpat-", "gldt-", "glrt-",
           "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-", "gloas-"),
    _token("slack-token", r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,})", "xox",
           "hooks.slack.com"),
    Rule(
        "sk-token",
        r"\bsk[-_][A-Za-z0-9_-]{20}",
        (b"sk-", b"sk_"),
        # such keys mix cases and digits; names of packages do not
        re.compile(rb"\bsk[-_](?=[A-Za-z_-]*[0-9])(?=[a-z0-9_-]*[A-Z]|[A-Z0-9_-]*[a-z0-9]{24})[A-Za-z0-9_-]{20,}"),
    ),
    _token(
        "vendor-token",
        r"\b(?:npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{50,}|dapi[0-9a-f]{32}|dop_v1_[0-9a-f]{64}|nvapi-[A-Za-z0-9_-]{40,}"
        r"|wandb_v1_[A-Za-z0-9_]{20,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}|r8_[A-Za-z0-9]{37})",
        "npm_", "pypi-age", "dapi", "dop_v1_", "nvapi-", "wandb_v1_", "sg.", "r8_",
    ),
    _token("jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{4,}", "eyj"),
    Rule(
        "authorization",
        r"(?i)authorization\\*[\"']?\s{0,3}[:=]",
        (b"authorization",),
        re.compile(
            rb"(?i)\bauthorization\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?"
            rb"(?:(?:bearer|basic|token|digest|negotiate|aws4-hmac-sha256)\s{1,3}([^\s\"'\\,;]{4,})|([^\s\"'\\,;]{16,}))"
        ),
        (1, 2),
    ),
    Rule(
        "bearer-token",
        r"(?i)\bbearer\s{1,3}[A-Za-z0-9._~+/=-]{16}",
        (b"bearer",),
        re.compile(rb"(?i)\bbearer\s{1,3}(?=[^\s]{0,200}[0-9])([A-Za-z0-9._~+/=-]{16,})"),
        (1,),
    ),
    Rule(
        "url-password",
        r"://[^\s/:@\"']{0,100}:[^\s/@\"']{1,200}@",
        (b"://",),
        re.compile(rb"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:([^\s/@\"']{1,200})@"),
        (1,),
    ),
    Rule(
        "assignment",
        # a token's value has to look like one, but for variables of the environment: see secret_names
        rf"(?i:(?:{_STRONG_WORDS}){_GIVES}{_BEGINS}|token{_GIVES}\\{{0,4}}[\"']?[\w.~+/=:%-]{{16}})|_TOKEN{_GIVES}{_BEGINS}",
        (b"passw", b"passphrase", b"secret", b"token", b"credential", b"auth", b"key", b"string"),
        _ASSIGNMENT,
        _VALUE_GROUPS,
        _judge_assignment,
    ),
    Rule(
        "flag",
        r"(?i)--[a-z0-9-]{0,40}(?:" + _WORDS + r")[ \t]",
        (b"--",),
        _FLAG,
        _VALUE_GROUPS,
        _judge_flag,
    ),
)  # fmt: skip

KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
KEY_TRIGGER = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
KEY_LITERAL = b"private key"
