"""Opaque page tokens: a place in a list, bound to the filter it was made for. Not a secret and not a permission.

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

from archiver.core import records
from archiver.errors import DataError, UserError
from archiver.index.filters import JobFilter

_VERSION = 1
_DIGEST_BYTES = 9
MAX_TOKEN_CHARS = 600


class Direction(StrEnum):
    OLDER = "o"
    NEWER = "n"


@dataclass(frozen=True, slots=True)
class Position:
    """Rows strictly older (or newer) than this one. Ties of time are broken by ``uid``."""

    direction: Direction
    at: datetime
    uid: str


def build_token(position: Position, job_filter: JobFilter) -> str:
    at = position.at.astimezone(UTC).isoformat()
    body = json.dumps([_VERSION, position.direction.value, at, position.uid], ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(_digest(body, job_filter) + body).rstrip(b"=").decode()


def parse_token(token: str, job_filter: JobFilter) -> Position:
    """The inverse. Raises UserError where the token is not one of ours or belongs to another filter."""
    try:
        raw = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        digest, body = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        if len(token) > MAX_TOKEN_CHARS or digest != _digest(body, job_filter):
            raise ValueError("wrong digest")
        version, direction, at, uid = json.loads(body)
        if version != _VERSION:
            raise ValueError("another version")
        return Position(Direction(direction), records.parse_time(at), str(uid))
    except (ValueError, TypeError, binascii.Error, DataError) as error:
        raise UserError(
            "the page token does not fit this list: it was altered, or the filter changed. Start from the first page"
        ) from error


def _digest(body: bytes, job_filter: JobFilter) -> bytes:
    bound = json.dumps(records.to_value(job_filter), sort_keys=True).encode()
    return blake2b(len(bound).to_bytes(8, "big") + bound + body, digest_size=_DIGEST_BYTES).digest()
