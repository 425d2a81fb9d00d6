"""What was found out about an attempt: its verdicts, and what sets it apart from another attempt."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from archiver.read.runs import Difference
from web import urls
from web.api.attempts import Number
from web.api.documented import LIST_ERRORS, ONE_ERRORS
from web.api.respond import json_answer
from web.comparing import compared, parse_other
from web.deps import CurrentViewer
from web.problems import not_found
from web.schemas import Verdicts

router = APIRouter(tags=["attempts"])
With = Annotated[
    str | None,
    Query(
        alias="with",
        max_length=300,
        pattern=r"^(last-good|([^/\x00]+/)?[1-9][0-9]{0,8})$",
        description="2, UID/2 or last-good",
    ),
]


@router.get(urls.VERDICTS, response_model=Verdicts, responses=ONE_ERRORS)
async def list_verdicts(request: Request, viewer: CurrentViewer, uid: str, number: Number) -> Response:
    """Every verdict that was ever given of this attempt, one a ruleset, newest first; as the diagnosis wrote it."""
    found = await viewer.reader.verdicts(viewer.scope, uid, number)
    if found is None:
        raise not_found("attempt")
    return json_answer(request, Verdicts, Verdicts(verdicts=found))


@router.get(urls.DIFFERENCE, response_model=Difference, responses={**LIST_ERRORS, **ONE_ERRORS})
async def get_difference(
    request: Request, viewer: CurrentViewer, uid: str, number: Number, other: With = None
) -> Response:
    """What differs from another attempt: the wanted one, else the last good run, else the attempt before."""
    view = await viewer.reader.job(viewer.scope, uid)
    if view is None or all(attempt.number != number for attempt in view.attempts):
        raise not_found("attempt")
    found = await compared(viewer, view, number, parse_other(other, uid))
    if found is None:
        raise not_found("attempt to compare with")
    return json_answer(request, Difference, found)
