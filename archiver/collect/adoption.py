"""What earlier processes left: attempts that are open and that nobody shows us any more, rows that were not written.

An open mark is taken away when the row of the final manifest is in the index. A mark that is there after a start is an
attempt to go on with, one to close because its RayJob is gone, or one that only its row is missing of.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

import structlog

from archiver.collect.catalog import OpenAttempt
from archiver.collect.knownjobs import KnownJob
from archiver.collect.tools import Tools
from archiver.core import keys
from archiver.core.backoff import backoff_seconds
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import AttemptId, Kind
from archiver.errors import ArchiverError

_LOOK_SECONDS = 2.0
_T = TypeVar("_T")
_log = structlog.get_logger()


class Captures(Protocol):
    """What the controller knows and can do."""

    def job(self, rayjob_uid: str) -> KnownJob | None: ...

    def is_captured(self, attempt: AttemptId) -> bool: ...

    async def close(self, job: KnownJob, number: int) -> None:
        """Captures what is left of an attempt that is over."""


class Adoption:
    """``run`` returns when everything that was left is taken care of."""

    def __init__(self, tools: Tools, captures: Captures) -> None:
        self._tools = tools
        self._captures = captures

    async def run(self) -> None:
        """The marks that are there now are those of earlier processes, or ours: ours are captured."""
        left = await self._for_ever(self._tools.catalog.open_attempts)
        while left:
            waiting = []
            for entry in left:
                if not await self._for_ever(partial(self._settle, entry)):
                    waiting.append(entry)
            left = waiting
            await asyncio.sleep(_LOOK_SECONDS)

    async def note_deletion(self, job: KnownJob, attempt: AttemptId, seen_at: datetime) -> None:
        """The cluster of an archived attempt is gone: the final manifest learns the moment and the margin."""
        await self._for_ever(partial(self._amend, job, attempt, seen_at))

    async def _settle(self, entry: OpenAttempt) -> bool:
        """Whether one mark needs no more of us."""
        job = self._captures.job(entry.attempt.rayjob.uid)
        if self._captures.is_captured(entry.attempt):
            return True
        if job is not None and not job.is_looked_up:
            return False
        manifest = await self._tools.catalog.manifest(entry.attempt, entry.created)
        if manifest is not None and manifest.state is ManifestState.FINAL:
            await self._discard_parts(manifest, self._tools.catalog.attempt_prefix(entry.attempt, entry.created))
            key = await self._tools.catalog.save(manifest, entry.created)
            self._tools.indexer.submit(manifest, key, entry.created)
            return True
        # only a complete list says that a RayJob is gone
        if not self._tools.is_listed(Kind.RAYJOB):
            return False
        if job is None:
            job = KnownJob(entry.attempt.rayjob, entry.created, is_looked_up=True, is_deleted=True)
        if manifest is not None:
            job.know(manifest)
        await self._captures.close(job, entry.attempt.number)
        return True

    async def _discard_parts(self, manifest: Manifest, prefix: str) -> None:
        """Parts that a sealed object replaces, where the process was killed before it removed them."""
        sealed = {keys.encode_name(artifact.name) for artifact in manifest.artifacts if artifact.key}
        left = await self._tools.streams.unsealed(prefix)
        for name in (each for each in left if keys.encode_name(each) in sealed):
            writer = await self._tools.streams.open(prefix, name, now=self._tools.now())
            await writer.discard_parts()
            await self._tools.streams.forget(writer)

    async def _amend(self, job: KnownJob, attempt: AttemptId, seen_at: datetime) -> None:
        manifest = await self._tools.catalog.manifest(attempt, job.created)
        if manifest is None or manifest.times.cluster_deleted is not None:
            return
        safe_at = manifest.times.captured
        margin = (seen_at - safe_at).total_seconds() if safe_at else None
        amended = replace(
            manifest,
            revision=manifest.revision + 1,
            margin_seconds=margin,
            times=replace(manifest.times, cluster_deleted=seen_at),
        )
        # marked again until the index has it: a process that is killed in between must not leave the older row for good
        await self._tools.catalog.mark_open(attempt, job.created, manifest.ray_cluster or "")
        key = await self._tools.catalog.save(amended, job.created)
        self._tools.indexer.submit(amended, key, job.created)

    async def _for_ever(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Again and again until the archive answers."""
        failures = 0
        while True:
            try:
                return await work()
            except ArchiverError as error:
                failures += 1
                _log.warning("archive not reachable, trying again", error=str(error))
                await asyncio.sleep(backoff_seconds(failures, random.random()))
