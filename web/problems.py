"""Errors as RFC 9457 documents with types that never change. What the user did wrong says what, where and what to do."""

import re
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from archiver.errors import ArchiverError, DataError, UserError
from web.schemas import FieldError, Problem

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:rayjob-archiver:problem:"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of problem. ``name`` is the stable end of its URI."""

    name: str
    status: HTTPStatus
    title: str


NOT_FOUND = Kind("not-found", HTTPStatus.NOT_FOUND, "Not archived")
BAD_REQUEST = Kind("bad-request", HTTPStatus.BAD_REQUEST, "The question makes no sense")
INVALID = Kind("invalid-parameter", HTTPStatus.UNPROCESSABLE_ENTITY, "A parameter is wrong")
FORBIDDEN = Kind("forbidden", HTTPStatus.FORBIDDEN, "Not from here")
TOO_LARGE = Kind("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Too much at once")
RANGE = Kind("range-not-satisfiable", HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "The range lies behind the end")
UNAVAILABLE = Kind("unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "The archive cannot be read right now")
DAMAGED = Kind("damaged-evidence", HTTPStatus.INTERNAL_SERVER_ERROR, "Archived bytes cannot be understood")
INTERNAL = Kind("internal", HTTPStatus.INTERNAL_SERVER_ERROR, "The archiver failed")


class ProblemError(Exception):
    """Raised by a handler to answer with a problem."""

    def __init__(self, kind: Kind, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = headers


def not_found(what: str) -> ProblemError:
    return ProblemError(NOT_FOUND, f"there is no {what} at this address, or you may not see it")


def install(app: FastAPI) -> None:
    """Every error of the application becomes a problem document."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ArchiverError, _on_archiver)
    app.add_exception_handler(Exception, _on_bug)


def answer(
    request: Request,
    kind: Kind,
    detail: str,
    *,
    errors: tuple[FieldError, ...] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The document itself. ``trace_id`` is the caller's, or a new one."""
    body = Problem(
        type=_TYPE + kind.name,
        title=kind.title,
        status=kind.status.value,
        detail=detail,
        instance=request.url.path,
        trace_id=_trace_id(request),
        errors=list(errors),
    )
    content = body.model_dump(mode="json", exclude_none=True)
    return JSONResponse(content, kind.status.value, headers=headers, media_type=MEDIA_TYPE)


async def _on_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return answer(request, error.kind, error.detail, headers=error.headers)


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = tuple(_field_error(each) for each in error.errors())
    named = ", ".join(sorted({each.name for each in errors}))
    return answer(request, INVALID, f"wrong or unknown: {named}", errors=errors)


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    kind = NOT_FOUND if status is HTTPStatus.NOT_FOUND else Kind(_slug(status.phrase), status, status.phrase)
    return answer(request, kind, str(error.detail), headers=dict(error.headers or {}))


async def _on_archiver(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ArchiverError)
    if isinstance(error, UserError):
        return answer(request, BAD_REQUEST, str(error))
    if error.retryable:
        return answer(request, UNAVAILABLE, str(error), headers={"Retry-After": str(RETRY_SECONDS)})
    return answer(request, DAMAGED if isinstance(error, DataError) else INTERNAL, str(error))


async def _on_bug(request: Request, error: Exception) -> JSONResponse:
    """The server logs the traceback under the same trace id; it is never sent."""
    return answer(request, INTERNAL, f"an error that nobody foresaw ({type(error).__name__})")


def _field_error(error: dict[str, Any]) -> FieldError:
    where, *path = error.get("loc", ()) or ("request",)
    return FieldError(
        where=str(where), name=".".join(str(part) for part in path) or str(where), message=str(error.get("msg"))
    )


def _trace_id(request: Request) -> str:
    given = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return given[1] if given else secrets.token_hex(16)


def _slug(phrase: str) -> str:
    return phrase.lower().replace(" ", "-")
