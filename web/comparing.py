"""Which attempt an address asks to compare with: the same choice for the page and for REST."""

import re
from dataclasses import replace

from archiver.errors import UserError
from archiver.read.runs import Difference, Place
from archiver.read.views import JobView
from web.deps import Viewer

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def parse_other(text: str | None, uid: str) -> Place | None:
    """``3`` is another attempt of the same RayJob, ``<uid>/2`` one of another; None where nothing was asked for."""
    if not text or text == "last-good":
        return None
    before, slash, number = text.rpartition("/")
    if not _NUMBER.fullmatch(number) or (slash and not before):
        raise UserError(f"with={text[:100]!r} names no attempt: write 2, UID/2 or last-good")
    return Place(before or uid, int(number))


async def compared(viewer: Viewer, view: JobView, number: int, wanted: Place | None) -> Difference | None:
    """With the wanted attempt, else the last good run, else the attempt before. None where there is no such one."""
    runs, place = viewer.reader.runs, Place(view.row.uid, number)
    good = await runs.last_good(viewer.scope, view.row)
    if wanted is None and good is not None:
        return await runs.difference(viewer.scope, place, good)
    earlier = [attempt.number for attempt in view.attempts if attempt.number < number]
    target = wanted or (Place(view.row.uid, earlier[-1]) if earlier else None)
    other = await runs.describe(viewer.scope, target) if target else None
    if other is None:
        return None
    is_good = good is not None and (good.uid, good.number) == (other.uid, other.number)
    return await runs.difference(viewer.scope, place, replace(other, is_last_good=is_good))
