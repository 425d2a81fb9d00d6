"""Reads what the page of a RayJob needs beside the job itself, and hands its template plain values."""

from datetime import datetime

from archiver.core.timeline import TimelineEntry
from archiver.errors import DataError
from archiver.read import telling
from archiver.read.runs import Difference, OtherRun, Place, SameFailures
from archiver.read.together import all_of, together
from archiver.read.views import AttemptView, Citation, JobView, LogWindow
from archiver.read.windows import Around, Tail, Window
from web.deps import Viewer
from web.pages import answer, axis, status
from web.pages import job as words
from web.pages.feedback import feedback_values


async def job_values(
    viewer: Viewer, view: JobView, shown: AttemptView, *, now: datetime, asked: axis.Asked
) -> dict[str, object]:
    """``asked`` is which part of the timeline to show, and how."""
    uid = view.row.uid
    entries, cited, beside, form = await together(
        viewer.reader.timeline(viewer.scope, uid, shown.number),
        _cited(viewer, uid, shown),
        _beside(viewer, view, shown, now),
        feedback_values(viewer, uid, shown),
    )
    return _values(view, shown) | _course(entries or (), view, shown, asked) | {"cited": cited} | beside | form


def _values(view: JobView, shown: AttemptView) -> dict[str, object]:
    return {
        "row": view.row,
        "attempt": shown,
        "same_name": view.same_name,
        "parts": words.headline_parts(shown),
        "tabs": words.tabs(view, shown),
        "edge": status.EDGES.get(status.mark(shown.status).css, ""),
        "sentence": words.sentence(shown),
        "message": words.message_head(shown),
        "verdict": words.verdict(shown),
        "symptoms": answer.symptoms(view.row.uid, shown),
        "idle": answer.idle(shown),
        "advice": telling.advice(shown) if words.verdict(shown) else (),
        "artifacts": words.sorted_evidence(shown),
        "evidence_parts": words.evidence_summary(shown),
        "facts": words.facts(shown),
        "commands": words.commands(view, shown),
    }


def _course(
    entries: tuple[TimelineEntry, ...], view: JobView, shown: AttemptView, asked: axis.Asked
) -> dict[str, object]:
    span = axis.span_of(entries, asked)
    within = axis.within(entries, span)
    path = f"/jobs/{view.row.uid}/attempts/{shown.number}"
    return {
        "course": words.course(within, whole=asked.is_whole),
        "chart": axis.draw(entries, span, ray_cluster=shown.ray_cluster or ""),
        "is_table_open": asked.is_whole or span is None or span.is_part,
        "zooms": axis.zooms(entries, span, asked, path),
    }


async def _beside(viewer: Viewer, view: JobView, shown: AttemptView, now: datetime) -> dict[str, object]:
    """The attempt beside others: only what did not do its work is compared."""
    good, same = await together(_last_good(viewer, view, shown), _same(viewer, shown, now))
    found = await _changes(viewer, view, shown, good)
    return {
        "good": answer.last_good(good),
        "same": answer.same_failures(same, telling.fingerprint(shown), now),
        "changed": answer.changed(view.row.uid, shown.number, found),
    }


async def _last_good(viewer: Viewer, view: JobView, shown: AttemptView) -> OtherRun | None:
    return None if shown.status == "succeeded" else await viewer.reader.runs.last_good(viewer.scope, view.row)


async def _same(viewer: Viewer, shown: AttemptView, now: datetime) -> SameFailures | None:
    key = telling.fingerprint(shown)
    if key is None or words.verdict(shown) is None:
        return None
    return await viewer.reader.runs.same_failures(viewer.scope, key, now=now)


async def _changes(viewer: Viewer, view: JobView, shown: AttemptView, good: OtherRun | None) -> Difference | None:
    """Against the last good run; without one against the attempt before."""
    other = good or _before(view, shown)
    if other is None:
        return None
    return await viewer.reader.runs.changes(viewer.scope, Place(view.row.uid, shown.number), other)


def _before(view: JobView, shown: AttemptView) -> OtherRun | None:
    earlier = [each for each in view.attempts if each.number < shown.number]
    if not earlier:
        return None
    last = earlier[-1]
    return OtherRun(view.row.uid, last.number, view.row.name, last.status, last.times.ended)


async def _cited(viewer: Viewer, uid: str, shown: AttemptView) -> list[answer.Cited]:
    """The lines that the verdict cites; without a verdict the end of the most telling log."""
    places = answer.citations(shown)
    if places:
        return await all_of(_around(viewer, uid, shown.number, place) for place in places)
    log = telling.telling_log(shown)
    if log is None or not log.lines:
        return []
    window = await _window(viewer, Place(uid, shown.number), log.name, Tail(answer.TAIL_LINES))
    return [answer.tail(uid, shown.number, window)] if window and window.lines else []


async def _around(viewer: Viewer, uid: str, number: int, place: Citation) -> answer.Cited:
    window = None
    if place.artifact is not None and place.line is not None:
        around = Around(place.line, answer.CONTEXT_LINES)
        window = await _window(viewer, Place(uid, number), place.artifact, around)
    return answer.cited(uid, number, place, window)


async def _window(viewer: Viewer, place: Place, artifact: str, wanted: Window) -> LogWindow | None:
    """None also where the log is damaged: the verdict quotes what matters, and the rest of the page stands without it."""
    try:
        return await viewer.reader.log_window(viewer.scope, place.uid, place.number, artifact, wanted)
    except DataError:
        return None
