"""A scenario's Kubernetes documents: namespace, the driver in a ConfigMap, the RayJob. Pure.

What the driver prints goes through `tee` to a file outside the pod: the truth that the archive is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.e2e.scenarios.kube import Document
from tests.e2e.scenarios.scenario import Scenario, Workers

TRUTH_FOLDER = "/var/lib/rayjob-archiver-e2e"
SHARED = "shared"
ENTRYPOINT = "bash /driver/run"
# The group's own output (bash says `Killed` of a killed driver) goes the same way as the driver's.
RUN = """\
{ python3 -u /driver/driver.py; } 2>&1 | tee "/truth/$(hostname).log"
exit "${PIPESTATUS[0]}"
"""
# every worker has it and no head does: a task that asks for it runs on a worker
SCRATCH = '"{\\"scratch\\": 1}"'
RAY_ENV = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    "RAY_DEDUP_LOGS": "0",
}


def documents(scenario: Scenario, namespace: str, images: Mapping[str, str], gpu_resource: str) -> Iterator[Document]:
    """In the order in which they are applied; the RayJob is last."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    scripts = {"driver.py": scenario.driver, "run": RUN}
    metadata = {"name": "driver", "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": scripts}
    for document in scenario.documents:
        yield _placed(document, namespace)
    image = images[f"ray-{scenario.ray}"]
    cluster = ray_cluster(scenario, namespace, image, gpu_resource)
    if scenario.shares_cluster:
        metadata = {"name": SHARED, "namespace": namespace}
        yield {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": cluster}
    yield _replaced(rayjob(scenario, namespace, cluster, image), "IMAGE_BASE", images["base"])


def rayjob(scenario: Scenario, namespace: str, cluster: Document, submitter_image: str) -> Document:
    """TTL 0, so that the cluster goes the moment the job is over; a shared cluster is not the RayJob's to delete."""
    spec: Document = {"submissionMode": scenario.mode}
    if scenario.mode != "InteractiveMode":
        spec["entrypoint"] = scenario.entrypoint or ENTRYPOINT
    if scenario.shares_cluster:
        spec["clusterSelector"] = {"ray.io/cluster": SHARED}
    else:
        spec |= {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 0}
    if scenario.mode == "K8sJobMode":
        spec["submitterPodTemplate"] = _submitter(submitter_image)
    metadata = {"name": scenario.name, "namespace": namespace, "labels": {"team": "e2e"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": merged(spec, scenario.spec)}


def ray_cluster(scenario: Scenario, namespace: str, image: str, gpu_resource: str) -> Document:
    """The spec of the RayCluster that the scenario's driver runs on."""
    head = merged(_container("ray-head", image, "2Gi"), {"volumeMounts": _mounts()} | scenario.head)
    cluster: Document = {
        "rayVersion": scenario.ray,
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "2"},
            "template": {"spec": {"containers": [head], "volumes": _volumes(namespace)}},
        },
    }
    if scenario.workers:
        cluster["workerGroupSpecs"] = [_workers(scenario.workers, image, gpu_resource)]
    return cluster


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Document:
    """`above` laid over `below`, mapping by mapping; None takes a key away."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return result


def _container(name: str, image: str, memory: str) -> Document:
    """Small requests and no CPU limit: many fit on a small machine, and an idle one lends its time."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": key, "value": value} for key, value in RAY_ENV.items()],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": memory}},
    }


def _mounts() -> list[Document]:
    return [{"name": "driver", "mountPath": "/driver"}, {"name": "truth", "mountPath": "/truth"}]


def _volumes(namespace: str) -> list[Document]:
    truth = {"path": f"{TRUTH_FOLDER}/{namespace}", "type": "DirectoryOrCreate"}
    return [{"name": "driver", "configMap": {"name": "driver"}}, {"name": "truth", "hostPath": truth}]


def _workers(workers: Workers, image: str, gpu_resource: str) -> Document:
    container = _container("ray-worker", image, workers.memory)
    amounts = dict(workers.resources) | ({gpu_resource: str(workers.gpus)} if workers.gpus else {})
    for kind in ("requests", "limits"):
        container["resources"][kind] |= amounts
    return {
        "groupName": "workers",
        "replicas": workers.replicas,
        "minReplicas": workers.replicas,
        "maxReplicas": workers.replicas,
        "rayStartParams": {"num-cpus": "1", "resources": SCRATCH},
        "template": {"spec": {"containers": [container]}},
    }


def _submitter(image: str) -> Document:
    return {"spec": {"restartPolicy": "Never", "containers": [_container("ray-job-submitter", image, "1Gi")]}}


def _placed(document: Document, namespace: str) -> Document:
    """Written for this namespace: `NAMESPACE` stands for its name wherever it is."""
    return _replaced(document, "NAMESPACE", namespace)  # type: ignore[no-any-return]


def _replaced(value: Any, word: str, meant: str) -> Any:
    """`word` in every string of the document, replaced by what is meant."""
    if isinstance(value, dict):
        return {key: _replaced(one, word, meant) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, word, meant) for one in value]
    return value.replace(word, meant) if isinstance(value, str) else value
