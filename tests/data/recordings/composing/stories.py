"""The deaths whose driver ran: one function each, named as its recording."""

from datetime import UTC, datetime

from archiver.sandbox.manifests import RayJobSpec, WorkerGroup
from archiver.sandbox.recording import Recording
from tests.data.recordings.composing.courses import begin, fail_http, fail_k8s_job, fail_sidecar, verdict
from tests.data.recordings.composing.story import Story

GPUS_2 = (WorkerGroup("gpu", 2, cpus=12, memory="120Gi", gpus=4),)
CPUS_1 = (WorkerGroup("cpu", 1, cpus=4, memory="16Gi"),)


def origin(hour: int, minute: int) -> datetime:
    return datetime(2026, 11, 30, hour, minute, tzinfo=UTC)


def labels(team: str, queue: str, **more: str) -> dict[str, str]:
    return {"team": team, "kueue.x-k8s.io/queue-name": queue, **more}


def missing_module() -> Recording:
    spec = RayJobSpec(
        "search",
        "ranker-finetune",
        "python /home/ray/train/finetune.py",
        labels=labels("search-ranking", "gpu-prod", **{"cost-center": "cc-4711"}),
        annotations={"submitter": "dana@example.com"},
        groups=GPUS_2,
    )
    story = Story(
        "missing-module", "A driver that cannot import a module, while eight GPUs wait", spec, origin=origin(9, 12)
    )
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/import_error", script="/home/ray/train/finetune.py")
    fail_k8s_job(story, run)
    run.attempt.truth(
        verdict("missing-module", "flash_attn_not_here is not installed in the image", "ModuleNotFoundError")
    )
    return story.recording("Failed")


def early_exit() -> Recording:
    spec = RayJobSpec(
        "vision",
        "detector-sweep-17",
        "python /home/ray/train/sweep.py",
        mode="HTTPMode",
        labels=labels("vision", "gpu-research", **{"cost-center": "cc-2024"}),
        groups=(WorkerGroup("gpu", 4, cpus=12, memory="120Gi", gpus=8),),
    )
    story = Story(
        "early-exit",
        "Exits after a tenth of a second in HTTPMode; 32 GPUs idle; RUNNING never seen",
        spec,
        origin=origin(9, 31),
    )
    story.add_nodes("cpu-a-01", "gpu-a-01", "gpu-a-02")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/exit3", script="/home/ray/train/sweep.py", ip_base=4)
    fail_http(story, run)
    why = "the script refused its own setting of --lr and left with exit code 3"
    run.attempt.truth(verdict("user-exception", why, "config: bad value for --lr", "user-config-or-shape-error"))
    return story.recording("Failed")


