"""The timeline as a picture: one row a lane or pod, all on one axis, zoomed by links. The table below says it in words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from archiver.core.timeline import Lane, Severity, TimelineEntry
from web.pages import links, query, words

WIDTH = 1000
MAX_PODS = 8
MAX_MARKS = 400
_TICKS = 4
_LEAST = timedelta(milliseconds=10)
# what an attempt is framed by: Events and lines of logs may be older, or their clocks wrong
_FRAMING = (Lane.RAYJOB, Lane.RAYCLUSTER, Lane.POD, Lane.CAPTURE)
_LANES = {
    Lane.RAYJOB: "RayJob",
    Lane.RAYCLUSTER: "RayCluster",
    Lane.KUBE_EVENT: "Kubernetes Events",
    Lane.RAY: "Ray",
    Lane.LOG: "logs",
    Lane.CAPTURE: "capture",
}
_SEVERITIES = (Severity.INFO, Severity.WARNING, Severity.ERROR)


@dataclass(frozen=True, slots=True)
class Asked:
    """What an address asks for: a part of the axis, and whether the table has everything."""

    start: datetime | None = None
    end: datetime | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """The part of the axis that is shown. ``is_part`` where it is not all of it; ``outside`` counts what is not on it."""

    start: datetime
    end: datetime
    is_part: bool = False
    outside: int = 0

    @property
    def length(self) -> timedelta:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Mark:
    """A bar, or a moment where ``width`` is 0. Units of the axis, 0 to 1000. ``css`` names its colour."""

    start: float
    width: float
    css: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    label: str
    href: str


@dataclass(frozen=True, slots=True)
class Chart:
    """``ticks`` stand at equal distances, the first at the left end."""

    rows: tuple[Row, ...]
    ticks: tuple[str, ...]
    outside: int


def parse(params: Mapping[str, str], now: datetime) -> Asked:
    """Raises UserError for what is no time."""
    start, end = query.moment(params.get("from", ""), now), query.moment(params.get("to", ""), now)
    return Asked(start, end, params.get("timeline") == "all")


def span_of(entries: Sequence[TimelineEntry], asked: Asked) -> Span | None:
    """None where there are fewer than two moments to frame it."""
    framing = [entry for entry in entries if entry.lane in _FRAMING] or list(entries)
    if not framing:
        return None
    start = min(entry.at for entry in framing)
    end = max(max(entry.at, entry.until or entry.at) for entry in framing)
    is_part = asked.start is not None or asked.end is not None
    shown = Span(asked.start or start, asked.end or end, is_part)
    if shown.length < _LEAST:
        return None if end - start < _LEAST else replace(shown, start=start, end=end, is_part=False)
    return replace(shown, outside=sum(not _is_on(entry, shown) for entry in entries))


def within(entries: Sequence[TimelineEntry], span: Span | None) -> tuple[TimelineEntry, ...]:
    """What the table has: all, or what touches the part that was asked for."""
    if span is None or not span.is_part:
        return tuple(entries)
    return tuple(entry for entry in entries if _is_on(entry, span))


def zooms(entries: Sequence[TimelineEntry], span: Span | None, asked: Asked, path: str) -> tuple[Tick, ...]:
    """Links that change the part: closer to each quarter and to the end, to either side, and back to the whole."""
    if span is None:
        return ()
    step = span.length / _TICKS
    parts = [("first quarter", 0, 1), ("second", 1, 2), ("third", 2, 3), ("last quarter", 3, 4)]
    if span.is_part:
        parts += [("earlier", -2, 2), ("later", 2, 6), ("wider", -4, 8)]
    found = [Tick(label, _part(path, asked, span.start + step * a, span.start + step * b)) for label, a, b in parts]
    whole = links.with_query(path, {"timeline": "all" if asked.is_whole else None}) + "#timeline"
    return (*found, Tick("whole", whole)) if span.is_part else tuple(found)


def draw(entries: Sequence[TimelineEntry], span: Span | None, *, ray_cluster: str = "") -> Chart | None:
    """Pods are called by what follows their cluster's name; the many that went well share a row for each group."""
    if span is None:
        return None
    shown = [entry for entry in entries if _is_on(entry, span)]
    lanes = {lane: [entry for entry in shown if entry.lane is lane] for lane in Lane}
    groups = [(_LANES[lane], lanes[lane]) for lane in (Lane.RAYJOB, Lane.RAYCLUSTER)]
    groups += _pods(lanes[Lane.POD], f"{ray_cluster}-")
    groups += [(title, lanes[lane]) for lane, title in list(_LANES.items())[2:]]
    rows = tuple(Row(label, tuple(_marks(group, span))) for label, group in groups if group)
    return Chart(rows, _ticks(span), span.outside if not span.is_part else 0)


