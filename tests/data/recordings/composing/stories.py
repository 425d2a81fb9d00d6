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
