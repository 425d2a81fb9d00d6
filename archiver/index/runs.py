"""Runs beside the one that is looked at: earlier ones of the same job that went well, and failures of the same kind."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, Subquery, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.core.stems import stem
from archiver.index.filters import FAILURES, Scope
from archiver.index.queries import Found, in_scope, storable_text, visible
from archiver.index.tables import attempts, rayjobs

# of a namespace's newest RayJobs so many are looked through for one whose generated name has the same stem
NEARBY = 3_000
SAMPLE = 1_000
_NAMED = (rayjobs.c.uid, rayjobs.c.name, rayjobs.c.team, rayjobs.c.at, rayjobs.c.status)
_COLUMNS = (*_NAMED, rayjobs.c.attempts)


@dataclass(frozen=True, slots=True)
class Run:
    """Which job's run is meant: ``at`` is what lists sort by, only what ended before it is looked at."""

    cluster: str
    namespace: str
    name: str
    team: str | None
    at: datetime


async def last_good(connection: AsyncConnection, scope: Scope, run: Run) -> Found | None:
    """The newest success before the run: of the same name, else of the same stem and team. Bounded reading."""
    place = (
        visible(scope),
        rayjobs.c.cluster == storable_text(run.cluster),
        rayjobs.c.namespace == storable_text(run.namespace),
        rayjobs.c.at < run.at,
    )
    newest = rayjobs.c.at.desc(), rayjobs.c.uid.desc()
    is_named, is_good = rayjobs.c.name == storable_text(run.name), rayjobs.c.status == "succeeded"
    named = select(*_COLUMNS).where(*place, is_named, is_good).order_by(*newest).limit(1)
    found = (await connection.execute(named)).mappings().first()
    if found is not None or stem(run.name) == run.name:
        return found
    uid = await _alike(connection, select(*_NAMED).where(*place).order_by(*newest).limit(NEARBY).subquery(), run)
    if uid is None:
        return None
    return (await connection.execute(select(*_COLUMNS).where(rayjobs.c.uid == uid))).mappings().first()


async def _alike(connection: AsyncConnection, nearby: Subquery, run: Run) -> str | None:
    """The newest success whose generated name has the run's stem. Names alone are read: many begin alike."""
    wanted = stem(run.name)
    starts = nearby.c.name.startswith(storable_text(wanted), autoescape=True)
    is_theirs = nearby.c.team.is_not_distinct_from(None if run.team is None else storable_text(run.team))
    alike = select(nearby.c.uid, nearby.c.name).where(nearby.c.status == "succeeded", starts, is_theirs)
    rows = (await connection.execute(alike.order_by(nearby.c.at.desc()))).all()
    return next((uid for uid, name in rows if stem(name) == wanted), None)


async def same_failures(connection: AsyncConnection, scope: Scope, fingerprint: str, *, since: datetime) -> Found:
    """``count`` attempts of ``jobs`` RayJobs failed so since a moment, the oldest at ``first_at``; at most SAMPLE."""
    kind = (
        select(attempts.c.rayjob_uid, attempts.c.at)
        .where(
            in_scope(scope, attempts),
            attempts.c.fingerprint == storable_text(fingerprint),
            attempts.c.ended_as.in_(FAILURES),
            attempts.c.at >= since,
        )
        .order_by(attempts.c.at.desc())
        .limit(SAMPLE)
        .subquery()
    )
    counted = select(
        func.count().label("count"),
        func.count(kind.c.rayjob_uid.distinct()).label("jobs"),
        func.min(kind.c.at).label("first_at"),
    )
    row: RowMapping = (await connection.execute(counted)).mappings().one()
    return row
