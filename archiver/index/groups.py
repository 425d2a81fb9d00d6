"""Groups: attempts that failed with the same fingerprint, over jobs and teams. Reads the counts by day, and newest attempts.

What is counted is what the viewer may see: a group has other numbers for another scope.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, String, Subquery, and_, case, cast, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.core.people import FEW, WEEK
from archiver.index.filters import FAILURES, GroupFilter, GroupOrder, Scope
from archiver.index.people import latest
from archiver.index.queries import in_scope, storable, storable_text
from archiver.index.tables import attempts, group_days

Found = RowMapping
SAMPLE = 1_000  # newest attempts of a group that are looked at for its jobs, nodes and images


@dataclass(frozen=True, slots=True)
class Extent:
    """How many attempts failed since a moment's day, and where (cluster, namespace), ever."""

    attempts: int
    places: tuple[tuple[str, str], ...]


async def list_groups(
    connection: AsyncConnection, scope: Scope, wanted: GroupFilter, *, size: int, after: tuple[float, str] | None
) -> tuple[Found, ...]:
    """Groups with an attempt in the filter's days, by the filter's order. ``after`` is the last one's place."""
    sums = _judged(_sums(scope, wanted), scope, wanted.until)
    by = _order(sums, wanted.order)
    statement = select(sums, by.label("place")).order_by(by.desc(), sums.c.fingerprint).limit(size)
    if wanted.states:
        statement = statement.where(sums.c.state.in_(storable(wanted.states)))
    if after is not None:
        statement = statement.where(tuple_(-by, sums.c.fingerprint) > (-after[0], after[1]))
    return tuple((await connection.execute(statement)).mappings())


async def extent(connection: AsyncConnection, scope: Scope, fingerprint: str, *, since: datetime) -> Extent | None:
    """None where the viewer sees no attempt of it."""
    days = group_days.c
    recent = func.coalesce(func.sum(days.attempts).filter(days.day > since.date()), 0)
    statement = (
        select(days.cluster, days.namespace, recent.label("attempts"))
        .where(in_scope(scope, group_days), days.fingerprint == storable_text(fingerprint), days.attempts > 0)
        .group_by(days.cluster, days.namespace)
    )
    found = (await connection.execute(statement)).all()
    if not found:
        return None
    return Extent(int(sum(row.attempts for row in found)), tuple((row.cluster, row.namespace) for row in found))


async def whole(connection: AsyncConnection, scope: Scope, fingerprint: str, *, until: datetime) -> Found | None:
    """One group over all time."""
    sums = _judged(_sums(scope, GroupFilter(fingerprints=(fingerprint,), until=until)), scope, until)
    return (await connection.execute(select(sums))).mappings().one_or_none()


async def first_seen(connection: AsyncConnection, scope: Scope, fingerprints: Sequence[str]) -> dict[str, datetime]:
    """When each was seen first, ever: one look into the index for each."""
    wanted = func.unnest(cast(list(fingerprints), ARRAY(String))).table_valued("fingerprint").render_derived()
    days = group_days.c
    first = (
        select(days.first_at)
        .where(in_scope(scope, group_days), days.fingerprint == wanted.c.fingerprint, days.attempts > 0)
        .order_by(days.first_at)
        .limit(1)
        .subquery()
        .lateral("days")
    )
    statement = (
        select(wanted.c.fingerprint, func.min(first.c.first_at)).join(first, true()).group_by(wanted.c.fingerprint)
    )
    return {row[0]: row[1] for row in await connection.execute(statement)}


async def daily(
    connection: AsyncConnection, scope: Scope, fingerprints: Sequence[str], *, since: date
) -> dict[str, dict[date, int]]:
    """Attempts by day of each, for its sparkline; days without are left out."""
    days = group_days.c
    statement = (
        select(days.fingerprint, days.day, func.sum(days.attempts))
        .where(in_scope(scope, group_days), days.fingerprint.in_(fingerprints), days.day >= since, days.attempts > 0)
        .group_by(days.fingerprint, days.day)
    )
    found: dict[str, dict[date, int]] = {}
    for fingerprint, day, count in await connection.execute(statement):
        found.setdefault(fingerprint, {})[day] = int(count)
    return found


