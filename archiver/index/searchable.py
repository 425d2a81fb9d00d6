"""Which archived logs the RayJobs of a filter have, and how large they are. Reading them is the read side's."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.index.filters import JobFilter, Scope
from archiver.index.queries import matching, visible
from archiver.index.tables import artifacts, rayjobs

_IS_LOG = and_(artifacts.c.kind == "log", artifacts.c.key != "", artifacts.c.raw_bytes > 0)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """One archived log. ``position`` is its place in the manifest of attempt ``number``."""

    uid: str
    number: int
    position: int
    name: str
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class LogSum:
    """Logs and bytes of the newest RayJobs of a filter; ``jobs`` is at most what was asked for."""

    jobs: int
    logs: int
    raw_bytes: int


async def sum_logs(connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, jobs: int) -> LogSum:
    """Looks at no more than ``jobs`` newest RayJobs."""
    newest = (
        select(rayjobs.c.uid)
        .where(visible(scope), matching(job_filter))
        .order_by(rayjobs.c.at.desc(), rayjobs.c.uid.desc())
        .limit(jobs)
        .cte("newest")
    )
    count = select(func.count()).select_from(newest).scalar_subquery()
    logs = (
        select(count, func.count(), func.coalesce(func.sum(artifacts.c.raw_bytes), 0))
        .select_from(artifacts.join(newest, newest.c.uid == artifacts.c.rayjob_uid))
        .where(_IS_LOG)
    )
    found = (await connection.execute(logs)).one()
    return LogSum(int(found[0]), int(found[1]), int(found[2]))


async def list_logs(connection: AsyncConnection, uids: Sequence[str]) -> dict[str, list[LogPlace]]:
    """The logs of some RayJobs that the viewer sees, the newest attempt first, in the manifest's order."""
    columns = (
        artifacts.c.rayjob_uid,
        artifacts.c.number,
        artifacts.c.position,
        artifacts.c.name,
        artifacts.c.raw_bytes,
    )
    statement = (
        select(*columns)
        .where(artifacts.c.rayjob_uid.in_(uids), _IS_LOG)
        .order_by(artifacts.c.rayjob_uid, artifacts.c.number.desc(), artifacts.c.position)
    )
    found: dict[str, list[LogPlace]] = {}
    for row in await connection.execute(statement):
        found.setdefault(row.rayjob_uid, []).append(LogPlace(*row))
    return found
