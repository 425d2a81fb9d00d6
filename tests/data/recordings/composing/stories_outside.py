"""The deaths that come from outside the driver, or before it: one function each, named as its recording."""

import copy

from archiver.sandbox.manifests import EventText, RayJobSpec, WorkerGroup, steady_uid
from archiver.sandbox.recording import AttemptTruth, Recording
from tests.data.recordings.composing.attempt import (
    OPERATOR_JOB,
    SUBMITTER,
    Attempt,
    condition,
    set_waiting,
)
from tests.data.recordings.composing.courses import (
    NODES,
    Run,
    begin,
    fail_k8s_job,
    run_driver,
    submitter_prints,
    verdict,
    wipe,
)
from tests.data.recordings.composing.stories import CPUS_1, GPUS_2, labels, origin
from tests.data.recordings.composing.story import Json, Story

SIGTERM = b"*** SIGTERM"


def image_pull() -> Recording:
    image = "registry.example.com/ml/ray-vision:2026-11-29"
    spec = RayJobSpec(
        "vision",
        "segment-train",
        "python /home/ray/train/segment.py",
        image=image,
        labels=labels("vision", "gpu-prod"),
        groups=(WorkerGroup("gpu", 2, cpus=12, memory="120Gi", gpus=4),),
        extra={"preRunningDeadlineSeconds": 60},
    )
    story = Story("image-pull", "An image that is not there: no driver, no log, a deadline", spec, origin=origin(9, 50))
    story.add_nodes("cpu-a-01", "gpu-a-01")
    story.rayjob_created()
    attempt = Attempt(story, 1, start=0.0, ip_base=16)
    attempt.initialize()
    attempt.create_pods(NODES)
    pods = [attempt.head, *attempt.workers]
    for pod in pods:
        _cannot_pull(story, pod, image)
    waiting = condition("HeadPodReady", "False", "ErrImagePull", story.iso(3), _pull_message(image))
    attempt.cluster["status"] = {"state": "", "desiredWorkerReplicas": 2, "conditions": [waiting]}
    story.watch(3.0, "MODIFIED", attempt.cluster)
    story.status(3.1, rayClusterStatus=attempt.cluster["status"])
    message = (
        f"The RayJob has passed the preRunningDeadlineSeconds. StartTime: {story.moment(0):%Y-%m-%d %H:%M:%S} +0000 UTC. "
        "PreRunningDeadlineSeconds: 60"
    )
    story.status(
        60.3,
        jobDeploymentStatus="Failed",
        reason="PreRunningDeadlineExceeded",
        message=message,
        endTime=story.iso(60.3),
        failed=1,
    )
    attempt.delete_cluster(60.31, head_dies_after=0.9)
    attempt.truth(verdict("image-pull-failed", f"{image} does not exist", "Failed to pull image"), has_job=False)
    return story.recording("Failed")


def _pull_message(image: str) -> str:
    return f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'


def _cannot_pull(story: Story, pod: Json, image: str) -> None:
    """Tried again and again: one Event with a count for each kind of message."""
    host, error = pod["spec"]["nodeName"], f'Failed to pull image "{image}": rpc error: code = NotFound desc = '
    for at, reason in (
        (1.2, "ErrImagePull"),
        (2.4, "ImagePullBackOff"),
        (15.6, "ErrImagePull"),
        (27.8, "ImagePullBackOff"),
    ):
        text = _pull_message(image) if reason == "ErrImagePull" else f'Back-off pulling image "{image}"'
        set_waiting(pod, reason, init_waiting="PodInitializing", message=text)
        story.watch(at, "MODIFIED", pod)
    first_of = [
        ("Normal", "Pulling", f'Pulling image "{image}"', 0.7),
        ("Warning", "Failed", error + _pull_message(image), 1.1),
        ("Warning", "Failed", "Error: ErrImagePull", 1.15),
        ("Normal", "BackOff", f'Back-off pulling image "{image}"', 2.3),
        ("Warning", "Failed", "Error: ImagePullBackOff", 2.35),
    ]
    for kind, reason, message, first in first_of:
        for count, at in ((1, first), (2, first + 14.4), (3, first + 40.8)):
            story.event(
                first if count == 1 else at,
                pod,
                EventText(kind, reason, message, "kubelet", count, host=host),
                until=at,
            )


