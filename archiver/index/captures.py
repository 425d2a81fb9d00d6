"""How well capturing went lately, from the index alone. For the health page and readiness."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select, text, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.index.filters import Scope
from archiver.index.tables import attempts


@dataclass(frozen=True, slots=True)
class Captures:
    """Of attempts captured since a moment; ``open`` are those that are being captured now."""

    attempts: int
    open: int
    complete: int
    partial: int
    lost: int
    lag_p50_seconds: float | None
    lag_p99_seconds: float | None
    margin_min_seconds: float | None
    newest: datetime | None


async def count_captures(connection: AsyncConnection, scope: Scope, *, since: datetime) -> Captures:
    """Reads the recent part of one index."""
    column = attempts.c
    worth = column.completeness
    recent = select(
        func.count().label("attempts"),
        func.count().filter(worth == "complete").label("complete"),
        func.count().filter(worth == "partial").label("partial"),
        func.count().filter(worth == "lost").label("lost"),
        func.percentile_cont(0.5).within_group(column.lag_seconds).label("p50"),
        func.percentile_cont(0.99).within_group(column.lag_seconds).label("p99"),
        func.min(column.margin_seconds).label("margin"),
        func.max(column.captured_at).label("newest"),
    ).where(column.captured_at >= since, _visible(scope))
    row = (await connection.execute(recent)).one()
    # an attempt that is open for a month is no news
    is_open = and_(
        text("state = 'open'"), or_(column.created_at.is_(None), column.created_at > since - timedelta(days=30))
    )
    open_ = await connection.scalar(select(func.count()).select_from(attempts).where(is_open, _visible(scope)))
    return Captures(
        row.attempts, open_ or 0, row.complete, row.partial, row.lost, row.p50, row.p99, row.margin, row.newest
    )


def _visible(scope: Scope) -> ColumnElement[bool]:
    if scope.namespaces is None:
        return true()
    return tuple_(attempts.c.cluster, attempts.c.namespace).in_(sorted(scope.namespaces))
