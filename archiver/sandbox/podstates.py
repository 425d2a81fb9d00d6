"""What a kubelet writes into a pod's status when containers start and end. Pure: a pod in, a pod out."""

import copy
from dataclasses import dataclass
from datetime import datetime

from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.objects import kube_time


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended. ``restart``: the kubelet starts it again in place."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    restart: bool = False


def container_status(pod: JsonView, container: str) -> JsonObject | None:
    status = pod.get("status") or {}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for row in status.get(field) or []:
            if row.get("name") == container:
                found: JsonObject = row
                return found
    return None


def container_names(pod: JsonView, field: str = "containers") -> list[str]:
    return [str(row.get("name", "")) for row in (pod.get("spec") or {}).get(field) or []]


def with_started(pod: JsonView, container: str, *, now: datetime) -> JsonObject:
    """The container runs; the pod is on a node from now on."""
    fresh = _editable(pod)
    row = _status_row(fresh, container)
    row.update(
        started=True,
        ready=True,
        state={"running": {"startedAt": kube_time(now)}},
        containerID=_container_id(fresh, container, row["restartCount"]),
    )
    fresh["spec"].setdefault("nodeName", "sandbox-node")
    fresh["status"].setdefault("startTime", kube_time(now))
    fresh["status"]["phase"] = "Running"
    return fresh


def with_finished(pod: JsonView, container: str, end: ContainerEnd, *, now: datetime) -> JsonObject:
    fresh = _editable(pod)
    row = _status_row(fresh, container)
    terminated = {
        "exitCode": end.exit_code,
        "reason": end.reason or ("Completed" if end.exit_code == 0 else "Error"),
        "startedAt": row.get("state", {}).get("running", {}).get("startedAt", kube_time(now)),
        "finishedAt": kube_time(now),
        "containerID": row.get("containerID", ""),
    }
    if end.message:
        terminated["message"] = end.message
    row.update(started=False, ready=False, state={"terminated": terminated})
    if end.restart:
        count = row["restartCount"] + 1
        row.update(
            restartCount=count, lastState={"terminated": terminated}, containerID=_container_id(fresh, container, count)
        )
        row.update(started=True, ready=True, state={"running": {"startedAt": kube_time(now)}})
    fresh["status"]["phase"] = _phase(fresh)
    return fresh


def _editable(pod: JsonView) -> JsonObject:
    fresh: JsonObject = copy.deepcopy(dict(pod))
    fresh.setdefault("spec", {})
    fresh["status"] = fresh.get("status") or {}
    return fresh


def _status_row(pod: JsonObject, container: str) -> JsonObject:
    row = container_status(pod, container)
    if row is None:
        is_init = container in container_names(pod, "initContainers")
        field = "initContainerStatuses" if is_init else "containerStatuses"
        row = {"name": container, "image": "", "imageID": "", "ready": False, "lastState": {}, "state": {}}
        pod["status"].setdefault(field, []).append(row)
    row.setdefault("restartCount", 0)
    return row


def _container_id(pod: JsonView, container: str, restart: int) -> str:
    uid = str(pod.get("metadata", {}).get("uid", "")).replace("-", "")
    return f"containerd://{uid}{container.encode().hex()[:24]:0<24}{restart:08x}"


def _phase(pod: JsonObject) -> str:
    """Succeeded or Failed once every container of the spec has ended."""
    rows = pod["status"].get("containerStatuses") or []
    ended = [row["state"]["terminated"] for row in rows if "terminated" in row.get("state", {})]
    if len(ended) < max(1, len(container_names(pod))):
        return str(pod["status"].get("phase", "Pending"))
    return "Failed" if any(row.get("exitCode") for row in ended) else "Succeeded"
