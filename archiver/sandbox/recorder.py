"""Records a live RayJob from any Kubernetes API into a recording: that is how a user hands a failure on.

It only reads. Secrets are masked before anything is kept. Where the way it died is not known, the truth says so.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archiver.core.model import ContainerRun
from archiver.core.objects import name, text, uid
from archiver.core.pods import wanted_logs
from archiver.errors import UserError
from archiver.kube.discovery import kuberay_version, server_version
from archiver.kube.informer import Informers
from archiver.kube.objects import ApiServerObjects
from archiver.kube.podlogs import ApiServerPodLogs
from archiver.kube.proxy import ApiServerProxy
from archiver.kube.transport import Transport
from archiver.ports import Change
from archiver.sandbox.recording import (
    AttemptTruth,
    DriverTruth,
    Entry,
    Header,
    Made,
    RayFileEntry,
    Recording,
    Truth,
)
from archiver.sandbox.recordingfile import write_recording
from archiver.sandbox.signals import wait_for
from archiver.sandbox.tape import Tape
from archiver.sandbox.taping import LogTaping, RayTaping, Tapehead

_LOOK_SECONDS = 0.1
_FAREWELL_SECONDS = 3.0
_HOW = "Recorded from a live cluster by `archiver record`; secrets masked."


async def record(
    transport: Transport,
    namespace: str,
    rayjob: str,
    out: Path,
    *,
    until_gone_seconds: float,
    appear_seconds: float = 60.0,
) -> Recording:
    """Records until the RayJob has ended and its Ray pods are gone, at most ``until_gone_seconds`` after the end.

    Raises UserError where no such RayJob appears in time.
    """
    recorder = _Recorder(transport, namespace, rayjob)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(recorder.informers.run(), name="record: watch")
        try:
            is_there = await recorder.appears(appear_seconds)
            if is_there:
                await recorder.follow(group, until_gone_seconds)
        finally:
            watching.cancel()
            recorder.stop()
    if not is_there:
        raise UserError(
            f"no RayJob {namespace}/{rayjob} appeared within {appear_seconds:g} s: "
            "check the name, the namespace and the kubeconfig context"
        )
    recording = await recorder.recording()
    write_recording(recording, out)
    return recording


class _Recorder:
    def __init__(self, transport: Transport, namespace: str, rayjob: str) -> None:
        self.informers = Informers(transport, self._on_change, namespaces=(namespace,))
        self._transport = transport
        self._namespace = namespace
        self._rayjob = rayjob
        self._tape = Tape(namespace, rayjob)
        self._has_appeared = asyncio.Event()
        self._entries: list[Entry] = []
        self._head = Tapehead(datetime.now(UTC), self._entries.append)
        self._logs = ApiServerPodLogs(transport)
        self._proxy = ApiServerProxy(ApiServerObjects(transport))
        self._tasks: dict[object, asyncio.Task[None]] = {}

    async def _on_change(self, change: Change) -> None:
        self._tape.take(self._head.at(change.seen_at), change)
        if self._tape.facts is not None:
            self._has_appeared.set()

    async def appears(self, seconds: float) -> bool:
        return await wait_for(self._has_appeared, seconds)

    async def follow(self, group: asyncio.TaskGroup, until_gone_seconds: float) -> None:
        """Starts what is to be followed as it appears, until all is over."""
        loop = asyncio.get_running_loop()
        over_at: float | None = None
        while True:
            self._start_missing(group)
            if self._tape.is_over:
                over_at = over_at or loop.time()
            if over_at is not None and (self._tape.is_gone or loop.time() - over_at > until_gone_seconds):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_FAREWELL_SECONDS)

    def _start_missing(self, group: asyncio.TaskGroup) -> None:
        for pod in self._tape.pods():
            for wanted in wanted_logs(pod):
                if wanted.run not in self._tasks:
                    taping = LogTaping(wanted, self._head).run(self._logs, self._is_running(pod, wanted.run))
                    self._tasks[wanted.run] = group.create_task(taping, name=f"record: log {wanted.run.pod}")
        for pod in self._tape.heads():
            if uid(pod) not in self._tasks and text(pod, "status", "podIP"):
                ray = RayTaping(self._proxy, self._namespace, name(pod), self._head, self._pod_at)
                self._tasks[uid(pod)] = group.create_task(ray.run(self._is_there(pod)), name=f"record: ray {name(pod)}")

    def _pod_at(self, address: str) -> str:
        """The name of our pod with an IP; empty where there is none."""
        return next((name(pod) for pod in self._tape.pods() if text(pod, "status", "podIP") == address), "")

    def _is_there(self, pod: Mapping[str, Any]) -> Callable[[], bool]:
        return lambda: any(uid(other) == uid(pod) for other in self._tape.pods())

    def _is_running(self, pod: Mapping[str, Any], run: ContainerRun) -> Callable[[], bool]:
        def is_running() -> bool:
            current = next((other for other in self._tape.pods() if uid(other) == uid(pod)), None)
            runs = wanted_logs(current) if current else []
            return any(log.run == run and not log.is_finished for log in runs)

        return is_running

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def recording(self) -> Recording:
        entries = sorted([*self._entries, *self._tape.entries()], key=lambda entry: entry.at)
        header = Header(
            name=self._rayjob,
            title=f"RayJob {self._namespace}/{self._rayjob}",
            made=Made.RECORDED,
            how=_HOW,
            origin=self._head.origin,
            namespace=self._namespace,
            rayjob=self._rayjob,
            mode=self._tape.facts.mode if self._tape.facts else "",
            versions=await self._versions(entries),
        )
        return Recording(header, tuple(entries), self._truth(entries))

    async def _versions(self, entries: list[Entry]) -> dict[str, str]:
        kubernetes = await server_version(self._transport)
        operator = await kuberay_version(self._transport, (self._namespace,))
        bodies = [getattr(entry, "body", None) for entry in entries if getattr(entry, "path", "") == "/api/version"]
        ray = next((str(body.get("ray_version", "")) for body in bodies if isinstance(body, dict)), "")
        return {"kubernetes": kubernetes.git, "kuberay": operator or "", "ray": ray}

    def _truth(self, entries: list[Entry]) -> Truth:
        facts = self._tape.facts
        outcome = (facts.deployment_status if facts else "") or "unknown"
        attempts = self._tape.attempts or [("", "")]
        return Truth(outcome, tuple(_attempt(n, *attempt, entries) for n, attempt in enumerate(attempts, 1)))


def _attempt(number: int, ray_cluster: str, submission_id: str, entries: list[Entry]) -> AttemptTruth:
    path = f"job-driver-{submission_id}.log"
    pieces = [e.content.to_bytes() for e in entries if isinstance(e, RayFileEntry) and e.path == path]
    driver = DriverTruth.of(b"".join(pieces)) if pieces else None
    why = "nobody has looked into it yet"
    return AttemptTruth(number, ray_cluster, submission_id, "unknown", why, "", driver)
