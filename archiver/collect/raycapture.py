"""What only Ray itself knows of an attempt: the driver's file, the job's record, state rows and the nodes' log files.

While the job runs the state is refreshed at a slow pace, so that a head that vanishes leaves its last known state. At the
first sign of the end everything is read once more, within a time budget.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from archiver.collect.driver import DriverTail, DriverView
from archiver.collect.sealing import artifact_of, lost
from archiver.collect.snapshot import STATE_STEPS, NodeFile, StateStep, node_files, read_state
from archiver.collect.streams import Sealed, StreamWriter
from archiver.collect.tools import Tools
from archiver.core.lines import arrived, to_ns
from archiver.core.model import Artifact, ArtifactKind, Completeness, Gap, GapReason, LogKind, LogSource
from archiver.core.objects import text
from archiver.core.redact import redact_json
from archiver.errors import ArchiverError, RayError
from archiver.ports import RayHead

OpenStream = Callable[[str, ArtifactKind, LogSource | None], Awaitable[StreamWriter]]
PutDocument = Callable[[str, bytes], Awaitable[Sealed]]

RECORD_NAME = "ray/job.ndjson"
# task events reach the head up to a second after the job's end (measured): look twice where the head lives that long
_SECOND_LOOK_SECONDS = 2.0
_SECOND_LOOK_STEPS = 3
_PIECE_BYTES = 8 << 20
_log = structlog.get_logger()


@dataclass(slots=True)
class RayEvidence:
    """What was read so far. ``documents`` are the last good answers by document name."""

    artifacts: dict[str, Artifact]
    documents: dict[str, Mapping[str, Any]]


class RayCapture:
    """The Ray side of one attempt."""

    def __init__(
        self, tools: Tools, view: DriverView, prefix: str, open_stream: OpenStream, put_document: PutDocument
    ) -> None:
        self._tools = tools
        self._prefix = prefix
        self._view = view
        self._open_stream = open_stream
        self._put_document = put_document
        self._record_writer: StreamWriter | None = None
        self._last_record = ""
        self.evidence = RayEvidence({}, {})

    async def follow_driver(self, submission_id: str) -> None:
        """The driver's log, one artifact a session of the head."""
        session = 1
        while True:
            name = "logs/driver.log" if session == 1 else f"logs/driver-{session}.log"
            source = LogSource(LogKind.DRIVER, path=f"job-driver-{submission_id}.log")
            writer = await self._open_stream(name, ArtifactKind.LOG, source)
            tail = DriverTail(
                submission_id,
                writer,
                ray=self._tools.ray,
                view=self._view,
                now=self._tools.now,
                first_pace_seconds=self._tools.settings.driver_poll_seconds,
            )
            goes_on = await tail.follow()
            await self._seal(writer, name, source, "read from Ray's own file until the job was over")
            if not goes_on:
                return
            session += 1

    async def keep_record(self, record: Mapping[str, Any]) -> None:
        """Every version of the job's record, once each."""
        masked = redact_json(record)
        line = json.dumps(masked, separators=(",", ":"), ensure_ascii=False)
        if line == self._last_record:
            return
        self._last_record = line
        self.evidence.documents["ray/job.json"] = masked
        if self._record_writer is None:
            self._record_writer = await self._open_stream(RECORD_NAME, ArtifactKind.RAY_RECORD, None)
        body = line.encode("utf-8", "backslashreplace") + b"\n"
        await self._record_writer.write_lines(arrived(body, to_ns(self._tools.now())))

    async def close_record(self) -> None:
        if self._record_writer is not None:
            await self._seal(self._record_writer, RECORD_NAME, None, "every version that was seen")
            self._record_writer = None

    async def refresh(self, head: RayHead, job_id: str | None) -> None:
        """One slow look at the state. Errors are the head's, and the next look is soon enough."""
        async for step, answer, _ in read_state(self._tools.ray, head, job_id):
            if answer is not None and self._view.head() is not None:
                await self._keep_state(step, answer, Completeness.PARTIAL, "as last seen while the job ran")

    async def snapshot(self, head: RayHead | None, workers: Mapping[str, str], job_id: str | None) -> None:
        """Everything once more at the end, most telling first, until the budget is used up or the head is gone."""
        if head is None:
            self._note_missing("the head was gone before its state could be read")
            return
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._tools.settings.snapshot_seconds):
                await self._read_states(head, job_id, began)
                await self._read_files(head, workers)
        except TimeoutError:
            self._note_missing(f"the time budget of {self._tools.settings.snapshot_seconds:g} s was used up")
        self._note_missing("the head was gone before its state could be read")
        await self._tools.streams.settle(self._prefix)

    async def _read_states(self, head: RayHead, job_id: str | None, began: float) -> None:
        await self._look(head, job_id, len(STATE_STEPS))
        left = _SECOND_LOOK_SECONDS - (time.monotonic() - began)
        if left > 0 and self._view.head() is not None:
            await asyncio.sleep(left)
            await self._look(head, job_id, _SECOND_LOOK_STEPS)

    async def _look(self, head: RayHead, job_id: str | None, steps: int) -> None:
        number = 0
        async for step, answer, error in read_state(self._tools.ray, head, job_id):
            if answer is not None:
                await self._keep_state(step, answer, Completeness.COMPLETE, "read at the end of the job")
            elif error is not None:
                _log.info("ray state not read", document=step.document, error=str(error))
                if self._view.head() is None:
                    return
            number += 1
            if number == steps:
                return

    async def _keep_state(
        self, step: StateStep, answer: Mapping[str, Any], completeness: Completeness, reason: str
    ) -> None:
        masked = redact_json(answer)
        body = json.dumps(masked, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
        sealed = await self._put_document(step.document, body + b"\n")
        artifact = artifact_of(step.document, ArtifactKind.RAY_STATE, sealed, reason=reason)
        self.evidence.documents[step.document] = masked
        self.evidence.artifacts[step.document] = replace(artifact, completeness=completeness, reason=reason)

    def _note_missing(self, why: str) -> None:
        for step in STATE_STEPS:
            if step.document not in self.evidence.artifacts:
                self.evidence.artifacts[step.document] = lost(step.document, ArtifactKind.RAY_STATE, why)
            elif self.evidence.artifacts[step.document].completeness is Completeness.PARTIAL:
                kept = self.evidence.artifacts[step.document]
                self.evidence.artifacts[step.document] = replace(kept, reason=f"as last seen while the job ran: {why}")

    async def _read_files(self, head: RayHead, workers: Mapping[str, str]) -> None:
        for file in await node_files(self._tools.ray, head, workers):
            if file.path.startswith("job-driver-") and self._has_driver():
                continue
            try:
                await self._read_file(head, file)
            except RayError as error:
                _log.info("ray log not read", node=file.node, path=file.path, error=str(error))
                if self._view.head() is None:
                    return

    def _has_driver(self) -> bool:
        return any(name.startswith("logs/driver") for name in self.evidence.artifacts)

    async def _read_file(self, head: RayHead, file: NodeFile) -> None:
        """The whole file, or its end where it is larger than the limit."""
        first = await self._tools.ray.read_log(head, file.path, start=0, length=1, node_ip=file.node_ip)
        if first is None or first.size_bytes == 0:
            return
        size, limit = first.size_bytes, self._tools.settings.ray_log_bytes
        name = f"logs/ray/{file.node}/{file.path}"
        source = LogSource(LogKind.RAY, path=file.path, node=file.node)
        writer = await self._open_stream(name, ArtifactKind.LOG, source)
        start = max(writer.checkpoint.offset, size - limit)
        if start > writer.checkpoint.offset:
            detail = f"only the last {limit:,} bytes of Ray's own logs are kept"
            await writer.gap(
                Gap(GapReason.DEADLINE, detail, writer.lines, missing_bytes=start - writer.checkpoint.offset)
            )
            await writer.skip_to(start)
        try:
            await self._copy(head, file, writer, size)
        except RayError as error:
            missing = size - writer.checkpoint.offset
            await writer.gap(
                Gap(GapReason.SOURCE_GONE, f"the node was gone: {error}", writer.lines, missing_bytes=missing)
            )
        await self._seal(writer, name, source, "read at the end of the job")

    async def _copy(self, head: RayHead, file: NodeFile, writer: StreamWriter, size: int) -> None:
        while (offset := writer.checkpoint.offset) < size:
            length = min(_PIECE_BYTES, size - offset)
            piece = await self._tools.ray.read_log(head, file.path, start=offset, length=length, node_ip=file.node_ip)
            if piece is None or not piece.data:
                raise RayError("the file vanished")
            await writer.write_bytes(piece.data, self._tools.now(), offset)

    async def _seal(self, writer: StreamWriter, name: str, source: LogSource | None, reason: str) -> None:
        kind = ArtifactKind.RAY_RECORD if name == RECORD_NAME else ArtifactKind.LOG
        try:
            sealed = await writer.seal()
        except ArchiverError as error:
            _log.error("seal failed", artifact=name, error=str(error))
            raise
        self.evidence.artifacts[name] = artifact_of(name, kind, sealed, reason=reason, source=source)

    def ray_job_id(self) -> str | None:
        """Ray's hex job id, by which state rows are told apart; None until the driver reached ``ray.init``."""
        return text(self.evidence.documents.get("ray/job.json"), "job_id") or None
