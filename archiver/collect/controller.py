"""Hands every change to the attempts it belongs to, opens attempts and closes what earlier processes left open.

The archive decides which attempts are known, not this process's memory: a RayJob is looked up once, and changes wait for
the answer. Only a RayJob that was created while we watched needs no look, so capture begins while the store is down.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from archiver.collect.attempt import AttemptCapture
from archiver.collect.orphans import Orphans
from archiver.collect.tools import Tools
from archiver.core.attempts import KnownAttempt, attempt_number
from archiver.core.backoff import backoff_seconds
from archiver.core.lifecycle import RayJobFacts, read_rayjob
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import AttemptId, Kind, RayJobId
from archiver.core.ownership import Ownership, provides, refers_to
from archiver.errors import ArchiverError
from archiver.ports import Change, ChangeType

_LOOKUPS_AT_ONCE = 32
_ABANDONED_AFTER = timedelta(seconds=20)
_GATE_AT_MOST_SECONDS = 10.0
_log = structlog.get_logger()


@dataclass(slots=True)
class _Job:
    """A RayJob as the controller knows it. ``waiting`` holds its changes until the archive was asked."""

    id: RayJobId
    created: datetime
    attempts: dict[int, KnownAttempt] = field(default_factory=dict)
    final: dict[int, Manifest] = field(default_factory=dict)
    known: dict[int, Manifest] = field(default_factory=dict)
    current: int = 0
    is_looked_up: bool = False
    waiting: list[Change] = field(default_factory=list)


class Controller:
    """``on_change`` is the informers' consumer; ``run`` owns the captures and returns only by cancellation."""

    def __init__(self, tools: Tools, *, cluster: str, started_at: datetime) -> None:
        self._tools = tools
        self._cluster = cluster
        self._started_at = started_at
        self._ownership = Ownership()
        self._orphans = Orphans()
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._captures: dict[AttemptId, AttemptCapture] = {}
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)
        self._group: asyncio.TaskGroup | None = None
        self._is_ready = asyncio.Event()
        self._gate = asyncio.Event()
        self._asking = 0
        self._nothing_asked = asyncio.Event()
        self._nothing_asked.set()

    @property
    def open_attempts(self) -> int:
        return len(self._captures)

    async def run(self) -> None:
        """Runs captures until cancelled; what is open then is taken up by the next process."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._is_ready.set()
            group.create_task(self._adopt_abandoned(), name="adopt abandoned attempts")
            await asyncio.Event().wait()

    async def open_gate(self) -> None:
        """Called once the RayJobs were listed: what belongs to them waits until the archive was asked about them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATE_AT_MOST_SECONDS):
                await self._nothing_asked.wait()
        self._gate.set()

    async def on_change(self, change: Change) -> None:
        """Attributes one change. Never raises for a malformed object: that is logged and passed over."""
        await self._is_ready.wait()
        self._tools.metrics.watch_events_total.labels(str(change.kind)).inc()
        if change.kind is Kind.RAYJOB:
            await self._on_rayjob(change)
        else:
            await self._gate.wait()
            await self._route(change)

    # -- RayJobs

    async def _on_rayjob(self, change: Change) -> None:
        facts = read_rayjob(change.object)
        if not facts.uid or facts.created is None:
            _log.warning("rayjob without uid or creation time", namespace=facts.namespace, rayjob=facts.name)
            return
        job = self._jobs.get(facts.uid)
        if job is None:
            job = _Job(RayJobId(self._cluster, facts.namespace, facts.name, facts.uid), facts.created)
            self._jobs[facts.uid] = job
            job.is_looked_up = (
                not change.relisted and facts.created > self._started_at and change.type is ChangeType.ADDED
            )
            if not job.is_looked_up:
                self._spawn(self._look_up(job), f"look up {facts.namespace}/{facts.name}")
        if job.is_looked_up:
            await self._assign(job, change)
        else:
            job.waiting.append(change)

    async def _look_up(self, job: _Job) -> None:
        """Asks the archive what it knows of a RayJob, for ever, then lets its changes through in their order."""
        self._asking += 1
        self._nothing_asked.clear()
        try:
            for manifest in await self._manifests(job):
                self._know(job, manifest)
            while job.waiting:
                await self._assign(job, job.waiting.pop(0))
            job.is_looked_up = True
        finally:
            self._asking -= 1
            if not self._asking:
                self._nothing_asked.set()

    async def _manifests(self, job: _Job) -> list[Manifest]:
        failures = 0
        while True:
            try:
                async with self._lookups:
                    return await self._tools.catalog.manifests(job.id, job.created)
            except ArchiverError as error:
                failures += 1
                _log.warning("archive not readable, trying again", rayjob=job.id.name, error=str(error))
                await asyncio.sleep(backoff_seconds(failures, random.random()))

    def _know(self, job: _Job, manifest: Manifest) -> None:
        number, is_final = manifest.attempt.number, manifest.state is ManifestState.FINAL
        job.attempts[number] = KnownAttempt(number, manifest.ray_cluster or "", ended=is_final)
        (job.final if is_final else job.known)[number] = manifest

    async def _assign(self, job: _Job, change: Change) -> None:
        facts = read_rayjob(change.object)
        number = attempt_number(facts, list(job.attempts.values()))
        if number is None:
            return
        attempt = AttemptId(job.id, number)
        if number not in job.attempts or job.attempts[number].ray_cluster != facts.ray_cluster:
            job.attempts[number] = KnownAttempt(number, facts.ray_cluster or _cluster_of(job, number), ended=False)
        await self._supersede(job, number)
        job.current = number
        self._ownership.learn_rayjob(
            facts.uid, attempt, cluster_namespace=facts.namespace, ray_cluster=facts.ray_cluster
        )
        if number in job.final:
            await self._amend(job, number, change, facts)
            return
        await self._capture(job, number).offer(change)
        self._note_end(job, number)
        await self._claim_orphans(Kind.RAYJOB, change.object, facts)

    async def _supersede(self, job: _Job, number: int) -> None:
        for earlier in [known for known in job.attempts.values() if known.number < number and not known.ended]:
            job.attempts[earlier.number] = replace(earlier, ended=True)
            capture = self._captures.get(AttemptId(job.id, earlier.number))
            if capture:
                await capture.supersede()
            elif earlier.number not in job.final:
                await self._capture(job, earlier.number).supersede()

    def _note_end(self, job: _Job, number: int) -> None:
        capture = self._captures.get(AttemptId(job.id, number))
        if capture and capture.state.ended:
            job.attempts[number] = replace(job.attempts[number], ended=True)

    async def _amend(self, job: _Job, number: int, change: Change, facts: RayJobFacts) -> None:
        """A change after the final manifest: only its end of life matters, and it frees our memory."""
        if change.type is ChangeType.DELETED:
            self._ownership.forget(AttemptId(job.id, number))
            self._jobs.pop(job.id.uid, None)

    # -- everything else

    async def _route(self, change: Change) -> None:
        attempts = self._ownership.learn(change.kind, change.object)
        if not attempts:
            if change.type is not ChangeType.DELETED:
                self._orphans.keep(change, refers_to(change.kind, change.object))
            return
        for attempt in sorted(attempts):
            await self._hand_over(attempt, change)
        await self._claim_orphans(change.kind, change.object, None)

    async def _hand_over(self, attempt: AttemptId, change: Change) -> None:
        job = self._jobs.get(attempt.rayjob.uid)
        capture = self._captures.get(attempt)
        if capture is not None:
            await capture.offer(change)
            return
        is_deletion = change.kind is Kind.RAYCLUSTER and change.type is ChangeType.DELETED
        if is_deletion and job is not None and attempt.number in job.final:
            self._spawn(self._note_deletion(job, attempt, change.seen_at), "note deletion")

    async def _claim_orphans(self, kind: Kind, obj: Mapping[str, Any], facts: RayJobFacts | None) -> None:
        """Objects that came before the one they refer to."""
        refs = list(provides(kind, obj))
        if facts and facts.ray_cluster:
            refs += refers_to(Kind.RAYCLUSTER, {"metadata": {"namespace": facts.namespace, "name": facts.ray_cluster}})
        for orphan in self._orphans.claim(refs, self._tools.now()):
            await self._route(orphan)

    async def _note_deletion(self, job: _Job, attempt: AttemptId, seen_at: datetime) -> None:
        """The cluster of an archived attempt is gone: the final manifest learns the moment and the margin."""
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
        key = await self._tools.catalog.save(amended, job.created)
        self._tools.indexer.submit(amended, key, job.created)

    # -- captures

    def _capture(self, job: _Job, number: int) -> AttemptCapture:
        attempt = AttemptId(job.id, number)
        capture = self._captures.get(attempt)
        if capture is None:
            capture = AttemptCapture(attempt, job.created, self._tools, job.known.get(number))
            self._captures[attempt] = capture
            self._tools.metrics.open_attempts.set(len(self._captures))
            self._spawn(self._run_capture(job, capture), f"capture {job.id.namespace}/{job.id.name} {number}")
        return capture

    async def _run_capture(self, job: _Job, capture: AttemptCapture) -> None:
        attempt = capture.state.attempt
        manifest = await capture.run()
        job.final[attempt.number] = manifest
        job.attempts[attempt.number] = KnownAttempt(attempt.number, capture.state.ray_cluster, ended=True)
        self._captures.pop(attempt, None)
        self._tools.metrics.open_attempts.set(len(self._captures))
        if capture.state.cluster_deleted_seen or capture.state.rayjob_deleted_seen:
            self._ownership.forget(attempt)
        if capture.state.rayjob_deleted_seen:
            self._jobs.pop(job.id.uid, None)

    async def _adopt_abandoned(self) -> None:
        """Attempts left open by an earlier process, whose RayJob nobody has shown us since: they are closed as deleted."""
        await asyncio.sleep(_ABANDONED_AFTER.total_seconds())
        for entry in await self._open_attempts():
            job = self._jobs.get(entry.attempt.rayjob.uid)
            if job is not None or entry.attempt in self._captures:
                continue
            job = _Job(entry.attempt.rayjob, entry.created, is_looked_up=True)
            manifest = await self._tools.catalog.manifest(entry.attempt, entry.created)
            if manifest is not None:
                self._know(job, manifest)
            if manifest is not None and manifest.state is ManifestState.FINAL:
                key = await self._tools.catalog.save(manifest, entry.created)
                self._tools.indexer.submit(manifest, key, entry.created)
                continue
            self._jobs[job.id.uid] = job
            await self._capture(job, entry.attempt.number).abandon()

    async def _open_attempts(self) -> list[Any]:
        failures = 0
        while True:
            try:
                return list(await self._tools.catalog.open_attempts())
            except ArchiverError as error:
                failures += 1
                _log.warning("open attempts not readable, trying again", error=str(error))
                await asyncio.sleep(backoff_seconds(failures, random.random()))

    def _spawn(self, work: Any, task_name: str) -> None:
        if self._group is None:
            raise RuntimeError("the controller is not running")
        self._group.create_task(self._guarded(work, task_name), name=task_name)

    async def _guarded(self, work: Any, task_name: str) -> None:
        try:
            await work
        except ArchiverError as error:
            self._tools.metrics.errors_total.labels("controller").inc()
            _log.error("controller task failed", task=task_name, error=str(error))
        except Exception:
            # our own mistake in one attempt must not end the others
            self._tools.metrics.errors_total.labels("controller").inc()
            _log.exception("controller task broke", task=task_name)


def _cluster_of(job: _Job, number: int) -> str:
    known = job.attempts.get(number)
    return known.ray_cluster if known else ""
