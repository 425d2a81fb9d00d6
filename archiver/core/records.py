"""Frozen dataclasses to plain JSON values and back. Reads what a newer schema wrote: unknown keys are left out.

Times are RFC 3339 in UTC with a ``Z``. Only the types that our records use are known; anything else is a DataError.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from archiver.errors import DataError


def to_value(record: Any) -> Any:
    """A JSON value. Tuples become lists, datetimes text."""
    kind: type = type(record)
    return _converter(kind)(record)


@cache
def _converter(kind: type) -> Callable[[Any], Any]:
    """How values of a type are turned; found out once a type, because manifests have thousands of values."""
    if issubclass(kind, datetime):
        return format_time
    if issubclass(kind, date):
        return kind.isoformat
    if issubclass(kind, Enum):
        return lambda record: record.value
    if issubclass(kind, Mapping):
        return lambda record: {str(key): to_value(value) for key, value in record.items()}
    if issubclass(kind, (list, tuple)):
        return lambda record: [to_value(item) for item in record]
    if is_dataclass(kind):
        names = tuple(each.name for each in fields(kind))
        return lambda record: {name: to_value(getattr(record, name)) for name in names}
    return lambda record: record


def from_value(wanted: Any, value: Any) -> Any:
    """The inverse of ``to_value`` for a type. Raises DataError where the value does not fit."""
    if wanted is Any:
        return value
    if is_dataclass(wanted) and isinstance(wanted, type):
        return _record(wanted, value)
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return _optional(wanted, value)
    if origin is tuple:
        return tuple(from_value(get_args(wanted)[0], item) for item in _expect(list, value))
    if origin is not None:
        item = get_args(wanted)[1]
        return {key: from_value(item, each) for key, each in _expect(dict, value).items()}
    return _plain(wanted, value)


def format_time(moment: datetime) -> str:
    """RFC 3339, UTC, as many digits as needed."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """A moment in UTC. Raises DataError."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise DataError(f"not a time: {text!r}") from error
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _record(wanted: type, value: Any) -> Any:
    given = _expect(dict, value)
    known: dict[str, Any] = {}
    for name, (hint, is_needed) in _shape(wanted).items():
        if name in given:
            known[name] = from_value(hint, given[name])
        elif is_needed:
            raise DataError(f"{wanted.__name__} lacks {name!r}")
    return wanted(**known)


@cache
def _shape(wanted: type) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(wanted)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(wanted)
    }


def _optional(wanted: Any, value: Any) -> Any:
    if value is None:
        return None
    inner = next(arm for arm in get_args(wanted) if arm is not types.NoneType)
    return from_value(inner, value)


def _plain(wanted: Any, value: Any) -> Any:
    if wanted is datetime:
        return parse_time(value)
    if wanted is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        try:
            return wanted(value)
        except ValueError as error:
            raise DataError(f"{value!r} is no {wanted.__name__}") from error
    return _expect(wanted, value)


def _expect(wanted: Any, value: Any) -> Any:
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise DataError(f"expected {wanted.__name__}, got {type(value).__name__}")
    return value