def sidecar_exit() -> Recording:
    spec = RayJobSpec(
        "forecasting",
        "demand-daily",
        "python /home/ray/jobs/demand.py",
        mode="SidecarMode",
        labels=labels("forecasting", "batch"),
        groups=CPUS_1,
    )
    story = Story(
        "sidecar-exit",
        "Exits at once in SidecarMode: the submitter says 1, the driver said 3",
        spec,
        origin=origin(10, 2),
    )
    story.add_nodes("cpu-a-01", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/exit3", script="/home/ray/jobs/demand.py", ip_base=5)
    fail_sidecar(story, run)
    why = "the script refused its own setting of --lr and left with exit code 3"
    run.attempt.truth(verdict("user-exception", why, "exit code 3", "user-config-or-shape-error"))
    return story.recording("Failed")


def retry_to_success() -> Recording:
    spec = RayJobSpec(
        "search",
        "embed-corpus",
        "python /home/ray/jobs/embed.py",
        mode="HTTPMode",
        labels=labels("search-platform", "batch"),
        groups=CPUS_1,
        backoff_limit=2,
    )
    story = Story(
        "retry-to-success",
        "Dies twice in different ways, is wiped each time, succeeds at the third try",
        spec,
        origin=origin(10, 40),
    )
    story.add_nodes("cpu-a-01", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/task_exc", script="/home/ray/jobs/embed.py", ip_base=6)
    start = fail_http(story, run, retries=True)
    run.attempt.truth(
        verdict("user-exception", "a row has no column called value", "KeyError: 'value'", "data-corrupt-or-schema")
    )
    run = begin(story, 2, "2.60.0/oom_task_ray", start=start, script="/home/ray/jobs/embed.py", ip_base=7)
    start = fail_http(story, run, retries=True)
    run.attempt.truth(verdict("host-oom-ray-monitor", "a task took more memory than the node has", "OutOfMemoryError"))
    run = begin(story, 3, "2.60.0/ok", start=start, script="/home/ray/jobs/embed.py", ip_base=8)
    fail_http(story, run)
    run.attempt.truth(verdict("", "nothing failed", "done"))
    return story.recording("Complete")


def segfault() -> Recording:
    spec = RayJobSpec(
        "vision",
        "augment-batch",
        "python /home/ray/jobs/augment.py",
        mode="HTTPMode",
        labels=labels("vision", "batch"),
        groups=CPUS_1,
    )
    story = Story(
        "segfault",
        "A native crash in a task, HTTPMode: nine milliseconds from first sign to deletion",
        spec,
        origin=origin(11, 5),
    )
    story.add_nodes("cpu-a-01", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/task_segv", script="/home/ray/jobs/augment.py", ip_base=9)
    fail_http(story, run)
    run.attempt.truth(verdict("user-native-crash", "a worker died of SIGSEGV in ctypes", "*** SIGSEGV received"))
    return story.recording("Failed")


def success() -> Recording:
    spec = RayJobSpec(
        "analytics",
        "clickstream-hourly",
        "python /home/ray/jobs/clickstream.py",
        labels=labels("analytics", "batch", **{"cost-center": "cc-1007"}),
        groups=CPUS_1,
    )
    story = Story("success", "A job that does what it should", spec, origin=origin(11, 20))
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/ok", script="/home/ray/jobs/clickstream.py", ip_base=10)
    fail_k8s_job(story, run)
    run.attempt.truth(verdict("", "nothing failed", "done"))
    return story.recording("Complete")


def binary_output() -> Recording:
    spec = RayJobSpec(
        "speech",
        "asr-checkpoint-check",
        "python /home/ray/jobs/check.py",
        mode="HTTPMode",
        labels=labels("speech", "gpu-research"),
        groups=CPUS_1,
    )
    story = Story(
        "binary-output",
        "A driver that prints every byte there is, NUL and half of a UTF-8 character",
        spec,
        origin=origin(11, 41),
    )
    story.add_nodes("cpu-a-01", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/nonutf8", script="/home/ray/jobs/check.py", ip_base=11)
    fail_http(story, run)
    why = "the program says that its checkpoint is corrupt"
    run.attempt.truth(verdict("data-corrupt-or-schema", why, "checkpoint is corrupt", "user-exception"))
    return story.recording("Failed")


def secrets_in_output() -> Recording:
    spec = RayJobSpec(
        "speech",
        "asr-export",
        "python /home/ray/jobs/export.py",
        labels=labels("speech", "gpu-research"),
        groups=CPUS_1,
    )
    story = Story(
        "secrets-in-output",
        "Prints its credentials (made up), then is refused by the bucket",
        spec,
        origin=origin(12, 3),
    )
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/rtenv_env_vars", script="/home/ray/jobs/export.py", ip_base=12)
    fail_k8s_job(story, run)
    run.attempt.truth(verdict("storage-permission-denied", "the bucket answers 403", "PermissionError: 403"))
    return story.recording("Failed")


def runtime_env_failed() -> Recording:
    spec = RayJobSpec(
        "forecasting",
        "price-elasticity",
        "python /home/ray/jobs/elasticity.py",
        mode="HTTPMode",
        labels=labels("forecasting", "batch"),
        groups=CPUS_1,
    )
    title = "A runtime environment that pip cannot build; KubeRay 1.7 with its new Events"
    story = Story("runtime-env-failed", title, spec, origin=origin(12, 30), kuberay="1.7.0")
    story.add_nodes("cpu-a-01", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/rtenv_pip_fail", script="/home/ray/jobs/elasticity.py", ip_base=13)
    fail_http(story, run)
    why = "pip finds no definitely-not-a-package-xyz==9.9.9"
    run.attempt.truth(verdict("runtime-env-failed", why, "No matching distribution found"))
    return story.recording("Failed")


def actor_dies() -> Recording:
    spec = RayJobSpec(
        "recsys",
        "two-tower-train",
        "python /home/ray/train/two_tower.py",
        ray_version="2.52.1",
        image="registry.example.com/ml/ray:2.52.1-py311",
        labels=labels("recommendations", "gpu-prod"),
        groups=GPUS_2,
    )
    title = "An actor's process leaves without a word; Ray 2.52, KubeRay 1.5"
    story = Story("actor-dies", title, spec, origin=origin(13, 15), kuberay="1.5.1")
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.52.1/actor_exit", script="/home/ray/train/two_tower.py", ip_base=14)
    fail_k8s_job(story, run)
    why = "the worker process of trainer-0 ended; neither its exit code nor a signal is recorded anywhere"
    run.attempt.truth(verdict("unknown", why, "ActorDiedError", "user-exception", "user-native-crash"))
    return story.recording("Failed")


def cause_chain() -> Recording:
    spec = RayJobSpec(
        "recsys",
        "candidate-refresh",
        "python /home/ray/jobs/refresh.py",
        ray_version="2.46.0",
        image="registry.example.com/ml/ray:2.46.0-py311",
        labels=labels("recommendations", "batch"),
        groups=CPUS_1,
    )
    title = "An exception whose cause is above the last ten lines; Ray 2.46, which has no error_type"
    story = Story("cause-chain", title, spec, origin=origin(13, 40))
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.46.0/exc_driver", script="/home/ray/jobs/refresh.py", ip_base=15)
    fail_k8s_job(story, run)
    why = "the configuration file is no JSON"
    run.attempt.truth(
        verdict("user-exception", why, "JSONDecodeError", "data-corrupt-or-schema", "user-config-or-shape-error")
    )
    return story.recording("Failed")
