"""Answers with an ETag, and conditional ones. The ETag is the sha256 of what is sent, so equal answers are equal."""

import re
from functools import cache
from hashlib import sha256
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import TypeAdapter

JSON = "application/json"
_TAG = re.compile(r'(?:W/)?"([^"]*)"')


def json_answer(request: Request, shape: Any, value: object, *, status_code: int = 200) -> Response:
    """``value`` as JSON of its declared shape. What was made just now (201) nobody has already."""
    body = _adapter(shape).dump_json(value)
    return conditional(request, body, JSON) if status_code == 200 else Response(body, status_code, media_type=JSON)


def conditional(request: Request, body: bytes, media_type: str, *, headers: dict[str, str] | None = None) -> Response:
    """The body, or 304 where the caller has it already."""
    tag = sha256(body).hexdigest()
    # answers change with every write to the index: ask again each time, but the bytes need not travel
    always = {"ETag": f'"{tag}"', "Cache-Control": "no-cache", "Vary": "Accept", **(headers or {})}
    if is_known(request, tag):
        return Response(status_code=304, headers=always)
    return Response(body, media_type=media_type, headers=always)


def is_known(request: Request, tag: str) -> bool:
    """Whether If-None-Match names this ETag (weak comparison, as RFC 9110 has it)."""
    given = request.headers.get("if-none-match", "")
    return given.strip() == "*" or tag in _TAG.findall(given)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)
