"""What a RayJob's status means for the archive: when an attempt ends, as what, and which sign of it comes first.

Pure functions over raw objects. Sources: KubeRay's rayjob_types.go and rayjob_controller.go, v1.3 to v1.7 (the states and
their transitions); the retry and suspend wipes were measured on a real cluster. Unknown words are kept, never refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from archiver.core.objects import at, flag, integer, mapping, moment, text

JOB_TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})

# deployment status -> what the attempt ended as; Complete and Failed depend on the job status too
_ENDS = {
    "Retrying": "retried",
    "Suspending": "suspended",
    "Suspended": "suspended",
    "ValidationFailed": "invalid",
    "Failed": "failed",
}
_COMPLETE = {"STOPPED": "stopped", "FAILED": "failed"}


@dataclass(frozen=True, slots=True)
class RayJobFacts:
    """A RayJob object, read. Empty strings and None stand for what the object does not say."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: datetime | None
    deleted: datetime | None
    mode: str
    job_id: str
    ray_cluster: str
    job_status: str
    deployment_status: str
    reason: str
    message: str
    started: datetime | None
    ended: datetime | None
    shared_cluster: str
    shutdown: bool
    ttl_seconds: int
    backoff_limit: int
    failed: int
    has_retries_left: bool
    suspended: bool


def read_rayjob(obj: Mapping[str, Any]) -> RayJobFacts:
    """Tolerates missing and misshapen fields of any KubeRay version."""
    failed = integer(obj, "status", "failed") or 0
    backoff_limit = integer(obj, "spec", "backoffLimit") or 0
    return RayJobFacts(
        namespace=text(obj, "metadata", "namespace"),
        name=text(obj, "metadata", "name"),
        uid=text(obj, "metadata", "uid"),
        resource_version=text(obj, "metadata", "resourceVersion"),
        created=moment(obj, "metadata", "creationTimestamp"),
        deleted=moment(obj, "metadata", "deletionTimestamp"),
        mode=text(obj, "spec", "submissionMode") or "K8sJobMode",
        job_id=text(obj, "status", "jobId") or text(obj, "spec", "jobId"),
        ray_cluster=text(obj, "status", "rayClusterName"),
        job_status=text(obj, "status", "jobStatus"),
        deployment_status=text(obj, "status", "jobDeploymentStatus"),
        reason=text(obj, "status", "reason"),
        message=text(obj, "status", "message"),
        started=moment(obj, "status", "startTime"),
        ended=moment(obj, "status", "endTime"),
        shared_cluster=_shared_cluster(obj),
        shutdown=flag(obj, "spec", "shutdownAfterJobFinishes"),
        ttl_seconds=integer(obj, "spec", "ttlSecondsAfterFinished") or 0,
        backoff_limit=backoff_limit,
        failed=failed,
        has_retries_left=failed <= backoff_limit and backoff_limit > 0,
        suspended=flag(obj, "spec", "suspend"),
    )


def ended_as(facts: RayJobFacts) -> str | None:
    """How the current attempt ended by its deployment status, or None while it has not."""
    if facts.deployment_status == "Complete":
        return _COMPLETE.get(facts.job_status, "succeeded")
    return _ENDS.get(facts.deployment_status)


def shows_end(facts: RayJobFacts) -> bool:
    """Whether this version has any sign of the end. The job status comes seconds before the deletion (where it comes)."""
    return facts.job_status in JOB_TERMINAL or ended_as(facts) is not None or facts.deleted is not None


def waits_for_admission(facts: RayJobFacts) -> bool:
    """Whether a RayJob that has had no RayCluster yet is suspended, as Kueue does at birth: it has not begun.

    KubeRay goes from Initializing over Suspending to Suspended then, gives it names and takes them back within
    milliseconds, and makes nothing (facts: ``updateStatusToSuspendingIfNeeded`` comes before the RayCluster).
    """
    if facts.deleted or facts.job_status:
        return False
    return facts.suspended or (ended_as(facts) == "suspended" and not facts.ray_cluster)


def will_be_deleted(facts: RayJobFacts) -> bool:
    """Whether the operator is about to delete the cluster, so that its pods' ends are worth waiting for."""
    if facts.deleted or ended_as(facts) in {"retried", "suspended"}:
        return True
    return facts.shutdown and facts.ttl_seconds <= _SHORT_TTL_SECONDS and not facts.shared_cluster


_SHORT_TTL_SECONDS = 30


def _shared_cluster(obj: Mapping[str, Any]) -> str:
    selector = mapping(obj, "spec", "clusterSelector")
    named = selector.get("ray.io/cluster")
    return named if isinstance(named, str) else ("" if not selector else str(at(obj, "status", "rayClusterName") or ""))
