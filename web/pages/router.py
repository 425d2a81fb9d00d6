"""The addresses of the pages. A handler parses, reads, renders; what is shown is decided in the modules beside it."""

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from archiver.read.together import together
from archiver.read.views import AttemptView, JobView, PageRequest
from web import sse, urls
from web.deps import CurrentViewer, Viewer
from web.pages import axis, export, links, listing, overview, query
from web.pages import health as health_words
from web.pages import log as log_words
from web.pages import search as search_words
from web.pages.job_page import job_values
from web.pages.log_page import GO_ON_SECONDS, log_values, mark_values, seek_values
from web.pages.log_tail import tail_events
from web.pages.respond import PageRoute, not_found, render, render_part, utc_now

ROWS = 50

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/")
async def failures(request: Request, viewer: CurrentViewer) -> Response:
    now = utc_now()
    asked, note = await overview.with_range(viewer, _asked(request), now)
    wanted = asked.request(now, ROWS)
    page, counted, numbers = await together(
        viewer.reader.jobs(viewer.scope, wanted),
        viewer.reader.facets(viewer.scope, wanted.filter),
        viewer.reader.statistics.count(viewer.scope, wanted.filter, now=now),
    )
    seen = await viewer.reader.groups.first_seen(viewer.scope, [row.fingerprint or "" for row in page.rows])
    found = listing.Found(page, counted, seen, note, knows_new=numbers.new_kinds is not None)
    listed = listing.values(asked, found, now=now)
    return render("list", {"page": "list", "now": now, **overview.values(asked, numbers, now=now), **listed})


@router.get("/jobs.csv")
async def jobs_csv(request: Request, viewer: CurrentViewer) -> Response:
    wanted = _asked(request).filter(utc_now())
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


@router.get("/search")
async def search(request: Request, viewer: CurrentViewer) -> Response:
    now = utc_now()
    asked = search_words.parse({name: request.query_params.getlist(name) for name in request.query_params}, now)
    return render("search", await search_words.values(viewer, asked, now))


@router.get("/search/stream")
async def search_stream(request: Request, viewer: CurrentViewer) -> Response:
    now = utc_now()
    asked = search_words.parse({name: request.query_params.getlist(name) for name in request.query_params}, now)
    wanted = search_words.check(asked.request(now, search_words.STREAM))
    return sse.answer(search_words.stream(viewer.reader.search(viewer.scope, wanted), asked))


@router.get("/jobs/{uid}/attempts/{number}/logs/{artifact:path}/tail")
async def log_tail(uid: str, number: int, artifact: str, request: Request, viewer: CurrentViewer) -> Response:
    asked, after = log_words.parse(dict(request.query_params)), log_words.line_number(request.query_params, "after")
    parts = await viewer.reader.log_tail(
        viewer.scope, uid, number, artifact, sse.goes_on_after(request, after if after is not None else 0)
    )
    if parts is None:
        return not_found("log")
    return sse.answer(tail_events(parts, log_words.LogAddress(uid, number, artifact), asked))


@router.get("/jobs/{uid}/attempts/{number}/logs/{artifact:path}")
async def log(uid: str, number: int, artifact: str, request: Request, viewer: CurrentViewer) -> Response:
    asked = log_words.parse(dict(request.query_params), request.query_params.getlist("with"))
    address, notice = log_words.LogAddress(uid, number, artifact), ""
    if request.query_params.get("part") == "marks":
        return render_part("marks", await mark_values(viewer, address, asked, seconds=GO_ON_SECONDS))
    if asked.seek:
        line, notice = await seek_values(viewer, address, asked)
        if line is not None:
            return RedirectResponse(address.href(asked.at_line(line)), status_code=303)
    view = await viewer.reader.job(viewer.scope, uid)
    values = await log_values(viewer, view, address, asked, asked.window(utc_now())) if view else None
    return not_found("log") if values is None else render("log", {"notice": notice, **values})


@router.get("/{cluster}/{namespace}/{name}")
async def named(cluster: str, namespace: str, name: str, viewer: CurrentViewer) -> Response:
    _leave_to_api(f"{cluster}/{namespace}/")
    view = await viewer.reader.job_named(viewer.scope, cluster, namespace, name)
    return not_found("RayJob") if view is None else RedirectResponse(links.job(view.row.uid), status_code=302)


@router.get("/{cluster}/{namespace}/{name}/{number:int}")
async def named_attempt(cluster: str, namespace: str, name: str, number: int, viewer: CurrentViewer) -> Response:
    _leave_to_api(f"{cluster}/{namespace}/")
    view = await viewer.reader.job_named(viewer.scope, cluster, namespace, name)
    shown = _attempt(view, number)
    if view is None or shown is None:
        return not_found("RayJob" if view is None else "attempt")
    return RedirectResponse(links.attempt(view.row.uid, shown.number), status_code=302)


@router.get("/{path:path}")
async def anything_else(path: str) -> Response:
    _leave_to_api(path)
    return not_found("page")


def _asked(request: Request) -> query.ListQuery:
    return query.parse({name: request.query_params.getlist(name) for name in request.query_params})


def _leave_to_api(path: str) -> None:
    """What is not there is a page for people, and a problem document for programs."""
    if f"/{path}".startswith(f"{urls.API}/"):
        raise HTTPException(404, "there is nothing at this address")


async def _job_page(viewer: Viewer, request: Request, view: JobView | None, number: int | None) -> Response:
    shown = _attempt(view, number)
    if view is None or shown is None:
        return not_found("RayJob" if view is None else "attempt")
    now = utc_now()
    asked = axis.parse(request.query_params, now)
    return render("job", {"now": now, **await job_values(viewer, view, shown, now=now, asked=asked)})


def _attempt(view: JobView | None, number: int | None) -> AttemptView | None:
    if view is None or not view.attempts:
        return None
    if number is None:
        return view.newest
    return next((entry for entry in view.attempts if entry.number == number), None)
