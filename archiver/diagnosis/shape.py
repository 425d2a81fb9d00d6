"""Tolerant reading of JSON-like values. Not validation: what has the wrong shape reads as absent."""

from collections.abc import Iterator, Mapping

TEXT_LIMIT_CHARS = 1_000_000


def as_map(value: object) -> Mapping[str, object]:
    """The value when it is a mapping, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """A list as it is; a mapping as its values; anything else as nothing."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def as_text(value: object) -> str:
    """Text of a scalar; absent and nested values read as an empty text."""
    if isinstance(value, str):
        return value[:TEXT_LIMIT_CHARS]
    if isinstance(value, bytes):
        return value[:TEXT_LIMIT_CHARS].decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else ""


def as_int(value: object) -> int | None:
    """A whole number, also from its text; anything else is absent."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value[:19])
    return None


def maps(value: object) -> Iterator[Mapping[str, object]]:
    """Each mapping in a list (or among a mapping's values)."""
    for item in as_list(value):
        if isinstance(item, Mapping):
            yield item


def at(value: object, *path: str) -> object:
    """The value below a path of keys, or None."""
    for key in path:
        value = as_map(value).get(key)
    return value


def text_at(value: object, *path: str) -> str:
    """The text below a path of keys, or an empty text."""
    return as_text(at(value, *path))


def first_text(value: object, *keys: str) -> str:
    """The first of several keys that has text."""
    return next((found for key in keys if (found := text_at(value, key))), "")
