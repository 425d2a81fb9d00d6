"""Plays KubeRay, the Job controller and Ray for one RayJob on a sandbox cluster, step by step, as a test tells it."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from archiver.core.model import ContainerRun
from archiver.sandbox import ContainerEnd, NodeState, RayNode, SandboxServer
from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.manifests import (
    RayJobSpec,
    WorkerGroup,
    owner_of,
    ray_pod,
    raycluster,
    rayjob,
    submitter_job,
    submitter_pod,
)
from archiver.sandbox.raynode import Canned

SUBMITTER = "ray-job-submitter"
_TERMINAL = {"SUCCEEDED": "Complete", "FAILED": "Failed", "STOPPED": "Complete"}


@dataclass(slots=True)
class Operated:
    """One RayJob. The methods are what its operator, kubelets and Ray do; the fields what there is of it now."""

    server: SandboxServer
    name: str = "train"
    namespace: str = "team-a"
    mode: str = "K8sJobMode"
    spec: dict[str, Any] = field(default_factory=dict)
    groups: list[WorkerGroup] = field(default_factory=list)
    token: str = ""
    job: JsonObject = field(default_factory=dict)
    cluster: JsonObject = field(default_factory=dict)
    submission_id: str = ""
    head: RayNode | None = None
    head_pod: str = ""
    head_run: ContainerRun | None = None
    attempt: int = 0
    tries: int = 0
    batch_job: JsonObject = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return str(self.job["metadata"]["uid"])

    @property
    def sandbox(self) -> Any:
        return self.server.cluster

    @property
    def template(self) -> RayJobSpec:
        return RayJobSpec(
            self.namespace,
            self.name,
            "python train.py",
            mode=self.mode,
            groups=self.groups,
            labels={"team": "vision"},
            extra=self.spec,
        )

    def create(self) -> "Operated":
        self.job = self.sandbox.create(rayjob(self.template))
        return self

    def status(self, **values: Any) -> None:
        """Fields of the RayJob's status; None removes."""
        names = {
            "job": "jobStatus",
            "deployment": "jobDeploymentStatus",
            "cluster": "rayClusterName",
            "job_id": "jobId",
        }
        change = {names.get(name, name): value for name, value in values.items()}
        self.job = self.sandbox.patch("rayjobs", self.namespace, self.name, {"status": change})

    def begin(self) -> None:
        """A new attempt: names, and the RayCluster."""
        self.attempt += 1
        suffix = uuid4().hex[:5]
        self.submission_id = f"{self.name}-{suffix}"
        cluster_name = f"{self.name}-{suffix}"
        self.status(deployment="Initializing", cluster=cluster_name, job_id=self.submission_id, job="")
        self.make_cluster(cluster_name)

    def make_cluster(self, name: str) -> None:
        document = raycluster(self.template, name, owner_of(self.job))
        if self.token:
            document["spec"]["authOptions"] = {"mode": "token"}
        self.cluster = self.sandbox.create(document)

    @property
    def cluster_name(self) -> str:
        return str(self.cluster["metadata"]["name"])

    async def start_head(self, *, is_listening: bool = True, name: str = "") -> RayNode:
        """The head pod runs and Ray answers, at the pod's address where it listens."""
        self.head_pod = name or f"{self.cluster_name}-head-{uuid4().hex[:5]}"
        self.head = await self.start_pod(self.head_pod, is_listening=is_listening)
        self.head_run = self.sandbox.start_container(self.namespace, self.head_pod, "ray-head")
        return self.head

    async def start_worker(self, *, is_listening: bool = True) -> tuple[RayNode, ContainerRun, str]:
        group = self.groups[0] if self.groups else WorkerGroup("gpu", 1, gpus=1)
        pod = f"{self.cluster_name}-{group.name}-worker-{uuid4().hex[:5]}"
        node = await self.start_pod(pod, group=group, is_listening=is_listening)
        return node, self.sandbox.start_container(self.namespace, pod, "ray-worker"), pod

    async def start_pod(self, name: str, *, group: WorkerGroup | None = None, is_listening: bool = True) -> RayNode:
        address = self.sandbox.next_address()
        document = ray_pod(self.template, self.cluster, name, group=group)
        document["spec"]["nodeName"] = "node-1"
        document["status"] = {"phase": "Pending", "podIP": address, "conditions": []}
        node = RayNode(address, node_id=uuid4().hex, is_head=group is None, token=self.token)
        if is_listening:
            await self.server.listen(node)
        self.sandbox.create(document)
        self.sandbox.add_ray_node(self.namespace, name, node)
        return node

    # -- Ray

    def record(self, status: str = "RUNNING", **changed: Any) -> None:
        """The Ray job's own record, from now on."""
        assert self.head is not None
        known = self.head.jobs.get(self.submission_id, {})
        fresh = {
            "type": "SUBMISSION",
            "job_id": "02000000",
            "submission_id": self.submission_id,
            "status": status,
            "start_time": 1_800_000_000_000 + self.attempt,
            "driver_agent_http_address": f"http://{self.head.address}:52365",
        }
        self.head.set_job({**fresh, **known, "status": status, **changed})

    def state(self, what: str, rows: list[dict[str, Any]]) -> None:
        """Rows of the state API."""
        assert self.head is not None
        body = {"result": True, "msg": "", "data": {"result": {"total": len(rows), "result": rows}}}
        self.head.set_answer(f"/api/v0/{what}", Canned(200, json.loads(json.dumps(body))))

    def drive(self, data: bytes) -> None:
        """The driver prints."""
        assert self.head is not None
        self.head.append(f"job-driver-{self.submission_id}.log", data)

    # -- the submitter

    def start_submitter(self) -> ContainerRun:
        """The next try of the submitter's Job; in SidecarMode the container of the head."""
        if self.mode == "SidecarMode":
            return self.sandbox.start_container(self.namespace, self.head_pod, SUBMITTER)  # type: ignore[no-any-return]
        if not self.batch_job:
            self.batch_job = self.sandbox.create(submitter_job(self.template, owner_of(self.job)))
        self.tries += 1
        pod = f"{self.name}-{uuid4().hex[:5]}"
        self.sandbox.create(submitter_pod(self.template, self.batch_job, pod))
        return self.sandbox.start_container(self.namespace, pod, SUBMITTER)  # type: ignore[no-any-return]

    def write(self, run: ContainerRun | None, data: bytes) -> None:
        assert run is not None
        self.sandbox.write_log(run, data)

    def finish(self, run: ContainerRun | None, code: int = 0, **how: Any) -> None:
        assert run is not None
        self.sandbox.finish_container(run, ContainerEnd(exit_code=code, **how))

    # -- the end

    def end(self, job: str = "FAILED", **values: Any) -> None:
        """The terminal status, in one write."""
        self.status(job=job, deployment=_TERMINAL[job], **values)

    def delete_cluster(self) -> None:
        """The RayCluster goes at once, as in background deletion; where it is held it is only marked."""
        self.sandbox.delete("rayclusters", self.namespace, self.cluster_name)

    @property
    def is_cluster_there(self) -> bool:
        return self.sandbox.get("rayclusters", self.namespace, self.cluster_name) is not None

    def finalizers(self) -> list[str]:
        cluster = self.sandbox.get("rayclusters", self.namespace, self.cluster_name)
        return list((cluster or {"metadata": {}})["metadata"].get("finalizers") or [])

    def kill_pods(self) -> None:
        """Head and workers end: their Ray is gone, their containers end, the pods vanish."""
        for pod in [
            item
            for item in self.sandbox.items("pods", self.namespace)
            if item["metadata"].get("labels", {}).get("ray.io/cluster") == self.cluster_name
        ]:
            name = pod["metadata"]["name"]
            if (node := self.sandbox.ray_node(self.namespace, name)) is not None:
                node.die(NodeState.REFUSED)
            for status in pod.get("status", {}).get("containerStatuses", []):
                if "running" in status.get("state", {}):
                    self.finish(self.sandbox.current_run(self.namespace, name, status["name"]), 1)
            self.sandbox.delete("pods", self.namespace, name)

    def wipe(self) -> None:
        """What KubeRay does to a status when a retry or a suspend has cleaned up."""
        self.batch_job = {}
        self.status(cluster=None, job_id=None, job="", deployment="", reason=None, message=None)

    def remove_submitter(self) -> None:
        """The Job and its pods are deleted."""
        job_uid = self.batch_job["metadata"]["uid"]
        for pod in list(self.sandbox.items("pods", self.namespace)):
            if any(owner["uid"] == job_uid for owner in pod["metadata"].get("ownerReferences", [])):
                self.sandbox.delete("pods", self.namespace, pod["metadata"]["name"])
        self.sandbox.delete("jobs", self.namespace, self.name)