def head_oom() -> Recording:
    spec = RayJobSpec(
        "recsys",
        "feature-backfill",
        "python /home/ray/jobs/backfill.py",
        labels=labels("recommendations", "batch"),
        groups=CPUS_1,
        head_memory="2Gi",
        extra={"submitterConfig": {"backoffLimit": 0}},
    )
    story = Story(
        "head-oom", "The head container is OOM-killed in mid-run; the status stays RUNNING", spec, origin=origin(14, 2)
    )
    story.own_machines = {"cpu-a-01": "cpu-b-03"}
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/stop_running", script="/home/ray/jobs/backfill.py", ip_base=17)
    attempt, dead = run.attempt, run.ended
    attempt.create_submitter(run.submitted - 5.2, "cpu-a-02")
    lines = run_driver(story, run, until=SIGTERM)
    submitter_prints(story, run, attempt.submitter_name, lines, has_end=False)
    story.status(run.submitted - 0.4, jobStatus="PENDING")
    story.status(run.submitted + 2.1, jobStatus="RUNNING", rayJobInfo={"startTime": story.iso(run.submitted)})
    story.ray_gone(dead, attempt.head_name)
    _restart_head(story, run, dead)
    broken = b"RuntimeError: WebSocket connection closed unexpectedly with close code 1006\n"
    story.log(dead + 0.7, attempt.submitter_name, SUBMITTER, b"Traceback (most recent call last):\n" + broken)
    attempt.finish_submitter(dead + 1.1, exit_code=1)
    at = dead + 4.0
    message = (
        "Job submission has failed. Reason: BackoffLimitExceeded. Message: Job has reached the specified backoff limit"
    )
    story.status(
        at, jobDeploymentStatus="Failed", reason="SubmissionFailed", message=message, endTime=story.iso(at), failed=1
    )
    attempt.delete_cluster(at + 0.016)
    attempt.truth(verdict("host-oom-container", "the head container used more than its 2Gi", "OOMKilled", "head-lost"))
    return story.recording("Failed")


def _restart_head(story: Story, run: Run, dead: float) -> None:
    """The kubelet starts the container again in place: a new Ray that knows nothing of the job."""
    head, name = run.attempt.head, run.attempt.head_name
    row = head["status"]["containerStatuses"][0]
    ended = {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": row["state"]["running"]["startedAt"],
        "finishedAt": story.iso(dead),
        "containerID": row["containerID"],
    }
    row.update(ready=False, started=False, state={"terminated": ended})
    story.log_end(dead, name, "ray-head")
    story.watch(dead + 0.4, "MODIFIED", head)
    row.update(
        restartCount=1,
        lastState={"terminated": ended},
        state={"running": {"startedAt": story.iso(dead + 1.5)}},
        containerID="containerd://" + steady_uid(name, "1").replace("-", "") * 2,
    )
    story.log(dead + 1.6, name, "ray-head", b"INFO scripts.py:1043 -- Local node IP\n", restart=1)
    story.watch(dead + 1.6, "MODIFIED", head)
    system_oom = EventText(
        "Warning", "OOMKilling", "Memory cgroup out of memory: Killed process 1561 (python)", "kernel-monitor"
    )
    node: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "cpu-a-01", "uid": steady_uid("node", "cpu-a-01")},
    }
    story.event(dead + 0.2, node, system_oom, is_new=False)


