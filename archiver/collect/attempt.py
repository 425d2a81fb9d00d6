"""Captures one attempt from its first sign to its final manifest: one task that folds changes in and starts what is missing.

Level-based: every step looks at the fold and at what is running, and starts the rest; doing it twice changes nothing. The
order at the end is objects, manifest, index; a crash anywhere leaves at worst objects that no manifest lists yet.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from archiver.collect import hold
from archiver.collect.closing import Closing
from archiver.collect.journal import Journal
from archiver.collect.logset import LogSet
from archiver.collect.pulse import Pulse
from archiver.collect.raycapture import RayCapture
from archiver.collect.state import AttemptState
from archiver.collect.streams import Sealed, StreamWriter
from archiver.collect.tools import Tools
from archiver.core.backoff import backoff_seconds
from archiver.core.manifest import Manifest
from archiver.core.model import Artifact, ArtifactKind, AttemptId, ContainerRun, Kind, LogKind, LogSource
from archiver.core.objects import moment, name, text, uid
from archiver.errors import ArchiverError, KubeError
from archiver.ports import Change, RayHead

_INBOX = 2000
_STEP_SECONDS = 1.0
# a deleted pod has 30 s of grace, and its Ray may use all of them
_GOING_CAP = timedelta(seconds=120)
_MANIFEST_EVERY = timedelta(seconds=5)
_EVENTS_KEPT = 2000
_log = structlog.get_logger()


class AttemptCapture:
    """The capture of one attempt. ``offer`` takes changes; ``run`` returns when the final manifest is written."""

    def __init__(self, attempt: AttemptId, created: datetime, tools: Tools, known: Manifest | None = None) -> None:
        self.state = AttemptState(attempt)
        self.created = created
        self.prefix = tools.catalog.attempt_prefix(attempt, created)
        self._tools = tools
        self._inbox: asyncio.Queue[Change] = asyncio.Queue(_INBOX)
        self._pulse = Pulse()
        self._tasks: asyncio.TaskGroup
        self._journal = Journal(self._open_object_stream, self._read_back)
        self._ray = RayCapture(tools, self, self.prefix, self._open_stream, self._put_document)
        self.events: dict[str, Mapping[str, Any]] = {}
        self.nodes: dict[str, Mapping[str, Any]] = {}
        self._logs = LogSet(
            open_stream=self._open_stream,
            logs=tools.logs,
            view=self,
            now=tools.now,
            start=self._start,
            on_done=self._on_log_done,
            sealed_before={artifact.name: artifact for artifact in (known.artifacts if known else ())},
        )
        self._closing = Closing(self.state, tools, created, known)
        self._driver: asyncio.Task[None] | None = None
        self._refresher: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._records: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(64)
        self._held_since: datetime | None = None
        self._saved_at: datetime | None = None
        self._is_dirty = True
        self._writers: dict[str, StreamWriter] = {}
        self._is_marked = False
        self._is_recalled = known is None
        self._token: str | None = None

    # -- what others call

    async def offer(self, change: Change) -> None:
        """Hands a change over; waits while very many are waiting already."""
        await self._inbox.put(change)
        self._pulse.beat()

    async def abandon(self) -> None:
        """An earlier process left it open and its RayJob is gone: what was saved is closed as it is."""
        now = self._tools.now()
        self.state.cluster_deleted_seen = self.state.cluster_deleted_seen or now
        self.state.end("deleted", now)
        self._pulse.beat()

    async def supersede(self) -> None:
        """The RayJob has gone on to its next attempt without our seeing how this one ended."""
        self.state.end("retried", self._tools.now())
        self._pulse.beat()

    async def run(self) -> Manifest:
        """Captures until the attempt is archived for good; returns its final manifest."""
        job = self.state.attempt.rayjob
        structlog.contextvars.bind_contextvars(
            namespace=job.namespace, rayjob=job.name, attempt=self.state.attempt.number
        )
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await self._step_until_done()
            finally:
                await self._release()
        if self._closing.manifest is None:
            raise RuntimeError("an attempt was left without a final manifest")
        return self._closing.manifest

    async def _step_until_done(self) -> None:
        failures = 0
        while True:
            try:
                if await self._step():
                    return
                failures = 0
            except ArchiverError as error:
                failures += 1
                self._tools.metrics.errors_total.labels("attempt").inc()
                _log.warning("attempt step failed, trying again", error=str(error))
            await self._pulse.wait(backoff_seconds(failures, random.random()) if failures else _STEP_SECONDS)

    # -- the view that followers have of the attempt

    def head(self) -> RayHead | None:
        head = self.state.head()
        return replace(head, token=self._token) if head else None

    def is_ending(self) -> bool:
        return self.state.first_signal_seen is not None

    def is_head_lost(self) -> bool:
        if self.state.head() is not None:
            return False
        return self.state.cluster_deleted_seen is not None or self.state.ended is not None

    def is_held(self) -> bool:
        return self._held_since is not None

    def is_finished(self, run: ContainerRun) -> bool:
        return self.state.is_finished(run)

    def is_pod_gone(self, run: ContainerRun) -> bool:
        return self.state.is_pod_gone(run)

    def started_at(self, run: ContainerRun) -> datetime | None:
        return self.state.started_at(run)

    def on_record(self, record: Mapping[str, Any]) -> None:
        self.state.ray_record = record
        if text(record, "status") in ("SUCCEEDED", "FAILED", "STOPPED"):
            self.state.signal(self._tools.now())
        if not self._records.full():
            self._records.put_nowait(record)
        self._pulse.beat()

    async def wait_change(self, timeout_seconds: float) -> None:
        await self._pulse.wait(timeout_seconds)

    # -- one step

    async def _step(self) -> bool:
        """Takes in what has come, starts what is missing, closes what is over. True when the attempt is archived."""
        await self._recall()
        await self._take_changes()
        await self._take_records()
        self._logs.ensure(self.state.wanted())
        await self._ensure_token()
        self._ensure_ray()
        await self._ensure_hold()
        await self._ensure_mark()
        if self.state.ended and self._is_evidence_safe():
            await self._evidence_safe()
            if self._is_settled():
                await self._finish()
                return True
        await self._save_if_due()
        return False

    async def _recall(self) -> None:
        """After a restart the fold is made again from the journal; what the cluster no longer has is gone."""
        if self._is_recalled:
            return
        for kind in (Kind.RAYJOB, Kind.RAYCLUSTER, Kind.POD, Kind.NODE, Kind.EVENT):
            for change in await self._journal.recall(kind):
                self.state.apply(change)
                await self._remember(change)
        for pod in self.state.pods.values():
            if pod.gone_at is None and not self._tools.exists(uid(pod.object)):
                pod.gone_at = self._tools.now()
        if self.state.cluster and not self._tools.exists(uid(self.state.cluster)):
            self.state.cluster_deleted_seen = self.state.cluster_deleted_seen or self._tools.now()
        self._is_recalled = True

    async def _take_changes(self) -> None:
        while not self._inbox.empty():
            change = self._inbox.get_nowait()
            self.state.apply(change)
            written = await self._journal.write(
                change.kind, change.object, how=str(change.type), seen_at=change.seen_at, relisted=change.relisted
            )
            self._is_dirty = self._is_dirty or written
            await self._remember(change)

    async def _remember(self, change: Change) -> None:
        if change.kind is Kind.EVENT and len(self.events) < _EVENTS_KEPT:
            self.events[uid(change.object)] = change.object
        elif change.kind is Kind.NODE:
            self.nodes[name(change.object)] = change.object
        elif change.kind is Kind.POD:
            await self._note_node(text(change.object, "spec", "nodeName"))

    async def _note_node(self, node: str) -> None:
        """The node's conditions and taints as they were when the pod came to it."""
        if not node or node in self.nodes or (seen := self._tools.node(node)) is None:
            return
        self.nodes[node] = seen
        await self._journal.write(Kind.NODE, seen, how="SEEN", seen_at=self._tools.now())

    async def _take_records(self) -> None:
        while not self._records.empty():
            await self._ray.keep_record(self._records.get_nowait())

    def _ensure_ray(self) -> None:
        if self.state.job_id and self._driver is None and self.state.is_head_running():
            submission_id = self.state.job_id
            self._driver = self._start(lambda: self._ray.follow_driver(submission_id), "driver log")
        if self._refresher is None and self.state.is_head_running():
            self._refresher = self._start(self._refresh_loop, "ray state refresh")
        if self.is_ending() and self._snapshot is None and (self.state.pods or self.state.ended):
            self._snapshot = self._start(self._take_snapshot, "ray snapshot")

    async def _refresh_loop(self) -> None:
        while not self.is_ending():
            await asyncio.sleep(self._tools.settings.state_refresh_seconds)
            head = self.head()
            if head is not None and not self.is_ending():
                await self._ray.refresh(head, self._ray.ray_job_id())

    async def _take_snapshot(self) -> None:
        if not self.state.pods:
            return
        await self._ray.snapshot(self.head(), self.state.worker_ips(), self._ray.ray_job_id())

    # -- the end

    def _is_evidence_safe(self) -> bool:
        """What the failure's reason is in: the driver's log, the submitter's, and the state of Ray."""
        tasks = [task for task in (self._driver, self._snapshot) if task]
        return all(task.done() for task in tasks) and self._logs.is_done(LogKind.SUBMITTER)

    def _is_settled(self) -> bool:
        ended = self.state.ended_seen or self._tools.now()
        age = self._tools.now() - ended
        if self.state.is_cluster_going:
            is_gone = not self.state.has_living_nodes() and self._logs.is_done()
            return is_gone or age > _GOING_CAP
        return age > timedelta(seconds=self._tools.settings.settle_seconds)

    async def _evidence_safe(self) -> None:
        if self._closing.safe_at is not None:
            return
        self._closing.safe_at = self._tools.now()
        await self._release()
        await self._closing.save(self._artifacts(), self._evidence())
        self._saved_at = self._tools.now()

    async def _finish(self) -> None:
        if self._refresher:
            self._refresher.cancel()
        await self._take_changes()
        await self._logs.seal_rest("the container was still running when the attempt was closed")
        await self._take_records()
        await self._ray.close_record()
        names = [artifact.name for artifact in self._artifacts()]
        left = await self._closing.seal_left(self.prefix, names, self._open_object_stream)
        artifacts = self._artifacts() + left + await self._closing.seal_journal(self._journal)
        await self._closing.finish(artifacts, self._evidence(), list(self._writers.values()))

    async def _save_if_due(self) -> None:
        """An open manifest, so that a job that still runs is seen, and an attempt keeps its number."""
        now = self._tools.now()
        if not self._is_dirty or (self._saved_at and now - self._saved_at < _MANIFEST_EVERY):
            return
        self._is_dirty, self._saved_at = False, now
        await self._closing.save(self._artifacts(), None)

    def _artifacts(self) -> list[Artifact]:
        known = {**self._logs.sealed_before, **{artifact.name: artifact for artifact in self._logs.artifacts()}}
        return list({**known, **self._ray.evidence.artifacts}.values())

    def _evidence(self) -> Any:
        return self._closing.evidence_of(
            prefix=self.prefix,
            artifacts=self._artifacts(),
            events=list(self.events.values()),
            nodes=list(self.nodes.values()),
            ray=self._ray.evidence.documents,
        )

    # -- streams and tasks

    async def _open_stream(self, name: str, kind: ArtifactKind, source: LogSource | None = None) -> StreamWriter:
        writer = await self._tools.streams.open(self.prefix, name, source=source, now=self._tools.now())
        self._writers[name] = writer
        return writer

    async def _open_object_stream(self, name: str, kind: ArtifactKind) -> StreamWriter:
        return await self._open_stream(name, kind)

    async def _read_back(self, name: str) -> list[bytes]:
        return await self._tools.streams.read_back(self.prefix, name)

    async def _put_document(self, name: str, body: bytes) -> Sealed:
        return await self._tools.streams.put_document(self.prefix, name, body)

    def _on_log_done(self) -> None:
        self._is_dirty = True
        self._pulse.beat()

    def _start(self, work: Callable[[], Awaitable[None]], task_name: str) -> asyncio.Task[None]:
        """A named task that does its work again after an error: all of it can be done twice."""
        return self._tasks.create_task(self._keep_trying(work, task_name), name=f"{self.prefix}{task_name}")

    async def _keep_trying(self, work: Callable[[], Awaitable[None]], task_name: str) -> None:
        failures = 0
        while True:
            try:
                await work()
                break
            except ArchiverError as error:
                _log.warning("capture step failed, trying again", step=task_name, error=str(error))
            except Exception:
                # our own mistake must cost this piece alone, and be seen
                _log.exception("capture step broke, trying again", step=task_name)
            failures += 1
            self._tools.metrics.errors_total.labels(task_name.split(" ", 1)[0]).inc()
            await asyncio.sleep(backoff_seconds(failures, random.random()))
        self._pulse.beat()

    async def _ensure_mark(self) -> None:
        if not self._is_marked:
            await self._tools.catalog.mark_open(self.state.attempt, self.created)
            self._is_marked = True

    async def _ensure_token(self) -> None:
        """Ray's token lies in a Secret of the RayCluster's name (KubeRay 1.5.1 and newer); reading it is an opt-in right."""
        if self._token or not self._tools.settings.ray_token_secrets or not self.state.uses_token():
            return
        secret = text(self.state.cluster, "spec", "authOptions", "secretName") or self.state.ray_cluster
        self._token = await self._tools.objects.secret_value(self.state.attempt.rayjob.namespace, secret, "auth_token")

    # -- hold

    async def _ensure_hold(self) -> None:
        cap = self._tools.settings.hold_seconds
        cluster = self.state.cluster
        if self._held_since is not None:
            deleting = moment(cluster, "metadata", "deletionTimestamp")
            if deleting and (self._tools.now() - deleting).total_seconds() > cap:
                await self._release()
            return
        if (
            cap <= 0
            or not cluster
            or self.state.is_shared_cluster
            or self._closing.safe_at
            or not self._tools.is_store_healthy()
        ):
            return
        try:
            if await hold.put_on(self._tools.objects, cluster):
                self._held_since = self._tools.now()
                self._tools.metrics.finalizers_held.inc()
        except KubeError as error:
            _log.warning("hold not possible", error=str(error))

    async def _release(self) -> None:
        if self._held_since is None:
            return
        try:
            await hold.take_off(self._tools.objects, self.state.attempt.rayjob.namespace, self.state.ray_cluster)
        except KubeError as error:
            _log.error("hold not released, trying again", error=str(error))
            return
        self._tools.metrics.finalizers_held.dec()
        self._tools.metrics.hold_seconds.observe((self._tools.now() - self._held_since).total_seconds())
        self._held_since = None
