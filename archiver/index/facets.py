"""Counts beside a list. They look at the newest RayJobs of the filter only, so that no page waits for a count of all.

A facet is counted without its own choice, so that it says what another choice would give.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import CTE, ColumnElement, Select, String, and_, case, cast, func, literal, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.index.filters import FAILURES, JobFilter, Scope
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
    ("nodes", "nodes"),
    ("images", "images"),
)
_LISTS = ("nodes", "images")  # of which a RayJob has several
_VALUES = 50


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
    """Every facet over at most ``limit`` rows, the most frequent values of each; one statement for all."""
    newest = _newest(scope, job_filter, limit, [column for _, column in FACETS])
    parts = [_part(scope, job_filter, limit, facet, newest) for facet in FACETS]
    statement = union_all(*parts, _whole(newest))
    found = (await connection.execute(statement)).all()
    whole = next(row for row in found if row.facet == "")
    counts = tuple(Count(row.facet, row.value, row.size) for row in found if row.facet)
    return Counts(counts, whole.size, whole.failed, float(whole.lost))


def _newest(scope: Scope, job_filter: JobFilter, limit: int, columns: list[str]) -> CTE:
    """Narrow copies of the newest rows; what is listed by ``nodes`` stays, the rest of a wide row is left behind."""
    chosen = [rayjobs.c[column] for column in columns]
    return (
        select(*chosen, rayjobs.c.status.label("ended_as"), rayjobs.c.gpu_seconds)
        .where(visible(scope), matching(job_filter))
        .order_by(rayjobs.c.at.desc(), rayjobs.c.uid.desc())
        .limit(limit)
        .cte(f"newest_{'_'.join(columns) if len(columns) == 1 else 'all'}")
        .prefix_with("MATERIALIZED")
    )


def _part(scope: Scope, job_filter: JobFilter, limit: int, facet: tuple[str, str], newest: CTE) -> Select[Any]:
    """The most frequent values of one facet, over the rows that all other choices leave."""
    name, column = facet
    if getattr(job_filter, name):
        nothing: dict[str, Any] = {name: ()}
        newest = _newest(scope, replace(job_filter, **nothing), limit, [column])
    value: ColumnElement[Any] = newest.c[column]
    if column in _LISTS:
        value = func.unnest(value).table_valued("value").render_derived().c.value
    counted = select(value.label("value"), func.count().label("size")).select_from(newest)
    if column in _LISTS:
        counted = counted.join(value.table, true())
    best = counted.group_by(value).order_by(func.count().desc(), value).limit(_VALUES).subquery(f"best_{column}")
    return select(
        literal(name).label("facet"),
        cast(best.c.value, String).label("value"),
        best.c.size,
        literal(0).label("failed"),
        literal(0.0).label("lost"),
    )


def _whole(newest: CTE) -> Select[Any]:
    is_failed = and_(newest.c.ended_as.in_(FAILURES))
    return select(
        literal(""),
        literal(None, String),
        func.count(),
        func.count(case((is_failed, 1))),
        func.coalesce(func.sum(case((is_failed, newest.c.gpu_seconds))), 0.0),
    )
