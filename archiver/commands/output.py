"""Tables, JSON and YAML on standard output. What comes from the archive can never act on the terminal."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import click
import yaml

from archiver.core.ansi import plain

FORMATS = ("table", "wide", "json", "yaml", "name")


def document(value: object, form: str) -> str:
    """A value of the read side as JSON or YAML, with field names as in the REST API."""
    tree = tree_of(value)
    if form == "yaml":
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120)
    return json.dumps(tree, indent=2) + "\n"


def json_line(value: object) -> str:
    """One JSON document on one line."""
    return json.dumps(tree_of(value)) + "\n"


def tree_of(value: object) -> Any:
    """Dataclasses, enums and times as plain JSON values; bytes as text with their wrong bytes replaced."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: tree_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): tree_of(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [tree_of(entry) for entry in value]
    return _leaf(value)


def _leaf(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, headers: bool = True) -> str:
    """Columns as wide as their widest cell, the last one as it is. Cells are made harmless."""
    cells = [[harmless(cell) for cell in row] for row in rows]
    lines = [list(head), *cells] if headers else cells
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    return "   ".join([*padded, cells[-1]]).rstrip() + "\n"


def harmless(text: str) -> str:
    """One line of text without anything that a terminal would obey."""
    return plain(text.replace("\t", " ").replace("\n", " "))


def echo(text: str) -> None:
    click.echo(text, nl=False)


def note(text: str) -> None:
    """For the person, not for the pipe."""
    click.echo(harmless(text), err=True)


def age(moment: datetime | None, now: datetime) -> str:
    """``12m``, as kubectl says it."""
    if moment is None:
        return ""
    return _short(max(now - moment, timedelta(0)).total_seconds())


def span(seconds: float | None) -> str:
    return "" if seconds is None else _short(seconds)


def _short(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m{whole % 60:02}s" if whole < 600 else f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 172_800 else f"{whole // 86_400}d"


def size(count: int) -> str:
    """Bytes in the unit that fits."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def utc(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z" if moment else ""
