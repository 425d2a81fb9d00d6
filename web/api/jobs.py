"""RayJobs: lists, counts, export, one with all its attempts."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from archiver.read.views import FacetsView, JobRow, JobView
from web import urls
from web.api.documented import LIST_ERRORS, ONE_ERRORS
from web.api.respond import json_answer
from web.contexts import ExportQuery, FilterQuery, ListQuery
from web.deps import CurrentViewer, Viewer
from web.problems import not_found
from web.schemas import JobList

router = APIRouter(tags=["jobs"])
NDJSON = "application/x-ndjson"
_ROW = TypeAdapter(JobRow)


@router.get(urls.JOBS, response_model=JobList, responses=LIST_ERRORS)
async def list_jobs(request: Request, viewer: CurrentViewer, query: Annotated[ListQuery, Query()]) -> Response:
    """RayJobs, newest first, one page at a time."""
    page = await viewer.reader.jobs(viewer.scope, query.request())
    return json_answer(request, JobList, JobList.of(page))


@router.get(
    urls.EXPORT,
    response_class=StreamingResponse,
    responses={200: {"description": "One RayJob a line, each with its cursor", "content": {NDJSON: {}}}, **LIST_ERRORS},
)
async def export_jobs(viewer: CurrentViewer, query: Annotated[ExportQuery, Query()]) -> Response:
    """All RayJobs of a filter as NDJSON. A cut export goes on behind the ``cursor`` of its last whole line."""
    lines = _export(viewer, query)
    first = await anext(lines, b"")  # an error of the first page still becomes a proper answer
    return StreamingResponse(_chain(first, lines), media_type=NDJSON)


@router.get(urls.FACETS, response_model=FacetsView, responses=LIST_ERRORS)
async def count_facets(request: Request, viewer: CurrentViewer, query: Annotated[FilterQuery, Query()]) -> Response:
    """How many RayJobs of the filter have which team, cause, namespace and so on; looks at the newest ones only."""
    return json_answer(request, FacetsView, await viewer.reader.facets(viewer.scope, query.filter()))


@router.get(urls.JOB, response_model=JobView, responses=ONE_ERRORS)
async def get_job(request: Request, viewer: CurrentViewer, uid: str) -> Response:
    """One RayJob with all its attempts, by the uid that Kubernetes gave it."""
    job = await viewer.reader.job(viewer.scope, uid)
    if job is None:
        raise not_found("RayJob")
    return json_answer(request, JobView, job)


@router.get(urls.NAMED, response_model=JobView, responses=ONE_ERRORS)
async def get_named_job(request: Request, viewer: CurrentViewer, cluster: str, namespace: str, name: str) -> Response:
    """The newest RayJob of that name; ``same_name`` lists the others that bore it."""
    job = await viewer.reader.job_named(viewer.scope, cluster, namespace, name)
    if job is None:
        raise not_found("RayJob")
    return json_answer(request, JobView, job)


async def _export(viewer: Viewer, query: ExportQuery) -> AsyncIterator[bytes]:
    async for row, cursor in viewer.reader.export(viewer.scope, query.filter(), cursor=query.cursor):
        line = _ROW.dump_json(row)
        yield line[:-1] + b',"cursor":"' + cursor.encode() + b'"}\n'


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for line in rest:
        yield line
