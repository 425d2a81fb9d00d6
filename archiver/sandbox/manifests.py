"""Kubernetes objects as KubeRay, the Job controller and the kubelet write them, for recordings and for tests.

Shapes follow KubeRay 1.6 on Kubernetes 1.34. Each function gives a fresh document; statuses are the caller's story.
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archiver.sandbox.jsontypes import JsonObject

RAY_API = "ray.io/v1"


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that another one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> JsonObject:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def owner_of(document: Mapping[str, JsonObject]) -> Owner:
    metadata = document["metadata"]
    return Owner(str(document["apiVersion"]), str(document["kind"]), metadata["name"], metadata["uid"])


def steady_uid(*parts: str) -> str:
    """The same parts give the same uid, so that composed recordings are reproducible."""
    return str(uuid.UUID(bytes=hashlib.sha256("/".join(parts).encode()).digest()[:16], version=4))


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    name: str
    replicas: int
    cpus: int = 8
    memory: str = "32Gi"
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class RayJobSpec:
    """What a user wrote."""

    namespace: str
    name: str
    entrypoint: str
    mode: str = "K8sJobMode"
    image: str = "registry.example.com/ml/ray:2.60.0-py311"
    ray_version: str = "2.60.0"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[WorkerGroup] = ()
    head_cpus: int = 2
    head_memory: str = "8Gi"
    backoff_limit: int = 0
    extra: Mapping[str, object] = field(default_factory=dict)


def rayjob(spec: RayJobSpec, *, uid: str = "", created: str = "") -> JsonObject:
    body: JsonObject = {
        "entrypoint": spec.entrypoint,
        "submissionMode": spec.mode,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 0,
        "backoffLimit": spec.backoff_limit,
        "rayClusterSpec": ray_cluster_spec(spec),
        **spec.extra,
    }
    metadata = _metadata(spec.namespace, spec.name, uid, created)
    metadata["labels"] = dict(spec.labels)
    if spec.annotations:
        metadata["annotations"] = dict(spec.annotations)
    return {"apiVersion": RAY_API, "kind": "RayJob", "metadata": metadata, "spec": body}


def _metadata(namespace: str, name: str, uid: str, created: str) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": namespace}
    if uid:
        metadata["uid"] = uid
    if created:
        metadata["creationTimestamp"] = created
    return {**metadata, "generation": 1}


def ray_cluster_spec(spec: RayJobSpec) -> JsonObject:
    head = _ray_container("ray-head", spec, cpus=spec.head_cpus, memory=spec.head_memory, gpus=0)
    head["ports"] = [
        {"containerPort": 6379, "name": "gcs", "protocol": "TCP"},
        {"containerPort": 8265, "name": "dashboard", "protocol": "TCP"},
        {"containerPort": 10001, "name": "client", "protocol": "TCP"},
    ]
    return {
        "rayVersion": spec.ray_version,
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [head]}}},
        "workerGroupSpecs": [_worker_group(spec, group) for group in spec.groups],
    }


def _worker_group(spec: RayJobSpec, group: WorkerGroup) -> JsonObject:
    container = _ray_container("ray-worker", spec, cpus=group.cpus, memory=group.memory, gpus=group.gpus)
    return {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "rayStartParams": {},
        "template": {"spec": {"containers": [container]}},
    }


def _ray_container(name: str, spec: RayJobSpec, *, cpus: int, memory: str, gpus: int) -> JsonObject:
    amounts: JsonObject = {"cpu": str(cpus), "memory": memory}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    return {"name": name, "image": spec.image, "resources": {"limits": amounts, "requests": dict(amounts)}}


def raycluster(spec: RayJobSpec, name: str, owner: Owner, *, uid: str = "", created: str = "") -> JsonObject:
    metadata = _metadata(spec.namespace, name, uid, created)
    metadata["labels"] = {
        **spec.labels,
        "ray.io/originated-from-cr-name": spec.name,
        "ray.io/originated-from-crd": "RayJob",
        "ray.io/job-submission-mode": spec.mode,
    }
    metadata["annotations"] = dict(spec.annotations)
    metadata["ownerReferences"] = [owner.reference()]
    return {"apiVersion": RAY_API, "kind": "RayCluster", "metadata": metadata, "spec": ray_cluster_spec(spec)}


def head_service(spec: RayJobSpec, cluster: JsonObject, *, uid: str = "", created: str = "") -> JsonObject:
    name = cluster["metadata"]["name"]
    metadata = _metadata(spec.namespace, f"{name}-head-svc", uid, created)
    metadata["labels"] = {"ray.io/cluster": name, "ray.io/node-type": "head"}
    metadata["ownerReferences"] = [owner_of(cluster).reference()]
    ports = [{"name": "dashboard", "port": 8265, "targetPort": 8265}, {"name": "gcs", "port": 6379}]
    selector = {"ray.io/cluster": name, "ray.io/node-type": "head"}
    body = {"clusterIP": "None", "ports": ports, "selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": body}


def ray_pod(
    spec: RayJobSpec,
    cluster: JsonObject,
    name: str,
    *,
    group: WorkerGroup | None = None,
    uid: str = "",
    created: str = "",
) -> JsonObject:
    """A head pod, or a worker pod of a group."""
    cluster_name = cluster["metadata"]["name"]
    group_name, role = (group.name, "worker") if group else ("headgroup", "head")
    metadata = _metadata(spec.namespace, name, uid, created)
    metadata["labels"] = {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": cluster_name,
        "ray.io/group": group_name,
        "ray.io/identifier": f"{cluster_name}-{role}",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": role,
    }
    metadata["ownerReferences"] = [owner_of(cluster).reference()]
    containers = [_pod_container(spec, group)]
    if group is None and spec.mode == "SidecarMode":
        containers.append(_submitter_container(spec, "127.0.0.1"))
    body: JsonObject = {"containers": containers, "restartPolicy": "Never" if spec.mode == "SidecarMode" else "Always"}
    if group:
        body["initContainers"] = [{"name": "wait-gcs-ready", "image": spec.image, "command": ["/bin/bash", "-c", "--"]}]
    body["terminationGracePeriodSeconds"] = 30
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _pod_container(spec: RayJobSpec, group: WorkerGroup | None) -> JsonObject:
    if group:
        container = _ray_container("ray-worker", spec, cpus=group.cpus, memory=group.memory, gpus=group.gpus)
    else:
        container = _ray_container("ray-head", spec, cpus=spec.head_cpus, memory=spec.head_memory, gpus=0)
    start = "ray start --block --dashboard-agent-listen-port=52365 --metrics-export-port=8080"
    container["args"] = [f"ulimit -n 65536; {start}" + ("" if group else " --head --dashboard-host=0.0.0.0")]
    container["command"] = ["/bin/bash", "-c", "--"]
    return container


def submitter_job(spec: RayJobSpec, owner: Owner, *, uid: str = "", created: str = "") -> JsonObject:
    metadata = _metadata(spec.namespace, spec.name, uid, created)
    metadata["labels"] = _submitter_labels(spec)
    metadata["ownerReferences"] = [owner.reference()]
    template = {"spec": {"containers": [_submitter_container(spec, "head-svc")], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"backoffLimit": 2, "completions": 1, "parallelism": 1, "template": template},
    }


def _submitter_labels(spec: RayJobSpec) -> dict[str, str]:
    return {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "ray.io/originated-from-cr-name": spec.name,
        "ray.io/originated-from-crd": "RayJob",
    }


def _submitter_container(spec: RayJobSpec, address: str) -> JsonObject:
    return {
        "name": "ray-job-submitter",
        "image": spec.image,
        "command": ["/bin/bash", "-ce", "--"],
        "args": [f"ray job submit --address http://{address}:8265 --no-wait -- {spec.entrypoint}"],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "RAY_DASHBOARD_ADDRESS", "value": address}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}},
    }


def submitter_pod(spec: RayJobSpec, job: JsonObject, name: str, *, uid: str = "", created: str = "") -> JsonObject:
    job_name, job_uid = job["metadata"]["name"], job["metadata"]["uid"]
    metadata = _metadata(spec.namespace, name, uid, created)
    metadata["labels"] = {
        "batch.kubernetes.io/controller-uid": job_uid,
        "batch.kubernetes.io/job-name": job_name,
        "controller-uid": job_uid,
        "job-name": job_name,
    }
    metadata["ownerReferences"] = [owner_of(job).reference()]
    body = {"containers": [_submitter_container(spec, "head-svc")], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def node(name: str, *, cpus: int, memory: str, gpus: int = 0, instance: str = "", created: str = "") -> JsonObject:
    amounts: JsonObject = {"cpu": str(cpus), "memory": memory, "pods": "110"}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    if instance:
        labels["node.kubernetes.io/instance-type"] = instance
    metadata: JsonObject = {"name": name, "uid": steady_uid("node", name), "labels": labels}
    if created:
        metadata["creationTimestamp"] = created
    conditions = [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
        {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID"},
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": conditions,
            "nodeInfo": {"kubeletVersion": "v1.34.4", "containerRuntimeVersion": "containerd://2.1.4"},
        },
    }


def operator(version: str) -> JsonObject:
    """KubeRay's own Deployment, from which its version is read."""
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    container = {"name": "kuberay-operator", "image": f"quay.io/kuberay/operator:v{version}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata = {"name": "kuberay-operator", "namespace": "kuberay-system", "labels": labels}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": body}


