"""Following one RayJob's logs and its Ray head for a recorder: every chunk with its time. Nothing is interpreted."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from archiver.core.lines import SECOND, Block, TimedParser, arrived, to_ns
from archiver.core.pods import WantedLog
from archiver.core.redact import Masked, Redactor
from archiver.core.resume import Checkpoint, Seam, Tracker
from archiver.errors import KubeDenied, KubeError, KubeGone
from archiver.kube.podlogs import ApiServerPodLogs
from archiver.ports import HttpAnswer, KubeProxy, LogRequest
from archiver.sandbox.masking import masked_document
from archiver.sandbox.raynode import AGENT_PORT, DASHBOARD_PORT
from archiver.sandbox.recording import (
    Content,
    Entry,
    LogEndEntry,
    LogEntry,
    RayAnswerEntry,
    RayFileEntry,
    RayGoneEntry,
    RayJobEntry,
    RayUpEntry,
)

FILE_LIMIT_BYTES = 8 * 1024 * 1024
_RANGE_BYTES = 4 * 1024 * 1024
_POLL_SECONDS = 0.25
_ANSWER_SECONDS = 5.0
_RETRY_SECONDS = 0.3
_STATES = ("tasks", "actors", "workers", "nodes", "placement_groups")
_ANSWERS = ("/api/version", "/events", *(f"/api/v0/{name}?detail=1&limit=10000" for name in _STATES))


@dataclass(frozen=True, slots=True)
class Tapehead:
    """Where entries go, and what time it is on the tape."""

    origin: datetime
    add: Callable[[Entry], None]

    def at(self, moment: datetime | None = None) -> float:
        return max(0.0, ((moment or datetime.now(UTC)) - self.origin).total_seconds())

    def at_ns(self, stamp_ns: int) -> float:
        return (stamp_ns - to_ns(self.origin)) / SECOND


class LogTaping:
    """One container run's log from its first line to its end, resumed after cuts. Masked."""

    def __init__(self, wanted: WantedLog, head: Tapehead) -> None:
        self._wanted = wanted
        self._head = head
        self._tracker = Tracker(Checkpoint())
        self._redactor = Redactor()

    async def run(self, logs: ApiServerPodLogs, is_running: Callable[[], bool]) -> None:
        is_broken = True
        while is_broken:
            is_broken = await self._read(logs) or is_running()
            await asyncio.sleep(_RETRY_SECONDS if is_broken else 0.0)
        self._write(self._redactor.flush())
        run = self._wanted.run
        self._head.add(LogEndEntry(self._head.at(), run.pod, run.container, run.restart))

    async def _read(self, logs: ApiServerPodLogs) -> bool:
        """True where the stream broke and has to be read on."""
        checkpoint = self._tracker.checkpoint(0)
        previous = self._wanted.previous
        request = LogRequest(self._wanted.run, follow=not previous, previous=previous, since=checkpoint.since)
        seam, parser = Seam(checkpoint), TimedParser()
        try:
            async with logs.stream(request) as chunks:
                async for chunk in chunks:
                    self._keep(seam, parser.feed(chunk))
        except (KubeGone, KubeDenied):
            return False
        except KubeError:
            return True
        self._keep(seam, parser.flush())
        return False

    def _keep(self, seam: Seam, block: Block | None) -> None:
        fresh = seam.drop(block) if block else None
        if fresh and fresh.text:
            self._tracker.track(fresh)
            self._write(self._redactor.feed(fresh))

    def _write(self, masked: Masked | None) -> None:
        if masked is None or not masked.text:
            return
        run, at = self._wanted.run, self._head.at()
        times = tuple(round(self._head.at_ns(stamp), 6) for stamp in masked.raw.times)
        self._head.add(LogEntry(at, run.pod, run.container, run.restart, Content(masked.text), times))


