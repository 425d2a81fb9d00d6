"""How much failed, when, of what, whose, and what it cost: counts of attempts. From the attempts, or from counts by day.

Whole days come from ``attempt_days`` where the filter asks for nothing that it does not have; the edges of a time range,
and filters on more, read the attempts themselves, at most ``limit`` of the newest.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Interval,
    RowMapping,
    Select,
    Subquery,
    and_,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.index.filters import FAILURES, JobFilter, Scope
from archiver.index.queries import in_scope, matching, storable
from archiver.index.tables import attempt_days, attempts, group_days

Found = RowMapping
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# what the counts by day can be narrowed to
_DAILY_FIELDS = frozenset(
    {"clusters", "namespaces", "teams", "statuses", "causes", "categories", "since", "until", "order"}
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a broken machine makes attempts die of: whole categories, and causes of others."""

    categories: tuple[str, ...]
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """Some attempts, ``failed`` of ``attempts``, of one bucket and category, of one cause, of one team, or all of them.

    What they are not counted by is None; a word that no attempt said is empty.
    """

    bucket: datetime | None
    category: str | None
    cause: str | None
    team: str | None
    attempts: int
    failed: int
    gpu_seconds_lost: float


def is_daily(job_filter: JobFilter) -> bool:
    """Whether the counts by day know everything that the filter asks for."""
    fields = (name for name in job_filter.__slots__ if name not in _DAILY_FIELDS)
    return not any(getattr(job_filter, name) for name in fields)


async def count_attempts(
    connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, bucket: timedelta, limit: int
) -> tuple[list[Cell], bool]:
    """From the attempts themselves, and whether there are more than were looked at."""
    columns = attempts.c
    newest = (
        select(columns.at, columns.category, columns.cause, columns.team, columns.ended_as, columns.gpu_seconds)
        .where(in_scope(scope, attempts), matching(job_filter, attempts))
        .order_by(columns.at.desc())
        .limit(limit)
        .cte("newest")
    )
    words = [func.coalesce(newest.c[name], "") for name in ("category", "cause", "team")]
    known = select(
        func.date_bin(cast(bucket, Interval), newest.c.at, _EPOCH).label("bucket"),
        *(word.label(name) for word, name in zip(words, ("category", "cause", "team"), strict=True)),
        literal(1).label("attempts"),
        newest.c.ended_as,
        newest.c.gpu_seconds,
    ).subquery("known")
    cells = await _cells(connection, known)
    return cells, any(cell.attempts >= limit for cell in cells)


async def count_days(
    connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, since: date | None, until: date
) -> list[Cell]:
    """Whole days (UTC), from ``since`` to before ``until``. The filter must be ``is_daily``."""
    days = attempt_days.c
    statement = select(
        func.timezone("UTC", cast(days.day, DateTime(timezone=False))).label("bucket"),
        days.category,
        days.cause,
        days.team,
        days.attempts,
        days.ended_as,
        days.gpu_seconds,
    ).where(in_scope(scope, attempt_days), days.attempts > 0, days.day < until, *_named(job_filter))
    if since is not None:
        statement = statement.where(days.day >= since)
    return await _cells(connection, statement.subquery("known"))


async def _cells(connection: AsyncConnection, known: Subquery) -> list[Cell]:
    columns = known.c
    is_failed = columns.ended_as.in_(FAILURES)
    by_time = tuple_(columns.bucket, columns.category)
    by_cause = tuple_(columns.category, columns.cause)
    statement = select(
        columns.bucket,
        columns.category,
        columns.cause,
        columns.team,
        func.sum(columns.attempts),
        func.coalesce(func.sum(columns.attempts).filter(is_failed), 0),
        func.coalesce(func.sum(columns.gpu_seconds).filter(is_failed), 0.0),
    ).group_by(func.grouping_sets(by_time, by_cause, columns.team, literal_column("()")))
    return [
        Cell(bucket, category, cause, team, int(attempts or 0), int(failed), lost)
        for bucket, category, cause, team, attempts, failed, lost in await connection.execute(statement)
    ]


async def count_incomplete(connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, limit: int) -> int:
    """Attempts of which not all evidence is there, at most ``limit``."""
    some = (
        select(literal(1))
        .select_from(attempts)
        .where(in_scope(scope, attempts), matching(job_filter, attempts), _IS_INCOMPLETE)
        .limit(limit)
        .subquery()
    )
    return int(await connection.scalar(select(func.count()).select_from(some)) or 0)


