"""A start in a big cluster: time to the first archived byte with 10,000 RayJobs and 50,000 pods that are known already."""

import time
from datetime import UTC, datetime
from pathlib import Path

from archiver.core import keys
from archiver.core.manifest import to_json
from archiver.core.model import AttemptId, RayJobId
from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.manifests import RayJobSpec, WorkerGroup, owner_of, ray_pod, raycluster, rayjob
from tests.bench import Row, Rows, benchmark
from tests.bench.watching import bench_watcher, wait_for
from tests.component.operating import Operated
from tests.component.watcher_process import WatcherProcess
from tests.fakes.manifests import manifest

_JOBS = 10_000
_PODS_EACH = 5
_WORDS = b"a line of the job that runs\n" * 500


@benchmark("first archived byte after a start, 10,000 RayJobs and 50,000 pods known")
async def first_byte() -> Rows:
    """All but one are archived for good; that one runs. The API server shares the machine with the watcher."""
    async with bench_watcher() as process:
        for number in range(_JOBS):
            _known(process, number)
        job = Operated(process.server, name="runs", mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(_WORDS)
        began = time.time()
        await process.start()
        first = await wait_for(
            process, f"v1/sandbox/team-a/*/runs/{job.uid}/attempt-001/.parts/logs/driver.log.zst/*", 1
        )
        resident = _resident_mib(process)
        return [
            Row("from the process's start to the first part", first - began, "s", "target 30"),
            Row("resident memory then", resident, "MiB"),
        ]


def _known(process: WatcherProcess, number: int) -> None:
    """A RayJob that failed and whose cluster was kept: its final manifest is in the store, its objects in the cluster."""
    sandbox, group = process.server.cluster, WorkerGroup("gpu", _PODS_EACH - 1, gpus=1)
    spec = RayJobSpec(f"team-{number % 20}", f"job-{number:05d}", "python train.py", groups=[group])
    job = rayjob(spec)
    status = {
        "jobStatus": "FAILED",
        "jobDeploymentStatus": "Failed",
        "rayClusterName": f"{spec.name}-c",
        "jobId": spec.name,
    }
    job["status"] = status
    job = sandbox.create(job)
    cluster = sandbox.create(raycluster(spec, f"{spec.name}-c", owner_of(job)))
    for pod in range(_PODS_EACH):
        document = ray_pod(spec, cluster, f"{spec.name}-{pod}", group=group if pod else None)
        document["spec"]["nodeName"] = f"node-{number % 500}"
        document["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
        sandbox.create(document)
    _archive(process.folder / "store", job, cluster["metadata"]["name"])


def _archive(store: Path, job: JsonObject, cluster: str) -> None:
    metadata = job["metadata"]
    rayjob_id = RayJobId("sandbox", metadata["namespace"], metadata["name"], metadata["uid"])
    created = datetime.fromisoformat(metadata["creationTimestamp"]).astimezone(UTC)
    record = manifest(
        rayjob_id.uid, name=rayjob_id.name, namespace=rayjob_id.namespace, cluster="sandbox", ray_cluster=cluster
    )
    prefix = keys.attempt_prefix(keys.place_of("", rayjob_id, created), AttemptId(rayjob_id, 1).number)
    path = store / keys.manifest_key(prefix)
    path.parent.mkdir(parents=True)
    path.write_bytes(to_json(record))


def _resident_mib(process: WatcherProcess) -> float:
    assert process.process is not None
    status = Path(f"/proc/{process.process.pid}/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024
