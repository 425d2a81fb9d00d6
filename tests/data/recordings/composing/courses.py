"""The courses that an attempt can take, by submission mode, as measured on KubeRay 1.6.2 with TTL 0."""

from dataclasses import dataclass

from archiver.sandbox.manifests import EventText
from tests.data.recordings.composing.attempt import OPERATOR_JOB, SUBMITTER, Attempt, Verdict
from tests.data.recordings.composing.raydata import RayData
from tests.data.recordings.composing.samples import SOURCE, localized
from tests.data.recordings.composing.story import Story

CLUSTER_READY = 15.0
SUBMIT_AFTER = {"K8sJobMode": 20.3, "HTTPMode": 15.2, "SidecarMode": 18.4, "InteractiveMode": 20.0}
NODES = {"head": "cpu-a-01", "worker": "gpu-a-01"}


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt that came as far as running its driver."""

    attempt: Attempt
    data: RayData
    submitted: float
    ended: float


def begin(story: Story, number: int, sample: str, *, script: str, start: float = 0.0, ip_base: int = 3) -> Run:
    """Up to the moment when the job is submitted; the driver's life is laid out, not yet its end."""
    attempt = Attempt(story, number, start=start, ip_base=ip_base)
    submitted = start + SUBMIT_AFTER[story.spec.mode]
    local = localized(
        sample,
        submission_id=attempt.submission_id,
        script=script,
        addresses=_addresses(attempt),
        submitted=story.moment(submitted),
    )
    data = RayData(
        local,
        ray_version=story.spec.ray_version,
        head_ip=attempt.head_ip,
        started=story.moment(start + 1.5),
    )
    if sample not in story.sources:
        story.sources.append(sample)
    attempt.initialize()
    attempt.create_pods(NODES)
    ready = attempt.run_head(data)
    attempt.run_workers(ready + 0.8)
    attempt.cluster_ready(start + CLUSTER_READY)
    return Run(attempt, data, submitted, submitted + local.run_seconds)


def _addresses(attempt: Attempt) -> dict[str, str]:
    """The samples' head and worker."""
    workers = [attempt.pods_ip[pod["metadata"]["name"]] for pod in attempt.workers]
    return {"10.0.0.2": attempt.head_ip, **({"10.0.0.3": workers[0]} if workers else {})}


def run_driver(story: Story, run: Run, *, until: bytes = b"") -> list[tuple[float, bytes]]:
    """PENDING, RUNNING and the driver's log; the end is `Run.ended`. ``until``: it never comes to that line."""
    head = run.attempt.head_name
    run.data.pending(story, run.submitted, head)
    if run.data.sample.record["error_type"] != "RUNTIME_ENV_SETUP_FAILURE" and run.data.sample.run_seconds > 1.0:
        run.data.running(story, min(run.submitted + 1.0, run.ended - 0.02), head)
    return run.data.driver(story, run.submitted + 0.01, run.ended, head, until=until)


def fail_k8s_job(story: Story, run: Run, *, retries: bool = False) -> float:
    """K8sJobMode: jobStatus first, some seconds later the deployment status, then the cluster goes."""
    run.attempt.create_submitter(run.submitted - 5.2, "cpu-a-02")
    lines = run_driver(story, run)
    run.data.ended(story, run.ended, run.attempt.head_name)
    submitter_prints(story, run, run.attempt.submitter_name, lines)
    job_statuses(story, run, first_terminal=run.ended + 1.4)
    run.attempt.finish_submitter(run.ended + 2.4)
    return terminal(story, run, at=run.ended + 4.4, retries=retries, deleted_after=0.016)


def fail_http(story: Story, run: Run, *, retries: bool = False) -> float:
    """HTTPMode: first sign, terminal status and deletion within 9 ms."""
    run_driver(story, run)
    run.data.ended(story, run.ended, run.attempt.head_name)
    if run.ended - run.submitted > 3.0:
        story.status(run.submitted + 3.0, jobStatus="RUNNING", rayJobInfo=_info(story, run))
    return terminal(story, run, at=run.ended + 1.9, retries=retries, deleted_after=0.009)


def fail_sidecar(story: Story, run: Run) -> float:
    """SidecarMode: the submitter is a container of the head pod and exits with 1 whatever the driver's code was."""
    lines = run_driver(story, run)
    run.data.ended(story, run.ended, run.attempt.head_name)
    submitter_prints(story, run, run.attempt.head_name, lines)
    job_statuses(story, run, first_terminal=run.ended + 1.1)
    run.attempt.end_container(run.attempt.head, run.ended + 2.3, SUBMITTER, exit_code=1, final=False)
    return terminal(story, run, at=run.ended + 5.4, retries=False, deleted_after=0.016)


