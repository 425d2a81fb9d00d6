"""A key that groups failures of the same kind, and the affected thing as a key of its own. Not an identity."""

import hashlib
import re
from dataclasses import dataclass

from archiver.diagnosis.traceback import Frame, Trace

VERSION = 1
FRAMES = 5
MESSAGE_CHARS = 300
_MASKS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)]+", "<url>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
        (r"(?<![\w/])(?:/[\w.@%+=:,~-]+)+/?", "<path>"),
        (r"\b0x[0-9a-fA-F]+\b", "<hex>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*Z?\b", "<time>"),
        (r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", "<hex>"),
        (r"\b(?=[a-z0-9-]*\d)[a-z0-9]+(?:-[a-z0-9]+){2,}\b", "<name>"),
        (r"\d+", "<n>"),
    )
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The key and what it was made of. `used` names the parts in the order of trust."""

    key: str
    used: tuple[str, ...]
    entity: str = ""
    version: int = VERSION


def mask_message(text: str) -> str:
    """The first line with ids, numbers, addresses, paths and uuids replaced by their kind."""
    line = text.strip().partition("\n")[0][:MESSAGE_CHARS]
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def fingerprint(leaf: str, text: str, trace: Trace | None, entity: str = "") -> Fingerprint:
    """From the leaf and the root's traceback where there is one, otherwise from the decisive line."""
    parts: list[tuple[str, str]] = [("leaf", leaf)]
    if trace is not None:
        parts.append(("exception", trace.root.type))
        if trace.app_frames:
            parts.append(("frames", "|".join(_frame(frame) for frame in trace.app_frames[-FRAMES:])))
        parts.append(("message", mask_message(trace.root.message)))
    elif text:
        parts.append(("message", mask_message(text)))
    digest = hashlib.sha256("\x00".join(f"{name}={value}" for name, value in parts).encode()).hexdigest()
    return Fingerprint(f"v{VERSION}-{digest[:16]}", tuple(name for name, _value in parts), entity)


def _frame(frame: Frame) -> str:
    """Module and function without the line number: a comment above must not make a new group."""
    return f"{frame.file.rpartition('/')[2].removesuffix('.py')}:{frame.function}"
