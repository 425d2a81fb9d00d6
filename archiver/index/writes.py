"""Manifests into the index. Idempotent: any write may happen twice, in any order; the highest revision stays."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Text, bindparam, delete, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from archiver.core.manifest import Manifest
from archiver.index import rows
from archiver.index.engine import writing
from archiver.index.tables import artifacts, attempts, index_state, rayjobs

Written = tuple[Manifest, str]
Id = tuple[str, int]


async def record(engine: AsyncEngine, manifest: Manifest, key: str) -> bool:
    """One manifest in a transaction of its own. False where a newer revision was there already."""
    async with writing(engine) as connection:
        return await write_manifest(connection, manifest, key)


async def write_manifest(connection: AsyncConnection, manifest: Manifest, key: str) -> bool:
    """Upserts one attempt, its artifacts and its RayJob. The caller's transaction makes it visible."""
    return bool(await write_manifests(connection, [(manifest, key)]))


async def write_manifests(connection: AsyncConnection, written: Sequence[Written], *, force: bool = False) -> int:
    """Upserts many attempts and gives how many were taken. ``force`` lets an older revision overwrite.

    RayJobs are locked in the order of their uid for the transaction, so that two writers neither deadlock nor sum up
    attempts that they do not both see.
    """
    newest = _newest_of_each(written)
    uids = sorted({uid for uid, _ in newest})
    if not uids:
        return 0
    await lock(connection, uids)
    attempt_rows = [rows.attempt_row(manifest, key) for manifest, key in newest.values()]
    for some in _pieces(attempt_rows, _AT_ONCE):
        await connection.execute(_upsert_attempts(some, force=force))
    taken = await _taken(connection, newest)
    await _replace_artifacts(connection, list(taken.values()))
    await _sum_up(connection, uids, taken)
    return len(taken)


async def delete_attempts(connection: AsyncConnection, ids: Sequence[Id]) -> None:
    """Takes attempts out of the index, and their RayJobs where none is left. The bucket is not touched."""
    uids = sorted({uid for uid, _ in ids})
    if not uids:
        return
    await lock(connection, uids)
    await connection.execute(delete(attempts).where(_is_one_of(ids)))
    await _sum_up(connection, uids)


async def lock(connection: AsyncConnection, uids: Sequence[str]) -> None:
    """Holds other writers of these RayJobs off until the transaction ends. May be taken again."""
    await connection.execute(_LOCK, {"uids": uids})


async def set_state(connection: AsyncConnection, name: str, value: Any) -> None:
    """What the index knows of itself, stamped with the database's clock."""
    statement = insert(index_state).values(name=name, value=rows.clean(value), updated_at=func.now())
    changed = {"value": statement.excluded.value, "updated_at": statement.excluded.updated_at}
    await connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=changed))


_AT_ONCE = 500  # Postgres takes 65,535 parameters in one statement

_LOCK = text(
    "SELECT count(pg_advisory_xact_lock(hashtextextended(uid, 7162)))"
    " FROM (SELECT unnest(:uids) AS uid ORDER BY 1 OFFSET 0) AS ordered"
).bindparams(bindparam("uids", type_=ARRAY(Text)))


def _pieces(items: Sequence[rows.Row], size: int) -> Iterator[Sequence[rows.Row]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _newest_of_each(written: Sequence[Written]) -> dict[Id, Written]:
    """Ordered by id: row locks are taken in one order too."""
    best: dict[Id, Written] = {}
    for manifest, key in sorted(written, key=lambda each: each[0].revision):
        best[rows.id_of(manifest)] = (manifest, key)
    return dict(sorted(best.items()))


def _upsert_attempts(attempt_rows: Sequence[rows.Row], *, force: bool) -> Insert:
    """One statement for all of them, so that the database counts them once."""
    statement = insert(attempts).values(list(attempt_rows))
    changed = {column.name: statement.excluded[column.name] for column in attempts.c if not column.primary_key}
    is_newer = attempts.c.revision <= statement.excluded.revision
    return statement.on_conflict_do_update(
        index_elements=list(attempts.primary_key), set_=changed, where=None if force else is_newer
    )


async def _taken(connection: AsyncConnection, newest: Mapping[Id, Written]) -> dict[Id, Manifest]:
    """Those whose revision is the stored one now."""
    columns = select(attempts.c.rayjob_uid, attempts.c.number, attempts.c.revision)
    found = await connection.execute(columns.where(_is_one_of(list(newest))))
    stored = {(row.rayjob_uid, row.number): row.revision for row in found}
    return {id_: manifest for id_, (manifest, _) in newest.items() if stored.get(id_) == manifest.revision}


async def _replace_artifacts(connection: AsyncConnection, manifests: Sequence[Manifest]) -> None:
    ids = [rows.id_of(manifest) for manifest in manifests]
    wanted = [row for manifest in manifests for row in rows.artifact_rows(manifest)]
    if ids:
        pairs = tuple_(artifacts.c.rayjob_uid, artifacts.c.number)
        await connection.execute(delete(artifacts).where(pairs.in_(ids)))
    if wanted:
        await connection.execute(insert(artifacts), wanted)


async def _sum_up(
    connection: AsyncConnection, uids: Sequence[str], known: Mapping[Id, Manifest] = MappingProxyType({})
) -> None:
    """The RayJob rows from what their attempts are now; those ``known`` need no reading."""
    grouped = await _manifests_of(connection, uids, known)
    statement = insert(rayjobs)
    changed = {column.name: statement.excluded[column.name] for column in rayjobs.c if not column.primary_key}
    upsert = statement.on_conflict_do_update(index_elements=["uid"], set_=changed)
    if grouped:
        await connection.execute(upsert, [rows.rayjob_row(manifests) for manifests in grouped.values()])
    if gone := [uid for uid in uids if uid not in grouped]:
        await connection.execute(delete(rayjobs).where(rayjobs.c.uid.in_(gone)))


async def _manifests_of(
    connection: AsyncConnection, uids: Sequence[str], known: Mapping[Id, Manifest]
) -> dict[str, list[Manifest]]:
    """By RayJob. What comes from the database has its logs among the artifacts only."""
    columns = select(attempts.c.rayjob_uid, attempts.c.number)
    found = await connection.execute(columns.where(attempts.c.rayjob_uid.in_(uids)))
    ids: list[Id] = [(row.rayjob_uid, row.number) for row in found]
    unknown = [id_ for id_ in ids if id_ not in known]
    loaded = {**known, **(await _load(connection, unknown) if unknown else {})}
    grouped: dict[str, list[Manifest]] = {}
    for id_ in ids:
        grouped.setdefault(id_[0], []).append(loaded[id_])
    return grouped


async def _load(connection: AsyncConnection, ids: Sequence[Id]) -> dict[Id, Manifest]:
    logs = (
        select(func.jsonb_agg(artifacts.c.document))
        .where(artifacts.c.rayjob_uid == attempts.c.rayjob_uid, artifacts.c.number == attempts.c.number)
        .where(artifacts.c.kind == "log")
        .scalar_subquery()
    )
    wanted = select(attempts.c.rayjob_uid, attempts.c.number, attempts.c.document, logs.label("logs"))
    found = await connection.execute(wanted.where(_is_one_of(ids)))
    return {(row.rayjob_uid, row.number): rows.manifest_of(row.document, row.logs or ()) for row in found}


def _is_one_of(ids: Sequence[Id]) -> Any:
    return tuple_(attempts.c.rayjob_uid, attempts.c.number).in_(ids)
