"""Groups of failures: lists, export, one with all that is known of it, and what people decide of it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from archiver.core.people import GroupDecision
from archiver.read.groups import GroupPage, GroupRequest, GroupRow, GroupView
from archiver.read.people import Choice
from web import urls
from web.api.documented import LIST_ERRORS, ONE_ERRORS, SAY_ERRORS
from web.api.respond import json_answer
from web.contexts import GroupExportQuery, GroupListQuery
from web.deps import CurrentViewer, Viewer
from web.origin import require_same_origin
from web.pages.respond import utc_now
from web.problems import not_found
from web.schemas import Decision, GroupList

router = APIRouter(tags=["groups"])
NDJSON = "application/x-ndjson"
_ROW = TypeAdapter(GroupRow)


@router.get(urls.GROUPS, response_model=GroupList, responses=LIST_ERRORS)
async def list_groups(request: Request, viewer: CurrentViewer, query: Annotated[GroupListQuery, Query()]) -> Response:
    """Failures of the same fingerprint, over jobs and teams, one page at a time."""
    page = await viewer.reader.groups.page(viewer.scope, query.request(), now=utc_now())
    return json_answer(request, GroupList, GroupList(groups=page.rows, next_page_token=page.next_token))


@router.get(
    urls.GROUPS_EXPORT,
    response_class=StreamingResponse,
    responses={200: {"description": "One group a line", "content": {NDJSON: {}}}, **LIST_ERRORS},
)
async def export_groups(viewer: CurrentViewer, query: Annotated[GroupExportQuery, Query()]) -> Response:
    """All groups of a filter as NDJSON. A cut export goes on behind the last ``cursor`` that came."""
    request = query.request()
    first = await viewer.reader.groups.page(viewer.scope, request, now=utc_now())
    return StreamingResponse(_export(viewer, request, first), media_type=NDJSON)


@router.get(urls.GROUP, response_model=GroupView, responses=ONE_ERRORS)
async def get_group(request: Request, viewer: CurrentViewer, fingerprint: str) -> Response:
    """One group over all time: jobs, teams, nodes and images involved, its newest attempts, what was decided."""
    group = await viewer.reader.groups.group(viewer.scope, fingerprint, now=utc_now())
    if group is None:
        raise not_found("group")
    return json_answer(request, GroupView, group)


@router.post(urls.GROUP_DECISIONS, response_model=GroupDecision, status_code=201, responses=SAY_ERRORS)
async def decide_group(request: Request, viewer: CurrentViewer, fingerprint: str, decision: Decision) -> Response:
    """Open it, mute it until it grows, or call it resolved; with a note. Kept for good in the bucket."""
    require_same_origin(request, is_program_allowed=True)
    choice = Choice(decision.who, decision.state, decision.note)
    decided = await viewer.reader.people.decide(viewer.scope, fingerprint, choice, now=utc_now())
    if decided is None:
        raise not_found("group")
    return json_answer(request, GroupDecision, decided, status_code=201)


async def _export(viewer: Viewer, request: GroupRequest, page: GroupPage) -> AsyncIterator[bytes]:
    """The last line of a page has the cursor behind it; the very last line has none."""
    while True:
        lines = [_ROW.dump_json(row) for row in page.rows]
        if lines and page.next_token:
            lines[-1] = lines[-1][:-1] + b',"cursor":"' + page.next_token.encode() + b'"}'
        yield b"".join(line + b"\n" for line in lines)
        if page.next_token is None:
            return
        page = await viewer.reader.groups.page(viewer.scope, replace(request, token=page.next_token), now=utc_now())
