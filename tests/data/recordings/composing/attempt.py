"""One attempt of a RayJob along the measured timeline: cluster, pods, Ray, submitter, and the way it all goes away."""

from dataclasses import dataclass
from typing import Any

from archiver.sandbox.manifests import (
    EventText,
    WorkerGroup,
    head_service,
    owner_of,
    ray_pod,
    raycluster,
    submitter_job,
    submitter_pod,
)
from archiver.sandbox.recording import AttemptTruth
from tests.data.recordings.composing.raydata import RayData
from tests.data.recordings.composing.story import Json, Story

OPERATOR_JOB = "rayjob-controller"
OPERATOR_CLUSTER = "raycluster-controller"
SUBMITTER = "ray-job-submitter"
READY_SECONDS = 11.0  # from the head pod's creation to its readiness: the probe's initial delay is 10 s


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is right to say of an attempt."""

    cause: str
    why: str
    shows: str
    acceptable: tuple[str, ...] = ()


class Attempt:
    def __init__(self, story: Story, number: int, *, start: float, ip_base: int) -> None:
        self.story = story
        self.number = number
        self.start = start
        spec = story.spec
        self.submission_id = f"{spec.name}-{story.letters('job', str(number))}"
        self.cluster = raycluster(
            spec,
            f"{spec.name}-{story.letters('cluster', str(number))}",
            owner_of(story.rayjob),
            uid=story.uid("cluster", str(number)),
            created=story.iso(start),
        )
        self.cluster_name = self.cluster["metadata"]["name"]
        self.head_ip = f"10.244.{ip_base}.10"
        self.head = self._ray_pod("head", None, self.head_ip)
        self.workers: list[Json] = []
        self.pods_ip: dict[str, str] = {self.head["metadata"]["name"]: self.head_ip}
        for group in spec.groups:
            self._add_workers(group, ip_base)
        self.job: Json | None = None
        self.submitter: Json | None = None
        self._service: Json | None = None

    @property
    def head_name(self) -> str:
        return str(self.head["metadata"]["name"])

    @property
    def submitter_name(self) -> str:
        assert self.submitter is not None, "this attempt has no submitter pod"
        return str(self.submitter["metadata"]["name"])

    def _ray_pod(self, tag: str, group: WorkerGroup | None, ip: str) -> Json:
        role = f"{group.name}-worker" if group else "head"
        name = f"{self.cluster_name}-{role}-{self.story.letters('pod', tag, str(self.number))}"
        created = self.story.iso(self.start + 0.3)
        uid = self.story.uid("pod", tag, str(self.number))
        return ray_pod(self.story.spec, self.cluster, name, group=group, uid=uid, created=created)

    def _add_workers(self, group: WorkerGroup, ip_base: int) -> None:
        for index in range(group.replicas):
            ip = f"10.244.{ip_base}.{20 + len(self.workers)}"
            pod = self._ray_pod(f"{group.name}{index}", group, ip)
            self.pods_ip[pod["metadata"]["name"]] = ip
            self.workers.append(pod)

    # --- up

    def initialize(self) -> None:
        """RayJob Initializing, RayCluster and its service there."""
        story, at = self.story, self.start
        story.status(
            at + 0.08,
            jobId=self.submission_id,
            rayClusterName=self.cluster_name,
            jobDeploymentStatus="Initializing",
            startTime=story.iso(at),
            failed=self.number - 1,
            succeeded=0,
        )
        story.watch(at + 0.1, "ADDED", self.cluster)
        text = EventText("Normal", "CreatedRayCluster", f"Created RayCluster {self.cluster_name}", OPERATOR_JOB)
        story.event(at + 0.11, story.rayjob, text)
        self._service = head_service(
            story.spec, self.cluster, uid=story.uid("svc", str(self.number)), created=story.iso(at)
        )
        story.watch(at + 0.15, "ADDED", self._service)

    def create_pods(self, nodes: dict[str, str]) -> None:
        """``nodes``: role (head, worker) to node name."""
        for pod in (self.head, *self.workers):
            role = "head" if pod is self.head else "worker"
            self._pod_created(pod, self.start + 0.3, nodes[role], role)

    def _pod_created(self, pod: Json, at: float, node_name: str, role: str) -> None:
        story, name = self.story, pod["metadata"]["name"]
        pod["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
        story.watch(at, "ADDED", pod)
        reason = "CreatedHeadPod" if role == "head" else "CreatedWorkerPod"
        message = f"Created {role} Pod {pod['metadata']['namespace']}/{name}"
        story.event(at + 0.01, self.cluster, EventText("Normal", reason, message, OPERATOR_CLUSTER))
        self.scheduled(pod, at + 0.05, node_name)

    def scheduled(self, pod: Json, at: float, node_name: str) -> None:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        pod["spec"]["nodeName"] = node_name
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.story.iso(at)}
        pod["status"]["conditions"] = [condition]
        self.story.watch(at, "MODIFIED", pod)
        text = EventText(
            "Normal", "Scheduled", f"Successfully assigned {name} to {node_name}", "default-scheduler", action="Binding"
        )
        self.story.event(at, pod, text)
        set_waiting(pod, "ContainerCreating", init_waiting="PodInitializing")
        pod["status"]["startTime"] = self.story.iso(at)
        pod["status"]["hostIP"] = "10.1.0.11"
        self.story.watch(at + 0.1, "MODIFIED", pod)

    def pulled(self, pod: Json, at: float, container: str) -> None:
        image, host = self.story.spec.image, pod["spec"]["nodeName"]
        for offset, reason, message in (
            (0.0, "Pulled", f'Container image "{image}" already present on machine'),
            (0.1, "Created", f"Created container: {container}"),
            (0.25, "Started", f"Started container {container}"),
        ):
            self.story.event(at + offset, pod, EventText("Normal", reason, message, "kubelet", host=host))

    def run_container(self, pod: Json, at: float, *, ready_at: float | None = None, ip: str = "") -> None:
        """Every container of the pod runs from ``at`` on; init containers are done by then."""
        for row in pod["status"].get("initContainerStatuses", []):
            ended = {"exitCode": 0, "reason": "Completed", "startedAt": self.story.iso(at - 1)}
            row.update(ready=True, state={"terminated": {**ended, "finishedAt": self.story.iso(at)}})
        for row in pod["status"]["containerStatuses"]:
            row.update(started=True, ready=False, state={"running": {"startedAt": self.story.iso(at)}})
            row["containerID"] = (
                f"containerd://{self.story.uid(pod['metadata']['name'], row['name']).replace('-', '') * 2}"
            )
        pod["status"].update(phase="Running", podIP=ip, podIPs=[{"ip": ip}])
        self.pulled(pod, at - 0.3, pod["spec"]["containers"][0]["name"])
        self.story.watch(at, "MODIFIED", pod)
        if ready_at is not None:
            for row in pod["status"]["containerStatuses"]:
                row["ready"] = True
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self.story.iso(ready_at)}
            pod["status"]["conditions"].append(ready)
            self.story.watch(ready_at, "MODIFIED", pod)

    def run_head(self, data: RayData, *, at: float | None = None) -> float:
        """The head runs and its Ray answers; gives the moment of its readiness."""
        at = self.start + 1.5 if at is None else at
        ready = at + READY_SECONDS - 1.0
        self.run_container(self.head, at, ready_at=ready, ip=self.head_ip)
        for offset, line in enumerate(data.head_stdout()):
            self.story.log(at + 0.5 + 0.2 * offset, self.head_name, "ray-head", line)
        self.story.ray_up(at + 4.5, self.head_name, data.node_id)
        data.answers(self.story, at + 4.6, self.head_name)
        return ready

    def run_workers(self, at: float) -> None:
        for index, pod in enumerate(self.workers):
            name = pod["metadata"]["name"]
            self.run_container(pod, at + 0.2 * index, ready_at=at + 1.5 + 0.2 * index, ip=self.pods_ip[name])
            text = f"{self.story.moment(at + 0.4):%Y-%m-%d %H:%M:%S,%f}"[:-3]
            line = f"{text}\tINFO scripts.py:1043 -- Local node IP: {self.pods_ip[name]}\n"
            self.story.log(at + 0.4 + 0.2 * index, name, "ray-worker", line.encode())
            self.story.log(at + 1.0 + 0.2 * index, name, "ray-worker", b"Ray runtime started.\n")
            self.story.ray_up(
                at + 1.2 + 0.2 * index, name, self.story.uid("node", name).replace("-", ""), role="worker"
            )

    def cluster_ready(self, at: float) -> None:
        """RayCluster ready, RayJob Running with its dashboard."""
        story = self.story
        replicas = len(self.workers)
        story_status = {
            "state": "ready",
            "desiredWorkerReplicas": replicas,
            "availableWorkerReplicas": replicas,
            "readyWorkerReplicas": replicas,
            "head": {
                "podIP": self.head_ip,
                "podName": self.head_name,
                "serviceIP": self.head_ip,
                "serviceName": f"{self.cluster_name}-head-svc",
            },
            "conditions": [
                condition("HeadPodReady", "True", "HeadPodRunningAndReady", story.iso(at)),
                condition("RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime", story.iso(at)),
            ],
            "lastUpdateTime": story.iso(at),
            "observedGeneration": 1,
        }
        self.cluster["status"] = story_status
        story.watch(at, "MODIFIED", self.cluster)
        url = f"{self.cluster_name}-head-svc.{story.spec.namespace}.svc.cluster.local:8265"
        story.status(at + 0.05, dashboardURL=url, jobDeploymentStatus="Running", rayClusterStatus=story_status)

    def create_submitter(self, at: float, node_name: str) -> None:
        story, spec = self.story, self.story.spec
        number = str(self.number)
        self.job = submitter_job(
            spec, owner_of(story.rayjob), uid=story.uid("submitter", number), created=story.iso(at)
        )
        story.watch(at, "ADDED", self.job)
        message = f"Created Kubernetes Job {spec.namespace}/{spec.name}"
        story.event(at + 0.02, story.rayjob, EventText("Normal", "CreatedRayJobSubmitter", message, OPERATOR_JOB))
        name = f"{spec.name}-{story.letters('submitter', number)}"
        self.submitter = submitter_pod(
            spec, self.job, name, uid=story.uid("submitter-pod", number), created=story.iso(at + 0.1)
        )
        self.submitter["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        story.watch(at + 0.1, "ADDED", self.submitter)
        text = EventText("Normal", "SuccessfulCreate", f"Created pod: {name}", "job-controller")
        story.event(at + 0.12, self.job, text)
        self.scheduled(self.submitter, at + 0.15, node_name)
        self.job["status"] = {"active": 1, "ready": 0, "startTime": story.iso(at)}
        story.watch(at + 0.2, "MODIFIED", self.job)
        self.run_container(self.submitter, at + 1.2, ready_at=at + 1.2, ip=self.head_ip[:-2] + "40")

    # --- down

    def end_container(
        self, pod: Json, at: float, container: str, *, exit_code: int, reason: str = "", final: bool = True
    ) -> None:
        for row in pod["status"]["containerStatuses"]:
            if row["name"] == container:
                row.update(started=False, ready=False, state={"terminated": self._ended(row, at, exit_code, reason)})
        if final:
            codes = [row["state"].get("terminated", {}).get("exitCode") for row in pod["status"]["containerStatuses"]]
            if None not in codes:
                pod["status"]["phase"] = "Failed" if any(codes) else "Succeeded"
        self.story.log_end(at, pod["metadata"]["name"], container)
        self.story.watch(at + 0.05, "MODIFIED", pod)

    def _ended(self, row: Json, at: float, exit_code: int, reason: str) -> Json:
        started = row["state"].get("running", {}).get("startedAt", self.story.iso(at))
        return {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            "startedAt": started,
            "finishedAt": self.story.iso(at),
            "containerID": row.get("containerID", ""),
        }

    def finish_submitter(self, at: float, *, exit_code: int = 0) -> None:
        assert self.submitter is not None
        assert self.job is not None
        self.end_container(self.submitter, at, SUBMITTER, exit_code=exit_code)
        now, ok = self.story.iso(at + 1), exit_code == 0
        kind, reason = ("Complete", "CompletionsReached") if ok else ("Failed", "BackoffLimitExceeded")
        self.job["status"] = {
            **({"succeeded": 1, "completionTime": now} if ok else {"failed": 1}),
            "startTime": self.job["status"]["startTime"],
            "conditions": [condition(kind, "True", reason, now)],
        }
        self.story.watch(at + 1.0, "MODIFIED", self.job)
        text = EventText("Normal", "Completed", "Job completed", "job-controller")
        if not ok:
            text = EventText("Warning", reason, "Job has reached the specified backoff limit", "job-controller")
        self.story.event(at + 1.02, self.job, text)

    def delete_cluster(self, at: float, *, head_dies_after: float = 1.6) -> float:
        """The RayCluster goes at ``at``, its pods follow; gives the moment when the last is gone."""
        story = self.story
        self.cluster["status"] = self.cluster.get("status") or {}
        story.watch(at, "DELETED", self.cluster)
        text = EventText("Normal", "DeletedRayCluster", f"Deleted RayCluster {self.cluster_name}", OPERATOR_JOB)
        story.event(at + 0.01, story.rayjob, text)
        if self._service is not None:
            story.watch(at + 0.4, "DELETED", self._service)
        for index, pod in enumerate((self.head, *self.workers)):
            self._pod_goes(pod, at + 0.5 + 0.02 * index, at + head_dies_after + 0.1 * index)
        return at + head_dies_after + 0.1 * len(self.workers) + 1.0

    def _pod_goes(self, pod: Json, marked: float, dead: float) -> None:
        """Marked, then dead (exit code 1 of a head that is told to stop is no cause), then gone."""
        story, name = self.story, pod["metadata"]["name"]
        pod["metadata"].update(deletionTimestamp=story.iso(marked + 30), deletionGracePeriodSeconds=30)
        story.watch(marked, "MODIFIED", pod)
        rows = pod["status"].get("containerStatuses", [])
        for row in rows:
            if "running" in row["state"]:
                story.event(
                    marked + 0.05, pod, EventText("Normal", "Killing", f"Stopping container {row['name']}", "kubelet")
                )
        story.ray_gone(dead, name)
        for row in rows:
            if "running" in row["state"]:
                self.end_container(pod, dead + 0.01, row["name"], exit_code=1)
        story.watch(dead + 0.6, "DELETED", pod)

    def truth(self, verdict: Verdict, *, has_job: bool = True) -> None:
        self.story.attempts.append(
            AttemptTruth(
                number=self.number,
                ray_cluster=self.cluster_name,
                submission_id=self.submission_id if has_job else "",
                cause=verdict.cause,
                why=verdict.why,
                shows=verdict.shows,
                driver=None,
                acceptable=verdict.acceptable,
            )
        )


def condition(kind: str, status: str, reason: str, at: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def set_waiting(pod: Json, reason: str, *, init_waiting: str = "", message: str = "") -> None:
    """All containers wait."""
    has_init = bool(pod["spec"].get("initContainers"))
    text = {"message": message} if message else {}
    pod["status"]["containerStatuses"] = [
        _row(container, {"waiting": {"reason": init_waiting if has_init and init_waiting else reason, **text}})
        for container in pod["spec"]["containers"]
    ]
    if has_init:
        pod["status"]["initContainerStatuses"] = [
            _row(container, {"waiting": {"reason": reason, **text}}) for container in pod["spec"]["initContainers"]
        ]


def _row(container: Json, state: Json) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "started": False,
        "state": state,
        "lastState": {},
    }