def suspended() -> Recording:
    spec = RayJobSpec(
        "research",
        "llm-ablation-3",
        "python /home/ray/train/ablation.py",
        labels=labels("research", "gpu-research", **{"kueue.x-k8s.io/priority-class": "low"}),
        groups=GPUS_2,
    )
    story = Story(
        "suspended",
        "Kueue takes the place for a workload with priority: suspended, everything wiped",
        spec,
        origin=origin(14, 25),
    )
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    workload = _workload(story)
    story.watch(0.0, "ADDED", workload)
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/stop_running", script="/home/ray/train/ablation.py", ip_base=18)
    run.attempt.create_submitter(run.submitted - 5.2, "cpu-a-02")
    lines = run_driver(story, run, until=SIGTERM)
    submitter_prints(story, run, run.attempt.submitter_name, lines, has_end=False)
    story.status(run.submitted - 0.4, jobStatus="PENDING")
    story.status(run.submitted + 2.1, jobStatus="RUNNING", rayJobInfo={"startTime": story.iso(run.submitted)})
    at = run.ended
    other = "5f0e8a6a-0d58-4f4e-9f7b-3f8d2d1c7b11"
    message = f"Preempted to accommodate a workload (UID: {other}) due to prioritization in the ClusterQueue"
    workload["status"] = {"conditions": [condition("Evicted", "True", "Preempted", story.iso(at), message)]}
    story.watch(at, "MODIFIED", workload)
    story.event(at + 0.01, workload, EventText("Normal", "EvictedDueToPreempted", message, "kueue-admission"))
    story.rayjob["spec"]["suspend"] = True
    story.watch(at + 0.05, "MODIFIED", story.rayjob)
    story.status(at + 0.08, jobDeploymentStatus="Suspending")
    run.attempt.delete_cluster(at + 0.1)
    delete_submitter(story, run, at + 0.12)
    wipe(story, at + 6.1, to="Suspended")
    run.attempt.truth(
        verdict("preempted-by-priority", message, "Evicted, Preempted", "queue-evicted", "ended-from-outside")
    )
    return story.recording("Suspended")


def _workload(story: Story) -> Json:
    reference = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "name": story.spec.name,
        "uid": story.rayjob["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "name": f"rayjob-{story.spec.name}-{story.letters('workload')}",
            "namespace": story.spec.namespace,
            "uid": story.uid("workload"),
            "creationTimestamp": story.iso(0),
            "ownerReferences": [reference],
        },
        "spec": {"queueName": "gpu-research", "priority": 10},
        "status": {"conditions": [condition("Admitted", "True", "Admitted", story.iso(0))]},
    }


def delete_submitter(story: Story, run: Run, at: float) -> None:
    """The submitter Job and its pod go, and with the pod its log."""
    attempt = run.attempt
    assert attempt.submitter is not None
    assert attempt.job is not None
    story.watch(at, "DELETED", attempt.job)
    attempt.submitter["metadata"].update(deletionTimestamp=story.iso(at + 30), deletionGracePeriodSeconds=30)
    story.watch(at + 0.3, "MODIFIED", attempt.submitter)
    attempt.end_container(attempt.submitter, at + 0.6, SUBMITTER, exit_code=143)
    story.watch(at + 1.2, "DELETED", attempt.submitter)


def user_deletes() -> Recording:
    spec = RayJobSpec(
        "research",
        "notebook-probe",
        "python /home/ray/jobs/probe.py",
        labels=labels("research", "interactive"),
        groups=CPUS_1,
    )
    story = Story(
        "user-deletes",
        "Somebody deletes the RayJob in mid-run: status and logs vanish within two seconds",
        spec,
        origin=origin(15, 1),
    )
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/stop_running", script="/home/ray/jobs/probe.py", ip_base=19)
    run.attempt.create_submitter(run.submitted - 5.2, "cpu-a-02")
    lines = run_driver(story, run)
    submitter_prints(story, run, run.attempt.submitter_name, lines, has_end=False)
    story.status(run.submitted - 0.4, jobStatus="PENDING")
    story.status(run.submitted + 2.1, jobStatus="RUNNING", rayJobInfo={"startTime": story.iso(run.submitted)})
    at = run.ended
    story.rayjob["metadata"].update(deletionTimestamp=story.iso(at - 0.4), deletionGracePeriodSeconds=0)
    story.watch(at - 0.4, "MODIFIED", story.rayjob)
    run.data.ended(story, at, run.attempt.head_name)
    story.rayjob["metadata"].pop("finalizers")
    story.watch(at + 0.1, "DELETED", story.rayjob)
    run.attempt.delete_cluster(at + 0.5)
    delete_submitter(story, run, at + 0.55)
    run.attempt.truth(
        verdict("ended-from-outside", "the RayJob was deleted while it ran", "deletionTimestamp", "cancelled-by-user")
    )
    return story.recording("Running")


