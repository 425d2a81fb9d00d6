"""Where the forms under a verdict and on a group are sent. Answers with the page that they came from."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from archiver.core.people import GroupState
from archiver.errors import UserError
from archiver.read.people import Choice
from web.deps import CurrentViewer
from web.origin import read_form, require_same_origin
from web.pages import links
from web.pages.feedback import answer_of
from web.pages.respond import PageRoute, not_found, utc_now

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_SEE_OTHER = 303


@router.post("/jobs/{uid}/attempts/{number}/feedback")
async def feedback(uid: str, number: int, request: Request, viewer: CurrentViewer) -> Response:
    require_same_origin(request, is_program_allowed=False)
    answer = answer_of(await read_form(request))
    said = await viewer.reader.people.answer(viewer.scope, (uid, number), answer, now=utc_now())
    return not_found("attempt") if said is None else RedirectResponse(links.attempt(uid, number), _SEE_OTHER)


@router.post("/groups/{fingerprint}/state")
async def decide(fingerprint: str, request: Request, viewer: CurrentViewer) -> Response:
    require_same_origin(request, is_program_allowed=False)
    fields = await read_form(request)
    choice = Choice(fields.get("who", ""), _state(fields.get("state", "")), fields.get("note", ""))
    decided = await viewer.reader.people.decide(viewer.scope, fingerprint, choice, now=utc_now())
    return not_found("group") if decided is None else RedirectResponse(links.group(fingerprint), _SEE_OTHER)


def _state(word: str) -> GroupState:
    try:
        return GroupState(word)
    except ValueError as error:
        raise UserError(f"a group is open, muted or resolved, not {word!r}") from error