class RayTaping:
    """Asks one Ray head again and again, through the API server's proxy, until it is gone.

    ``pod_at`` names the pod with an IP: the files of the other Ray nodes are read from their own agents.
    """

    def __init__(
        self, proxy: KubeProxy, namespace: str, pod: str, head: Tapehead, pod_at: Callable[[str], str]
    ) -> None:
        self._proxy = proxy
        self._namespace = namespace
        self._pod = pod
        self._head = head
        self._pod_at = pod_at
        self._records: dict[str, Any] = {}
        self._offsets: dict[tuple[str, str], int] = {}
        self._redactors: dict[tuple[str, str], Redactor] = {}
        self._finished: set[str] = set()
        self._up: list[str] = []

    async def run(self, is_there: Callable[[], bool]) -> None:
        while is_there():
            await self._step()
            await asyncio.sleep(_POLL_SECONDS)
        self._flush()
        for pod in self._up:
            self._head.add(RayGoneEntry(self._head.at(), pod, "refused"))

    async def _step(self) -> None:
        answer = await self._get(DASHBOARD_PORT, "/api/jobs/")
        records = _json(answer)
        if not isinstance(records, list):
            return
        if not self._up:
            await self._came_up()
        for record in records:
            if isinstance(record, dict) and record.get("submission_id"):
                await self._take_job(record)

    async def _came_up(self) -> None:
        at = self._head.at()
        head_row = next((row for row in await self._nodes() if row.get("is_head_node")), {})
        self._head.add(RayUpEntry(at, self._pod, "head", str(head_row.get("node_id", ""))))
        self._up.append(self._pod)
        await self._answers(_ANSWERS[:2])

    async def _take_job(self, record: dict[str, Any]) -> None:
        submission_id = str(record["submission_id"])
        await self._grow(f"job-driver-{submission_id}.log")
        if self._records.get(submission_id) != record:
            self._records[submission_id] = record
            self._head.add(RayJobEntry(self._head.at(), self._pod, masked_document(record)))
        is_over = record.get("status") in ("SUCCEEDED", "FAILED", "STOPPED")
        if is_over and submission_id not in self._finished:
            self._finished.add(submission_id)
            await self._answers(_ANSWERS)
            await self._files(submission_id)

    async def _answers(self, paths: tuple[str, ...]) -> None:
        for path in paths:
            answer = await self._get(DASHBOARD_PORT, path)
            body = _json(answer)
            if answer is not None and body is not None:
                bare = path.partition("?")[0]
                entry = RayAnswerEntry(self._head.at(), self._pod, bare, answer.status, masked_document(body))
                self._head.add(entry)

    async def _files(self, submission_id: str) -> None:
        """Every other file of the session, on every node."""
        await self._grow(f"job-driver-{submission_id}.log")
        for row in await self._nodes():
            pod = self._pod if row.get("is_head_node") else self._pod_at(str(row.get("node_ip", "")))
            if not pod:
                continue
            if pod not in self._up:
                self._up.append(pod)
                self._head.add(RayUpEntry(self._head.at(), pod, "worker", str(row.get("node_id", ""))))
            for path in await self._names(str(row.get("node_id", ""))):
                await self._grow(path, pod)

    async def _nodes(self) -> list[dict[str, Any]]:
        answer = _json(await self._get(DASHBOARD_PORT, "/api/v0/nodes?detail=1&limit=10000"))
        rows = (((answer or {}).get("data") or {}).get("result") or {}).get("result") or []
        return [row for row in rows if isinstance(row, dict)]

    async def _names(self, node_id: str) -> list[str]:
        listing = _json(await self._get(DASHBOARD_PORT, f"/api/v0/logs?node_id={node_id}&glob={quote('**/*')}"))
        groups = ((listing or {}).get("data") or {}).get("result") or {}
        found = [str(path) for paths in groups.values() for path in paths]
        return [path for path in found if not path.startswith("job-driver-") and not path.endswith("/")]

    async def _grow(self, path: str, pod: str = "") -> None:
        """What the file has beyond what was read, as one growth."""
        pod = pod or self._pod
        start = self._offsets.get((pod, path), 0)
        if start >= FILE_LIMIT_BYTES:
            return
        wanted = {"Range": f"bytes={start}-{start + _RANGE_BYTES - 1}", "Accept-Encoding": "identity"}
        answer = await self._get(AGENT_PORT, f"/logs/{quote(path)}", wanted, pod=pod)
        if answer is None or answer.status not in (200, 206) or not answer.body:
            return
        data = answer.body if answer.status == 206 else answer.body[start:]
        self._offsets[(pod, path)] = start + len(data)
        redactor = self._redactors.setdefault((pod, path), Redactor())
        self._file(pod, path, redactor.feed(arrived(data, 0)))

    def _file(self, pod: str, path: str, masked: Masked | None) -> None:
        if masked is not None and masked.text:
            self._head.add(RayFileEntry(self._head.at(), pod, path, Content(masked.text)))

    def _flush(self) -> None:
        for (pod, path), redactor in self._redactors.items():
            self._file(pod, path, redactor.flush())

    async def _get(
        self, port: int, path: str, headers: dict[str, str] | None = None, *, pod: str = ""
    ) -> HttpAnswer | None:
        """None where nothing answers."""
        try:
            return await self._proxy.proxy_get(
                self._namespace,
                f"pods/{pod or self._pod}:{port}",
                path,
                headers=headers or {},
                timeout_seconds=_ANSWER_SECONDS,
            )
        except KubeError:
            return None


def _json(answer: HttpAnswer | None) -> Any:
    if answer is None or answer.status != 200:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        return None