async def count_new_kinds(connection: AsyncConnection, scope: Scope, job_filter: JobFilter, since: datetime) -> int:
    """Groups that were never seen before ``since``, by what of the filter they know."""
    days, earlier = group_days.c, group_days.alias("earlier")
    seen = (
        select(days.fingerprint)
        .distinct()
        .where(in_scope(scope, group_days), days.attempts > 0, days.last_at >= since, days.day >= since.date())
        .where(*_grouped(job_filter))
        .subquery("seen")
    )
    was_there = (
        select(literal(1))
        .where(in_scope(scope, earlier), earlier.c.fingerprint == seen.c.fingerprint, earlier.c.attempts > 0)
        .where(earlier.c.first_at < since)
        .exists()
    )
    return int(await connection.scalar(select(func.count()).select_from(seen).where(~was_there)) or 0)


async def has_older(connection: AsyncConnection, scope: Scope, since: datetime) -> bool:
    """Whether the archive has anything from before a moment."""
    some = select(literal(1)).select_from(attempts).where(in_scope(scope, attempts), attempts.c.at < since).limit(1)
    return bool(await connection.scalar(some))


async def has_failures(connection: AsyncConnection, scope: Scope, job_filter: JobFilter) -> bool:
    """Whether anything fits at all: one look into an index."""
    some = select(literal(1)).where(in_scope(scope, attempts), matching(job_filter, attempts)).limit(1)
    return bool(await connection.scalar(some.select_from(attempts)))


async def count_nodes(
    connection: AsyncConnection, scope: Scope, *, since: datetime, hardware: Hardware, limit: int
) -> tuple[list[Found], int, bool]:
    """By node: attempts that used it, those that failed, and those that failed as a broken machine makes them fail.

    Counts the newest ``limit`` attempts since a moment; also how many were looked at, and whether there are more.
    """
    newest = _newest_placed(scope, since, limit)
    is_failed = newest.c.ended_as.in_(FAILURES)
    is_like_hardware = or_(newest.c.category.in_(hardware.categories), newest.c.cause.in_(hardware.causes))
    is_hard = and_(is_failed, is_like_hardware)
    node = func.unnest(newest.c.nodes).table_valued("node").render_derived("of_it")
    job = func.concat(newest.c.cluster, "/", newest.c.namespace, "/", newest.c.name)
    statement = (
        select(
            newest.c.cluster,
            node.c.node,
            func.count().label("attempts"),
            func.count().filter(is_failed).label("failed"),
            func.count().filter(is_hard).label("hardware"),
            func.count(job.distinct()).filter(is_hard).label("jobs"),
            func.max(newest.c.at).filter(is_hard).label("last_at"),
        )
        .select_from(newest)
        .join(node, literal(True))
        .group_by(newest.c.cluster, node.c.node)
    )
    found = list((await connection.execute(statement)).mappings())
    looked = int(await connection.scalar(select(func.count()).select_from(newest)) or 0)
    return found, looked, looked >= limit


def _newest_placed(scope: Scope, since: datetime, limit: int) -> Any:
    columns = attempts.c
    chosen = (columns.cluster, columns.namespace, columns.name, columns.at, columns.ended_as)
    statement: Select[Any] = (
        select(*chosen, columns.category, columns.cause, columns.nodes)
        .where(in_scope(scope, attempts), columns.at >= since)
        .order_by(columns.at.desc())
        .limit(limit)
    )
    return statement.subquery("newest")


_IS_INCOMPLETE: ColumnElement[bool] = attempts.c.completeness != "complete"


def _named(job_filter: JobFilter) -> list[ColumnElement[bool]]:
    days = attempt_days.c
    named = (
        (days.cluster, job_filter.clusters),
        (days.namespace, job_filter.namespaces),
        (days.team, job_filter.teams),
        (days.ended_as, job_filter.statuses),
        (days.cause, job_filter.causes),
        (days.category, job_filter.categories),
    )
    return [column.in_(storable(words)) for column, words in named if words]


def _grouped(job_filter: JobFilter) -> list[ColumnElement[bool]]:
    days = group_days.c
    named = (
        (days.cluster, job_filter.clusters),
        (days.namespace, job_filter.namespaces),
        (days.team, job_filter.teams),
        (days.cause, job_filter.causes),
        (days.category, job_filter.categories),
        (days.fingerprint, job_filter.fingerprints),
    )
    return [column.in_(storable(words)) for column, words in named if words]