@dataclass(frozen=True, slots=True)
class EventText:
    """What an Event says. ``component`` is who reports it."""

    type: str
    reason: str
    message: str
    component: str
    count: int = 1
    action: str = ""
    host: str = ""


def core_event(about: JsonObject, text: EventText, *, first: str, last: str = "", uid: str = "") -> JsonObject:
    """The old shape: first and last timestamp, a count, ``source``."""
    event = _event(about, text, uid)
    source = {"component": text.component, **({"host": text.host} if text.host else {})}
    return {
        **event,
        "source": source,
        "firstTimestamp": first,
        "lastTimestamp": last or first,
        "count": text.count,
        "eventTime": None,
        "reportingComponent": text.component,
        "reportingInstance": text.host,
    }


def new_event(about: JsonObject, text: EventText, *, at: str, uid: str = "", series_at: str = "") -> JsonObject:
    """The events.k8s.io shape as core/v1 shows it: no first and last timestamp, no ``source``."""
    event = {
        **_event(about, text, uid),
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": at,
        "action": text.action,
        "reportingComponent": text.component,
        "reportingInstance": f"{text.component}-5d9c7f6b8-x2k4p",
    }
    if series_at:
        event["series"] = {"count": text.count, "lastObservedTime": series_at}
    return event


def _event(about: JsonObject, text: EventText, uid: str) -> JsonObject:
    metadata = about["metadata"]
    namespace = metadata.get("namespace", "default")
    digest = hashlib.sha256(f"{uid}{text.reason}{text.message}".encode()).hexdigest()[:16]
    involved = {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    if "namespace" in metadata:
        involved["namespace"] = namespace
    event_metadata: JsonObject = {"name": f"{metadata['name']}.{digest}", "namespace": namespace}
    if uid:
        event_metadata["uid"] = uid
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": event_metadata,
        "involvedObject": involved,
        "type": text.type,
        "reason": text.reason,
        "message": text.message,
    }
