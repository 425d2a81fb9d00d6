"""Reads what the page of a RayJob needs beside the job itself, and hands its template plain values."""

import asyncio

from archiver.core.timeline import TimelineEntry
from archiver.read.views import AttemptView, Citation, JobView
from archiver.read.windows import Around, Tail
from web.deps import Viewer
from web.pages import chart, status
from web.pages import job as words

MAX_CITATIONS = 4


async def job_values(viewer: Viewer, view: JobView, shown: AttemptView, *, whole_timeline: bool) -> dict[str, object]:
    entries, excerpts = await asyncio.gather(
        viewer.reader.timeline(viewer.scope, view.row.uid, shown.number), _excerpts(viewer, view.row.uid, shown)
    )
    return (
        _values(view, shown)
        | _course(entries or (), shown.ray_cluster or "", whole=whole_timeline)
        | {"excerpts": excerpts}
    )


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
        "symptoms": words.symptoms(shown),
        "artifacts": words.sorted_evidence(shown),
        "evidence_parts": words.evidence_summary(shown),
        "facts": words.facts(shown),
        "commands": words.commands(view, shown),
    }


def _course(entries: tuple[TimelineEntry, ...], cluster: str, *, whole: bool) -> dict[str, object]:
    return {"course": words.course(entries, whole=whole), "chart": chart.draw(entries, ray_cluster=cluster)}


async def _excerpts(viewer: Viewer, uid: str, shown: AttemptView) -> list[words.Excerpt]:
    """The lines that the verdict cites; without a verdict the end of the most telling log."""
    told = words.verdict(shown)
    if told and told.evidence:
        cited = told.evidence[:MAX_CITATIONS]
        return list(await asyncio.gather(*(_cited(viewer, uid, shown.number, place) for place in cited)))
    telling = words.telling_log(shown)
    if telling is None:
        return []
    window = await viewer.reader.log_window(viewer.scope, uid, shown.number, telling.name, Tail(words.TAIL_LINES))
    return [words.tail_excerpt(uid, shown.number, window)] if window and window.lines else []


async def _cited(viewer: Viewer, uid: str, number: int, place: Citation) -> words.Excerpt:
    if place.artifact is None or place.line is None:
        return words.quoted(place.source, place.text)
    around = Around(place.line, words.CONTEXT_LINES)
    window = await viewer.reader.log_window(viewer.scope, uid, number, place.artifact, around)
    if window is None or not window.lines:
        return words.quoted(place.source, place.text)
    return words.cited_excerpt(uid, number, window, place.line)
