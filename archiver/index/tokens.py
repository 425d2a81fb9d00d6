"""Opaque page tokens: a place in a list, bound to the question it was made for. Not a secret and not a permission.

A token carries the sort position, never an offset. Its digest catches what was altered by hand or cut by a mail
program; the scope is applied to every page anew, so a token of somebody else opens nothing.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from archiver.core import records
from archiver.errors import DataError, UserError

_VERSION = 2
_DIGEST_BYTES = 9
MAX_TOKEN_CHARS = 600
_REFUSED = "the page token does not fit this list: it was altered, or the filter changed. Start from the first page"


class Direction(StrEnum):
    OLDER = "o"
    NEWER = "n"


@dataclass(frozen=True, slots=True)
class Position:
    """Rows strictly older (or newer) than this one. Ties of time are broken by ``uid``.

    In a list by cost, older is cheaper: ``cost`` takes the place of the time.
    """

    direction: Direction
    at: datetime
    uid: str
    cost: float = 0.0


def build_token(position: Position, question: object) -> str:
    """``question`` is the filter, or whatever else the list was asked for: a record or a plain value."""
    return seal(
        [position.direction.value, position.at.astimezone(UTC).isoformat(), position.uid, position.cost], question
    )


def parse_token(token: str, question: object) -> Position:
    """The inverse. Raises UserError where the token is not one of ours or belongs to another question."""
    direction, at, uid, cost = unseal(token, question, 4)
    try:
        return Position(Direction(direction), records.parse_time(at), str(uid), float(cost))
    except (ValueError, TypeError, DataError) as error:
        raise UserError(_REFUSED) from error


def seal(place: list[str | int | float], question: object) -> str:
    """Any place in a list, as text for an address."""
    body = json.dumps([_VERSION, *place], ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(_digest(body, question) + body).rstrip(b"=").decode()


def unseal(token: str, question: object, size: int) -> list[Any]:
    """The inverse: so many values. Raises UserError."""
    try:
        raw = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        digest, body = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        if len(token) > MAX_TOKEN_CHARS or digest != _digest(body, question):
            raise ValueError("wrong digest")
        version, *place = json.loads(body)
        if version != _VERSION or len(place) != size:
            raise ValueError("another version")
        return list(place)
    except (ValueError, TypeError, binascii.Error) as error:
        raise UserError(_REFUSED) from error


def _digest(body: bytes, question: object) -> bytes:
    bound = json.dumps(records.to_value(question), sort_keys=True).encode()
    return blake2b(len(bound).to_bytes(8, "big") + bound + body, digest_size=_DIGEST_BYTES).digest()
