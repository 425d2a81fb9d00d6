"""What a secret looks like: one rule for each kind, with a literal that every hit of it contains."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """``group`` of a match is masked; ``literals`` are what a text must contain one of, in lower case."""

    name: str
    pattern: re.Pattern[bytes]
    literals: tuple[bytes, ...]
    group: int = 0

    @property
    def mask(self) -> bytes:
        """What stands in the text instead."""
        return f"‹masked:{self.name}›".encode()

    def may_hit(self, text: bytes) -> bool:
        """Cheap and never wrong with a no."""
        return any(literal in text for literal in self.literals)


KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----")
KEY_END = re.compile(rb"-----END [A-Z ]*PRIVATE KEY( BLOCK)?-----")
KEY_LINE = re.compile(rb"[A-Za-z0-9+/=:, -]*")

RULES = (
    Rule("aws-key-id", re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), (b"AKIA", b"ASIA")),
    Rule("huggingface-token", re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b"), (b"hf_",)),
    Rule("url-password", re.compile(rb"\b[a-z][a-z0-9+.-]*://[^\s/:@]{0,200}:([^\s/@]{1,200})@"), (b"://",), 1),
)
