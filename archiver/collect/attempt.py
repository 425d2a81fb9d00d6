"""Captures one attempt from its first sign to its final manifest.

Level-based: every look sees the fold and what is running, and starts the rest; doing it twice changes nothing. Two loops:
one watches and never waits for the store, so that a store that hangs costs no evidence; the other commits. The order at the
end is objects, manifest, index; a crash anywhere leaves at worst objects that no manifest lists yet.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

import structlog

from archiver.collect.attemptstreams import AttemptStreams
from archiver.collect.closing import Closing, evidence_of
from archiver.collect.holding import Hold
from archiver.collect.intake import Intake
from archiver.collect.journal import Journal
from archiver.collect.logset import LogSet
from archiver.collect.pulse import Pulse
from archiver.collect.raycapture import RayCapture
from archiver.collect.state import AttemptState
from archiver.collect.tools import Explained, Tools
from archiver.collect.view import AttemptView
from archiver.core.backoff import backoff_seconds
from archiver.core.manifest import Manifest
from archiver.core.model import Artifact, AttemptId, LogKind
from archiver.core.objects import text
from archiver.errors import ArchiverError
from archiver.ports import Change

_IDLE_SECONDS = 30.0
_SOON_SECONDS = 0.5
# a deleted pod has 30 s of grace, and its Ray may use all of them
_GOING_CAP_SECONDS = 120.0
_MANIFEST_EVERY_SECONDS = 5.0
_TOKEN_EVERY_SECONDS = 5.0
_STORE_CAP_SECONDS = 10.0
_FIRST_REFRESH_SECONDS = 4.0
# modes whose driver's words come by a submitter's container too
_SUBMITTED = frozenset({"K8sJobMode", "SidecarMode"})
_log = structlog.get_logger()


class AttemptCapture:
    """The capture of one attempt. ``offer`` takes changes; ``run`` returns when the final manifest is written.

    ``is_new``: it began while we watched, so no earlier process can have left anything of it.
    """

    def __init__(
        self,
        attempt: AttemptId,
        created: datetime,
        tools: Tools,
        known: Manifest | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        self.state = AttemptState(attempt)
        self.created = created
        self._tools = tools
        self._is_new = is_new
        self._pulse = Pulse()
        self._tasks: asyncio.TaskGroup
        self.prefix = tools.catalog.attempt_prefix(attempt, created)
        self._streams = AttemptStreams(tools, self.prefix)
        self._journal = Journal(self._streams.open_stream, self._streams.read_back)
        self._intake = Intake(self.state, tools, self._journal, self._on_news)
        before = {artifact.name: artifact for artifact in (known.artifacts if known else ())}
        self._hold = Hold(self.state, tools, self._is_evidence_read)
        self._view = AttemptView(self.state, tools, self._pulse, lambda: self._hold.is_on)
        self._ray = RayCapture(tools, self._view, self._streams, before)
        self._logs = LogSet(
            open_stream=self._streams.open_stream,
            logs=tools.logs,
            view=self._view,
            now=tools.now,
            start=self._start,
            on_done=self._on_news,
            sealed_before=before,
        )
        self._closing = Closing(self.state, tools, created, known)
        self._begin_with_nothing()

    def _begin_with_nothing(self) -> None:
        self._is_recalled = False
        self._works: dict[str, asyncio.Task[None]] = {}
        self._driver_run: tuple[str, int] | None = None
        self._ended_at: float | None = None
        self._saved_at: float | None = None
        self._is_dirty, self._has_token = True, False
        self._has_looked = False  # all that the cluster offers was started once: only then can something be over

    # -- what others call

    async def offer(self, change: Change) -> None:
        """Hands a change over; waits while very many are not journaled yet."""
        await self._intake.take(change)

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

    def holds(self, cluster_uid: str) -> bool:
        """Whether this attempt counts the hold on a RayCluster."""
        return self._hold.is_on and text(self.state.cluster, "metadata", "uid") == cluster_uid

    async def run(self) -> Manifest:
        """Captures until the attempt is archived for good; returns its final manifest."""
        job = self.state.attempt.rayjob
        structlog.contextvars.bind_contextvars(
            namespace=job.namespace, rayjob=job.name, attempt=self.state.attempt.number
        )
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                # first what an earlier process knew
                await self._keep_trying(self._recall, "recall")
                await self._closing.note()
                for name, work in (("journal", self._intake.write_on), ("watch", self._watch), ("hold", self._hold_on)):
                    self._work(name, work)
                await self._commit_until_done()
            finally:
                for task in self._works.values():
                    task.cancel()
                await self._hold.release()
        if self._closing.manifest is None:
            raise RuntimeError("an attempt was left without a final manifest")
        return self._closing.manifest

    # -- watching: nothing here waits for the store

    async def _watch(self) -> None:
        while True:
            is_known = self._intake.check_gone()
            self._logs.ensure(self.state.wanted())
            self._ensure_ray()
            self._has_looked = is_known
            await self._closing.note()
            while self._view.records:
                await self._ray.keep_record(self._view.records[0])
                self._view.records.popleft()
            await self._pulse.wait(_IDLE_SECONDS if is_known else _SOON_SECONDS)

    async def _recall(self) -> None:
        """After a restart the fold is made again from the journal and from what Ray had said."""
        await self._intake.recall(is_new=self._is_new)
        if not self._is_new and not self._is_recalled:
            record = await self._ray.recall()
            if record is not None and self.state.ray_record is None:
                self.state.note_record(record, self._tools.now())
        self._is_recalled = True

    def _ensure_ray(self) -> None:
        if self.state.uses_token() and self._tools.settings.ray_token_secrets and not self._has_token:
            self._work("token", self._find_token)
            return
        if self.state.is_head_running():
            self._ensure_driver()
            self._work("refresh", self._refresh)
        if self._view.is_ending() and (self.state.had_head or self.state.ended):
            self._work("snapshot", self._snapshot)

    def _ensure_driver(self) -> None:
        """One follower; another one where a RayCluster that was deleted in the middle of the run came again."""
        driver, run = self._works.get("driver"), self.state.head_run()
        if not self.state.job_id or (driver and not driver.done()):
            return
        if driver and (self._view.is_ending() or run == self._driver_run):
            return
        submission_id, self._driver_run = self.state.job_id, run
        self._works.pop("driver", None)
        self._work("driver", lambda: self._ray.follow_driver(submission_id))

    async def _find_token(self) -> None:
        """Ray's token lies in a Secret of the RayCluster's name (KubeRay 1.5.1 and newer); reading it is an opt-in right."""
        secret = text(self.state.cluster, "spec", "authOptions", "secretName") or self.state.ray_cluster
        ns = self.state.attempt.rayjob.namespace
        while self._view.token is None:
            with suppress(ArchiverError):
                self._view.token = await self._tools.objects.secret_value(ns, secret, "auth_token")
            # without it Ray refuses, and that is what the gap says
            self._has_token = True
            self._pulse.beat()
            if self._view.token is None:
                await asyncio.sleep(_TOKEN_EVERY_SECONDS)

    async def _refresh(self) -> None:
        """Soon, because many jobs are short, then more and more slowly; at once where the head is being deleted."""
        most, pace, was_going = self._tools.settings.state_refresh_seconds, _FIRST_REFRESH_SECONDS, False
        while not self._view.is_ending():
            deadline = self._tools.monotonic() + min(pace, most)
            while (left := deadline - self._tools.monotonic()) > 0 and self.state.is_head_going() == was_going:
                await self._pulse.wait(left)
                if self._view.is_ending():
                    return
            was_going, pace = self.state.is_head_going(), pace * 2
            if (head := self._view.head()) is not None:
                await self._ray.refresh(head, self._ray.ray_job_id())

    async def _snapshot(self) -> None:
        """What never had a head has no state either, and nothing of it is missing."""
        if self.state.had_head:
            only_of = [self.state.job_id, self._ray.ray_job_id()] if self.state.is_shared_cluster else []
            await self._ray.snapshot(
                self._view.head(),
                self.state.worker_ips(),
                self._ray.ray_job_id(),
                only_of=tuple(each for each in only_of if each),
            )

    async def _hold_on(self) -> None:
        while True:
            await self._hold.step()
            await self._pulse.wait(1.0 if self._hold.is_on else _IDLE_SECONDS)

    # -- committing

    async def _commit_until_done(self) -> None:
        failures = 0
        while True:
            try:
                if await self._commit():
                    return
                failures = 0
            except ArchiverError as error:
                failures += 1
                _log.warning("attempt step failed, trying again", error=str(error))
            except Exception:
                # our own mistake must not end the attempt, nor the others
                failures += 1
                _log.exception("attempt step broke, trying again")
            if failures:
                self._tools.metrics.errors_total.labels("attempt").inc()
                await asyncio.sleep(backoff_seconds(failures, random.random(), cap=_STORE_CAP_SECONDS))
            else:
                await self._pulse.wait(self._seconds_to_next_look())

    async def _commit(self) -> bool:
        """What is due now of the way to the archive. True when the attempt is archived."""
        await self._closing.mark()
        if self.state.ended and self._ended_at is None:
            self._ended_at = self._tools.monotonic()
        if self._closing.safe_at is None and self._is_telling_safe():
            self._closing.safe_at, self._is_dirty = self._tools.now(), True
            self._saved_at = None
        # a job that runs on after its RayJob's end is not waited for; reading Ray's state has a budget of its own
        is_late = self._age_seconds() > self._cap_seconds() and not self._is_rest_left()
        if self.state.ended and self._has_snapshot() and (self._is_telling_safe() or is_late):
            if self._is_settled():
                await self._finish()
                return True
            self._work("explain", self._explain_early)
        await self._save_if_due()
        return False

    def _seconds_to_next_look(self) -> float:
        if self.state.ended:
            return _SOON_SECONDS
        return _MANIFEST_EVERY_SECONDS if self._is_dirty else _IDLE_SECONDS

    def _is_telling_safe(self) -> bool:
        """The logs that tell the reason are whole in the store: the driver's and the submitter's."""
        is_read = self._logs.is_done(LogKind.SUBMITTER) and self._is_done("driver")
        if not (self._has_looked and self._view.is_ending() and is_read):
            return False
        mode = self.state.facts.mode if self.state.facts else ""
        is_all_known = "driver" in self._works and (mode not in _SUBMITTED or self._logs.has(LogKind.SUBMITTER))
        return self.state.ended is not None or is_all_known

    def _is_evidence_read(self) -> bool:
        """Everything that the cluster has to be kept for was read."""
        return self._is_telling_safe() and self._has_snapshot()

    def _is_rest_left(self) -> bool:
        """Whether a driver or submitter that is over has still something to be read: that has an end."""
        is_driver = self._view.is_over_for_ray() and not self._is_done("driver")
        return is_driver or self._logs.is_rest_left(LogKind.SUBMITTER)

    def _has_snapshot(self) -> bool:
        return self._has_looked and "snapshot" in self._works and self._works["snapshot"].done()

    def _is_done(self, name: str) -> bool:
        return name not in self._works or self._works[name].done()

    def _is_settled(self) -> bool:
        if self.state.is_cluster_going and not self.state.has_living_nodes() and self._logs.is_done():
            return True
        return self._age_seconds() > self._cap_seconds() and not self._is_rest_left()

    def _cap_seconds(self) -> float:
        return _GOING_CAP_SECONDS if self.state.is_cluster_going else self._tools.settings.settle_seconds

    def _age_seconds(self) -> float:
        """Since we saw the end, in this process: one that comes back reads first what there is still to read."""
        return self._tools.monotonic() - self._ended_at if self._ended_at is not None else 0.0

    async def _finish(self) -> None:
        if self._closing.manifest is None:
            await self._stop("refresh", "explain", "snapshot", "driver")
            await self._logs.seal_rest(is_cluster_going=self.state.is_cluster_going)
            await self._ray.close_driver()
            await self._ray.files.close("the attempt was closed before they were read")
            while self._view.records:
                await self._ray.keep_record(self._view.records.popleft())
            await self._ray.close_record()
            await self._intake.drain()
            names = [*self._logs.names(), *(artifact.name for artifact in self._artifacts())]
            left = await self._closing.seal_left(self.prefix, names, self._streams.open_stream)
            self._ray.evidence.artifacts |= {artifact.name: artifact for artifact in left}
            self._ray.note_driver(self.state.job_id)
            journal = await self._closing.seal_journal(self._journal)
            await self._tools.streams.settle(self.prefix)
            self._closing.note_tasks(self._ray.evidence.documents)
            await self._closing.finish([*self._artifacts(), *journal], self._evidence())
        await self._closing.discard(list(self._streams.writers.values()))

    async def _explain_early(self) -> None:
        """A verdict while the cluster's last pods go: a person need not wait for them."""
        await self._closing.explain(self._evidence())
        self._is_dirty = True

    async def _save_if_due(self) -> None:
        """An open manifest, so that a job that still runs is seen, and an attempt keeps its number."""
        now = self._tools.monotonic()
        if not self._is_dirty or (self._saved_at is not None and now - self._saved_at < _MANIFEST_EVERY_SECONDS):
            return
        self._is_dirty = False
        try:
            self._closing.note_tasks(self._ray.evidence.documents)
            await self._closing.save(self._artifacts())
        except ArchiverError:
            self._is_dirty = True
            raise
        self._saved_at = now

    def _artifacts(self) -> list[Artifact]:
        known = {**self._logs.sealed_before, **{artifact.name: artifact for artifact in self._logs.artifacts()}}
        return list({**known, **self._ray.evidence.artifacts}.values())

    def _evidence(self) -> Explained:
        return evidence_of(
            self.state,
            prefix=self.prefix,
            artifacts=self._artifacts(),
            events=list(self._intake.events.values()),
            nodes=self._intake.nodes_of_the_end(),
            ray=self._ray.evidence.documents,
        )

    # -- tasks

    def _on_news(self) -> None:
        self._is_dirty = True
        self._pulse.beat()

    def _work(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """One task of a name, once."""
        if name not in self._works:
            self._works[name] = self._start(work, name)

    async def _stop(self, *names: str) -> None:
        tasks = [self._works[name] for name in names if name in self._works]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
            except Exception:  # our own mistake must cost this piece alone, and be seen
                _log.exception("capture step broke, trying again", step=task_name)
            failures += 1
            self._tools.metrics.errors_total.labels(task_name.split(" ", 1)[0]).inc()
            await asyncio.sleep(backoff_seconds(failures, random.random()))
        self._pulse.beat()
