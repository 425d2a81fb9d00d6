"""What a list is asked for: the viewer's scope and the filter. Plain values, no SQL."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

# How an attempt ended that did not do its work: what lists of failures show, and whose GPU time is lost.
FAILURES = ("failed", "retried", "invalid", "deleted")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the viewer may see. ``namespaces`` holds (cluster, namespace) pairs; None is everything."""

    namespaces: frozenset[tuple[str, str]] | None = None

    @staticmethod
    def everything() -> "Scope":
        return Scope()


class JobOrder(StrEnum):
    """What a list of RayJobs is sorted by, each from the top. COST is GPU time."""

    NEWEST = "newest"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Narrows a list of jobs. Within one field any value fits, between fields all must; an empty field narrows nothing.

    ``since`` is inclusive and ``until`` exclusive, both against the time that lists sort by (``JobRow.at``).
    ``text`` is looked for in names, without regard to case. ``order`` is part of it, because a page's token fits one order.
    """

    clusters: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    completeness: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    order: JobOrder = JobOrder.NEWEST


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One page of a list: at most ``size`` rows after the place that ``token`` names."""

    filter: JobFilter = field(default_factory=JobFilter)
    size: int = 50
    token: str | None = None


class GroupOrder(StrEnum):
    """What a list of groups is sorted by, each from the top."""

    NEWEST = "newest"
    MOST = "most"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Groups that failed on the day of ``since`` or later. ``until`` is the moment of asking: what a week counts from.

    ``states`` are open, muted, resolved, and those that speak again: grown (was muted) and came-back (was resolved).
    """

    teams: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    order: GroupOrder = GroupOrder.NEWEST
