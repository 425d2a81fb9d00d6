"""The page of what sets an attempt apart from another one: its address, its choices, its words."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response

from archiver.read.runs import Difference, OtherRun
from archiver.read.views import JobView
from web.comparing import compared, parse_other
from web.deps import CurrentViewer
from web.pages import answer, links
from web.pages.respond import PageRoute, not_found, render, utc_now

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Side:
    """An attempt to compare with."""

    label: str
    href: str
    is_current: bool


@router.get("/jobs/{uid}/attempts/{number:int}/difference")
async def difference(uid: str, number: int, request: Request, viewer: CurrentViewer) -> Response:
    view = await viewer.reader.job(viewer.scope, uid)
    if view is None or all(attempt.number != number for attempt in view.attempts):
        return not_found("attempt")
    wanted = parse_other(request.query_params.get("with"), uid)
    found = await compared(viewer, view, number, wanted)
    if found is None and wanted is not None:
        return not_found("attempt")
    good = await viewer.reader.runs.last_good(viewer.scope, view.row)
    return render("difference", {"now": utc_now(), **_values(view, number, found, good)})


def _values(view: JobView, number: int, found: Difference | None, good: OtherRun | None) -> dict[str, object]:
    return {
        "row": view.row,
        "number": number,
        "found": found,
        "headline": _headline(found),
        "choices": _choices(view, number, found, good),
        "nothing": "There is no other run of this job to compare with: no success before it, and no other attempt.",
    }


def _headline(found: Difference | None) -> str:
    if found is None:
        return "Nothing to compare with"
    names = answer.named(found.changes)
    return f"What differs: {' · '.join(names)}" if names else "Nothing differs in spec, image, nodes or versions"


def _choices(view: JobView, number: int, found: Difference | None, good: OtherRun | None) -> tuple[Side, ...]:
    current = (found.other.uid, found.other.number) if found else None
    others = [attempt for attempt in view.attempts if attempt.number != number]
    sides = [(f"attempt {each.number}", OtherRun(view.row.uid, each.number, "", "", None)) for each in others]
    if good is not None:
        sides.insert(0, ("the last good run", good))
    return tuple(
        Side(label, links.difference(view.row.uid, number, other), (other.uid, other.number) == current)
        for label, other in sides
    )