def validation_failed() -> Recording:
    spec = RayJobSpec(
        "analytics",
        "weekly-report",
        "python /home/ray/jobs/report.py",
        labels=labels("analytics", "batch"),
        groups=CPUS_1,
        backoff_limit=-1,
    )
    story = Story("validation-failed", "KubeRay refuses the spec: nothing is ever created", spec, origin=origin(15, 20))
    story.watch(0.0, "ADDED", story.rayjob)
    message = "The RayJob spec is invalid: backoffLimit must be a positive integer"
    whole = f"The RayJob spec is invalid {spec.namespace}/{spec.name}: {message}"
    story.event(0.05, story.rayjob, EventText("Warning", "InvalidRayJobSpec", whole, OPERATOR_JOB))
    story.status(0.06, jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message=message)
    story.attempts.append(AttemptTruth(1, "", "", "spec-invalid", message, "ValidationFailed", None))
    return story.recording("ValidationFailed")


def spot_reclaimed() -> Recording:
    spec = RayJobSpec(
        "research",
        "diffusion-pretrain",
        "python /home/ray/train/diffusion.py",
        labels=labels("research", "gpu-spot"),
        groups=(WorkerGroup("gpu", 1, cpus=48, memory="500Gi", gpus=8),),
    )
    story = Story(
        "spot-reclaimed", "The provider takes a spot machine back under a running task", spec, origin=origin(15, 45)
    )
    story.own_machines = {"gpu-a-01": "gpu-spot-07"}
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/node_die", script="/home/ray/train/diffusion.py", ip_base=20)
    _take_machine_back(story, run, run.ended - 2.5)
    fail_k8s_job(story, run)
    why = "gpu-spot-07 was taken back: its pods were terminated for an imminent shutdown"
    run.attempt.truth(verdict("spot-reclaimed", why, "imminent node shutdown", "node-lost", "node-drained"))
    return story.recording("Failed")


def _take_machine_back(story: Story, run: Run, at: float) -> None:
    machine = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-a-01", "uid": steady_uid("node", "gpu-a-01")},
    }
    from_start = next(
        entry.object
        for _, _, entry in story.rows
        if getattr(entry, "object", {}).get("metadata", {}).get("name") == "gpu-a-01"
    )
    tainted = copy.deepcopy(from_start)
    tainted["metadata"]["labels"]["cloud.google.com/gke-spot"] = "true"
    taint = {
        "key": "cloud.google.com/impending-node-termination",
        "effect": "NoSchedule",
        "timeAdded": story.iso(at - 4),
    }
    tainted["spec"]["taints"] = [taint]
    story.watch(at - 4.0, "MODIFIED", tainted)
    ready = tainted["status"]["conditions"][-1]
    ready.update(status="False", reason="KubeletNotReady", message="node is shutting down")
    story.watch(at, "MODIFIED", tainted)
    story.event(
        at, machine, EventText("Normal", "NodeNotReady", "Node gpu-a-01 status is now: NodeNotReady", "kubelet")
    )
    worker = run.attempt.workers[0]
    message = "Pod was terminated in response to imminent node shutdown."
    worker["status"].update(phase="Failed", reason="Terminated", message=message)
    worker["status"]["conditions"].append(
        condition("DisruptionTarget", "True", "TerminationByKubelet", story.iso(at), message)
    )
    story.ray_gone(at, worker["metadata"]["name"])
    run.attempt.end_container(worker, at + 0.05, "ray-worker", exit_code=137)
