"""What fails most and costs most: over time, by cause, by team, by node."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from archiver.read.statistics import NodesView, Statistics
from web import catalogue, urls
from web.api.documented import LIST_ERRORS, ONE_ERRORS
from web.api.respond import json_answer
from web.contexts import FilterQuery, NodesQuery
from web.deps import CurrentViewer
from web.pages.feedback import leaves
from web.pages.respond import utc_now
from web.problems import not_found
from web.schemas import Causes, Teams

router = APIRouter(tags=["statistics"])


@router.get(urls.STATS, response_model=Statistics, responses=LIST_ERRORS)
async def get_statistics(request: Request, viewer: CurrentViewer, query: Annotated[FilterQuery, Query()]) -> Response:
    """How many attempts of the filter failed, when, of what, whose, and what it cost. ``status`` is left aside."""
    found = await viewer.reader.statistics.count(viewer.scope, query.filter(), now=utc_now())
    return json_answer(request, Statistics, found)


@router.get(urls.CAUSES, response_model=Causes, responses=LIST_ERRORS)
async def list_causes(request: Request, viewer: CurrentViewer, query: Annotated[FilterQuery, Query()]) -> Response:
    """Every cause with what it is and what it cost, dearest first."""
    found = await viewer.reader.statistics.count(viewer.scope, query.filter(), now=utc_now())
    return json_answer(request, Causes, Causes(causes=catalogue.cause_views(found, leaves())))


@router.get(urls.CAUSE, response_model=catalogue.CauseView, responses=ONE_ERRORS)
async def get_cause(
    request: Request, viewer: CurrentViewer, leaf: str, query: Annotated[FilterQuery, Query()]
) -> Response:
    """One cause: what it is, what to do, what it cost."""
    found = await viewer.reader.statistics.count(viewer.scope, query.filter(), now=utc_now())
    view = catalogue.cause_view(found, leaves(), leaf)
    if view is None:
        raise not_found("cause")
    return json_answer(request, catalogue.CauseView, view)


@router.get(urls.TEAMS, response_model=Teams, responses=LIST_ERRORS)
async def list_teams(request: Request, viewer: CurrentViewer, query: Annotated[FilterQuery, Query()]) -> Response:
    """Every team with what failed and what it cost, dearest first."""
    found = await viewer.reader.statistics.count(viewer.scope, query.filter(), now=utc_now())
    return json_answer(request, Teams, Teams(teams=found.teams))


@router.get(urls.NODES, response_model=NodesView, responses=LIST_ERRORS)
async def list_nodes(request: Request, viewer: CurrentViewer, query: Annotated[NodesQuery, Query()]) -> Response:
    """Every node that attempts of the last days used: what failed there, and what chance would give."""
    since = utc_now().replace(minute=0, second=0, microsecond=0) - timedelta(days=query.days)
    return json_answer(request, NodesView, await viewer.reader.statistics.nodes(viewer.scope, since=since))
