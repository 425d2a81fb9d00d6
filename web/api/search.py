"""Search in the logs of many RayJobs, as a stream of JSON lines. Closing the connection ends the search."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from archiver.read.search import SearchEvent
from web import urls
from web.api.documented import SEARCH_ERRORS, Responses
from web.deps import CurrentViewer
from web.search_shapes import SearchQuery, SizeLine, line_of

router = APIRouter(tags=["logs"])
NDJSON = "application/x-ndjson"
_LINES: Responses = {200: {"description": "Lines of type size, hits, progress and, last, end", "content": {NDJSON: {}}}}


@router.get(urls.SEARCH, response_class=StreamingResponse, responses={**_LINES, **SEARCH_ERRORS})
async def search_logs(viewer: CurrentViewer, query: Annotated[SearchQuery, Query()]) -> Response:
    """Lines in the archived logs of a filter's RayJobs, newest first; bounded, and ``page_token`` goes on."""
    size = await viewer.reader.search_size(viewer.scope, query.filter())
    events = viewer.reader.search(viewer.scope, query.request())
    first = await anext(events)  # an error of the question still becomes a proper answer
    return StreamingResponse(_lines(SizeLine.of(size), first, events), media_type=NDJSON)


async def _lines(size: SizeLine, first: SearchEvent, rest: AsyncGenerator[SearchEvent, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield size.model_dump_json().encode() + b"\n"
        yield line_of(first).model_dump_json().encode() + b"\n"
        async for event in rest:
            yield line_of(event).model_dump_json().encode() + b"\n"
