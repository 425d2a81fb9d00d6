"""Masks secrets in what a recording keeps: in log text as the archive does, in documents by value and by name."""

import re
from typing import Any

from archiver.core.lines import arrived
from archiver.core.redact import Redactor

MASK = "‹masked:named-secret›"
_SECRET_NAME = re.compile(r"(?i)token|secret|passw|credential|private|api[-_]?key|access[-_]?key")


def masked_bytes(data: bytes) -> bytes:
    """A whole text at once."""
    redactor = Redactor()
    pieces = (redactor.feed(arrived(data, 0)), redactor.flush())
    return b"".join(piece.text for piece in pieces if piece)


def masked_document(value: Any) -> Any:
    """A JSON value without secrets: those that look like one, and those that are called one in an environment."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
            value = _masked_variable(value)
        return {name: _masked_member(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [masked_document(item) for item in value]
    if isinstance(value, str) and value:
        return masked_bytes(value.encode(errors="surrogatepass")).decode(errors="replace")
    return value


def _masked_variable(variable: dict[str, Any]) -> dict[str, Any]:
    return {**variable, "value": MASK} if _SECRET_NAME.search(variable["name"]) else variable


def _masked_member(name: str, item: Any) -> Any:
    if name == "env_vars" and isinstance(item, dict):
        return {key: MASK if _SECRET_NAME.search(key) else masked_document(text) for key, text in item.items()}
    return masked_document(item)
