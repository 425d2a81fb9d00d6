"""Rebuilds the index from the bucket alone, in place and while a watcher goes on writing.

Every manifest is upserted; a row that is newer than its manifest, or has none, is corrected under the RayJob's lock and
after a second look at the bucket, so that what a watcher writes at this moment is never undone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest
from archiver.index.engine import reading, writing
from archiver.index.queries import list_places
from archiver.index.writes import delete_attempts, lock, set_state, write_manifests
from archiver.ports import ObjectStore
from archiver.read.bucket import Finding, batched, is_manifest_key, load_manifest, record_keys
from archiver.read.said import SaidAgain
from archiver.read.together import all_of

BATCH = 200
_FINDINGS_KEPT = 10_000
_READS_AT_ONCE = 16
Place = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class ReindexProgress:
    """So far."""

    manifests: int = 0
    written: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """Manifests read, rows written, rows ``removed`` because their manifest is gone; ``skipped`` are not understood."""

    manifests: int
    written: int
    removed: int
    skipped: tuple[Finding, ...]


async def reindex(
    store: ObjectStore,
    engine: AsyncEngine,
    *,
    prefix: str = "",
    progress: Callable[[ReindexProgress], None] = lambda _: None,
) -> ReindexReport:
    """The index equals the bucket afterwards, but for what is skipped. May be cut off and started again."""
    work, said = _Reindex(store, engine, progress), SaidAgain(store, engine)
    async for batch in batched(record_keys(store, prefix), BATCH):
        await work.write([key for key in batch if is_manifest_key(key)])
        await said.write_feedback([key for key in batch if not is_manifest_key(key)])
    await work.remove_gone()
    await said.write_decisions(prefix)
    await said.remove_gone()
    work.skipped += said.skipped
    report = ReindexReport(work.manifests, work.written, work.removed, tuple(work.skipped))
    async with writing(engine) as connection:
        await set_state(connection, "reindexed", {"manifests": report.manifests, "skipped": len(report.skipped)})
    return report


class _Reindex:
    def __init__(self, store: ObjectStore, engine: AsyncEngine, progress: Callable[[ReindexProgress], None]) -> None:
        self._store = store
        self._engine = engine
        self._progress = progress
        self._limit = asyncio.Semaphore(_READS_AT_ONCE)
        self.manifests = self.written = self.removed = 0
        self.skipped: list[Finding] = []

    async def write(self, batch: list[str]) -> None:
        """One transaction; then one each for rows that were newer than their manifest."""
        if not batch:
            return
        loaded = await self._load(batch)
        async with writing(self._engine) as connection:
            taken = await write_manifests(connection, loaded)
        if taken < len(loaded):
            for manifest, key in loaded:
                await self._correct(manifest.attempt.rayjob.uid, key)
        self.manifests += len(batch)
        self.written += len(loaded)
        self._report()

    async def remove_gone(self) -> None:
        """Takes rows out whose manifest is gone, or is another attempt's."""
        async for places in self._places():
            gone = [place for place in await all_of(map(self._if_gone, places)) if place is not None]
            for uid, number, key in gone:
                async with writing(self._engine) as connection:
                    await lock(connection, [uid])
                    if await self._store.head(key) is None:
                        await delete_attempts(connection, [(uid, number)])
                        self.removed += 1
            self._report()

    async def _load(self, batch: list[str]) -> list[tuple[Manifest, str]]:
        async def load(key: str) -> Manifest | Finding | None:
            async with self._limit:
                return await load_manifest(self._store, key)

        found = await all_of(map(load, batch))
        self.skipped += [each for each in found if isinstance(each, Finding)][: _FINDINGS_KEPT - len(self.skipped)]
        return [(each, key) for each, key in zip(found, batch, strict=True) if isinstance(each, Manifest)]

    async def _correct(self, uid: str, key: str) -> None:
        """Writes what the bucket has now, even over a newer row: under the lock nobody can be ahead of the bucket."""
        async with writing(self._engine) as connection:
            await lock(connection, [uid])
            fresh = await load_manifest(self._store, key)
            if isinstance(fresh, Manifest):
                await write_manifests(connection, [(fresh, key)], force=True)

    async def _places(self) -> AsyncIterator[tuple[Place, ...]]:
        after = ("", 0)
        while True:
            async with reading(self._engine) as connection:
                places = await list_places(connection, after=after, limit=BATCH)
            if not places:
                return
            yield places
            after = (places[-1][0], places[-1][1])

    async def _if_gone(self, place: Place) -> Place | None:
        async with self._limit:
            return None if await self._store.head(place[2]) else place

    def _report(self) -> None:
        self._progress(ReindexProgress(self.manifests, self.written, self.removed))
