"""Manifests for tests: whole and plausible, any field replaceable. Not random; see the property tests for that."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from archiver.core.manifest import Manifest, ManifestState, Outcome, Times
from archiver.core.model import (
    Artifact,
    ArtifactKind,
    AttemptId,
    Attribution,
    Completeness,
    ContainerRun,
    LogKind,
    LogSource,
    RayJobId,
    ResourceUse,
)

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def verdict(cause: str = "missing-module", category: str = "environment", **changed: Any) -> Mapping[str, Any]:
    """As the diagnosis writes it."""
    return {
        "id": "x",
        "cause": cause,
        "category": category,
        "owner": "the job's owner",
        "confidence": 0.97,
        "title": "Python module missing",
        "summary": "The driver stopped at its first import.",
        "evidence": [
            {"source": "driver", "line": 812, "text": "ModuleNotFoundError: No module named 'flash_attn'", "rule": "r1"}
        ],
        "candidates": [{"cause": "user-exception", "confidence": 0.2}],
        "symptoms": [{"text": "jobDeploymentStatus Failed", "of": cause, "source": "status", "line": 0}],
        "missing": [],
        "next_steps": ["add the module to the image"],
        "ruleset": "14",
        "fingerprint": {"key": "abc", "version": 3, "used": ["frame"]},
        **changed,
    }


def log(name: str = "logs/driver.log", *, prefix: str = "p/", **changed: Any) -> Artifact:
    """A complete log artifact."""
    artifact = Artifact(
        name=name,
        kind=ArtifactKind.LOG,
        key=f"{prefix}{name}.zst",
        raw_bytes=1_000,
        stored_bytes=300,
        lines=900,
        sha256="ab" * 32,
        completeness=Completeness.COMPLETE,
        reason="read to its end",
        source=LogSource(LogKind.DRIVER, ContainerRun("ml-a", "pod", "pod-uid", "driver")),
        first_time=START,
        last_time=START + timedelta(seconds=250),
    )
    return replace(artifact, **changed)


def manifest(
    uid: str = "uid-1",
    number: int = 1,
    *,
    name: str = "llama-ft-7b",
    namespace: str = "ml-a",
    cluster: str = "prod",
    start: datetime = START,
    ended_as: str = "failed",
    artifacts: Sequence[Artifact] | None = None,
    **changed: Any,
) -> Manifest:
    """A failed attempt that ran for 250 s from ``start`` on."""
    ended = start + timedelta(seconds=250)
    is_running = ended_as == "running"
    base = Manifest(
        attempt=AttemptId(RayJobId(cluster, namespace, name, uid), number),
        state=ManifestState.OPEN if is_running else ManifestState.FINAL,
        revision=1,
        ray_cluster=f"{name}-raycluster-{number}",
        job_id=f"{name}-{number}",
        submission_mode="K8sJobMode",
        outcome=Outcome(job_status="FAILED", deployment_status="Failed", reason="AppFailed", ended_as=ended_as),
        times=Times(
            created=start - timedelta(seconds=60),
            started=start,
            ended=None if is_running else ended,
            cluster_deleted=ended + timedelta(seconds=3),
            captured=ended + timedelta(seconds=1),
        ),
        completeness=Completeness.COMPLETE,
        completeness_reason="everything was read to its end",
        team=Attribution("language", "label:team"),
        queue=Attribution("gpu-a", "label:kueue.x-k8s.io/queue-name"),
        versions={"ray": "2.52.0", "kuberay": "1.6.0"},
        images={"head": "sha256:ab12"},
        nodes=("node-1", "node-2"),
        resources=ResourceUse(gpu_seconds=2_000.0, cpu_seconds=4_000.0, gpus=8.0, cpus=32.0),
        margin_seconds=2.0,
        artifacts=tuple(artifacts) if artifacts is not None else (log(),),
        verdict=None if is_running else verdict(),
        spec={"entrypoint": "python train.py"},
    )
    return replace(base, **changed)


def key_of(record: Manifest) -> str:
    """A key as the layout has it."""
    job = record.attempt.rayjob
    where = f"v1/{job.cluster}/{job.namespace}/2026-03-01/{job.name}/{job.uid}"
    return f"{where}/attempt-{record.attempt.number:03d}/manifest.json"
