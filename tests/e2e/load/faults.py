"""What fails while the crowd runs, one after the other, each when so much of the crowd is over."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.e2e.archiver_pod import ArchiverPod
from tests.e2e.cluster import Cluster
from tests.e2e.load.stage import Stage
from tests.e2e.scenarios.kube import Kube

WATCHER = "app.kubernetes.io/component=watcher"


@dataclass(frozen=True, slots=True)
class Fault:
    """`after` is the part of the crowd that is over when it begins."""

    name: str
    after: float
    do: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Faults:
    """`done` has each fault that was brought about, with how many RayJobs were over and how long it took, in seconds."""

    kube: Kube
    archiver: ArchiverPod
    cluster: Cluster | None  # None where the machine's own cluster is not the one that is tested
    seconds: float
    done: list[tuple[str, int, float]] = field(default_factory=list)

    def planned(self) -> list[Fault]:
        anywhere = [Fault("the watcher's pod is deleted without grace", 0.80, self._delete_watcher)]
        if self.cluster is None:
            return anywhere
        return [
            Fault("the watcher is killed with -9", 0.10, self._kill_watcher),
            Fault("the API server is killed and started again", 0.25, self._restart_api_server),
            Fault(f"S3 answers 503 for {self.seconds:.0f} s", 0.40, self._s3_answers_503),
            Fault(f"Postgres is stopped for {self.seconds:.0f} s", 0.60, self._stop_postgres),
            *anywhere,
        ]

    async def follow(self, stage: Stage, total: int) -> None:
        """All of them, in order. Whoever cancels it leaves nothing broken."""
        for fault in self.planned():
            await stage.has_ended(round(fault.after * total))
            began, over = monotonic(), stage.ended
            await fault.do()
            self.done.append((fault.name, over, monotonic() - began))

    async def _kill_watcher(self) -> None:
        """SIGKILL to the process itself: the container is started again, and its spool is still there."""
        for pod in await self.kube.list("Pod", self.archiver.cluster, WATCHER):
            for pid in _pids_of_pod(pod["metadata"]["uid"]):
                os.kill(pid, signal.SIGKILL)

    async def _delete_watcher(self) -> None:
        """The kubelet kills it with SIGKILL; the next pod has an empty spool."""
        for pod in await self.kube.list("Pod", self.archiver.cluster, WATCHER):
            await self.kube.delete("Pod", self.archiver.cluster, pod["metadata"]["name"], grace_seconds=0)

    async def _restart_api_server(self) -> None:
        assert self.cluster
        await asyncio.to_thread(self.cluster.restart, "apiserver", is_kill=True)

    async def _s3_answers_503(self) -> None:
        assert self.cluster
        self.cluster.s3_fault(True)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.cluster.s3_fault(False)

    async def _stop_postgres(self) -> None:
        assert self.cluster
        await asyncio.to_thread(self.cluster.stop, "postgres")
        try:
            await asyncio.sleep(self.seconds)
        finally:
            await asyncio.to_thread(self.cluster.start, "postgres")


def _pids_of_pod(uid: str) -> list[int]:
    """The watcher's processes of a pod, found by their control group. A process that ends meanwhile is passed over."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_ours = folder.name.isdigit() and uid in (folder / "cgroup").read_text()
            if is_ours and b"archiver" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
