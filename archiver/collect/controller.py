"""Hands every change to the attempts it belongs to, and opens attempts.

The archive decides which attempts are known, not this process's memory: a RayJob is looked up once, and changes wait for
the answer. Only a RayJob that was created while we watched needs no look, so capture begins while the store is down. One
attempt never holds up another: what is wrong with one object or one capture is logged, counted and left behind.
"""

import asyncio
import random
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog

from archiver.collect.adoption import Adoption
from archiver.collect.attempt import AttemptCapture
from archiver.collect.catalog import OpenAttempt
from archiver.collect.holding import HoldKeeper
from archiver.collect.knownjobs import KnownJob
from archiver.collect.orphans import Orphans
from archiver.collect.tools import Tools
from archiver.core.attempts import KnownAttempt, admitted, attempt_number
from archiver.core.backoff import backoff_seconds
from archiver.core.lifecycle import RayJobFacts, ended_as, read_rayjob, shows_end
from archiver.core.manifest import Manifest
from archiver.core.model import AttemptId, Kind, RayJobId
from archiver.core.objects import uid
from archiver.core.ownership import Ownership, provides, refers_to
from archiver.errors import ArchiverError
from archiver.ports import Change, ChangeType

_LOOKUPS_AT_ONCE = 32
_LATER_AT_ONCE = 4
_GATE_AT_MOST_SECONDS = 10.0
_log = structlog.get_logger()