def _pods(entries: Sequence[TimelineEntry], prefix: str) -> Iterator[tuple[str, list[TimelineEntry]]]:
    by_pod: dict[str, list[TimelineEntry]] = {}
    for entry in entries:
        by_pod.setdefault(entry.subject, []).append(entry)
    # those that went wrong first, so that they have a row of their own among hundreds
    telling = sorted(by_pod, key=lambda pod: -max(_SEVERITIES.index(entry.severity) for entry in by_pod[pod]))
    alone = set(telling) if len(by_pod) <= MAX_PODS else set(telling[: MAX_PODS - 2])
    together: dict[str, list[str]] = {}
    for pod in by_pod:
        label = pod.removeprefix(prefix)
        if pod in alone:
            yield label, by_pod[pod]
        else:
            together.setdefault(label.rpartition("-")[0] or label, []).append(pod)
    ranked = sorted(together.items(), key=lambda item: -len(item[1]))
    for label, pods in ranked[:MAX_PODS]:
        yield f"{label} × {len(pods)}", [entry for pod in pods for entry in by_pod[pod]]
    rest = [pod for _, pods in ranked[MAX_PODS:] for pod in pods]
    if rest:
        yield f"other pods × {len(rest)}", [entry for pod in rest for entry in by_pod[pod]]


def _marks(entries: Iterable[TimelineEntry], span: Span) -> Iterator[Mark]:
    """Marks that look the same are one, which says how many it stands for; bars lie below moments."""
    alike: dict[tuple[float, float, str], tuple[str, int]] = {}
    for entry in entries:
        mark = _mark(entry, span)
        place = mark.start, mark.width, mark.css
        title, count = alike.get(place, (mark.title, 0))
        alike[place] = title, count + 1
    ordered = sorted(alike.items(), key=lambda item: (item[0][1] == 0, -item[0][1]))
    for (start, width, css), (title, count) in _thinned(ordered):
        yield Mark(start, width, css, f"{title} and {count - 1} more" if count > 1 else title)


def _thinned(
    ordered: list[tuple[tuple[float, float, str], tuple[str, int]]],
) -> list[tuple[tuple[float, float, str], tuple[str, int]]]:
    """Of too many marks those that went wrong, and every so-manieth of the others."""
    if len(ordered) <= MAX_MARKS:
        return ordered
    counts = Counter(place[2] for place, _ in ordered)
    plain = counts["is-info"] + counts["is-waiting"]
    every = -(-plain // MAX_MARKS) or 1
    kept, seen = [], 0
    for item in ordered:
        if item[0][2] in ("is-info", "is-waiting"):
            seen += 1
            if seen % every:
                continue
        kept.append(item)
    return kept[: 2 * MAX_MARKS]


def _mark(entry: TimelineEntry, span: Span) -> Mark:
    start = max(entry.at, span.start)
    end = min(entry.until or entry.at, span.end)
    width = (end - start) / span.length * WIDTH if entry.until and end > start else 0.0
    css = "is-waiting" if entry.lane is Lane.POD and entry.title == "Pending" else f"is-{entry.severity.value}"
    title = f"{words.clock(entry.at)} UTC  {words.short(entry.subject, 80)}: {words.short(entry.title, 120)}"
    return Mark(round((start - span.start) / span.length * WIDTH, 1), round(width, 1), css, title)


def _is_on(entry: TimelineEntry, span: Span) -> bool:
    return entry.at <= span.end and max(entry.at, entry.until or entry.at) >= span.start


def _part(path: str, asked: Asked, start: datetime, end: datetime) -> str:
    whole = "all" if asked.is_whole else None
    return links.with_query(path, {"from": _written(start), "to": _written(end), "timeline": whole}) + "#timeline"


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ticks(span: Span) -> tuple[str, ...]:
    first, length = words.utc(span.start), span.length.total_seconds()
    return (first, *(f"+{words.duration(length * step / _TICKS)}" for step in range(1, _TICKS + 1)))