def job_statuses(story: Story, run: Run, *, first_terminal: float) -> None:
    """What KubeRay's poll every 3 s sees while the driver lives."""
    story.status(run.submitted - 0.4, jobStatus="PENDING")
    if run.ended - run.submitted > 2.5:
        story.status(run.submitted + 2.1, jobStatus="RUNNING", rayJobInfo=_info(story, run))
    record = run.data.sample.record
    story.status(
        first_terminal,
        jobStatus=record["status"],
        message=record["message"],
        rayJobInfo=_info(story, run, is_over=True),
    )


def _info(story: Story, run: Run, *, is_over: bool = False) -> dict[str, str]:
    info = {"startTime": story.iso(run.submitted)}
    return {**info, "endTime": story.iso(run.ended)} if is_over else info


def terminal(story: Story, run: Run, *, at: float, retries: bool, deleted_after: float) -> float:
    """The status that ends the attempt, and the deletion; gives the moment when the next attempt may begin."""
    record = run.data.sample.record
    ok = record["status"] in ("SUCCEEDED", "STOPPED")
    number = run.attempt.number
    story.status(
        at,
        jobStatus=record["status"],
        jobDeploymentStatus="Complete" if ok else ("Retrying" if retries else "Failed"),
        reason=None if ok else "AppFailed",
        message=record["message"],
        endTime=None if retries else story.iso(at),
        rayJobInfo=_info(story, run, is_over=True),
        succeeded=1 if ok else 0,
        failed=number - 1 if ok else number,
    )
    gone = run.attempt.delete_cluster(at + deleted_after)
    if retries:
        wipe(story, at + deleted_after + 0.013)
        return at + deleted_after + 0.6
    return gone


def wipe(story: Story, at: float, *, to: str = "") -> None:
    """What the operator does at once after a retry's (or a suspension's) deletion: nothing of the attempt is left."""
    names = (
        "rayClusterStatus",
        "rayClusterName",
        "dashboardURL",
        "jobId",
        "message",
        "reason",
        "rayJobInfo",
        "jobStatus",
    )
    story.status(at, **dict.fromkeys(names), jobDeploymentStatus=to or None)


def submitter_prints(
    story: Story, run: Run, pod: str, lines: list[tuple[float, bytes]], *, has_end: bool = True
) -> None:
    """The driver's log through `ray job logs --follow`, inside the CLI's own lines."""
    before, after = _cli_lines(story, run)
    after = after if has_end else []
    for at, line in before:
        story.log(at, pod, SUBMITTER, line)
    for at, line in lines:
        story.log(at + 0.9, pod, SUBMITTER, line)
    for line in after:
        story.log(run.ended + 2.1, pod, SUBMITTER, line)


def _cli_lines(story: Story, run: Run) -> tuple[list[tuple[float, bytes]], list[bytes]]:
    name = "sidecar.log" if story.spec.mode == "SidecarMode" else "k8sjob.log"
    text = (SOURCE / "2.60.0" / "submitter" / name).read_bytes()
    text = text.replace(b"sidecar-exit3", run.attempt.submission_id.encode()).replace(
        b"k8sjob-exit3", run.attempt.submission_id.encode()
    )
    lines = text.replace(b"10.0.0.2", run.attempt.head_ip.encode()).splitlines(keepends=True)
    driver_at = next(n for n, line in enumerate(lines) if b"Runtime env is setting up" in line)
    end_at = next(n for n, line in enumerate(lines) if b"WebSocket closed" in line)
    word = b"succeeded" if run.data.sample.record["status"] == "SUCCEEDED" else b"failed"
    after = [_restamped(story, run.ended + 2.1, line).replace(b"failed", word) for line in lines[end_at:]]
    after = [line for line in after if b"ERR cli" in line or b"WebSocket" in line or b"Status message" in line]
    before = [(run.submitted - 1.0, _restamped(story, run.submitted - 1.0, line)) for line in lines[:driver_at]]
    return before, after


def _restamped(story: Story, at: float, line: bytes) -> bytes:
    stamp = f"{story.moment(at):%Y-%m-%d %H:%M:%S,%f}"[:-3].encode()
    return stamp + line[len(stamp) :] if line[:4].isdigit() else line


def deleted_event(story: Story, at: float, message: str) -> None:
    story.event(at, story.rayjob, EventText("Normal", "DeletedRayCluster", message, OPERATOR_JOB))


def verdict(cause: str, why: str, shows: str, *acceptable: str) -> Verdict:
    return Verdict(cause, why, shows, acceptable)
