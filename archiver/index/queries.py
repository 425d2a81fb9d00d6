"""Reading single jobs and lists of jobs: each statement is a named function. Rows come out as plain mappings.

Lists are paged by keyset only; nothing here counts all rows or skips some.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, RowMapping, Select, Table, and_, false, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.core.manifest import Manifest
from archiver.index.filters import JobFilter, JobOrder, Scope
from archiver.index.rows import grams, manifest_of
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


def in_scope(scope: Scope, table: FromClause) -> ColumnElement[bool]:
    """The one place where a viewer's scope becomes SQL. Every table that a viewer reads has cluster and namespace."""
    if scope.namespaces is None:
        return true()
    if not scope.namespaces:
        return false()
    return tuple_(table.c.cluster, table.c.namespace).in_(sorted(scope.namespaces))


def visible(scope: Scope) -> ColumnElement[bool]:
    """Of RayJobs."""
    return in_scope(scope, rayjobs)


def matching(job_filter: JobFilter, table: Table = rayjobs) -> ColumnElement[bool]:
    """A filter as SQL, on RayJobs or on attempts. NUL never matches and Postgres refuses it: it finds nothing."""
    words = _columns(job_filter, "status" if table is rayjobs else "ended_as")
    clauses: list[ColumnElement[bool]] = [_any_of(table.c[column], wanted) for column, wanted in words if wanted]
    for column, wanted in (("nodes", job_filter.nodes), ("images", job_filter.images)):
        if wanted:
            clauses.append(table.c[column].overlap(storable(wanted)))
    if job_filter.text:
        clauses.append(_contains(table, job_filter.text))
    if job_filter.since is not None:
        clauses.append(table.c.at >= job_filter.since)
    if job_filter.until is not None:
        clauses.append(table.c.at < job_filter.until)
    return and_(true(), *clauses)


async def list_jobs(
    connection: AsyncConnection, scope: Scope, job_filter: JobFilter, *, size: int, position: Position | None
) -> Slice:
    """``size`` rows on one side of a position, by the filter's order; the topmost ones without a position."""
    is_newer = position is not None and position.direction is Direction.NEWER
    statement = select(rayjobs).where(visible(scope), matching(job_filter)).limit(size + 1)
    found = (await connection.execute(_placed(statement, position, job_filter.order))).mappings().all()
    kept = found[:size]
    has_more = len(found) > size
    if is_newer:
        return Slice(tuple(reversed(kept)), has_newer=has_more, has_older=True)
    return Slice(tuple(kept), has_newer=position is not None, has_older=has_more)


async def find_job(connection: AsyncConnection, scope: Scope, uid: str) -> Found | None:
    statement = select(rayjobs).where(visible(scope), rayjobs.c.uid == storable_text(uid))
    return (await connection.execute(statement)).mappings().one_or_none()


async def find_named(
    connection: AsyncConnection, scope: Scope, *, cluster: str, namespace: str, name: str
) -> tuple[Found, ...]:
    """All RayJobs that bore this name, newest first, at most SAME_NAME_LIMIT."""
    is_named = and_(
        rayjobs.c.cluster == storable_text(cluster),
        rayjobs.c.namespace == storable_text(namespace),
        rayjobs.c.name == storable_text(name),
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
        .where(visible(scope), attempts.c.rayjob_uid == storable_text(uid))
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


def _placed(statement: Select[Any], position: Position | None, order: JobOrder) -> Select[Any]:
    by = rayjobs.c.gpu_seconds if order is JobOrder.COST else rayjobs.c.at
    key = tuple_(by, rayjobs.c.uid)
    if position is None:
        return statement.order_by(by.desc(), rayjobs.c.uid.desc())
    place = (position.cost if order is JobOrder.COST else position.at, position.uid)
    if position.direction is Direction.NEWER:
        return statement.where(key > place).order_by(by, rayjobs.c.uid)
    return statement.where(key < place).order_by(by.desc(), rayjobs.c.uid.desc())


def _columns(job_filter: JobFilter, status: str) -> Sequence[tuple[str, tuple[str, ...]]]:
    return (
        ("cluster", job_filter.clusters),
        ("namespace", job_filter.namespaces),
        ("team", job_filter.teams),
        ("queue", job_filter.queues),
        (status, job_filter.statuses),
        ("cause", job_filter.causes),
        ("category", job_filter.categories),
        ("completeness", job_filter.completeness),
        ("fingerprint", job_filter.fingerprints),
    )


def _any_of(column: ColumnElement[Any], wanted: Sequence[str]) -> ColumnElement[bool]:
    """An empty word asks for rows that say nothing there."""
    words = storable(wanted)
    said = column == words[0] if len(words) == 1 else column.in_(words)
    return or_(said, column.is_(None)) if "" in wanted else said


def _contains(table: Table, wanted: str) -> ColumnElement[bool]:
    """Of RayJobs an index knows every three characters of a name; what it finds is looked at."""
    if "\0" in wanted:
        return false()
    found = table.c.name.icontains(storable_text(wanted), autoescape=True)
    parts = grams(wanted) if table is rayjobs and wanted.isascii() else []
    return and_(table.c.name_grams.contains(parts), found) if parts else found


def storable(wanted: Sequence[str]) -> list[str]:
    """Words as Postgres takes them."""
    return [storable_text(word) for word in wanted]


def storable_text(word: str) -> str:
    """A name that no row has stands for one that Postgres would not even take as a question."""
    return word.translate(_NEVER_STORED)


_NEVER_STORED = dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd")
