"""What people said, as rows: written once, read by attempt or by group. The bucket has the same documents."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Subquery, Text, cast, delete, func, or_, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from archiver.core import people, records
from archiver.core.people import Feedback, GroupDecision
from archiver.index import rows
from archiver.index.filters import Scope
from archiver.index.queries import visible
from archiver.index.tables import feedback, group_decisions, rayjobs

HISTORY = 50


async def write_feedback(connection: AsyncConnection, said: Sequence[tuple[str, Feedback]]) -> None:
    """Keys and words. One that is there already stays."""
    found = [
        {"key": key, "rayjob_uid": rows.indexed(each.uid), "number": each.number, **_common(each)} for key, each in said
    ]
    if found:
        await connection.execute(insert(feedback).on_conflict_do_nothing(), found)


async def write_decisions(connection: AsyncConnection, decided: Sequence[tuple[str, GroupDecision]]) -> None:
    """Keys and decisions. One that is there already stays."""
    found = [{"key": key, "fingerprint": rows.indexed(each.fingerprint), **_common(each)} for key, each in decided]
    if found:
        await connection.execute(insert(group_decisions).on_conflict_do_nothing(), found)


async def forget(connection: AsyncConnection, keys: Sequence[str]) -> None:
    """Takes rows out whose objects are gone."""
    for table in (feedback, group_decisions):
        await connection.execute(delete(table).where(table.c.key.in_(keys)))


async def list_keys(connection: AsyncConnection, *, until: datetime) -> frozenset[str]:
    """Keys of everything that was said before a moment."""
    found: set[str] = set()
    for table in (feedback, group_decisions):
        found.update(await connection.scalars(select(table.c.key).where(table.c.at < until)))
    return frozenset(found)


async def load_feedback(connection: AsyncConnection, scope: Scope, uid: str, number: int) -> tuple[Feedback, ...]:
    """On one attempt, newest first, at most HISTORY."""
    statement = (
        select(feedback.c.document)
        .join(rayjobs, rayjobs.c.uid == feedback.c.rayjob_uid)
        .where(visible(scope), feedback.c.rayjob_uid == rows.indexed(uid), feedback.c.number == number)
        .order_by(feedback.c.at.desc(), feedback.c.key.desc())
        .limit(HISTORY)
    )
    return tuple(records.from_value(Feedback, document) for document in await connection.scalars(statement))


async def page_feedback(
    connection: AsyncConnection, scope: Scope, *, after: tuple[datetime, str] | None, size: int
) -> tuple[tuple[str, Feedback], ...]:
    """Words on all attempts, oldest first, from behind a place: a moment, and a hash of the key."""
    hashed = func.md5(feedback.c.key)
    place = tuple_(feedback.c.at, hashed)
    statement = (
        select(hashed.label("hashed"), feedback.c.document)
        .join(rayjobs, rayjobs.c.uid == feedback.c.rayjob_uid)
        .where(visible(scope))
        .order_by(feedback.c.at, hashed)
        .limit(size)
    )
    found = await connection.execute(statement.where(place > after) if after else statement)
    return tuple((row.hashed, records.from_value(Feedback, row.document)) for row in found)


async def load_decisions(
    connection: AsyncConnection, scope: Scope, fingerprints: Sequence[str]
) -> dict[str, GroupDecision]:
    """The newest decision of each group that the viewer may read."""
    newest = latest(scope)
    wanted = [rows.indexed(each) for each in fingerprints]
    found = await connection.execute(select(newest).where(newest.c.fingerprint.in_(wanted)))
    return {row.fingerprint: records.from_value(GroupDecision, row.document) for row in found}


async def decision_history(connection: AsyncConnection, scope: Scope, fingerprint: str) -> tuple[GroupDecision, ...]:
    """All decisions of one group, newest first, at most HISTORY."""
    statement = (
        select(group_decisions.c.document)
        .where(readable(scope), group_decisions.c.fingerprint == rows.indexed(fingerprint))
        .order_by(group_decisions.c.at.desc(), group_decisions.c.key.desc())
        .limit(HISTORY)
    )
    return tuple(records.from_value(GroupDecision, document) for document in await connection.scalars(statement))


def latest(scope: Scope) -> Subquery:
    """The newest readable decision of every group, as a table."""
    columns = group_decisions.c
    return (
        select(columns.fingerprint, columns.at, columns.document)
        .ext(distinct_on(columns.fingerprint))
        .where(readable(scope))
        .order_by(columns.fingerprint, columns.at.desc(), columns.key.desc())
        .subquery("latest")
    )


def readable(scope: Scope) -> ColumnElement[bool]:
    """Nobody reads what was written from evidence that they may not see."""
    if scope.namespaces is None:
        return true()
    said_for = group_decisions.c.document["namespaces"]
    places = [people.place(cluster, namespace) for cluster, namespace in sorted(scope.namespaces)]
    return or_(said_for == JSONB.NULL, said_for.contained_by(func.to_jsonb(cast(places, ARRAY(Text)))))


def _common(said: Feedback | GroupDecision) -> dict[str, object]:
    return {"at": said.at, "document": rows.clean(records.to_value(said))}
