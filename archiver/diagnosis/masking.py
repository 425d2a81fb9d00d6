"""Hides secrets in what a verdict cites. A last fence: the archive masks what it stores before."""

import re

MASK = "<masked>"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\b(?:hf|ghp|gho|ghs|glpat|xox[abpr]|sk|pk|npm|pypi)[_-][A-Za-z0-9_-]{16,}",
        r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}",
        r"(?i)(?<=bearer )[\w.~+/=-]{8,}",
        r"(?i)(?<=basic )[\w+/=]{12,}",
        r"""(?ix)(?:(?<=password)|(?<=passwd)|(?<=secret)|(?<=token)|(?<=api_key)|(?<=apikey)|(?<=access_key)|(?<=private_key))
        ["']?\s*[=:]\s*["']?(?!\s)[^\s"',;&]{6,}""",
    )
)


def mask(text: str) -> str:
    """The text with everything that looks like a credential replaced."""
    for pattern in _PATTERNS:
        text = pattern.sub(MASK, text)
    return text
