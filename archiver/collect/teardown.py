"""Takes out of the evidence what only the clean-up after the end did: deleted pods, stopped containers. Pure.

A finished cluster is deleted within a second, so the last version of every pod says "being deleted" and its containers
"exited". The archive keeps that; for the cause it would mislead: a head exits with 1 when it is told to stop.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from archiver.collect.lifetime import event_time
from archiver.core.objects import at, items, moment, text

# Kubernetes writes whole seconds
_PRECISION = timedelta(seconds=1)
_TEARDOWN_REASONS = frozenset(
    {"Killing", "DeletedRayCluster", "DeletedHeadPod", "DeletedWorkerPod", "DeletedPod", "Unhealthy"}
)


def pods_before(pods: Sequence[Mapping[str, Any]], ended: datetime | None) -> list[Mapping[str, Any]]:
    """The pods as they were when the end was seen. Without a moment, as they are."""
    return [_before(pod, ended) for pod in pods] if ended else list(pods)


def events_before(events: Sequence[Mapping[str, Any]], ended: datetime | None) -> list[Mapping[str, Any]]:
    """Without the Events that tell of stopping what was over. Others may come late and still tell the cause."""
    return [event for event in events if ended is None or not _is_teardown(event, ended)]


def _is_teardown(event: Mapping[str, Any], ended: datetime) -> bool:
    happened = event_time(event)
    return text(event, "reason") in _TEARDOWN_REASONS and happened is not None and happened > ended - _PRECISION


def _before(pod: Mapping[str, Any], ended: datetime) -> Mapping[str, Any]:
    asked = _deletion_asked(pod)
    if asked is None or asked <= ended - _PRECISION:
        return pod
    metadata = {key: value for key, value in pod.get("metadata", {}).items() if not key.startswith("deletion")}
    status = dict(pod.get("status") or {})
    for field in ("containerStatuses", "initContainerStatuses"):
        if field in status:
            status[field] = [_running_again(each, ended) for each in items(status, field)]
    if status.get("phase") in ("Failed", "Succeeded"):
        status["phase"] = "Running"
    return {**pod, "metadata": metadata, "status": status}


def _deletion_asked(pod: Mapping[str, Any]) -> datetime | None:
    """``deletionTimestamp`` is when the grace period ends, not when the deletion was asked for."""
    due = moment(pod, "metadata", "deletionTimestamp")
    grace = at(pod, "metadata", "deletionGracePeriodSeconds")
    return due - timedelta(seconds=grace if isinstance(grace, int) else 0) if due else None


def _running_again(status: Mapping[str, Any], ended: datetime) -> Mapping[str, Any]:
    finished = moment(status, "state", "terminated", "finishedAt")
    if finished is None or finished <= ended - _PRECISION:
        return status
    return {**status, "state": {"running": {"startedAt": text(status, "state", "terminated", "startedAt")}}}
