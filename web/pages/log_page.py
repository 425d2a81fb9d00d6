"""Reads what the log page shows and hands the template plain values."""

from dataclasses import dataclass, replace
from datetime import timedelta

from markupsafe import Markup

from archiver.core.lines import to_time
from archiver.core.model import ArtifactKind, Completeness
from archiver.core.search import ERRORS
from archiver.read.found import CELLS, Marks
from archiver.read.together import all_of
from archiver.read.views import ArtifactView, JobView, LogWindow
from archiver.read.windows import AtTime, Window
from web.deps import Viewer
from web.pages import links, words
from web.pages import log as log_words
from web.pages.log import LogAddress, LogQuery
from web.pages.log_lines import Eyes, Line, folded, lines, merged
from web.pages.query import BadQuery

# what a page may spend on searching before it is sent; its script, or the next look, goes on from there
PAGE_SECONDS = 0.08
GO_ON_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Tick:
    """One mark on the strip, of 1000 units from top to bottom."""

    place: float
    kind: str
    href: str
    words: str


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a pattern: in words, and whether there is more to learn."""

    words: str
    count: int
    is_complete: bool


async def log_values(
    viewer: Viewer, view: JobView, address: LogAddress, query: LogQuery, window: Window
) -> dict[str, object] | None:
    """None where there is no such log. Raises BadQuery for a pattern that is none."""
    text = await viewer.reader.log_window(viewer.scope, address.uid, address.number, address.artifact, window)
    if text is None:
        return None
    eyes = Eyes.of(query, _cited(view, address))
    shown = list(lines(address, query, text, eyes))
    sources = _sources(view, address, query)
    others = await _others(viewer, address, query, text, eyes) if query.others else []
    together = merged(shown, others) if others else shown
    own = _is_own(view, address)
    return {
        "row": view.row,
        "number": address.number,
        "artifact": text.artifact,
        "query": query,
        "place": log_words.place(text),
        "tools": log_words.tools(address, query, text),
        "folds": folded(together, unfolded=query.unfolded),
        "has_states": any(line.hidden_states for line in together),
        "has_folds": not query.unfolded and any(line.is_telling for line in together),
        "window_is_empty": not text.lines,
        "empty_words": _empty_words(text),
        "digits": len(str(text.total_lines)),
        "kept": _kept(query, without=()),
        "kept_beside_search": _kept(query, without=("regex", "case", "q")),
        "kept_beside_sources": _kept(query, without=("with",)),
        "sources": sources,
        "source_names": [address.artifact, *query.others],
        "file_name": f"{view.row.name}-attempt-{address.number}-{address.artifact.rpartition('/')[2]}",
        "commands": log_words.commands(view.row.name, view.row.namespace, address, query),
        "is_at_end": bool(own and text.artifact.live and text.next_line is None),
        "tail_href": links.with_query(f"{address.path}/tail", dict.fromkeys(query.flags, "1")),
        "last_line": text.lines[-1].number if text.lines else text.total_lines,
        **await mark_values(viewer, address, query, seconds=PAGE_SECONDS),
    }


async def mark_values(viewer: Viewer, address: LogAddress, query: LogQuery, *, seconds: float) -> dict[str, object]:
    """Counts and the strip, as far as they are known after ``seconds`` more of searching."""
    place = (address.uid, address.number, address.artifact)
    patterns = [ERRORS, *([query.pattern] if query.pattern else [])]
    known = await all_of(
        viewer.reader.log_marks(viewer.scope, *place, pattern, seconds=seconds) for pattern in patterns
    )
    errors, matches = known[0], known[1] if len(known) > 1 else None
    shown = [(kind, each) for kind, each in (("error", errors), ("match", matches)) if each is not None]
    return {
        "errors": _found(errors, "error line") if errors else None,
        "matches": _found(matches, "match", "matches") if matches else None,
        "ticks": [tick for kind, each in shown for tick in _ticks(address, query, kind, each)],
        "marks_are_complete": all(each.is_complete for _, each in shown),
        "marks_href": links.with_query(address.path, {**query.params(), "part": "marks"}),
        "go_on_href": address.href(query),
    }


async def seek_values(viewer: Viewer, address: LogAddress, query: LogQuery) -> tuple[int | None, str]:
    """The line that the address jumps to, or why there is none."""
    wanted = query.wanted
    if wanted is None:
        raise BadQuery("there is nothing to jump to: give a text to search for")
    found = await viewer.reader.log_seek(viewer.scope, address.uid, address.number, address.artifact, wanted)
    if found is None or found.line is not None:
        return (found.line if found else None), ""
    what = "error" if query.seek.endswith("error") else "match"
    side = "before" if wanted.is_backward else "after"
    if not found.is_complete:
        return None, f"No {what} as far as line {words.number(found.to_line)}: the search stopped there; ask again."
    return None, f"No {what} {side} line {words.number(wanted.line)}." if wanted.line else f"There is no {what}."


def _found(marks: Marks, word: str, many: str | None = None) -> Found:
    said = words.plural(marks.count, word, many)
    if not marks.is_complete:
        done = f"{words.size(marks.scanned_bytes)} of {words.size(marks.total_bytes)}"
        said = f"{said} in the first {done}"
    return Found(said, marks.count, marks.is_complete)


def _ticks(address: LogAddress, query: LogQuery, kind: str, marks: Marks) -> list[Tick]:
    height = 1000 / CELLS
    return [
        Tick(
            round(cell.place * height, 1),
            kind,
            address.href(query.at_line(cell.line)),
            f"{words.plural(cell.count, kind, 'matches' if kind == 'match' else None)} from line {cell.line} on",
        )
        for cell in marks.cells
    ]


def _cited(view: JobView, address: LogAddress) -> frozenset[int]:
    verdicts = [each.verdict for each in view.attempts if each.number == address.number]
    cites = verdicts[0].evidence if verdicts and verdicts[0] else ()
    return frozenset(cite.line for cite in cites if cite.artifact == address.artifact and cite.line)


def _is_own(view: JobView, address: LogAddress) -> bool:
    return any(attempt.number == address.number for attempt in view.attempts)


def _sources(view: JobView, address: LogAddress, query: LogQuery) -> list[tuple[str, bool]]:
    """Other logs of the attempt that this one can be read with, and whether each is."""
    artifacts = next((each.artifacts for each in view.attempts if each.number == address.number), ())
    return [(each.name, each.name in query.others) for each in artifacts if _can_be_merged(each, address)]


def _can_be_merged(artifact: ArtifactView, address: LogAddress) -> bool:
    is_log = artifact.kind is ArtifactKind.LOG and artifact.completeness is not Completeness.LOST
    return is_log and artifact.name != address.artifact


async def _others(
    viewer: Viewer, address: LogAddress, query: LogQuery, text: LogWindow, eyes: Eyes
) -> list[list[Line]]:
    """The lines of the other logs in the time that the window covers."""
    times = [line.time_ns for line in text.lines if line.time_ns]
    start = to_time(times[0]) if times else None
    if start is None:
        return [[] for _ in query.others]
    until = max(times) if text.next_line is not None else max(times) + int(timedelta(days=1).total_seconds() * 1e9)
    found = await all_of(
        viewer.reader.log_window(viewer.scope, address.uid, address.number, name, AtTime(start, log_words.PAGE_LINES))
        for name in query.others
    )
    return [
        [
            replace(line, source=source, is_cited=False)
            for line in lines(LogAddress(address.uid, address.number, name), query, _until(window, until), eyes)
        ]
        for source, (name, window) in enumerate(zip(query.others, found, strict=True), 1)
        if window is not None
    ]


def _until(window: LogWindow, until_ns: int) -> LogWindow:
    kept = tuple(line for line in window.lines if (line.time_ns or 0) <= until_ns)
    return replace(window, lines=kept, focus_line=None)


def _empty_words(window: LogWindow) -> str:
    if window.total_lines:
        return f"The log has {window.total_lines} lines, and none of them lies where this address points."
    reason = window.artifact.reason.rstrip(".")
    return f"{reason[:1].upper()}{reason[1:]}." if reason else "The source wrote nothing before it ended."


def _kept(query: LogQuery, *, without: tuple[str, ...]) -> Markup:
    """What a form must carry along so that moving does not change how the text is shown."""
    values = [(name, "1") for name in query.flags] + [("with", name) for name in query.others]
    values += [("q", query.q)] if query.q else []
    fields = (
        Markup('<input type="hidden" name="{}" value="{}">').format(name, value)
        for name, value in values
        if name not in without
    )
    return Markup("").join(fields)