async def reach(
    connection: AsyncConnection, scope: Scope, fingerprints: Sequence[str], *, since: date
) -> dict[str, tuple[tuple[str, ...], int]]:
    """Teams of each since a day, and in how many namespaces."""
    days = group_days.c
    statement = (
        select(
            days.fingerprint,
            func.array_agg(days.team.distinct()),
            func.count(func.concat(days.namespace, "/", days.cluster).distinct()),
        )
        .where(in_scope(scope, group_days), days.fingerprint.in_(fingerprints), days.day >= since, days.attempts > 0)
        .group_by(days.fingerprint)
    )
    found = await connection.execute(statement)
    return {fingerprint: (tuple(sorted(teams)), int(count)) for fingerprint, teams, count in found}


async def newest(connection: AsyncConnection, scope: Scope, fingerprints: Sequence[str]) -> dict[str, Found]:
    """The newest attempt of each: its verdict names the group."""
    wanted = func.unnest(cast(list(fingerprints), ARRAY(String))).table_valued("fingerprint").render_derived()
    one = _members(scope, wanted.c.fingerprint, _SHOWN).limit(1).subquery().lateral("one")
    found = await connection.execute(select(one).select_from(wanted).join(one, true()))
    return {row.fingerprint: row._mapping for row in found}


async def members(connection: AsyncConnection, scope: Scope, fingerprint: str) -> tuple[Found, ...]:
    """Its newest attempts, at most SAMPLE: who, where, with what."""
    statement = _members(scope, storable_text(fingerprint), _MEMBER).limit(SAMPLE)
    return tuple((await connection.execute(statement)).mappings())


def _sums(scope: Scope, wanted: GroupFilter) -> Subquery:
    days = group_days.c
    week = wanted.until - WEEK if wanted.until else None
    statement = (
        select(
            days.fingerprint,
            func.min(days.category).label("category"),
            func.min(days.cause).label("cause"),
            func.sum(days.attempts).label("attempts"),
            func.sum(days.gpu_seconds).label("gpu_seconds"),
            func.min(days.first_at).label("first_at"),
            func.max(days.last_at).label("last_at"),
            func.sum(case((days.day > week.date() if week else true(), days.attempts), else_=0)).label("last_week"),
        )
        .where(in_scope(scope, group_days), days.attempts > 0, *_narrowed(wanted))
        .group_by(days.fingerprint)
    )
    return statement.subquery("sums")


def _narrowed(wanted: GroupFilter) -> list[ColumnElement[bool]]:
    days = group_days.c
    named = (
        (days.fingerprint, wanted.fingerprints),
        (days.team, wanted.teams),
        (days.category, wanted.categories),
        (days.cause, wanted.causes),
    )
    clauses = [column.in_(storable(words)) for column, words in named if words]
    return clauses + ([days.day >= wanted.since.date()] if wanted.since else [])


def _judged(sums: Subquery, scope: Scope, now: datetime | None) -> Subquery:
    """With what was decided: a muted one that has grown and a resolved one that came back are open again."""
    decided = latest(scope)
    said = decided.c.document
    state, weekly = said["state"].astext, cast(said["weekly"].astext, group_days.c.attempts.type)
    has_grown = sums.c.last_week >= 2 * func.greatest(weekly, FEW)
    judged = case(
        (decided.c.at.is_(None), "open"),
        (and_(state == "muted", has_grown), "grown"),
        (and_(state == "resolved", sums.c.last_at > decided.c.at), "came-back"),
        else_=state,
    )
    joined = select(sums, judged.label("state"), said.label("decision"))
    return joined.outerjoin(decided, decided.c.fingerprint == sums.c.fingerprint).subquery("judged")


def _order(sums: Subquery, order: GroupOrder) -> ColumnElement[float]:
    columns = {
        GroupOrder.NEWEST: func.extract("epoch", sums.c.last_at),
        GroupOrder.MOST: sums.c.attempts,
        GroupOrder.COST: sums.c.gpu_seconds,
    }
    return cast(columns[order], attempts.c.gpu_seconds.type)


_SHOWN = ("fingerprint", "rayjob_uid", "number", "cluster", "namespace", "name", "at")
_MEMBER = (*_SHOWN, "team", "nodes", "images", "gpu_seconds", "ended_as")


def _members(scope: Scope, fingerprint: Any, columns: Sequence[str]) -> Select[Any]:
    verdict = attempts.c.document["verdict"].label("verdict") if columns is _SHOWN else None
    chosen = [attempts.c[name] for name in columns] + ([verdict] if verdict is not None else [])
    return (
        select(*chosen)
        .where(in_scope(scope, attempts), attempts.c.fingerprint == fingerprint, attempts.c.ended_as.in_(FAILURES))
        .order_by(attempts.c.at.desc())
    )
