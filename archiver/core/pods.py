"""What of a pod's logs is to be kept, read from its status. Facts only; following the logs is another floor's work.

Which instance the log endpoint serves (kubelet, ``validateContainerLogStatus``): the running or terminated one; while a
container waits for its restart, the last terminated one; with ``previous`` the one in ``lastState``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from archiver.core.model import ContainerRun, LogKind
from archiver.core.objects import items, label, mapping, moment, name, namespace, text, uid

SUBMITTER_CONTAINER = "ray-job-submitter"
_NAMED_KINDS = {"autoscaler": LogKind.AUTOSCALER, SUBMITTER_CONTAINER: LogKind.SUBMITTER}


@dataclass(frozen=True, slots=True)
class WantedLog:
    """A container run whose log is to be kept. ``previous``: only the endpoint's ``previous`` serves it."""

    run: ContainerRun
    kind: LogKind
    is_finished: bool
    previous: bool = False


def pod_kind(pod: Mapping[str, Any]) -> LogKind:
    """Head, worker or submitter; a pod of ours without Ray's labels is a submitter."""
    node_type = label(pod, "ray.io/node-type")
    return {"head": LogKind.HEAD, "worker": LogKind.WORKER}.get(node_type, LogKind.SUBMITTER)


def wanted_logs(pod: Mapping[str, Any]) -> list[WantedLog]:
    """Every container run of a pod that has, or had, output to keep, in the order of their start."""
    found: list[WantedLog] = []
    for status in items(pod, "status", "initContainerStatuses"):
        found += _runs(pod, status, LogKind.INIT)
    main = text(next(items(pod, "spec", "containers"), {}), "name")
    for status in items(pod, "status", "containerStatuses"):
        container = text(status, "name")
        kind = pod_kind(pod) if container == main else _NAMED_KINDS.get(container)
        if kind is not None:
            found += _runs(pod, status, kind)
    return found


def _runs(pod: Mapping[str, Any], status: Mapping[str, Any], kind: LogKind) -> Iterator[WantedLog]:
    restarts = status.get("restartCount")
    count = restarts if isinstance(restarts, int) and restarts >= 0 else 0
    container = text(status, "name")

    def run(restart: int) -> ContainerRun:
        return ContainerRun(namespace(pod), name(pod), uid(pod), container, restart)

    state = {} if _never_started(status) else mapping(status, "state")
    had_another = bool(mapping(status, "lastState", "terminated"))
    if "running" in state or "terminated" in state:
        if had_another and count > 0:
            yield WantedLog(run(count - 1), kind, is_finished=True, previous=True)
        yield WantedLog(run(count), kind, is_finished="terminated" in state)
    elif had_another:
        yield WantedLog(run(count), kind, is_finished=True)


def _never_started(status: Mapping[str, Any]) -> bool:
    """A container that waited for its image when its pod was deleted ends as "terminated" without ever having run."""
    ended = mapping(status, "state", "terminated")
    return (
        bool(ended)
        and not text(ended, "startedAt")
        and not text(status, "containerID")
        and not text(ended, "containerID")
    )


def container_started_at(pod: Mapping[str, Any], run: ContainerRun) -> datetime | None:
    """When a container run started, as the pod's status says now."""
    return _state_time(pod, run, "startedAt")


def container_ended_at(pod: Mapping[str, Any], run: ContainerRun) -> datetime | None:
    """When a container run ended, as the pod's status says now."""
    return _state_time(pod, run, "finishedAt")


def _state_time(pod: Mapping[str, Any], run: ContainerRun, which: str) -> datetime | None:
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in items(pod, "status", field):
            if text(status, "name") != run.container:
                continue
            state = mapping(status, "state" if status.get("restartCount", 0) == run.restart else "lastState")
            return moment(state, "running", which) or moment(state, "terminated", which)
    return None


def image_ids(pod: Mapping[str, Any]) -> dict[str, str]:
    """Container name to image digest, for containers that have started."""
    statuses = items(pod, "status", "containerStatuses")
    return {text(s, "name"): text(s, "imageID") for s in statuses if text(s, "imageID")}
