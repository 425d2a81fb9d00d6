"""RayJob, RayCluster, Job and Pod objects as KubeRay and the kubelet write them, for tests. Only what matters is in."""

from typing import Any


def rayjob(
    *,
    uid: str = "job-uid",
    name: str = "train",
    namespace: str = "ml",
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-30T10:00:00Z",
        },
        "spec": {"submissionMode": "K8sJobMode", **(spec or {})},
        "status": status,
    }


def raycluster(name: str = "train-abcde", *, uid: str = "cluster-uid", namespace: str = "ml") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": "2",
            "ownerReferences": [{"kind": "RayJob", "uid": "job-uid", "controller": True}],
        }
    }


def job(*, uid: str = "batch-uid", owner: str = "job-uid") -> dict[str, Any]:
    return {
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "uid": uid,
            "ownerReferences": [{"kind": "RayJob", "uid": owner, "controller": True}],
        }
    }


def pod(
    *,
    uid: str = "pod-uid",
    name: str = "train-abcde-head",
    node_type: str = "head",
    cluster: str = "train-abcde",
    statuses: list[dict[str, Any]] | None = None,
    **status: Any,
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid,
            "labels": {"ray.io/cluster": cluster, "ray.io/node-type": node_type},
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "ray-head"}, {"name": "autoscaler"}, {"name": "istio-proxy"}],
        },
        "status": {"containerStatuses": statuses or [], **status},
    }


def submitter(
    *, uid: str = "submitter-uid", job_uid: str = "batch-uid", statuses: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "train-x7k2p",
            "namespace": "ml",
            "uid": uid,
            "labels": {"batch.kubernetes.io/job-name": "train"},
            "ownerReferences": [{"kind": "Job", "uid": job_uid, "controller": True}],
        },
        "spec": {"nodeName": "node-2", "containers": [{"name": "renamed-by-the-user"}]},
        "status": {"containerStatuses": statuses or []},
    }


def running(name: str, restarts: int = 0, **last: Any) -> dict[str, Any]:
    return {
        "name": name,
        "restartCount": restarts,
        "state": {"running": {"startedAt": "2026-11-30T10:00:05Z"}},
        "lastState": last,
    }


def terminated(name: str, code: int = 1, restarts: int = 0) -> dict[str, Any]:
    ended = {"exitCode": code, "startedAt": "2026-11-30T10:00:05Z", "finishedAt": "2026-11-30T10:01:00Z"}
    return {"name": name, "restartCount": restarts, "state": {"terminated": ended}}
