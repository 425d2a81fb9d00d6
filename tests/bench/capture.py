"""Capture lag: from a container's end to the manifest that has its log, with 200 RayJobs that end in the same second."""

import asyncio
import time

from tests.bench import Row, Rows, benchmark
from tests.bench.watching import bench_watcher, manifest_files, read_manifest, wait_for
from tests.component.operating import Operated
from tests.component.watcher_process import WatcherProcess

_JOBS = 200
_WORDS = b"".join(b"epoch %d of the training\n" % number for number in range(200))
_LIMIT_SECONDS = 240.0
_PARTS = "v1/sandbox/team-a/*/*/*/attempt-001/.parts/logs"


@benchmark("capture lag, 200 RayJobs that end in one second")
async def capture_lag() -> Rows:
    """The sandbox, with 200 Ray heads, shares the machine with the watcher."""
    async with bench_watcher() as process:
        jobs = [Operated(process.server, name=f"job-{number:03d}") for number in range(_JOBS)]
        await process.start()
        for job in jobs:
            await _begin(job)
        await wait_for(process, f"{_PARTS}/driver.log.zst/*", _JOBS)
        await wait_for(process, f"{_PARTS}/submitter*/*", _JOBS)
        ended = await _end_all(jobs)
        safe = await _safe_times(process, set(ended))
        lags = sorted(safe[uid] - ended[uid] for uid in ended if uid in safe)
        return [
            Row("manifests with the driver's log", len(lags), "", f"of {_JOBS}"),
            Row("lag p50", lags[len(lags) // 2], "s", "target 1"),
            Row("lag p99", lags[len(lags) * 99 // 100], "s", "target 5"),
            Row("lag, worst", lags[-1], "s"),
        ]


async def _begin(job: Operated) -> None:
    job.create()
    job.begin()
    await job.start_head()
    job.status(deployment="Running")
    job.record("RUNNING")
    job.drive(_WORDS)
    job.write(job.start_submitter(), _WORDS)
    await asyncio.sleep(0.01)


async def _end_all(jobs: list[Operated]) -> dict[str, float]:
    """Spread over one second, as a queue that is cancelled."""
    ended: dict[str, float] = {}
    began = time.monotonic()
    for number, job in enumerate(jobs):
        await asyncio.sleep(max(0.0, began + number / len(jobs) - time.monotonic()))
        run = next(
            job.sandbox.current_run(job.namespace, pod["metadata"]["name"], "ray-job-submitter")
            for pod in job.sandbox.items("pods", job.namespace)
            if pod["metadata"]["name"].startswith(f"{job.name}-") and "job-name" in pod["metadata"]["labels"]
        )
        job.record("FAILED")
        job.finish(run, 1)
        ended[job.uid] = time.time()
        job.end()
    return ended


async def _safe_times(process: WatcherProcess, wanted: set[str]) -> dict[str, float]:
    """When each manifest first said that the telling logs are safe, by its file's time."""
    safe: dict[str, float] = {}
    read: dict[str, float] = {}
    deadline = time.monotonic() + _LIMIT_SECONDS
    while len(safe) < len(wanted) and time.monotonic() < deadline:
        for uid, path in manifest_files(process).items():
            changed = path.stat().st_mtime
            if uid in safe or read.get(uid) == changed:
                continue
            read[uid] = changed
            manifest = read_manifest(path)
            if manifest is not None and manifest.times.captured is not None:
                safe[uid] = changed
        await asyncio.sleep(0.1)
    return safe
