"""Small objects for the tests of the Kubernetes adapter."""

from typing import Any

NAMESPACE = "team-a"


def rayjob(name: str, **spec: Any) -> dict[str, Any]:
    return _document("ray.io/v1", "RayJob", name) | {"spec": {"entrypoint": "python main.py", **spec}}


def ray_pod(name: str, *, cluster: str = "c", namespace: str = NAMESPACE) -> dict[str, Any]:
    labels = {"ray.io/cluster": cluster, "ray.io/is-ray-node": "yes", "ray.io/node-type": "head"}
    return pod(name, labels=labels, namespace=namespace)


def submitter_pod(name: str, *, job: str = "job") -> dict[str, Any]:
    """As KubeRay before 1.7 makes it: nothing but its environment tells that it is Ray's."""
    document = pod(name, labels={"batch.kubernetes.io/job-name": job, "job-name": job})
    document["spec"]["containers"][0]["env"] = [
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": "c-head-svc:8265"},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": "job-x1y2z"},
    ]
    return document


def pod(name: str, *, labels: dict[str, str] | None = None, namespace: str = NAMESPACE) -> dict[str, Any]:
    document = _document("v1", "Pod", name, namespace)
    document["metadata"]["labels"] = labels or {}
    # No node has this label: on a real cluster the pod stays Pending and nothing runs.
    selector = {"archiver.test/never": "true"}
    return document | {
        "spec": {"containers": [{"name": "main", "image": "none.invalid/none"}], "nodeSelector": selector}
    }


def job(name: str, *, labels: dict[str, str] | None = None, namespace: str = NAMESPACE) -> dict[str, Any]:
    """A suspended Job that KubeRay could have made: the Job controller makes no pods of it."""
    document = _document("batch/v1", "Job", name, namespace)
    document["metadata"]["labels"] = {"ray.io/originated-from-crd": "RayJob"} if labels is None else labels
    container = {"name": "main", "image": "none.invalid/none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return document | {"spec": {"suspend": True, "backoffLimit": 2, "template": template}}


def kube_event(name: str, *, kind: str = "RayJob", uid: str = "u-1", namespace: str = NAMESPACE) -> dict[str, Any]:
    about = {"kind": kind, "name": "a", "namespace": namespace, "uid": uid}
    return _document("v1", "Event", name, namespace) | {
        "involvedObject": about,
        "reason": "CreatedRayCluster",
        "message": "Created RayCluster",
        "type": "Normal",
        "count": 1,
    }


def _document(api_version: str, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
