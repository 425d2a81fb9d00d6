"""The addresses of the pages. A handler parses, reads, renders; what is shown is decided in the modules beside it."""

import asyncio

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from archiver.read.views import AttemptView, JobView, PageRequest
from web import urls
from web.deps import CurrentViewer, Viewer
from web.pages import export, links, listing, query
from web.pages import health as health_words
from web.pages import log as log_words
from web.pages.job_page import job_values
from web.pages.log_page import log_values
from web.pages.respond import PageRoute, not_found, render, utc_now

ROWS = 50

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/")
async def failures(request: Request, viewer: CurrentViewer) -> Response:
    asked = query.parse({name: request.query_params.getlist(name) for name in request.query_params})
    now = utc_now()
    narrowed, wanted = asked.filter(now, any_status=True), asked.request(now, ROWS)
    page, everything, counted = await asyncio.gather(
        viewer.reader.jobs(viewer.scope, wanted),
        viewer.reader.facets(viewer.scope, narrowed),
        viewer.reader.facets(viewer.scope, wanted.filter),
    )
    return render("list", {"page": "list", "now": now, **listing.values(asked, page, everything, counted, now=now)})


@router.get("/jobs.csv")
async def jobs_csv(request: Request, viewer: CurrentViewer) -> Response:
    asked = query.parse({name: request.query_params.getlist(name) for name in request.query_params})
    wanted = asked.filter(utc_now())
    first = await viewer.reader.jobs(viewer.scope, PageRequest(wanted, export.PAGE))
    rows = export.csv_lines(viewer, wanted, first)
    return StreamingResponse(rows, media_type="text/csv; charset=utf-8", headers=export.HEADERS)


@router.get("/health")
async def health(viewer: CurrentViewer) -> HTMLResponse:
    state = await viewer.reader.health(viewer.scope)
    return render("health", {"page": "health", **health_words.values(state, utc_now())})


@router.get("/jobs/{uid}")
async def job(uid: str, request: Request, viewer: CurrentViewer) -> Response:
    return await _job_page(viewer, request, await viewer.reader.job(viewer.scope, uid), None)


@router.get("/jobs/{uid}/attempts/{number}")
async def attempt(uid: str, number: int, request: Request, viewer: CurrentViewer) -> Response:
    return await _job_page(viewer, request, await viewer.reader.job(viewer.scope, uid), number)


@router.get("/jobs/{uid}/attempts/{number}/logs/{artifact:path}")
async def log(uid: str, number: int, artifact: str, request: Request, viewer: CurrentViewer) -> Response:
    asked = log_words.parse(dict(request.query_params))
    window = asked.window(utc_now())
    view, text = await asyncio.gather(
        viewer.reader.job(viewer.scope, uid),
        viewer.reader.log_window(viewer.scope, uid, number, artifact, window),
    )
    if view is None or text is None:
        return not_found("log")
    return render("log", log_values(view, log_words.LogAddress(uid, number, artifact), asked, text))


@router.get("/{cluster}/{namespace}/{name}")
async def named(cluster: str, namespace: str, name: str, viewer: CurrentViewer) -> Response:
    _leave_to_api(f"{cluster}/{namespace}/")
    view = await viewer.reader.job_named(viewer.scope, cluster, namespace, name)
    return not_found("RayJob") if view is None else RedirectResponse(links.job(view.row.uid), status_code=302)


@router.get("/{path:path}")
async def anything_else(path: str) -> Response:
    _leave_to_api(path)
    return not_found("page")


def _leave_to_api(path: str) -> None:
    """What is not there is a page for people, and a problem document for programs."""
    if f"/{path}".startswith(f"{urls.API}/"):
        raise HTTPException(404, "there is nothing at this address")


async def _job_page(viewer: Viewer, request: Request, view: JobView | None, number: int | None) -> Response:
    shown = _attempt(view, number)
    if view is None or shown is None:
        return not_found("RayJob" if view is None else "attempt")
    whole = request.query_params.get("timeline") == "all"
    return render("job", {"now": utc_now(), **await job_values(viewer, view, shown, whole_timeline=whole)})


def _attempt(view: JobView | None, number: int | None) -> AttemptView | None:
    if view is None or not view.attempts:
        return None
    if number is None:
        return view.newest
    return next((entry for entry in view.attempts if entry.number == number), None)
