"""One axis for everything that happened to an attempt. Pure assembly of entries; reading their sources is not here."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Lane(StrEnum):
    """The row of the timeline that an entry stands in."""

    RAYJOB = "rayjob"
    RAYCLUSTER = "raycluster"
    POD = "pod"
    KUBE_EVENT = "kube-event"
    RAY = "ray"
    LOG = "log"
    CAPTURE = "capture"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A moment, or a span where ``until`` is set. ``subject`` is what it happened to (a pod, an artifact, a node).

    ``artifact`` and ``line`` point at the evidence where there is some; ``line`` counts from 1.
    """

    at: datetime
    lane: Lane
    severity: Severity
    subject: str
    title: str
    detail: str = ""
    until: datetime | None = None
    artifact: str | None = None
    line: int | None = None


def assemble(*sources: Iterable[TimelineEntry]) -> tuple[TimelineEntry, ...]:
    """All entries in time order; entries of the same moment keep the order of lanes, then of their source."""
    order = {lane: place for place, lane in enumerate(Lane)}
    entries = [entry for source in sources for entry in source]
    return tuple(sorted(entries, key=lambda entry: (entry.at, order[entry.lane])))
