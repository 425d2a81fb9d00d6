"""Brings manifests into the index, behind the capture's back: Postgres may be down for a day and costs no evidence.

Only the newest manifest of an attempt waits, so the queue is bounded by the number of attempts. Many go by one
transaction: when many jobs end together, their evidence needs the processor more. The open mark of a final
attempt is taken away after its row is written; a process that dies before that does it again at the next start.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import structlog

from archiver.collect.catalog import Catalog
from archiver.core.backoff import backoff_seconds
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import AttemptId
from archiver.errors import ArchiverError
from archiver.telemetry import Metrics

WriteRows = Callable[[Sequence[tuple[Manifest, str]]], Awaitable[object]]
_AT_ONCE = 50
_GATHER_SECONDS = 0.2
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Waiting:
    manifest: Manifest
    key: str
    created: datetime


class Indexer:
    """``submit`` never waits; ``run`` writes for ever; ``drain`` waits until nothing is left."""

    def __init__(self, write: WriteRows, catalog: Catalog, metrics: Metrics) -> None:
        self._write = write
        self._catalog = catalog
        self._metrics = metrics
        self._waiting: dict[AttemptId, Waiting] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.last_error: str | None = None
        self._singly = 0  # so many writes go one by one, because one of a batch failed

    def submit(self, manifest: Manifest, key: str, created: datetime) -> None:
        self._waiting[manifest.attempt] = Waiting(manifest, key, created)
        self._metrics.index_pending.set(len(self._waiting))
        self._idle.clear()
        self._wake.set()

    async def drain(self) -> None:
        await self._idle.wait()

    async def run(self) -> None:
        failures = 0
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._wake.clear()
            while self._waiting:
                if await self._write_some(dict(islice(self._waiting.items(), 1 if self._singly else _AT_ONCE))):
                    failures = 0
                else:
                    failures += 1
                    await asyncio.sleep(backoff_seconds(failures, random.random(), cap=15.0))
            self._idle.set()

    async def _write_some(self, batch: Mapping[AttemptId, Waiting]) -> bool:
        self._singly = max(0, self._singly - 1)
        try:
            await self._write([(waiting.manifest, waiting.key) for waiting in batch.values()])
            final = [attempt for attempt, each in batch.items() if self._is_last_word(attempt, each)]
            if final:
                await self._catalog.unmark(final)
        except ArchiverError as error:
            self._note_failure(batch, error)
            return False
        self.last_error = None
        for attempt, waiting in batch.items():
            if self._waiting.get(attempt) is waiting:
                del self._waiting[attempt]
        self._metrics.index_pending.set(len(self._waiting))
        return True

    def _is_last_word(self, attempt: AttemptId, waiting: Waiting) -> bool:
        """A final manifest that no later revision has followed meanwhile."""
        return waiting.manifest.state is ManifestState.FINAL and self._waiting.get(attempt) is waiting

    def _note_failure(self, batch: Mapping[AttemptId, Waiting], error: ArchiverError) -> None:
        """Others need not wait behind one bad row: it goes to the end, and all go one by one for a turn."""
        self.last_error = str(error)
        self._metrics.errors_total.labels("index").inc()
        first = next(iter(batch)).rayjob
        _log.warning(
            "index write failed", rayjob=first.name, namespace=first.namespace, count=len(batch), error=str(error)
        )
        if len(batch) == 1:
            (attempt,) = batch
            self._waiting[attempt] = self._waiting.pop(attempt)
        else:
            self._singly = len(self._waiting)
