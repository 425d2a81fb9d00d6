"""Counts beside a list. They look at the newest RayJobs of the filter only, so that no page waits for a count of all."""

from dataclasses import dataclass

from sqlalchemy import case, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.index.filters import JobFilter, Scope
from archiver.index.queries import matching, visible
from archiver.index.tables import rayjobs

# the field of JobFilter, and its column
FACETS = (
    ("teams", "team"),
    ("causes", "cause"),
    ("categories", "category"),
    ("namespaces", "namespace"),
    ("clusters", "cluster"),
    ("queues", "queue"),
    ("statuses", "status"),
    ("completeness", "completeness"),
)
FAILED = ("failed", "invalid")


@dataclass(frozen=True, slots=True)
class Count:
    """``value`` None counts RayJobs that say nothing there."""

    facet: str
    value: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Counts:
    """``gpu_seconds_lost`` were spent by RayJobs that failed."""

    counts: tuple[Count, ...]
    total: int
    failed: int
    gpu_seconds_lost: float


async def count_facets(connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, limit: int) -> Counts:
    """Every facet in one pass over at most ``limit`` rows."""
    columns = [rayjobs.c[column] for _, column in FACETS]
    newest = (
        select(*columns, rayjobs.c.gpu_seconds)
        .where(visible(scope), matching(job_filter))
        .order_by(rayjobs.c.at.desc(), rayjobs.c.uid.desc())
        .limit(limit)
        .cte("newest")
        .prefix_with("MATERIALIZED")
    )
    parts = [newest.c[column] for _, column in FACETS]
    is_failed = newest.c.status.in_(FAILED)
    statement = select(
        func.grouping(*parts).label("mask"),
        func.coalesce(*parts).label("value"),
        func.count().label("size"),
        func.count(case((is_failed, 1))).label("failed"),
        func.coalesce(func.sum(case((is_failed, newest.c.gpu_seconds))), 0.0).label("lost"),
    ).group_by(func.grouping_sets(*parts, literal_column("()")))
    found = (await connection.execute(statement)).all()
    whole = next(row for row in found if row.mask == (1 << len(parts)) - 1)
    counts = tuple(
        Count(_facet_of(row.mask), row.value, row.size) for row in found if row.mask != (1 << len(parts)) - 1
    )
    return Counts(counts, whole.size, whole.failed, float(whole.lost))


def _facet_of(mask: int) -> str:
    """GROUPING() sets a bit for each column that a row is not grouped by, the first column the highest bit."""
    place = next(index for index in range(len(FACETS)) if not mask & (1 << (len(FACETS) - 1 - index)))
    return FACETS[place][0]
