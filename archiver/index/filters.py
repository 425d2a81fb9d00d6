"""What a list is asked for: the viewer's scope and the filter. Plain values, no SQL."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Scope:
    """What the viewer may see. ``namespaces`` holds (cluster, namespace) pairs; None is everything."""

    namespaces: frozenset[tuple[str, str]] | None = None

    @staticmethod
    def everything() -> "Scope":
        return Scope()


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Narrows a list of jobs. Within one field any value fits, between fields all must; an empty field narrows nothing.

    ``since`` is inclusive and ``until`` exclusive, both against the time that lists sort by (``JobRow.at``).
    ``text`` is looked for in names, without regard to case.
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
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One page of a list: at most ``size`` rows after the place that ``token`` names."""

    filter: JobFilter = field(default_factory=JobFilter)
    size: int = 50
    token: str | None = None
