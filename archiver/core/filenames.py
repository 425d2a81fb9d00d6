"""Names of files that every system can hold, Windows included: no two of a folder differ by case alone."""

import re
from collections.abc import Iterable
from hashlib import sha256

COMPONENT_CHARS = 100
_FORBIDDEN = re.compile(r'[<>:"\\|?*\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
_DEVICE = re.compile(r"(?i)(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\.|$)")


def safe_path(name: str) -> str:
    """A relative path that stays in its folder, whatever the name says."""
    parts = [_component(part) for part in name.split("/") if part not in ("", ".", "..")]
    return "/".join(parts) or "unnamed"


def safe_paths(names: Iterable[str], *, taken: Iterable[str] = ()) -> dict[str, str]:
    """A path of its own for each name, in their order; the second of two that look alike gets a number."""
    used = {path.casefold() for path in taken}
    found: dict[str, str] = {}
    for name in names:
        path = wanted = safe_path(name)
        number = 1
        while path.casefold() in used:
            number += 1
            head, dot, end = wanted.rpartition(".")
            path = f"{head}~{number}.{end}" if dot and "/" not in end else f"{wanted}~{number}"
        used.add(path.casefold())
        found[name] = path
    return found


def _component(part: str) -> str:
    safe = _FORBIDDEN.sub("_", part).rstrip(". ") or "_"
    if _DEVICE.match(safe):
        safe = f"_{safe}"
    if len(safe) <= COMPONENT_CHARS:
        return safe
    digest = sha256(part.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{safe[: COMPONENT_CHARS - 30]}~{digest}{safe[-12:].lstrip('. ')}"
