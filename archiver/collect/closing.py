"""Writes an attempt's manifests: open ones while it is captured, one once what tells the reason is safe, the final one.

Objects are in the store before a manifest lists them, and the index follows the manifest. A revision never goes back. No
manifest waits for a verdict but the final one: evidence first, what is made of it later.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog

from archiver.collect.journal import Journal, OpenStream, is_journal
from archiver.collect.logset import source_of
from archiver.collect.raytimes import first_task_ms, has_no_tasks
from archiver.collect.record import RecordParts, build_manifest
from archiver.collect.sealing import artifact_of
from archiver.collect.state import AttemptState
from archiver.collect.streams import StreamWriter
from archiver.collect.teardown import events_before, pods_before
from archiver.collect.tools import Explained, Tools
from archiver.core import keys
from archiver.core.lines import to_time
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import Artifact, ArtifactKind, Completeness, Gap, GapReason
from archiver.core.objects import mapping, text
from archiver.core.redact import redact_json
from archiver.errors import SpoolFull

_ENDED_BY_ITSELF = frozenset({"failed", "succeeded", "retried", "invalid"})
_log = structlog.get_logger()


class Closing:
    """``safe_at`` is when the driver's and the submitter's logs were whole in the store; None until then."""

    def __init__(self, state: AttemptState, tools: Tools, created: datetime, known: Manifest | None) -> None:
        self._state = state
        self._tools = tools
        self._created = created
        self._revision = known.revision if known else 0
        self._verdict: Mapping[str, Any] | None = known.verdict if known else None
        self._explained: object = None
        self._marked: str | None = None
        self._left: dict[str, Artifact] = {}
        self._noted: set[str] = set()
        self._first_task_ms: float | None = None
        self._has_no_tasks = False
        self._spec: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
        self.safe_at: datetime | None = known.times.captured if known else None
        self.manifest: Manifest | None = None

    async def note(self) -> None:
        """On this machine's disk, before the first byte, and again when the RayCluster is known. Waits for no store."""
        with suppress(SpoolFull):  # a help and no evidence
            await self._tools.catalog.note(self._state.attempt, self._created, self._state.ray_cluster)

    async def mark(self) -> None:
        """In the store, and again once the RayCluster is known: whoever comes after a crash finishes what is open."""
        ray_cluster = self._state.ray_cluster or self._marked or ""
        if self._marked != ray_cluster:
            await self._tools.catalog.mark_open(self._state.attempt, self._created, ray_cluster)
            self._marked = ray_cluster

    async def save(self, artifacts: Sequence[Artifact]) -> None:
        """An open manifest."""
        await self._commit(artifacts, ManifestState.OPEN)

    def note_tasks(self, documents: Mapping[str, Any]) -> None:
        """When Ray's first task began, for the idle time of GPUs."""
        self._first_task_ms = first_task_ms(documents)
        self._has_no_tasks = has_no_tasks(self._state.ray_record, documents)

    async def seal_journal(self, journal: Journal) -> list[Artifact]:
        """The object streams, sealed."""
        return [
            artifact_of(name, _journal_kind(name), await writer.seal(), reason="every version that was seen")
            for name, writer in journal.writers.items()
        ]

    async def seal_left(self, prefix: str, known: Sequence[str], open_stream: OpenStream) -> list[Artifact]:
        """Streams that an earlier process began and whose source is gone: sealed as they are, with a gap at the end."""
        # by their keys: the store gives a very long name back shortened
        taken = {keys.encode_name(name) for name in (*known, *self._left)}
        for name in await self._tools.streams.unsealed(prefix):
            if keys.encode_name(name) in taken or is_journal(name):
                continue
            writer = await open_stream(name, ArtifactKind.LOG)
            detail = "its source was gone when the archiver came back"
            if name not in self._noted:
                since = to_time(writer.checkpoint.time)
                await writer.gap(Gap(GapReason.ARCHIVER_DOWN, detail, writer.lines, since, self._tools.now()))
                self._noted.add(name)
            sealed = await writer.seal()
            self._left[name] = artifact_of(name, ArtifactKind.LOG, sealed, reason=detail, source=source_of(name))
        return list(self._left.values())

    async def finish(self, artifacts: Sequence[Artifact], evidence: Explained) -> None:
        """The final manifest, with its verdict."""
        if self.manifest is None:
            await self.explain(evidence)
            self.manifest = await self._commit(artifacts, ManifestState.FINAL)
            self._observe(artifacts)

    async def discard(self, writers: Sequence[StreamWriter]) -> None:
        """The parts that sealed objects were made of may go. Only after the final manifest."""
        for writer in writers:
            await writer.discard_parts()
            await self._tools.streams.forget(writer)

    async def explain(self, evidence: Explained) -> None:
        """A verdict of the evidence; the same evidence is not looked at twice."""
        told = _summary(evidence)
        if self._tools.explain is None or told == self._explained:
            return
        self._verdict = await self._tools.explain(evidence) or self._verdict
        self._explained = told

    async def _commit(self, artifacts: Sequence[Artifact], manifest_state: ManifestState) -> Manifest:
        parts = RecordParts(
            artifacts=artifacts,
            sources=self._tools.settings.sources,
            versions=self._tools.versions(),
            now=self._tools.now(),
            safe_at=self.safe_at,
            verdict=self._verdict,
            first_task_ms=self._first_task_ms,
            has_no_tasks=self._has_no_tasks,
            spec=self._masked_spec(),
        )
        manifest = build_manifest(self._state, parts, revision=self._revision + 1, manifest_state=manifest_state)
        key = await self._tools.catalog.save(manifest, self._created)
        self._revision += 1
        self._tools.indexer.submit(manifest, key, self._created)
        if manifest_state is ManifestState.FINAL:
            _log.info("attempt archived", ended_as=manifest.outcome.ended_as, completeness=str(manifest.completeness))
            self._tools.metrics.attempts_total.labels(manifest.outcome.ended_as, str(manifest.completeness)).inc()
        return manifest

    def _masked_spec(self) -> Mapping[str, Any]:
        """Masked once a version: specs are long, and manifests are written often."""
        spec = mapping(self._state.rayjob, "spec")
        if self._spec is None or self._spec[0] is not spec:
            self._spec = (spec, redact_json(spec))
        return self._spec[1]

    def _observe(self, artifacts: Sequence[Artifact]) -> None:
        metrics, state = self._tools.metrics, self._state
        if not artifacts and state.facts is None:
            metrics.not_stored_total.labels("not-seen").inc()
        for artifact in artifacts:
            if artifact.completeness is not Completeness.COMPLETE:
                reason = artifact.gaps[0].reason if artifact.gaps else artifact.completeness
                metrics.not_stored_total.labels(str(reason)).inc()
            for rule, count in artifact.masked.items():
                metrics.redactions_total.labels(rule).inc(count)
        if self.safe_at and state.first_signal_seen:
            metrics.capture_lag_seconds.observe(max(0.0, (self.safe_at - state.first_signal_seen).total_seconds()))
        if self.safe_at and state.cluster_deleted_seen:
            metrics.capture_margin_seconds.observe((state.cluster_deleted_seen - self.safe_at).total_seconds())


