"""What people said, back from the bucket into the index: the part of a rebuild that is not about manifests."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core import people
from archiver.errors import DataError
from archiver.index import people as rows
from archiver.index.engine import reading, writing
from archiver.ports import ObjectStore
from archiver.read.bucket import Finding, batched
from archiver.read.together import all_of

T = TypeVar("T")
_BATCH = 200
_READS_AT_ONCE = 16


class SaidAgain:
    """Words that are not understood are named in ``skipped``. What is said meanwhile stays."""

    def __init__(self, store: ObjectStore, engine: AsyncEngine) -> None:
        self._store = store
        self._engine = engine
        self._began = datetime.now(UTC)
        self._found: set[str] = set()
        self._limit = asyncio.Semaphore(_READS_AT_ONCE)
        self.skipped: list[Finding] = []

    async def write_feedback(self, keys: Sequence[str]) -> None:
        """One batch of what was said of attempts."""
        said = await self._load(keys, people.feedback_from)
        async with writing(self._engine) as connection:
            await rows.write_feedback(connection, said)

    async def write_decisions(self, prefix: str) -> None:
        """All that was decided of groups."""
        listed = (info.key async for info in self._store.list(people.decisions_prefix(prefix)))
        async for keys in batched(listed, _BATCH):
            decided = await self._load(keys, people.decision_from)
            async with writing(self._engine) as connection:
                await rows.write_decisions(connection, decided)

    async def remove_gone(self) -> None:
        """Takes out rows whose objects the passes before did not meet."""
        async with reading(self._engine) as connection:
            known = await rows.list_keys(connection, until=self._began)
        gone = sorted(known - self._found)
        if gone:
            async with writing(self._engine) as connection:
                await rows.forget(connection, gone)

    async def _load(self, keys: Sequence[str], parse: Callable[[bytes], T]) -> list[tuple[str, T]]:
        async def load(key: str) -> tuple[str, T] | None:
            async with self._limit:
                body = await self._store.get(key)
            try:
                return (key, parse(body)) if body is not None else None
            except DataError as error:
                self.skipped.append(Finding(key, str(error)))
                return None

        found = await all_of(map(load, keys))
        kept = [each for each in found if each is not None]
        self._found.update(key for key, _ in kept)
        return kept
