"""Views as the read side gives them, built by hand: an archive small enough to know by heart, hostile text included."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from archiver.core.difference import Aspect, Change
from archiver.core.divergence import Divergence, NumberedLine
from archiver.core.manifest import ManifestState, Outcome, Times
from archiver.core.model import (
    ArtifactKind,
    Attribution,
    Completeness,
    ContainerRun,
    Gap,
    GapReason,
    LogKind,
    LogSource,
    ResourceUse,
)
from archiver.core.timeline import Lane, Severity, TimelineEntry
from archiver.read.runs import Difference, OtherRun
from archiver.read.views import (
    ArtifactView,
    AttemptCell,
    AttemptView,
    Candidate,
    CauseBrief,
    Certainty,
    Citation,
    DecisiveLine,
    EventPage,
    EventView,
    JobRow,
    JobView,
    LogLine,
    SameName,
    VerdictView,
)

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
DECISIVE_LINE = 1812


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def cause(leaf: str, category: str, title: str, confidence: float, owner: str = "the job's owner") -> CauseBrief:
    return CauseBrief(leaf, category, title, owner, confidence, Certainty.of(leaf, confidence))


MODULE = cause("missing-module", "environment", "Python module missing", 0.97)
HEAD_OOM = cause("host-oom-container", "memory", "Head ran out of memory", 0.93)
NCCL = cause("collective-timeout", "network-collective", "A collective operation timed out", 0.74, "the platform team")
GUESS = cause("user-exception", "user-code", "Python error in the job's own code", 0.55)


def driver_lines() -> list[bytes]:
    """The driver log of the main sample: colours, a progress bar, bytes that are no text, and the reason at its end."""
    lines = [
        b"2026-08-19 03:08:31,102\tINFO worker.py:1832 -- Connecting to existing Ray cluster at address: 10.4.2.17:6379...",
        b"\x1b[32mINFO\x1b[0m  loading tokenizer \x1b[1mllama-7b\x1b[0m from \x1b[36ms3://models/llama-7b\x1b[0m",
        b"\r".join(
            f"Downloading shards: {percent:3}%|{'#' * (percent // 10):10}|".encode() for percent in range(0, 101, 5)
        ),
        b"\x1b[38;2;255;140;0mWARN\x1b[0m "
        b"\x1b[48;5;22mgreen ground\x1b[0m \x1b[7minverse\x1b[0m \x1b[38;5;214m256 colours\x1b[0m",
        b"raw bytes: \xff\xfe\x00\x07 end",
        f"the user said {HOSTILE}".encode(),
        "überraschung: 模型 加载 完成 ✓".encode(),
    ]
    step = "step={} loss={:.4f} lr=3.0e-05 tokens/s=18{:03} gpu_mem=61.{} GiB"
    while len(lines) < DECISIVE_LINE - 8:
        count = len(lines)
        lines.append(step.format(count, 4 / (1 + count / 300), count % 997, count % 10).encode())
    lines += [
        b"Traceback (most recent call last):",
        b'  File "/app/train.py", line 41, in <module>',
        b"    from model import build",
        b'  File "/app/model/__init__.py", line 3, in <module>',
        b"    from .attention import FlashSelfAttention",
        b'  File "/app/model/attention.py", line 7, in <module>',
        b"    import flash_attn",
        b"\x1b[31mModuleNotFoundError: No module named 'flash_attn'\x1b[0m",
        b"2026-08-19 03:12:41,990\tERR job_manager.py:512 -- job failed with exit code 1",
    ]
    lines.insert(DECISIVE_LINE - 400, b"x" * 6000)
    del lines[100]
    return lines


def text_of(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


DRIVER = driver_lines()
STARTED = ago(minutes=16, seconds=10)
ENDED = ago(minutes=12)


def log_lines(data: Sequence[bytes], start: datetime = STARTED) -> list[LogLine]:
    made, offset, first_ns = [], 0, int(start.timestamp()) * 1_000_000_000
    for number, line in enumerate(data, start=1):
        made.append(LogLine(number, offset, line, first_ns + number * 137_000_000))
        offset += len(line) + 1
    return made


def artifact(
    name: str, kind: ArtifactKind = ArtifactKind.LOG, source: LogSource | None = None, **more: object
) -> ArtifactView:
    made = ArtifactView(
        name=name,
        kind=kind,
        key=f"v1/prod/ml-a/2026-08-19/llama-ft-7b/u/attempt-003/{name}.zst",
        raw_bytes=sum(len(line) + 1 for line in DRIVER),
        stored_bytes=20_000,
        lines=len(DRIVER),
        sha256=hashlib.sha256(text_of(DRIVER)).hexdigest(),
        completeness=Completeness.COMPLETE,
        reason="",
        source=source,
        first_time=STARTED,
        last_time=ENDED,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def run(pod: str, container: str, restart: int = 0) -> ContainerRun:
    return ContainerRun("ml-a", pod, f"{pod}-uid", container, restart)


GAP = Gap(
    GapReason.ROTATED,
    "at least one file",
    600,
    STARTED + timedelta(seconds=80),
    STARTED + timedelta(seconds=83.2),
    14_336,
)
ARTIFACTS = (
    artifact(
        "logs/submitter-llama-ft-7b-x2v9k.log",
        source=LogSource(LogKind.SUBMITTER, run("llama-ft-7b-x2v9k", "ray-job-submitter")),
        lines=411,
        raw_bytes=48_211,
    ),
    artifact(
        "logs/driver.log",
        source=LogSource(LogKind.DRIVER, path="job-driver-llama-ft-7b-8zqxt.log"),
        gaps=(GAP,),
        completeness=Completeness.PARTIAL,
        reason="14 KiB are missing after line 600",
        masked={"aws-secret-key": 2},
    ),
    artifact(
        "logs/head-ray-head.log",
        source=LogSource(LogKind.HEAD, run("llama-ft-7b-raycluster-9xk2p-head-7h2ws", "ray-head")),
        lines=92,
        raw_bytes=9_120,
    ),
    artifact(
        "logs/worker-gpu-0.log",
        source=LogSource(
            LogKind.WORKER, run("llama-ft-7b-raycluster-9xk2p-gpu-worker-h8d2k", "ray-worker"), node="gpu-node-14"
        ),
        lines=0,
        raw_bytes=0,
        sha256="",
        key="",
        completeness=Completeness.LOST,
        reason="the cluster was deleted 9 ms after the first sign of failure",
        first_time=None,
        last_time=None,
    ),
    artifact(
        "ray/logs/raylet.out",
        source=LogSource(LogKind.RAY, path="raylet.out", node="gpu-node-14"),
        lines=2_214,
        raw_bytes=402_112,
    ),
    artifact("events/kubernetes.ndjson", ArtifactKind.KUBE_EVENTS, lines=41, raw_bytes=31_044),
    artifact("kube/pods.json", ArtifactKind.KUBE_OBJECTS, lines=63, raw_bytes=512_004),
    artifact("ray/job.json", ArtifactKind.RAY_RECORD, lines=1, raw_bytes=1_822),
    artifact("ray/state.json", ArtifactKind.RAY_STATE, lines=8, raw_bytes=18_201),
)

VERDICT = VerdictView(
    brief=MODULE,
    summary="The driver stopped at its first import: the module flash_attn is not installed in the image.",
    evidence=(
        Citation("driver", "logs/driver.log", DECISIVE_LINE, "ModuleNotFoundError: No module named 'flash_attn'"),
        Citation("RayJob status", None, None, "jobDeploymentStatus Failed, reason AppFailed"),
    ),
    candidates=(Candidate("missing-module", 0.97), Candidate("user-exception", 0.02)),
    symptoms=("exit code 1 of the driver", "8 GPU workers were up for 3 m 40 s and got no task"),
    missing=("the worker logs",),
    next_steps=(
        "Add flash_attn to the image, or to runtime_env.pip.",
        "Run `python -c 'import flash_attn'` in the image before submitting.",
    ),
    rule="env.module-missing",
    ruleset="14",
    raw={
        "fingerprint": {"key": "v1-abc", "version": 1, "used": ["leaf", "exception"]},
        "symptoms": [{"text": "exit code 1 of the driver", "of": "missing-module", "source": "driver", "line": 1813}],
        "advice": [
            {
                "id": "ttl-zero",
                "setting": "spec.ttlSecondsAfterFinished",
                "change": "Set it to 60 or more.",
                "why": "With 0 the RayCluster is deleted within a second of the end.",
            }
        ],
    },
)
MESSAGE = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\nTraceback …"
)


def attempt(number: int, status: str = "failed", **more: object) -> AttemptView:
    made = AttemptView(
        number=number,
        state=ManifestState.FINAL,
        revision=2,
        status=status,
        ray_cluster="llama-ft-7b-raycluster-9xk2p",
        job_id="llama-ft-7b-8zqxt",
        submission_mode="K8sJobMode",
        outcome=Outcome("FAILED", "Failed", "AppFailed", MESSAGE, "JOB_ENTRYPOINT_COMMAND_ERROR", 1, status),
        times=Times(
            ago(minutes=16, seconds=30),
            STARTED,
            ENDED - timedelta(seconds=3),
            ENDED,
            ENDED + timedelta(seconds=5),
            ENDED + timedelta(seconds=3.2),
        ),
        duration_seconds=250.4,
        margin_seconds=1.8,
        team=Attribution("language", "label:team"),
        queue=Attribution("gpu-a", "label:kueue.x-k8s.io/queue-name"),
        cost_centre=None,
        submitter=Attribution("mira@example.com", "annotation:submitter"),
        versions={"KubeRay": "1.6.2", "Ray": "2.52.1"},
        images={
            "head": "registry.example.com/llama:2026-08-18@sha256:ab12cd34",
            "gpu": "registry.example.com/llama:2026-08-18@sha256:ab12cd34",
        },
        nodes=("gpu-node-14", "cpu-node-2"),
        resources=ResourceUse(gpu_seconds=1760.0, cpu_seconds=9000.0, gpu_idle_seconds=1760.0, gpus=8.0, cpus=96.0),
        completeness=Completeness.PARTIAL,
        completeness_reason="1 artifact lost, 1 partial",
        missing=(
            "logs/worker-gpu-0.log: lost. The cluster was deleted 9 ms after the first sign of failure.",
            "logs/driver.log: partial. 14 KiB are missing after line 600: the kubelet had rotated them away.",
        ),
        artifacts=ARTIFACTS,
        verdict=VERDICT,
        retention_class="default",
        spec={"entrypoint": "python /app/train.py"},
        manifest_key="v1/prod/ml-a/2026-08-19/llama-ft-7b/u/attempt-003/manifest.json",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def cells(*statuses: str) -> tuple[AttemptCell, ...]:
    return tuple(AttemptCell(number, status, None, STARTED, ENDED) for number, status in enumerate(statuses, start=1))


def row(name: str, status: str = "failed", **more: object) -> JobRow:
    made = JobRow(
        uid=f"uid-{name}",
        cluster="prod",
        namespace="ml-a",
        name=name,
        status=status,
        job_status="FAILED",
        deployment_status="Failed",
        reason="AppFailed" if status == "failed" else "",
        team=Attribution("language", "label:team"),
        queue=Attribution("gpu-a", "label:queue"),
        submitter=None,
        attempts=cells(status),
        cause=None,
        decisive=None,
        at=ENDED,
        created=STARTED,
        started=STARTED,
        ended=None if status == "running" else ENDED,
        duration_seconds=250.4,
        gpus=8,
        gpu_seconds=1760,
        completeness=Completeness.COMPLETE,
        completeness_reason="",
        ray_version="2.52.1",
    )
    return replace(made, **more)  # type: ignore[arg-type]


MAIN = row(
    "llama-ft-7b",
    attempts=cells("retried", "retried", "failed"),
    cause=MODULE,
    decisive=DecisiveLine(
        "driver", "logs/driver.log", DECISIVE_LINE, "\x1b[31mModuleNotFoundError: No module named 'flash_attn'\x1b[0m"
    ),
    completeness=Completeness.PARTIAL,
    completeness_reason="1 artifact lost, 1 partial",
)
_NCCL_TEXT = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=84112, OpType=ALLREDUCE, "
    "Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)


def archive() -> tuple[JobRow, ...]:
    """Newest first, each ended differently; then more of the same, to fill pages."""
    told = [
        row(
            "ranker-train",
            "running",
            at=ago(minutes=2),
            started=ago(minutes=2),
            duration_seconds=118.0,
            gpus=16,
            reason="",
        ),
        MAIN,
        row(
            "nightly-etl",
            namespace="data",
            team=Attribution("etl", "namespace"),
            queue=None,
            gpus=0,
            gpu_seconds=0,
            at=ago(minutes=41),
            duration_seconds=3671,
            decisive=DecisiveLine("submitter", "logs/submitter.log", 96, "KeyError: 'customer_id'"),
            cause=GUESS,
        ),
        row(
            "embed-backfill",
            cause=NCCL,
            at=ago(hours=2),
            gpus=64,
            duration_seconds=51_200,
            gpu_seconds=3_276_800,
            decisive=DecisiveLine("worker rank 3", "logs/worker.log", 20_118, _NCCL_TEXT),
            attempts=cells("retried", "failed"),
            team=Attribution("vision", "label:team"),
        ),
        row(
            "vit-sweep-14",
            "succeeded",
            at=ago(hours=3),
            reason="",
            job_status="SUCCEEDED",
            deployment_status="Complete",
        ),
        row(
            "rl-selfplay",
            cause=HEAD_OOM,
            at=ago(hours=5),
            team=Attribution("games", "label:team"),
            namespace="rl",
            decisive=DecisiveLine("pod status", None, None, "container ray-head: OOMKilled, exit code 137, limit 16Gi"),
        ),
        row(
            "bad-spec",
            "invalid",
            reason="ValidationFailed",
            at=ago(hours=7),
            attempts=cells("invalid"),
            duration_seconds=None,
            gpus=0,
            team=None,
            queue=None,
        ),
        row(
            "gone-too-fast",
            "deleted",
            at=ago(hours=9),
            completeness=Completeness.LOST,
            completeness_reason="the RayJob and its pods were deleted while no archiver was running",
            reason="",
        ),
        row(
            "hostile-team",
            team=Attribution(HOSTILE, "label:team"),
            at=ago(hours=11),
            decisive=DecisiveLine("driver", "logs/driver.log", 6, f"ValueError: {HOSTILE} " + "long " * 80),
        ),
        row("stopped-by-hand", "stopped", at=ago(hours=12), reason="", job_status="STOPPED"),
    ]
    names = ("tokenize", "dedupe", "eval-mmlu", "distill", "rerank", "ocr", "asr-train", "fraud-gnn")
    causes = (MODULE, GUESS, HEAD_OOM, NCCL, None)
    texts = (
        "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/shard-00217.parquet'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        "ray.exceptions.RaySystemError: System error: Connection refused",
    )
    more = [
        row(
            f"{names[index % 8]}-{index}",
            cause=causes[index % 5],
            at=ago(hours=13 + index),
            team=Attribution(("language", "vision", "search")[index % 3], "label:team"),
            namespace=("ml-a", "ml-b")[index % 2],
            decisive=DecisiveLine("driver", "logs/driver.log", 200 + index, texts[index % 3]),
        )
        for index in range(60)
    ]
    return (*told, *more)


def job_view(view: JobRow) -> JobView:
    """The RayJob of a row in full; the main one has three attempts and a namesake."""
    if view.name == MAIN.name:
        first = attempt(
            1,
            "retried",
            verdict=replace(VERDICT, brief=HEAD_OOM, summary="The head was killed for want of memory."),
            missing=(),
            artifacts=ARTIFACTS[:1],
        )
        return JobView(
            view, (first, replace(first, number=2), attempt(3)), (SameName("uid-older", "succeeded", ago(days=2)),)
        )
    if view.status == "running":
        times = Times(created=view.created, started=view.started)
        live = replace(ARTIFACTS[1], live=True, sha256="", completeness=Completeness.COMPLETE, reason="", gaps=())
        running = attempt(
            1,
            "running",
            state=ManifestState.OPEN,
            verdict=None,
            missing=(),
            times=times,
            outcome=Outcome("RUNNING", "Running"),
            artifacts=(live,),
            margin_seconds=None,
        )
        return JobView(view, (running,), ())
    if view.status in ("invalid", "deleted"):
        nothing = attempt(
            1,
            view.status,
            verdict=None,
            artifacts=(),
            outcome=Outcome("", "ValidationFailed", view.reason, "the RayJob name is longer than 47 characters"),
            completeness_reason=view.completeness_reason,
            missing=(),
            margin_seconds=None,
        )
        return JobView(view, (nothing,), ())
    plain = attempt(
        1,
        view.status,
        verdict=None,
        outcome=replace(attempt(1).outcome, reason=view.reason),
        missing=(),
        artifacts=tuple(a for a in ARTIFACTS if a.completeness is Completeness.COMPLETE),
        team=view.team,
    )
    return JobView(view, (plain,), ())


def events() -> EventPage:
    pod, job = "llama-ft-7b-head", "llama-ft-7b"
    told = (
        EventView("e1", "Normal", "Pulled", "image was there", "Pod", pod, "ml-a", "kubelet", 1, STARTED, STARTED),
        EventView(
            "e2", "Warning", "BackOff", "back-off pulling image", "Pod", pod, "ml-a", "kubelet", 3, STARTED, ENDED
        ),
        EventView(
            "e3", "Normal", "DeletedRayCluster", "deleted", "RayJob", job, "ml-a", "rayjob-controller", 1, None, None
        ),
    )
    return EventPage(told, Completeness.PARTIAL, "the archiver started later")


def timeline() -> tuple[TimelineEntry, ...]:
    head, worker, cluster = (
        "llama-ft-7b-raycluster-9xk2p-head-7h2ws",
        "llama-ft-7b-raycluster-9xk2p-gpu-worker-h8d2k",
        "llama-ft-7b-raycluster-9xk2p",
    )

    def at(seconds: float) -> datetime:
        return STARTED + timedelta(seconds=seconds)

    told = [
        TimelineEntry(at(-20), Lane.RAYJOB, Severity.INFO, "llama-ft-7b", "created"),
        TimelineEntry(at(0), Lane.RAYJOB, Severity.INFO, "llama-ft-7b", "Initializing", until=at(38)),
        TimelineEntry(at(1), Lane.RAYCLUSTER, Severity.INFO, cluster, "created"),
        TimelineEntry(at(2), Lane.POD, Severity.INFO, head, "Running", until=at(255)),
        TimelineEntry(at(9), Lane.POD, Severity.INFO, worker, "Running", "on gpu-node-14", until=at(255.2)),
        TimelineEntry(at(12), Lane.KUBE_EVENT, Severity.WARNING, worker, "BackOff", "Back-off pulling image (3 times)"),
        TimelineEntry(at(38), Lane.RAYJOB, Severity.INFO, "llama-ft-7b", "Running", until=at(250)),
        *(
            TimelineEntry(
                at(40 + step), Lane.KUBE_EVENT, Severity.INFO, head, "Pulled", "Container image already present"
            )
            for step in range(30)
        ),
        TimelineEntry(
            at(247),
            Lane.LOG,
            Severity.ERROR,
            "driver",
            "first error line",
            "ModuleNotFoundError: No module named 'flash_attn'",
            artifact="logs/driver.log",
            line=DECISIVE_LINE,
        ),
        TimelineEntry(at(250), Lane.RAYJOB, Severity.ERROR, "llama-ft-7b", "Failed", "reason AppFailed"),
        TimelineEntry(at(253.2), Lane.CAPTURE, Severity.INFO, "attempt 3", "evidence safe", "manifest revision 2"),
        TimelineEntry(
            at(255), Lane.RAYCLUSTER, Severity.WARNING, cluster, "deleted", "1.8 s after the evidence was safe"
        ),
    ]
    return tuple(sorted(told, key=lambda entry: entry.at))


def difference(other: OtherRun) -> Difference:
    """What changed since the good run, hostile values included."""
    told = (
        Change(Aspect.ENTRYPOINT, "entrypoint", "python /app/train.py", "python /app/train.py --flash"),
        Change(Aspect.IMAGE, "image digest of head", "sha256:0011", "sha256:ab12cd34"),
        Change(Aspect.ENV, "env MODEL_REV", "2026-08-01", HOSTILE),
        Change(Aspect.SPEC, "rayClusterSpec.workerGroupSpecs[gpu].template.spec.nodeSelector.pool", "a100", "h100"),
        Change(Aspect.NODES, "nodes", "gpu-node-2", "gpu-node-14"),
    )
    line = NumberedLine(DECISIVE_LINE, f"ModuleNotFoundError: No module named 'flash_attn' {HOSTILE}")
    log = Divergence((NumberedLine(2, "loading tokenizer llama-7b"),), NumberedLine(8, "step=0 loss=4.0"), line)
    return Difference(other, told, log, "logs/driver.log", "logs/driver.log")
