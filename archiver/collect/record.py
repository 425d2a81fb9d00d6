"""Builds an attempt's manifest from what is known of it. Pure: the caller gives artifacts, times and now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from archiver import __version__
from archiver.collect.state import AttemptState, PodSeen
from archiver.core.attribution import attribute
from archiver.core.manifest import Manifest, ManifestState, Outcome, Times
from archiver.core.model import Artifact, Completeness, LogKind
from archiver.core.objects import integer, text
from archiver.core.pods import image_ids, pod_kind
from archiver.core.redact import redact_json
from archiver.core.resources import pod_life, resource_use


@dataclass(frozen=True, slots=True)
class Sources:
    """Where team, queue, cost centre and submitter are looked for, in order."""

    team: Sequence[str]
    queue: Sequence[str]
    cost_centre: Sequence[str]
    submitter: Sequence[str]


@dataclass(frozen=True, slots=True)
class RecordParts:
    """What a manifest needs beside the fold."""

    artifacts: Sequence[Artifact]
    sources: Sources
    versions: Mapping[str, str]
    now: datetime
    safe_at: datetime | None
    verdict: Mapping[str, Any] | None
    # when Ray's first task began, and whether Ray was asked at the end and had none
    first_task_ms: float | None = None
    has_no_tasks: bool = False
    # the RayJob's spec, masked already
    spec: Mapping[str, Any] = field(default_factory=dict)


def build_manifest(
    state: AttemptState, parts: RecordParts, *, revision: int, manifest_state: ManifestState
) -> Manifest:
    """The record as of ``parts.now``."""
    completeness, reason = overall(parts, state, is_final=manifest_state is ManifestState.FINAL)
    facts = state.facts
    return Manifest(
        attempt=state.attempt,
        state=manifest_state,
        revision=revision,
        ray_cluster=state.ray_cluster or None,
        job_id=state.job_id or None,
        submission_mode=facts.mode if facts else "",
        outcome=outcome(state),
        times=times(state, parts.safe_at),
        completeness=completeness,
        completeness_reason=reason,
        team=attribute(state.rayjob, parts.sources.team),
        queue=attribute(state.rayjob, parts.sources.queue),
        cost_centre=attribute(state.rayjob, parts.sources.cost_centre),
        submitter=attribute(state.rayjob, parts.sources.submitter),
        versions={**parts.versions, "archiver": __version__, **_ray_version(state)},
        images=_images(state.pods.values()),
        nodes=_nodes(state.pods.values()),
        resources=resource_use(_lives(state, parts.now), now=parts.now, first_task=_first_task(parts)),
        margin_seconds=_margin(state, parts.safe_at),
        artifacts=tuple(sorted(parts.artifacts, key=lambda artifact: artifact.name)),
        verdict=parts.verdict,
        spec=parts.spec,
    )


def outcome(state: AttemptState) -> Outcome:
    """In KubeRay's and Ray's own words. Ray's record wins over the status it is copied to, which may be frozen."""
    facts, record = state.facts, state.ray_record or {}
    return Outcome(
        job_status=_terminal_first(text(record, "status"), facts.job_status if facts else ""),
        deployment_status=facts.deployment_status if facts else "",
        reason=facts.reason if facts else "",
        # Ray puts the end of the driver's log in it
        message=redact_json((facts.message if facts else "") or text(record, "message")),
        ray_error_type=text(record, "error_type") or None,
        driver_exit_code=integer(record, "driver_exit_code"),
        ended_as=state.ended or "running",
    )


def times(state: AttemptState, safe_at: datetime | None) -> Times:
    facts, record = state.facts, state.ray_record or {}
    return Times(
        created=facts.created if facts else None,
        started=facts.started if facts else None,
        first_signal=state.first_signal_seen,
        ended=(facts.ended if facts else None) or _from_ms(record.get("end_time")) or state.ended_seen,
        cluster_deleted=state.cluster_deleted_seen,
        captured=safe_at,
    )


def overall(parts: RecordParts, state: AttemptState, *, is_final: bool) -> tuple[Completeness, str]:
    """The attempt's verdict: that of what matters most (driver, submitter), with the worst of the rest said."""
    if not is_final:
        return Completeness.PARTIAL, "still being captured"
    artifacts = parts.artifacts
    if state.facts is None and not artifacts:
        return Completeness.LOST, NOT_SEEN
    telling = [artifact for artifact in artifacts if artifact.source and artifact.source.kind in _TELLING]
    bad = [artifact for artifact in artifacts if artifact.completeness is not Completeness.COMPLETE]
    whole = [artifact for artifact in telling if artifact.completeness is Completeness.COMPLETE]
    if telling and not whole:
        worst = max(telling, key=lambda artifact: _WORSE[artifact.completeness])
        kept = any(artifact.raw_bytes for artifact in artifacts)
        return (Completeness.PARTIAL if kept else Completeness.LOST), f"{worst.name}: {worst.reason}"
    if bad:
        return (
            Completeness.PARTIAL,
            f"{len(bad)} of {len(artifacts)} pieces incomplete, first {bad[0].name}: {bad[0].reason}",
        )
    if not any(each.source and each.source.kind is LogKind.DRIVER for each in telling) and state.pods:
        return Completeness.COMPLETE, "no driver log: the driver never started"
    return Completeness.COMPLETE, _margin_words(state, _margin(state, parts.safe_at))


NOT_SEEN = "the archiver was not there: KubeRay's count says that this attempt failed before it came"
_TELLING = frozenset({LogKind.DRIVER, LogKind.SUBMITTER})
_WORSE = {Completeness.COMPLETE: 0, Completeness.PARTIAL: 1, Completeness.LOST: 2}


def _margin_words(state: AttemptState, margin: float | None) -> str:
    if not state.pods:
        return "nothing had started, so there is no log"
    if margin is None:
        return "everything that was written is archived"
    return f"captured {abs(margin):.1f} s {'before' if margin >= 0 else 'after'} the cluster was deleted"


def _terminal_first(record_status: str, object_status: str) -> str:
    terminal = {"SUCCEEDED", "FAILED", "STOPPED"}
    return record_status if record_status in terminal or not object_status else object_status


def _margin(state: AttemptState, safe_at: datetime | None) -> float | None:
    if safe_at is None or state.cluster_deleted_seen is None:
        return None
    return (state.cluster_deleted_seen - safe_at).total_seconds()


def _ray_version(state: AttemptState) -> dict[str, str]:
    version = text(state.rayjob, "spec", "rayClusterSpec", "rayVersion") or text(state.cluster, "spec", "rayVersion")
    return {"ray": version} if version else {}


def _images(pods: Iterable[PodSeen]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pod in pods:
        for container, digest in image_ids(pod.object).items():
            found[f"{pod_kind(pod.object)}/{container}"] = digest
    return found


def _nodes(pods: Iterable[PodSeen]) -> tuple[str, ...]:
    return tuple(sorted({text(pod.object, "spec", "nodeName") for pod in pods} - {""}))


def _lives(state: AttemptState, now: datetime) -> list[Any]:
    if state.is_shared_cluster:
        return []
    lives = (pod_life(pod.object, gone_at=pod.gone_at) for pod in state.pods.values())
    return [life for life in lives if life]


def _first_task(parts: RecordParts) -> datetime | None:
    """A job without any task left its GPUs idle until the end."""
    return parts.now if parts.has_no_tasks else _from_ms(parts.first_task_ms)


def _from_ms(value: object) -> datetime | None:
    if isinstance(value, int | float) and 0 < value < 4e12:
        return datetime.fromtimestamp(value / 1000, UTC)
    return None
