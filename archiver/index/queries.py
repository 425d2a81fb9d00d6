"""Reading single jobs and lists of jobs: each statement is a named function. Rows come out as plain mappings.

Lists are paged by keyset only; nothing here counts all rows or skips some.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, and_, false, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.core.manifest import Manifest
from archiver.index.filters import JobFilter, Scope
from archiver.index.rows import manifest_of
from archiver.index.tables import artifacts, attempts, rayjobs
from archiver.index.tokens import Direction, Position

Found = RowMapping
SAME_NAME_LIMIT = 100


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """A manifest as the index has it, and where it lies in the bucket."""

    manifest: Manifest
    key: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows, newest first, and whether there are more on either side."""

    rows: tuple[Found, ...]
    has_newer: bool
    has_older: bool


def visible(scope: Scope) -> ColumnElement[bool]:
    """The one place where a viewer's scope becomes SQL."""
    if scope.namespaces is None:
        return true()
    if not scope.namespaces:
        return false()
    return tuple_(rayjobs.c.cluster, rayjobs.c.namespace).in_(sorted(scope.namespaces))


def matching(job_filter: JobFilter) -> ColumnElement[bool]:
    """A filter as SQL. NUL never matches and Postgres refuses it, so such a value finds nothing."""
    clauses: list[ColumnElement[bool]] = [
        _any_of(rayjobs.c[column], wanted) for column, wanted in _columns(job_filter) if wanted
    ]
    if job_filter.nodes:
        clauses.append(rayjobs.c.nodes.overlap(_storable(job_filter.nodes)))
    if job_filter.text:
        clauses.append(_contains(rayjobs.c.name, job_filter.text))
    if job_filter.since is not None:
        clauses.append(rayjobs.c.at >= job_filter.since)
    if job_filter.until is not None:
        clauses.append(rayjobs.c.at < job_filter.until)
    return and_(true(), *clauses)


async def list_jobs(
    connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, size: int, position: Position | None
) -> Slice:
    """``size`` rows on one side of a position; the newest ones without a position."""
    is_newer = position is not None and position.direction is Direction.NEWER
    statement = select(rayjobs).where(visible(scope), matching(job_filter)).limit(size + 1)
    found = (await connection.execute(_placed(statement, position))).mappings().all()
    kept = found[:size]
    has_more = len(found) > size
    if is_newer:
        return Slice(tuple(reversed(kept)), has_newer=has_more, has_older=True)
    return Slice(tuple(kept), has_newer=position is not None, has_older=has_more)


async def find_job(connection: AsyncConnection, scope: Scope, uid: str) -> Found | None:
    statement = select(rayjobs).where(visible(scope), rayjobs.c.uid == _storable_text(uid))
    return (await connection.execute(statement)).mappings().one_or_none()


async def find_named(
    connection: AsyncConnection, scope: Scope, *, cluster: str, namespace: str, name: str
) -> tuple[Found, ...]:
    """All RayJobs that bore this name, newest first, at most SAME_NAME_LIMIT."""
    is_named = and_(
        rayjobs.c.cluster == _storable_text(cluster),
        rayjobs.c.namespace == _storable_text(namespace),
        rayjobs.c.name == _storable_text(name),
    )
    statement = select(rayjobs).where(visible(scope), is_named).order_by(rayjobs.c.at.desc(), rayjobs.c.uid.desc())
    return tuple((await connection.execute(statement.limit(SAME_NAME_LIMIT))).mappings().all())


async def load_attempts(
    connection: AsyncConnection, scope: Scope, uid: str, *, number: int | None = None
) -> tuple[StoredAttempt, ...]:
    """The attempts of a RayJob with all their artifacts, oldest first, or only the one with ``number``."""
    statement = (
        select(attempts.c.number, attempts.c.document, attempts.c.manifest_key)
        .join(rayjobs, rayjobs.c.uid == attempts.c.rayjob_uid)
        .where(visible(scope), attempts.c.rayjob_uid == _storable_text(uid))
        .order_by(attempts.c.number)
    )
    if number is not None:
        statement = statement.where(attempts.c.number == number)
    found = (await connection.execute(statement)).all()
    documents_of = await _artifact_documents(connection, uid, number) if found else {}
    return tuple(
        StoredAttempt(manifest_of(row.document, documents_of.get(row.number, ())), row.manifest_key) for row in found
    )


async def _artifact_documents(connection: AsyncConnection, uid: str, number: int | None) -> dict[int, list[Any]]:
    statement = (
        select(artifacts.c.number, artifacts.c.document)
        .where(artifacts.c.rayjob_uid == uid)
        .order_by(artifacts.c.number, artifacts.c.position)
    )
    if number is not None:
        statement = statement.where(artifacts.c.number == number)
    documents: dict[int, list[Any]] = {}
    for row in await connection.execute(statement):
        documents.setdefault(row.number, []).append(row.document)
    return documents


async def list_places(
    connection: AsyncConnection, *, after: tuple[str, int], limit: int
) -> tuple[tuple[str, int, str], ...]:
    """Uid, number and manifest key of every attempt, in order, from behind a place. For the audits, which see all."""
    columns = attempts.c
    statement = (
        select(columns.rayjob_uid, columns.number, columns.manifest_key)
        .where(tuple_(columns.rayjob_uid, columns.number) > after)
        .order_by(columns.rayjob_uid, columns.number)
        .limit(limit)
    )
    return tuple((row.rayjob_uid, row.number, row.manifest_key) for row in await connection.execute(statement))


def _placed(statement: Select[Any], position: Position | None) -> Select[Any]:
    key = tuple_(rayjobs.c.at, rayjobs.c.uid)
    if position is None:
        return statement.order_by(rayjobs.c.at.desc(), rayjobs.c.uid.desc())
    if position.direction is Direction.NEWER:
        return statement.where(key > (position.at, position.uid)).order_by(rayjobs.c.at, rayjobs.c.uid)
    return statement.where(key < (position.at, position.uid)).order_by(rayjobs.c.at.desc(), rayjobs.c.uid.desc())


def _columns(job_filter: JobFilter) -> Sequence[tuple[str, tuple[str, ...]]]:
    return (
        ("cluster", job_filter.clusters),
        ("namespace", job_filter.namespaces),
        ("team", job_filter.teams),
        ("queue", job_filter.queues),
        ("status", job_filter.statuses),
        ("cause", job_filter.causes),
        ("category", job_filter.categories),
        ("completeness", job_filter.completeness),
    )


def _any_of(column: ColumnElement[Any], wanted: Sequence[str]) -> ColumnElement[bool]:
    """An empty word asks for rows that say nothing there."""
    storable = _storable(wanted)
    said = column == storable[0] if len(storable) == 1 else column.in_(storable)
    return or_(said, column.is_(None)) if "" in wanted else said


def _contains(column: ColumnElement[Any], wanted: str) -> ColumnElement[bool]:
    return column.icontains(wanted, autoescape=True) if "\0" not in wanted else false()


def _storable(wanted: Sequence[str]) -> list[str]:
    return [_storable_text(word) for word in wanted]


def _storable_text(word: str) -> str:
    """A name that no row has stands for one that Postgres would not even take as a question."""
    return word.translate(_NEVER_STORED)


_NEVER_STORED = dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd")
