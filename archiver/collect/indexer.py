"""Brings manifests into the index, behind the capture's back: Postgres may be down for a day and costs no evidence.

Only the newest manifest of an attempt waits, so the queue is bounded by the number of attempts. The open mark of a final
attempt is taken away after its row is written; a process that dies before that does it again at the next start.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from archiver.collect.catalog import Catalog
from archiver.core.backoff import backoff_seconds
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import AttemptId
from archiver.errors import ArchiverError
from archiver.telemetry import Metrics

WriteRow = Callable[[Manifest, str], Awaitable[None]]
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Waiting:
    manifest: Manifest
    key: str
    created: datetime


class Indexer:
    """``submit`` never waits; ``run`` writes for ever; ``drain`` waits until nothing is left."""

    def __init__(self, write: WriteRow, catalog: Catalog, metrics: Metrics) -> None:
        self._write = write
        self._catalog = catalog
        self._metrics = metrics
        self._waiting: dict[AttemptId, Waiting] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.last_error: str | None = None

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
            self._wake.clear()
            while self._waiting:
                attempt, waiting = next(iter(self._waiting.items()))
                if await self._write_one(attempt, waiting):
                    failures = 0
                else:
                    failures += 1
                    await asyncio.sleep(backoff_seconds(failures, random.random(), cap=15.0))
            self._idle.set()

    async def _write_one(self, attempt: AttemptId, waiting: Waiting) -> bool:
        try:
            await self._write(waiting.manifest, waiting.key)
            if waiting.manifest.state is ManifestState.FINAL:
                await self._catalog.unmark([attempt])
        except ArchiverError as error:
            self.last_error = str(error)
            self._metrics.errors_total.labels("index").inc()
            _log.warning(
                "index write failed", rayjob=attempt.rayjob.name, namespace=attempt.rayjob.namespace, error=str(error)
            )
            # others need not wait behind one bad row
            self._waiting[attempt] = self._waiting.pop(attempt)
            return False
        self.last_error = None
        if self._waiting.get(attempt) is waiting:
            del self._waiting[attempt]
        self._metrics.index_pending.set(len(self._waiting))
        return True
