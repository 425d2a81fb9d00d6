"""What people say of verdicts: reading it, saying it, all of it as NDJSON, and an attempt as a case file for the rules."""

from collections.abc import AsyncIterator
from typing import Annotated

import yaml
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from archiver.core.people import Feedback
from archiver.read.people import Answer
from web import urls
from web.api.attempts import Number
from web.api.documented import LIST_ERRORS, ONE_ERRORS, SAY_ERRORS
from web.api.respond import conditional, json_answer
from web.contexts import CursorQuery
from web.deps import CurrentViewer, Viewer
from web.origin import require_same_origin
from web.pages.respond import utc_now
from web.problems import not_found
from web.schemas import FeedbackList, Verdict

router = APIRouter(tags=["people"])
NDJSON = "application/x-ndjson"
YAML = "application/yaml"
_PAGE = 500
_FEEDBACK = TypeAdapter(Feedback)


@router.get(urls.FEEDBACK, response_model=FeedbackList, responses=ONE_ERRORS)
async def list_feedback(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """What people said of this attempt's verdict, newest first."""
    if await viewer.reader.attempt(viewer.scope, uid, number) is None:
        raise not_found("attempt")
    said = await viewer.reader.people.feedback(viewer.scope, uid, number)
    return json_answer(request, FeedbackList, FeedbackList(feedback=said))


@router.post(urls.FEEDBACK, response_model=Feedback, status_code=201, responses=SAY_ERRORS)
async def say_feedback(request: Request, viewer: CurrentViewer, uid: str, number: Number, verdict: Verdict) -> Response:
    """Say that the verdict is right or wrong, and what it was. Kept for good, beside the evidence."""
    require_same_origin(request, is_program_allowed=True)
    answer = Answer(verdict.who, verdict.is_right, verdict.should_be, verdict.note)
    said = await viewer.reader.people.answer(viewer.scope, (uid, number), answer, now=utc_now())
    if said is None:
        raise not_found("attempt")
    return json_answer(request, Feedback, said, status_code=201)


@router.get(
    urls.CASE,
    response_class=Response,
    responses={200: {"description": "A case file", "content": {YAML: {}}}, **ONE_ERRORS},
)
async def get_case(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """The attempt's evidence and what people say that it was, in the format of the rules' test cases."""
    case = await viewer.reader.case(viewer.scope, uid, number)
    if case is None:
        raise not_found("attempt")
    body = yaml.safe_dump(case, allow_unicode=True, sort_keys=False, width=120).encode()
    headers = {"Content-Disposition": f'attachment; filename="case-{number}.yaml"'}
    return conditional(request, body, YAML, headers=headers)


@router.get(
    urls.ALL_FEEDBACK,
    response_class=StreamingResponse,
    responses={200: {"description": "One word a line, each with its cursor", "content": {NDJSON: {}}}, **LIST_ERRORS},
)
async def export_feedback(viewer: CurrentViewer, query: Annotated[CursorQuery, Query()]) -> Response:
    """All that people said, oldest first. Go on behind the ``cursor`` of the last line, also tomorrow."""
    lines = _export(viewer, query.cursor)
    first = await anext(lines, b"")
    return StreamingResponse(_chain(first, lines), media_type=NDJSON)


async def _export(viewer: Viewer, cursor: str | None) -> AsyncIterator[bytes]:
    while True:
        page = await viewer.reader.people.all_feedback(viewer.scope, cursor=cursor, size=_PAGE)
        for said, place in page.said:
            yield _FEEDBACK.dump_json(said)[:-1] + b',"cursor":"' + place.encode() + b'"}\n'
            cursor = place
        if page.is_last:
            return


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for line in rest:
        yield line
