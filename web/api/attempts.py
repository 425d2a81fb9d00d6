"""Attempts of a RayJob and what is archived of them, logs apart."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response, StreamingResponse

from archiver.read.views import AttemptView
from web import urls
from web.api.documented import ONE_ERRORS
from web.api.respond import JSON, conditional, is_known, json_answer
from web.deps import CurrentViewer
from web.pages.offline import report
from web.problems import not_found
from web.schemas import Artifacts, Events, Timeline

router = APIRouter(tags=["attempts"])
ZIP = "application/zip"
Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="counts from 1")]


@router.get(urls.ATTEMPT, response_model=AttemptView, responses=ONE_ERRORS)
async def get_attempt(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """One attempt: how it ended and why, whose it was, what it cost, what is archived of it."""
    attempt = await viewer.reader.attempt(viewer.scope, uid, number)
    if attempt is None:
        raise not_found("attempt")
    return json_answer(request, AttemptView, attempt)


@router.get(urls.ARTIFACTS, response_model=Artifacts, responses=ONE_ERRORS)
async def list_artifacts(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """Each piece of evidence, how complete it is, and why it is not."""
    artifacts = await viewer.reader.artifacts(viewer.scope, uid, number)
    if artifacts is None:
        raise not_found("attempt")
    return json_answer(request, Artifacts, Artifacts(artifacts=artifacts))


@router.get(urls.EVENTS, response_model=Events, responses=ONE_ERRORS)
async def list_events(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """Kubernetes Events of the attempt's objects and nodes, repetitions folded, in time order."""
    page = await viewer.reader.events(viewer.scope, uid, number)
    if page is None:
        raise not_found("attempt")
    events = Events(events=page.events, completeness=page.completeness, reason=page.reason, is_bounded=page.is_bounded)
    return json_answer(request, Events, events)


@router.get(urls.TIMELINE, response_model=Timeline, responses=ONE_ERRORS)
async def get_timeline(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """Everything with a time, on one axis."""
    entries = await viewer.reader.timeline(viewer.scope, uid, number)
    if entries is None:
        raise not_found("attempt")
    return json_answer(request, Timeline, Timeline(entries=entries))


@router.get(
    urls.MANIFEST,
    response_class=Response,
    responses={200: {"description": "The commit record", "content": {JSON: {}}}, **ONE_ERRORS},
)
async def get_manifest(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """The commit record as it lies in the bucket."""
    body = await viewer.reader.manifest(viewer.scope, uid, number)
    if body is None:
        raise not_found("manifest")
    return conditional(request, body, JSON)


@router.get(
    urls.BUNDLE,
    response_class=StreamingResponse,
    responses={200: {"description": "A zip, manifest.json first", "content": {ZIP: {}}}, **ONE_ERRORS},
)
async def get_bundle(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """Everything that is archived of the attempt as one zip that needs no server; bundle.json in it ends a whole one."""
    view = await viewer.reader.job(viewer.scope, uid)
    shown = next((attempt for attempt in view.attempts if attempt.number == number), None) if view else None
    found = (
        await viewer.reader.bundle(viewer.scope, uid, number, await report(viewer, view, shown))
        if view and shown
        else None
    )
    if found is None:
        raise not_found("attempt")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.file_name, safe='')}"}
    headers |= (
        {"ETag": f'"{found.version}"', "Cache-Control": "no-cache"} if found.version else {"Cache-Control": "no-store"}
    )
    if found.version and is_known(request, found.version):
        return Response(status_code=304, headers=headers)
    return StreamingResponse(found.chunks, headers=headers, media_type=ZIP)