def evidence_of(
    state: AttemptState,
    *,
    prefix: str,
    artifacts: Sequence[Artifact],
    events: list[Mapping[str, Any]],
    nodes: list[Mapping[str, Any]],
    ray: Mapping[str, Any],
) -> Explained:
    """What the diagnosis may see."""
    logs = {
        artifact.name.removeprefix("logs/"): artifact.name
        for artifact in artifacts
        if artifact.kind is ArtifactKind.LOG and artifact.key
    }
    incomplete = frozenset(
        artifact.name for artifact in artifacts if artifact.completeness is not Completeness.COMPLETE
    )
    # of what was deleted or suspended from outside, the deletion itself is the evidence
    ended = state.first_signal_seen if state.ended in _ENDED_BY_ITSELF else None
    return Explained(
        attempt_prefix=prefix,
        rayjob=state.rayjob,
        pods=pods_before([pod.object for pod in state.pods.values()], ended),
        events=events_before(events, ended),
        nodes=nodes,
        ray=ray,
        logs=logs,
        incomplete=incomplete,
    )


def _summary(evidence: Explained) -> object:
    """What a verdict hangs on: the same summary gives the same verdict."""
    status = mapping(evidence.rayjob, "status")
    return (
        tuple(sorted(evidence.logs)),
        evidence.incomplete,
        len(evidence.events),
        len(evidence.nodes),
        [text(pod, "metadata", "resourceVersion") for pod in evidence.pods],
        sorted(evidence.ray),
        [text(status, key) for key in ("jobStatus", "jobDeploymentStatus", "reason", "message")],
    )


def _journal_kind(name: str) -> ArtifactKind:
    return ArtifactKind.KUBE_EVENTS if name.startswith("events/") else ArtifactKind.KUBE_OBJECTS
