"""Advice on a RayJob's own settings: what made the failure likely, or its evidence scarce. Not a verdict."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from archiver.diagnosis.shape import as_int, as_map, at, maps, text_at
from archiver.diagnosis.verdict import Advice

Spec = Mapping[str, object]
_MEMORY = frozenset(("host-oom-container", "host-oom-ray-monitor", "host-oom-node"))
_CAPACITY = frozenset(("capacity-shortage", "infeasible-request", "queue-evicted", "deadline-exceeded"))


@dataclass(frozen=True, slots=True)
class _Job:
    spec: Spec
    causes: frozenset[str]

    @property
    def cluster(self) -> Spec:
        return as_map(self.spec.get("rayClusterSpec"))

    @property
    def workers(self) -> list[Spec]:
        return list(maps(self.cluster.get("workerGroupSpecs")))


def advise(
    rayjob_spec: Spec | None, *, cause: str = "", contributors: Sequence[str] = (), has_history: bool = False
) -> list[Advice]:
    """Advice for a RayJob's spec (or the whole object), most urgent first; nothing for an absent one."""
    spec = as_map(at(rayjob_spec, "spec")) or as_map(rayjob_spec)
    job = _Job(spec, frozenset((cause, *contributors)))
    if not spec:
        return []
    checks: Iterable[Callable[[_Job], Advice | None]] = (
        _ttl_zero if not has_history else _nothing,
        _http_mode, _head_cpus, _no_headroom, _oom_retries, _idle_timeout, _run_time_dependencies, _leftover_groups,
    )  # fmt: skip
    return [found for check in checks if (found := check(job)) is not None]


def _nothing(_job: _Job) -> None:
    return None


def _ttl_zero(job: _Job) -> Advice | None:
    ttl = as_int(job.spec.get("ttlSecondsAfterFinished")) or 0
    if job.spec.get("shutdownAfterJobFinishes") is not True or ttl > 0 or job.spec.get("deletionStrategy"):
        return None
    return Advice(
        "ttl-zero", "spec.ttlSecondsAfterFinished", "Set it to 60 or more.",
        "With 0 the RayCluster is deleted within a second of the end, and Ray's own records with it.",
    )  # fmt: skip


def _http_mode(job: _Job) -> Advice | None:
    if text_at(job.spec, "submissionMode") != "HTTPMode":
        return None
    return Advice(
        "http-mode", "spec.submissionMode", "Use K8sJobMode (the default).",
        "In HTTPMode the driver's log lives on the head alone: when the head dies nothing of it is left.",
    )  # fmt: skip


def _head_cpus(job: _Job) -> Advice | None:
    head = as_map(job.cluster.get("headGroupSpec"))
    cpus = text_at(head, "rayStartParams", "num-cpus")
    if not head or cpus == "0" or not job.workers:
        return None
    return Advice(
        "head-num-cpus", "spec.rayClusterSpec.headGroupSpec.rayStartParams.num-cpus", 'Set it to "0".',
        "Tasks on the head compete with the control plane for memory: an out-of-memory kill there ends the job.",
    )  # fmt: skip


def _no_headroom(job: _Job) -> Advice | None:
    if not (job.causes & _CAPACITY) or job.cluster.get("enableInTreeAutoscaling") is not True:
        return None
    for group in job.workers:
        replicas, most = as_int(group.get("replicas")), as_int(group.get("maxReplicas"))
        if replicas is not None and most is not None and most <= replicas:
            return Advice(
                "max-replicas", f"workerGroupSpecs[{text_at(group, 'groupName')}].maxReplicas", f"Raise it above {most}.",
                "The autoscaler may not add a worker, so a job that asks for more waits for ever.",
            )  # fmt: skip
    return None


def _oom_retries(job: _Job) -> Advice | None:
    if "host-oom-ray-monitor" not in job.causes or "RAY_task_oom_retries" in _environment(job):
        return None
    return Advice(
        "oom-retries", "env RAY_task_oom_retries", "Set a small number, for example 3.",
        "Ray retries tasks that its memory monitor kills without an end, whatever max_retries says.",
    )  # fmt: skip


def _environment(job: _Job) -> set[str]:
    head = as_map(job.cluster.get("headGroupSpec"))
    found: set[str] = set()
    for group in [head, *job.workers]:
        for container in maps(at(group, "template", "spec", "containers")):
            found.update(text_at(entry, "name") for entry in maps(container.get("env")))
    return found


def _idle_timeout(job: _Job) -> Advice | None:
    idle = as_int(at(job.cluster, "autoscalerOptions", "idleTimeoutSeconds"))
    if job.cluster.get("enableInTreeAutoscaling") is not True or idle is None or idle >= 60:
        return None
    return Advice(
        "idle-timeout", "autoscalerOptions.idleTimeoutSeconds", "Set 300 or more, or schedule the workers as a gang.",
        f"After {idle} s without work a worker is removed, also one that waits for its peers to start.",
    )  # fmt: skip


def _run_time_dependencies(job: _Job) -> Advice | None:
    runtime_env = text_at(job.spec, "runtimeEnvYAML")
    if not any(word in runtime_env for word in ("pip:", "conda:", "uv:")):
        return None
    return Advice(
        "run-time-dependencies", "spec.runtimeEnvYAML", "Put the packages into the image, with pinned versions.",
        "Packages are fetched at every start: the package index, DNS and a new release can each fail the job.",
    )  # fmt: skip


def _leftover_groups(job: _Job) -> Advice | None:
    retries = as_int(job.spec.get("backoffLimit")) or 0
    if not job.spec.get("clusterSelector") or retries == 0 or "infeasible-request" not in job.causes:
        return None
    return Advice(
        "leftover-placement-groups", "spec.backoffLimit with spec.clusterSelector",
        "Remove detached placement groups at the start of the driver.",
        "On a shared cluster a retry finds the resources still held by the placement groups of the attempt before.",
    )  # fmt: skip
