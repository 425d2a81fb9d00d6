"""Which names promise a secret, and which values keep the promise. ``eos_token`` and ``max_tokens`` do not."""

import re

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[_\-.\s]+")
_STRONG = re.compile(
    r"(?:password|passwd|passphrase|secret|credentials?"
    r"|(?:api|access|secret|private|account|encryption|signing|shared|auth|ssh|deploy|service|master)_?key"
    r"|basic_?auth|secret_key_base|connection_?string|dockerconfigjson)$"
)
_TOKEN = re.compile(r"token$")
# tokens of language models and of lexers; pages of an API are no secrets either
_HARMLESS = re.compile(
    r"(?:^|_)(?:eos|bos|pad|unk|sep|cls|mask|stop|next|first|last|image|video|audio|per|special|start|end|begin|prompt|output"
    r"|input|new|continue|continuation|page|added|think|extra|decoder|sync|syntax|invalid|unexpected|unknown)_token$"
)
_PLACEHOLDER = re.compile(
    r"(?i)(?:none|null|nil|true|false|undefined|optional|str|string|bytes|int|any|secretstr|required|missing|unset|empty|set"
    r"|redacted|hidden|masked|\*+|x{3,}|\.{3,}|-+|\$\{?\w*\}?|\$\(.*|%\(?\w*\)?s|\{.*|<.*|‹.*|«.*)[.:!]?"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_]+)*\.?")
_RANDOM_LENGTH = 16


def is_secret_name(name: str) -> bool:
    """The name of a field or variable whose value is masked whatever it is."""
    return _kind(name) == "strong"


def is_secret_value(name: str, value: str, *, is_quoted: bool = True) -> bool:
    """Whether a value that was given to a name is a secret.

    In code (not quoted) an identifier is no secret: ``password=self.password``. A token must look like one.
    """
    kind = _kind(name)
    if not kind or not value.strip() or _PLACEHOLDER.fullmatch(value.strip()):
        return False
    if kind == "token":
        return looks_random(value)
    return is_quoted or not _is_code(value)


def looks_random(value: str) -> bool:
    """Long, without spaces, letters and digits mixed."""
    text = value.strip()
    has_both = any(each.isdigit() for each in text) and any(each.isalpha() for each in text)
    return len(text) >= _RANDOM_LENGTH and has_both and re.fullmatch(r"[\w.~+/=:%-]+", text) is not None


def _is_code(value: str) -> bool:
    if not _IDENTIFIER.fullmatch(value):
        return False
    return "." in value.rstrip(".") or _kind(value.rstrip(".")) != ""


def _kind(name: str) -> str:
    normal = _WORD.sub("_", _CAMEL.sub("_", name)).lower().strip("_")
    if _STRONG.search(normal):
        return "strong"
    if not _TOKEN.search(normal) or _HARMLESS.search(normal):
        return ""
    # HF_TOKEN, RAY_AUTH_TOKEN: a variable of the environment
    return "strong" if name.isupper() and "_" in name else "token"
