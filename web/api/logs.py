"""Logs: a window of lines as JSON or text, and the bytes, whole or by range. Text is untrusted: never sniffed, no HTML."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from archiver.read.follow import TailPart
from archiver.read.windows import Lines, RawLog
from web import sse, urls
from web.api.attempts import Number
from web.api.documented import GREP_ERRORS, RANGE_ERRORS
from web.api.ranges import parse_range
from web.api.respond import JSON, conditional, is_known, json_answer
from web.contexts import LogQuery
from web.deps import CurrentViewer, Viewer
from web.finding import GrepQuery, Matches, TailEnd, TailLines, TailQuery
from web.problems import RANGE, ProblemError, not_found
from web.schemas import Line, Window

router = APIRouter(tags=["logs"])
TEXT = "text/plain"
_TEXT_UTF8 = f"{TEXT}; charset=utf-8"
_RAW = {200: {"description": "The text", "content": {TEXT: {}}}, **RANGE_ERRORS}


@router.get(urls.LOG_RAW, response_class=StreamingResponse, responses=_RAW)
async def get_raw_log(
    request: Request,
    viewer: CurrentViewer,
    uid: str,
    number: Number,
    artifact: str,
    download: Annotated[bool, Query(description="as a file to save")] = False,
) -> Response:
    """The archived text, byte for byte; with ``Range`` a part of it."""
    return await _raw(request, viewer, (uid, number, artifact), download=download)


@router.get(urls.LOG_GREP, response_model=Matches, responses=GREP_ERRORS)
async def grep_log(
    request: Request,
    viewer: CurrentViewer,
    uid: str,
    number: Number,
    artifact: str,
    query: Annotated[GrepQuery, Query()],
) -> Response:
    """Lines that match, and how many there are; where a log takes longer than some seconds, go on from next_line."""
    found = await viewer.reader.log_grep(viewer.scope, uid, number, artifact, query.wanted())
    if found is None:
        raise not_found("log")
    return json_answer(request, Matches, Matches.of(found))


@router.get(
    urls.LOG_TAIL,
    response_class=StreamingResponse,
    responses={200: {"description": "Events: lines, open-line, end", "content": {sse.MEDIA_TYPE: {}}}, **GREP_ERRORS},
)
async def tail_log(
    request: Request,
    viewer: CurrentViewer,
    uid: str,
    number: Number,
    artifact: str,
    query: Annotated[TailQuery, Query()],
) -> Response:
    """The log's last lines and then what is written, as server-sent events; Last-Event-ID goes on behind a line."""
    after = sse.goes_on_after(request, query.after)
    parts = await viewer.reader.log_tail(viewer.scope, uid, number, artifact, after)
    if parts is None:
        raise not_found("log")
    return sse.answer(_tail_events(parts))


async def _tail_events(parts: AsyncGenerator[TailPart, None]) -> AsyncIterator[bytes]:
    async with aclosing(parts):
        async for part in parts:
            if part.is_last:
                yield sse.event("end", TailEnd.of(part).model_dump_json())
            elif part.lines:
                yield sse.event("lines", TailLines.of(part).model_dump_json(), id=part.lines[-1].number)
            elif part.open_line:
                yield sse.event("open-line", Line.of(part.open_line).model_dump_json())
            else:
                yield sse.STILL_HERE


@router.get(
    urls.LOG,
    response_model=Window,
    responses={200: {"description": "Lines, or the text", "content": {TEXT: {}}}, **RANGE_ERRORS},
)
async def get_log(
    request: Request,
    viewer: CurrentViewer,
    uid: str,
    number: Number,
    artifact: str,
    query: Annotated[LogQuery, Query()],
) -> Response:
    """A window of lines, as JSON or (by ``Accept``) as text. As text without a window, or with ``Range``: the bytes."""
    window, as_text = query.window(), _wants_text(request)
    if "range" in request.headers or (as_text and window is None):
        return await _raw(request, viewer, (uid, number, artifact), download=False)
    found = await viewer.reader.log_window(viewer.scope, uid, number, artifact, window or Lines())
    if found is None:
        raise not_found("log")
    if as_text:
        return conditional(request, b"".join(line.data + b"\n" for line in found.lines), _TEXT_UTF8)
    return json_answer(request, Window, Window.of(found))


async def _raw(request: Request, viewer: Viewer, where: tuple[str, int, str], *, download: bool) -> Response:
    asked = parse_range(request.headers.get("range"))
    raw = await viewer.reader.log_raw(viewer.scope, *where, asked)
    if raw is not None and asked is not None and not _is_same(request, raw):
        asked, raw = None, await viewer.reader.log_raw(viewer.scope, *where)
    if raw is None:
        raise not_found("log")
    headers = _headers(raw, download=download)
    if raw.artifact.sha256 and is_known(request, raw.artifact.sha256):
        return Response(status_code=304, headers=headers)
    if not raw.is_satisfiable:
        detail = f"the log has {raw.total_bytes} bytes"
        raise ProblemError(RANGE, detail, headers={"Content-Range": f"bytes */{raw.total_bytes}"})
    headers["Content-Length"] = str(raw.length_bytes)
    if asked is not None:
        headers["Content-Range"] = f"bytes {raw.start}-{raw.start + raw.length_bytes - 1}/{raw.total_bytes}"
    status = 200 if asked is None else 206
    return StreamingResponse(raw.chunks, status, headers=headers, media_type=_TEXT_UTF8)


def _headers(raw: RawLog, *, download: bool) -> dict[str, str]:
    """A sealed log never changes; one that grows must not be kept."""
    name = raw.artifact.name.rpartition("/")[2]
    kind = "attachment" if download else "inline"
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"{kind}; filename*=UTF-8''{quote(name, safe='')}",
        "Cache-Control": "no-store" if raw.artifact.live else "no-cache",
    }
    if raw.artifact.sha256:
        headers["ETag"] = f'"{raw.artifact.sha256}"'
    return headers


def _is_same(request: Request, raw: RawLog) -> bool:
    """If-Range asks for a part only of what the caller has begun with; of anything else the whole is sent."""
    condition = request.headers.get("if-range")
    return condition is None or (raw.artifact.sha256 != "" and condition.strip() == f'"{raw.artifact.sha256}"')


def _wants_text(request: Request) -> bool:
    accepted = request.headers.get("accept", "*/*").lower()
    return TEXT in accepted and JSON not in accepted
