"""What the cache keeps of an object, and which objects are ours at all. Pure; the change itself carries everything."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from archiver.ports import Kind

Document = Mapping[str, Any]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MESSAGE_LIMIT = 1024  # RayJob.status.message can hold 20,000 characters of the driver's log

# Objects whose Kubernetes Events can belong to a RayJob. Events of all other kinds are passed over.
OWNABLE_KINDS = frozenset(
    {"RayJob", "RayCluster", "RayService", "RayCronJob", "Job", "Pod", "Node", "Workload", "PodGroup"}
)

_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "generation", "labels", "annotations", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "ownerReferences",
)  # fmt: skip
_CONTAINER = ("name", "image", "restartPolicy", "resources", "ports")
_POD_SPEC = ("nodeName", "restartPolicy", "terminationGracePeriodSeconds", "priorityClassName", "schedulerName")
_POD_STATUS = (
    "phase", "reason", "message", "podIP", "hostIP", "startTime", "conditions",
    "containerStatuses", "initContainerStatuses",
)  # fmt: skip
_CLUSTER_SPEC = ("rayVersion", "suspend", "authOptions", "enableInTreeAutoscaling", "gcsFaultToleranceOptions")
_WORKER_GROUP = ("groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "suspend")
_NODE_STATUS = ("conditions", "capacity", "allocatable", "addresses", "nodeInfo")
_SUBMITTER_ENV = ("RAY_DASHBOARD_ADDRESS", "RAY_JOB_SUBMISSION_ID")


def is_ours(kind: Kind, document: Document) -> bool:
    """Whether an object of a watched kind can belong to a RayJob.

    A pod tells it alone: Ray's pods have ``ray.io/cluster``; a submitter's pod has that origin label only since
    KubeRay 1.7, but KubeRay gives every submitter container the two variables (job.go, rayjob_controller.go).
    """
    if kind is Kind.POD:
        return is_ray_pod(document) or is_submitter_pod(document)
    if kind is Kind.EVENT:
        return part(document, "involvedObject").get("kind") in OWNABLE_KINDS
    return True


def is_ray_pod(pod: Document) -> bool:
    labels = part(part(pod, "metadata"), "labels")
    return "ray.io/cluster" in labels or labels.get("ray.io/is-ray-node") == "yes"


def is_submitter_pod(pod: Document) -> bool:
    if "ray.io/originated-from-crd" in part(part(pod, "metadata"), "labels"):
        return True
    names = {env.get("name") for container in parts(part(pod, "spec"), "containers") for env in parts(container, "env")}
    return any(name in names for name in _SUBMITTER_ENV)


def without_managed_fields(document: Document) -> Document:
    """The object without the field managers' book-keeping: a third of its size, and no evidence."""
    metadata = part(document, "metadata")
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def trim(kind: Kind, document: Document) -> dict[str, Any]:
    """What the services need of an object while it lives."""
    trimmed = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": _metadata(part(document, "metadata")),
    }
    return trimmed | _TRIMMERS[kind](document)


def owner_uids(kind: Kind, document: Document) -> tuple[str, ...]:
    """The uids below which the cache finds an object: its owners', or those of the object an Event tells about."""
    if kind is Kind.EVENT:
        uids: Iterable[Any] = (part(document, key).get("uid") for key in ("involvedObject", "related"))
    else:
        uids = (owner.get("uid") for owner in parts(part(document, "metadata"), "ownerReferences"))
    return tuple(uid for uid in uids if isinstance(uid, str) and uid)


def part(document: Document, key: str) -> Document:
    """A nested mapping, empty where it is absent, null or something else."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def parts(document: Document, key: str) -> list[Document]:
    """A nested list's mappings, none where it is absent, null or something else."""
    value = document.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _only(document: Document, keys: Iterable[str]) -> dict[str, Any]:
    return {key: document[key] for key in keys if key in document}


def _metadata(metadata: Document) -> dict[str, Any]:
    kept = _only(metadata, _METADATA)
    annotations = part(metadata, "annotations")
    if LAST_APPLIED in annotations:
        kept["annotations"] = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return kept


def _container(container: Document) -> dict[str, Any]:
    kept = _only(container, _CONTAINER)
    env = [item for item in parts(container, "env") if item.get("name") in _SUBMITTER_ENV]
    return kept | ({"env": env} if env else {})


def _rayjob(document: Document) -> dict[str, Any]:
    spec = {key: value for key, value in part(document, "spec").items() if key != "submitterPodTemplate"}
    if "rayClusterSpec" in spec:
        spec["rayClusterSpec"] = _cluster_spec(part(spec, "rayClusterSpec"))
    return {"spec": spec, "status": _with_short_message(part(document, "status"))}


def _cluster_spec(spec: Document) -> dict[str, Any]:
    groups = [_only(group, _WORKER_GROUP) for group in parts(spec, "workerGroupSpecs")]
    head = _only(part(spec, "headGroupSpec"), ("rayStartParams",))
    return _only(spec, _CLUSTER_SPEC) | {"headGroupSpec": head, "workerGroupSpecs": groups}


def _with_short_message(status: Document) -> dict[str, Any]:
    message = status.get("message")
    if isinstance(message, str) and len(message) > MESSAGE_LIMIT:
        return {**status, "message": message[:MESSAGE_LIMIT]}
    return dict(status)


def _raycluster(document: Document) -> dict[str, Any]:
    return {"spec": _cluster_spec(part(document, "spec")), "status": part(document, "status")}


def _job(document: Document) -> dict[str, Any]:
    spec = part(document, "spec")
    return {
        "spec": _only(spec, ("backoffLimit", "completions", "suspend", "activeDeadlineSeconds")),
        "status": part(document, "status"),
    }


def _pod(document: Document) -> dict[str, Any]:
    spec = part(document, "spec")
    kept = _only(spec, _POD_SPEC)
    kept["containers"] = [_container(item) for item in parts(spec, "containers")]
    if "initContainers" in spec:
        kept["initContainers"] = [_container(item) for item in parts(spec, "initContainers")]
    return {"spec": kept, "status": _only(part(document, "status"), _POD_STATUS)}


def _event(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}


def _node(document: Document) -> dict[str, Any]:
    return {
        "spec": _only(part(document, "spec"), ("taints", "unschedulable", "providerID")),
        "status": _only(part(document, "status"), _NODE_STATUS),
    }


def _workload(document: Document) -> dict[str, Any]:
    spec = _only(part(document, "spec"), ("queueName", "priority", "priorityClassName", "active"))
    return {"spec": spec, "status": _only(part(document, "status"), ("conditions", "admission", "requeueState"))}


_TRIMMERS: Mapping[Kind, Callable[[Document], dict[str, Any]]] = MappingProxyType(
    {
        Kind.RAYJOB: _rayjob,
        Kind.RAYCLUSTER: _raycluster,
        Kind.JOB: _job,
        Kind.POD: _pod,
        Kind.EVENT: _event,
        Kind.NODE: _node,
        Kind.WORKLOAD: _workload,
    }
)
