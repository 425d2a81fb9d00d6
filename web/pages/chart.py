"""The timeline as a picture: one row a lane or pod, all on one axis. The table below it says the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from archiver.core.timeline import Lane, Severity, TimelineEntry
from web.pages import words

WIDTH = 1000
MAX_PODS = 8
_TICKS = 4
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_LANES = {
    Lane.RAYJOB: "RayJob",
    Lane.RAYCLUSTER: "RayCluster",
    Lane.KUBE_EVENT: "Kubernetes Events",
    Lane.RAY: "Ray",
    Lane.LOG: "logs",
    Lane.CAPTURE: "capture",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A bar, or a moment where ``width`` is 0. Units of the axis, 0 to 1000."""

    start: float
    width: float
    severity: Severity
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """``ticks`` stand at equal distances, the first at the left end. ``hidden_pods`` have no row."""

    rows: tuple[Row, ...]
    ticks: tuple[str, ...]
    hidden_pods: int


def draw(entries: Sequence[TimelineEntry], *, ray_cluster: str = "") -> Chart | None:
    """None where there are fewer than two moments. Pods are called by what follows their cluster's name.

    Lines of logs do not stretch the axis, because their times may be wrong.
    """
    framing = [entry for entry in entries if entry.lane is not Lane.LOG]
    start = min((entry.at for entry in framing), default=_NEVER)
    span = max((entry.until or entry.at for entry in framing), default=_NEVER) - start
    if span <= timedelta(0):
        return None
    shown = [entry for entry in entries if start <= entry.at <= start + span]
    pods = list(dict.fromkeys(entry.subject for entry in shown if entry.lane is Lane.POD))
    groups = [(_LANES[lane], [e for e in shown if e.lane is lane]) for lane in (Lane.RAYJOB, Lane.RAYCLUSTER)]
    groups += [
        (pod.removeprefix(f"{ray_cluster}-"), [e for e in shown if e.lane is Lane.POD and e.subject == pod])
        for pod in pods[:MAX_PODS]
    ]
    groups += [(title, [e for e in shown if e.lane is lane]) for lane, title in list(_LANES.items())[2:]]
    rows = tuple(Row(label, tuple(_mark(e, start, span) for e in group)) for label, group in groups if group)
    return Chart(rows, _ticks(start, span), max(0, len(pods) - MAX_PODS))


def _mark(entry: TimelineEntry, start: datetime, span: timedelta) -> Mark:
    width = (entry.until - entry.at) / span * WIDTH if entry.until else 0.0
    title = f"{words.clock(entry.at)} UTC  {entry.subject}: {entry.title}"
    return Mark(round((entry.at - start) / span * WIDTH, 1), round(width, 1), entry.severity, title)


def _ticks(start: datetime, span: timedelta) -> tuple[str, ...]:
    first = words.utc(start)
    return (first, *(f"+{words.duration(span.total_seconds() * step / _TICKS)}" for step in range(1, _TICKS + 1)))
