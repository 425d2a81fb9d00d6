"""The pages of groups, causes, teams and nodes: what fails most and costs most. A handler parses, reads, renders."""

from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from archiver.read.views import PageRequest
from web import catalogue
from web.deps import CurrentViewer
from web.pages import groups as group_words
from web.pages import listing, report_words
from web.pages.feedback import leaves
from web.pages.query import ALL, ListQuery
from web.pages.respond import PageRoute, not_found, render, utc_now

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_GROUPS = 25
_EXAMPLES = 10


@router.get("/groups")
async def groups(request: Request, viewer: CurrentViewer) -> Response:
    now = utc_now()
    asked = group_words.parse({name: request.query_params.getlist(name) for name in request.query_params})
    page = await viewer.reader.groups.page(viewer.scope, asked.request(now, _GROUPS), now=now)
    return render("groups", group_words.values(asked, page, now=now))


@router.get("/groups/{fingerprint}")
async def group(fingerprint: str, viewer: CurrentViewer) -> Response:
    now = utc_now()
    view = await viewer.reader.groups.group(viewer.scope, fingerprint, now=now)
    return not_found("group") if view is None else render("group", group_words.group_values(view, now=now))


@router.get("/causes")
async def causes(request: Request, viewer: CurrentViewer) -> Response:
    now, asked = utc_now(), report_words.asked(request.query_params.get("since"))
    counted = await viewer.reader.statistics.count(viewer.scope, asked.filter(now), now=now)
    return render("causes", report_words.cause_values(asked, counted, now=now))


@router.get("/causes/{leaf}")
async def cause(leaf: str, request: Request, viewer: CurrentViewer) -> Response:
    now, asked = utc_now(), report_words.asked(request.query_params.get("since"))
    narrowed = asked.toggled("cause", leaf)
    counted = await viewer.reader.statistics.count(viewer.scope, narrowed.filter(now), now=now)
    view = catalogue.cause_view(counted, leaves(), leaf)
    if view is None:
        return not_found("cause")
    latest = PageRequest(ListQuery((("cause", leaf),), since=ALL).filter(now), _EXAMPLES)
    page = await viewer.reader.jobs(viewer.scope, latest)
    rows = tuple(listing.shown(row) for row in page.rows)
    return render("cause", report_words.one_cause_values(narrowed, view, counted, rows, now=now))


@router.get("/teams")
async def teams(request: Request, viewer: CurrentViewer) -> Response:
    now, asked = utc_now(), report_words.asked(request.query_params.get("since"))
    counted = await viewer.reader.statistics.count(viewer.scope, asked.filter(now), now=now)
    return render("teams", report_words.team_values(asked, counted, now=now))


@router.get("/nodes")
async def nodes(request: Request, viewer: CurrentViewer) -> Response:
    now = utc_now()
    days = report_words.days(request.query_params.get("days"))
    view = await viewer.reader.statistics.nodes(viewer.scope, since=now - timedelta(days=days))
    return render("nodes", report_words.node_values(view, days, now=now))