class Controller:
    """``on_change`` is the informers' consumer; ``run`` owns the captures and returns only by cancellation."""

    def __init__(self, tools: Tools, *, cluster: str) -> None:
        self._tools = tools
        self._cluster = cluster
        self._ownership = Ownership()
        self._orphans = Orphans()
        self._jobs: dict[str, KnownJob] = {}
        self._captures: dict[AttemptId, AttemptCapture] = {}
        self._keeper = HoldKeeper(tools, self._is_hold_counted)
        self._adoption = Adoption(tools, self)
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)
        self._later_lookups = asyncio.Semaphore(_LATER_AT_ONCE)
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
            group.create_task(self._adopt(), name="adopt abandoned attempts")
            group.create_task(self._keeper.run(), name="keep holds")
            await asyncio.Event().wait()

    async def open_gate(self) -> None:
        """Called once the RayJobs were listed: what belongs to them waits until the archive was asked about them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATE_AT_MOST_SECONDS):
                await self._nothing_asked.wait()
        self._gate.set()

    async def on_change(self, change: Change) -> None:
        """Attributes one change. Raises for one that our own mistake stumbles over; the caller logs it and goes on."""
        await self._is_ready.wait()
        self._tools.metrics.watch_events_total.labels(str(change.kind)).inc()
        if change.kind is Kind.RAYCLUSTER:
            self._keeper.note(change)
        if change.kind is Kind.RAYJOB:
            await self._on_rayjob(change)
        else:
            await self._gate.wait()
            await self._route(change)

    # -- what adoption asks

    def job(self, rayjob_uid: str) -> KnownJob | None:
        return self._jobs.get(rayjob_uid)

    def is_captured(self, attempt: AttemptId) -> bool:
        return attempt in self._captures

    async def close(self, job: KnownJob, number: int) -> None:
        """Closes an attempt that is over: its RayJob is gone, or has gone on to its next attempt."""
        self._jobs.setdefault(job.id.uid, job)
        capture = self._capture(job, number)
        await (capture.abandon() if job.is_deleted else capture.supersede())

    # -- RayJobs

    async def _on_rayjob(self, change: Change) -> None:
        facts = read_rayjob(change.object)
        if not facts.uid or facts.created is None:
            _log.warning("rayjob without uid or creation time", namespace=facts.namespace, rayjob=facts.name)
            return
        job = self._jobs.get(facts.uid)
        if job is None:
            job = KnownJob(RayJobId(self._cluster, facts.namespace, facts.name, facts.uid), facts.created)
            self._jobs[facts.uid] = job
            # not by its creation time: clocks differ, and that one has whole seconds
            job.is_new = not change.relisted and change.type is ChangeType.ADDED
            job.is_looked_up = job.is_new
            # of the many that are over, the archive is asked behind those that run
            job.is_live = not shows_end(facts)
            if not job.is_looked_up:
                self._count_live(job, 1)
                self._spawn(self._look_up(job), f"look up {facts.namespace}/{facts.name}")
        if job.is_looked_up:
            await self._assign(job, change)
        else:
            job.waiting.append(change)

    async def _look_up(self, job: KnownJob) -> None:
        """Asks the archive what it knows of a RayJob, for ever, then lets its changes through in their order."""
        was_open = self._gate.is_set()
        try:
            manifests, marks = await self._known(job)
            for manifest in manifests:
                job.know(manifest)
            for mark in marks:
                job.know_noted(mark.attempt.number, mark.ray_cluster)
            while job.waiting:
                await self._guarded(self._assign(job, job.waiting.pop(0)), "assign")
            job.is_looked_up = True
        finally:
            self._count_live(job, -1)
        is_open = any(AttemptId(job.id, number) in self._captures for number in job.attempts)
        if is_open and (was_open or self._gate.is_set()):
            # the answer came late: what belongs to the RayJob may have passed meanwhile
            await self._catch_up([job.id.uid])

    def _count_live(self, job: KnownJob, change: int) -> None:
        """What runs is waited for by the gate; what is over catches up."""
        self._asking += change if job.is_live else 0
        (self._nothing_asked.clear if self._asking else self._nothing_asked.set)()

    async def _catch_up(self, owners: list[str]) -> None:
        """Routes what the watches know below some owners."""
        while owners:
            owner = owners.pop()
            for kind in (Kind.RAYCLUSTER, Kind.JOB, Kind.POD, Kind.EVENT):
                for obj in self._tools.known(kind, owner):
                    await self._route(Change(kind, ChangeType.ADDED, obj, self._tools.now(), relisted=True))
                    if kind is not Kind.EVENT:
                        owners.append(uid(obj))

    async def _known(self, job: KnownJob) -> tuple[list[Manifest], list[OpenAttempt]]:
        failures = 0
        while True:
            try:
                async with self._lookups if job.is_live else self._later_lookups:
                    return await self._tools.catalog.known(job.id, job.created)
            except ArchiverError as error:
                failures += 1
                _log.warning("archive not readable, trying again", rayjob=job.id.name, error=str(error))
                await asyncio.sleep(backoff_seconds(failures, random.random()))

    async def _assign(self, job: KnownJob, change: Change) -> None:
        known = list(job.attempts.values())
        facts = admitted(read_rayjob(change.object), known)
        number = attempt_number(facts, known)
        if number is None and change.type is ChangeType.DELETED:
            number = max(job.attempts)
        if number is not None:
            await self._assign_to(job, number, change, facts)
        if change.type is ChangeType.DELETED:
            job.is_deleted = True
            self._forget_if_over(job)

    async def _assign_to(self, job: KnownJob, number: int, change: Change, facts: RayJobFacts) -> None:
        attempt = AttemptId(job.id, number)
        # those that nobody captured are rows that say so
        for missed in range(1, number):
            job.attempts.setdefault(missed, KnownAttempt(missed, "", ended=False))
        is_news = number not in job.attempts or job.attempts[number].ray_cluster != facts.ray_cluster
        if is_news:
            job.attempts[number] = KnownAttempt(number, facts.ray_cluster or job.cluster_of(number), ended=False)
        if ended_as(facts) and facts.ray_cluster == job.attempts[number].ray_cluster:
            job.attempts[number] = replace(job.attempts[number], ended=True)
        await self._supersede(job, number)
        self._ownership.learn_rayjob(
            facts.uid, attempt, cluster_namespace=facts.namespace, ray_cluster=facts.ray_cluster
        )
        if number in job.final:
            return
        await self._capture(job, number).offer(change)
        await self._claim_orphans(Kind.RAYJOB, change.object, facts)
        if is_news and facts.ray_cluster:
            # a RayJob that selects a RayCluster may find one that was there, and known, long before it
            await self._follow_cluster(facts.namespace, facts.ray_cluster)

    async def _follow_cluster(self, namespace: str, name: str) -> None:
        """Routes what is known of a RayCluster and below it."""
        cluster = self._tools.find(Kind.RAYCLUSTER, namespace, name)
        if cluster is not None:
            await self._route(Change(Kind.RAYCLUSTER, ChangeType.ADDED, cluster, self._tools.now(), relisted=True))
            await self._catch_up([uid(cluster)])

    async def _supersede(self, job: KnownJob, number: int) -> None:
        for earlier in [known for known in job.attempts.values() if known.number < number]:
            capture = self._captures.get(AttemptId(job.id, earlier.number))
            is_open = earlier.number not in job.final
            if not is_open or (earlier.ended and capture):
                continue
            job.attempts[earlier.number] = replace(earlier, ended=True)
            is_left = capture is None
            await self._capture(job, earlier.number).supersede()
            if is_left and earlier.ray_cluster:
                await self._follow_to_its_end(job, earlier)

    async def _follow_to_its_end(self, job: KnownJob, earlier: KnownAttempt) -> None:
        """An attempt that another process began: its pods may still be going, and the status leads to them no more."""
        attempt, namespace = AttemptId(job.id, earlier.number), job.id.namespace
        self._ownership.learn_earlier(attempt, cluster_namespace=namespace, ray_cluster=earlier.ray_cluster)
        await self._follow_cluster(namespace, earlier.ray_cluster)

    def _forget_if_over(self, job: KnownJob) -> None:
        """A RayJob that is deleted and archived needs our memory no more."""
        if not job.is_deleted or any(AttemptId(job.id, number) in self._captures for number in job.attempts):
            return
        for number in job.attempts:
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
            self._spawn(self._adoption.note_deletion(job, attempt, change.seen_at), "note deletion")

    async def _claim_orphans(self, kind: Kind, obj: Mapping[str, Any], facts: RayJobFacts | None) -> None:
        """Objects that came before the one they refer to."""
        refs = list(provides(kind, obj))
        if facts and facts.ray_cluster:
            refs += refers_to(Kind.RAYCLUSTER, {"metadata": {"namespace": facts.namespace, "name": facts.ray_cluster}})
        for orphan in self._orphans.claim(refs, self._tools.monotonic()):
            await self._route(orphan)

    # -- captures

    def _capture(self, job: KnownJob, number: int) -> AttemptCapture:
        attempt = AttemptId(job.id, number)
        capture = self._captures.get(attempt)
        if capture is None:
            # of a RayJob that was born while we watched, nobody has captured anything before
            is_new = job.is_new and number not in job.opened
            known = job.known.pop(number, None)
            capture = AttemptCapture(attempt, job.created, self._tools, known, is_new=is_new)
            job.opened.add(number)
            self._captures[attempt] = capture
            self._tools.metrics.open_attempts.set(len(self._captures))
            self._spawn(self._run_capture(job, capture), f"capture {job.id.namespace}/{job.id.name} {number}")
        return capture

    async def _run_capture(self, job: KnownJob, capture: AttemptCapture) -> None:
        attempt = capture.state.attempt
        try:
            await capture.run()
            job.final.add(attempt.number)
            job.attempts[attempt.number] = KnownAttempt(attempt.number, capture.state.ray_cluster, ended=True)
        finally:
            # one that broke is opened again by its next change
            self._captures.pop(attempt, None)
            self._tools.metrics.open_attempts.set(len(self._captures))
        if capture.state.cluster_deleted_seen or capture.state.rayjob_deleted_seen:
            self._ownership.forget(attempt)
        self._forget_if_over(job)

    def _is_hold_counted(self, cluster_uid: str) -> bool:
        return any(capture.holds(cluster_uid) for capture in self._captures.values())

    async def _adopt(self) -> None:
        await self._gate.wait()
        await self._adoption.run()

    def _spawn(self, work: Coroutine[Any, Any, None], task_name: str) -> None:
        if self._group is None:
            raise RuntimeError("the controller is not running")
        self._group.create_task(self._guarded(work, task_name), name=task_name)

    async def _guarded(self, work: Coroutine[Any, Any, None], task_name: str) -> None:
        try:
            await work
        except ArchiverError as error:
            self._tools.metrics.errors_total.labels("controller").inc()
            _log.error("controller task failed", task=task_name, error=str(error))
        except Exception:
            # our own mistake in one attempt must not end the others
            self._tools.metrics.errors_total.labels("controller").inc()
            _log.exception("controller task broke", task=task_name)
