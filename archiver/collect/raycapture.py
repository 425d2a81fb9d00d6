"""What only Ray itself knows of an attempt: the driver's file, the job's record, and the state rows.

While the job runs the state is looked at soon and then at a slower and slower pace, so that a head that vanishes leaves its
last known state. At the first sign of the end everything is read once more, within a time budget.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import structlog

from archiver.collect.driver import DriverTail, DriverView, TailEnd
from archiver.collect.nodefiles import NodeFiles
from archiver.collect.sealing import artifact_of, lost
from archiver.collect.snapshot import STATE_STEPS, StateStep, read_state
from archiver.collect.streams import Sealed, StreamWriter
from archiver.collect.tools import Tools
from archiver.collect.unbroken import unbroken
from archiver.core.lines import arrived, to_ns
from archiver.core.model import Artifact, ArtifactKind, Completeness, Gap, GapReason, LogKind, LogSource
from archiver.core.objects import text
from archiver.core.redact import redact_json
from archiver.ports import RayHead

OpenStream = Callable[[str, ArtifactKind, LogSource | None], Awaitable[StreamWriter]]
PutDocument = Callable[[str, bytes], Awaitable[Sealed]]
ReadBack = Callable[[str], Awaitable[list[bytes]]]

RECORD_NAME = "ray/job.ndjson"
DRIVER_NAME = "logs/driver.log"
# task events reach the head up to a second after the job's end (measured): look twice where the head lives that long
_SECOND_LOOK_SECONDS = 2.0
_SECOND_LOOK_STEPS = 3
_NOT_READ = "the head was gone before its state could be read"
_log = structlog.get_logger()


class Streaming(Protocol):
    """The attempt's own doors to its streams."""

    async def open_stream(self, name: str, kind: ArtifactKind, source: LogSource | None = None) -> StreamWriter: ...

    async def put_document(self, name: str, body: bytes) -> Sealed: ...

    async def read_back(self, name: str) -> list[bytes]: ...

    async def read_document(self, name: str) -> bytes | None: ...


@dataclass(slots=True)
class RayEvidence:
    """What was read so far. ``documents`` are the last good answers by document name."""

    artifacts: dict[str, Artifact]
    documents: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class _Driver:
    """The driver's stream that is being written. ``is_read``: nothing more can come."""

    writer: StreamWriter
    name: str
    source: LogSource
    is_read: bool = False


class RayCapture:
    """The Ray side of one attempt. ``known``: artifacts that an earlier process has saved."""

    def __init__(self, tools: Tools, view: DriverView, streaming: Streaming, known: Mapping[str, Artifact]) -> None:
        self._tools = tools
        self._view = view
        self._streaming = streaming
        self._record_writer: StreamWriter | None = None
        self._last_record = ""
        self._submitted: object = None
        self._driver: _Driver | None = None
        self.evidence = RayEvidence({name: each for name, each in known.items() if _is_of_ray(name)})
        self.files = NodeFiles(tools, view, streaming.open_stream, self.evidence.artifacts)

    async def recall(self) -> Mapping[str, Any] | None:
        """What an earlier process has read; gives the last version of the job's record."""
        for line in (await self._streaming.read_back(RECORD_NAME))[-1:]:
            self._learn_record(line)
        for step in STATE_STEPS:
            if step.document in self.evidence.artifacts and self.evidence.artifacts[step.document].key:
                answer = _json_of(await self._streaming.read_document(step.document))
                if answer is not None:
                    self.evidence.documents[step.document] = answer
        return self.evidence.documents.get("ray/job.json")

    def _learn_record(self, line: bytes) -> None:
        record = _json_of(line)
        if record is not None:
            self._last_record = line.decode("utf-8", "replace")
            self._submitted = record.get("start_time")
            self.evidence.documents["ray/job.json"] = record

    async def follow_driver(self, submission_id: str) -> None:
        """The driver's log, one artifact a session of the head."""
        session = 1
        while True:
            name = DRIVER_NAME if session == 1 else f"logs/driver-{session}.log"
            session += 1
            if name in self.evidence.artifacts and f"logs/driver-{session}.log" in self.evidence.artifacts:
                continue
            end = await self._follow_session(submission_id, name)
            if end is not TailEnd.NEXT_SESSION:
                return
            self._submitted = None

    async def _follow_session(self, submission_id: str, name: str) -> TailEnd:
        source = LogSource(LogKind.DRIVER, path=f"job-driver-{submission_id}.log")
        writer = await self._streaming.open_stream(name, ArtifactKind.LOG, source)
        self._driver = _Driver(writer, name, source)
        tail = DriverTail(
            submission_id,
            writer,
            ray=self._tools.ray,
            view=self._view,
            clocks=(self._tools.now, self._tools.monotonic),
            first_pace_seconds=self._tools.settings.driver_poll_seconds,
            submitted=self._submitted if writer.checkpoint.offset else None,
            tails=self._tools.tails,
        )
        end = await tail.follow()
        self._driver.is_read = True
        await self._seal_driver(end)
        return end

    async def _seal_driver(self, end: TailEnd) -> None:
        if self._driver is None:
            return
        writer, name = self._driver.writer, self._driver.name
        sealed = await writer.seal()
        if end is TailEnd.LOST and not sealed.raw_bytes and not sealed.gaps:
            self._driver = None  # Ray never had the job: there was no log to keep
            return
        reason = "read from Ray's own file until the job was over"
        self.evidence.artifacts[name] = artifact_of(
            name, ArtifactKind.LOG, sealed, reason=reason, source=self._driver.source
        )
        self._driver = None

    async def close_driver(self) -> None:
        """At the attempt's end: seals the stream that was still followed."""
        if self._driver is not None and not self._driver.is_read:
            detail = "the job still ran when the attempt was closed"
            await self._driver.writer.gap(
                Gap(GapReason.DEADLINE, detail, self._driver.writer.lines, None, self._tools.now())
            )
            self._driver.is_read = True
        await self._seal_driver(TailEnd.OVER)

    def note_driver(self, submission_id: str) -> None:
        """Of a job that had begun there is a driver's log, or the row that says that there is none."""
        has_one = any(name.startswith("logs/driver") for name in self.evidence.artifacts)
        if not has_one and submission_id and self._view.had_job():
            source = LogSource(LogKind.DRIVER, path=f"job-driver-{submission_id}.log")
            why = "the head was gone before the archiver could read the driver's log"
            self.evidence.artifacts[DRIVER_NAME] = lost(DRIVER_NAME, ArtifactKind.LOG, why, source)

    async def keep_record(self, record: Mapping[str, Any]) -> None:
        """Every version of the job's record, once each."""
        masked = redact_json(record)
        line = json.dumps(masked, separators=(",", ":"), ensure_ascii=False)
        if line == self._last_record:
            return
        if self._record_writer is None:
            self._record_writer = await self._streaming.open_stream(RECORD_NAME, ArtifactKind.RAY_RECORD, None)
        body = line.encode("utf-8", "backslashreplace") + b"\n"
        await self._record_writer.write_lines(arrived(body, to_ns(self._tools.now())))
        self._last_record = line
        self.evidence.documents["ray/job.json"] = masked

    async def close_record(self) -> None:
        if self._record_writer is None and self._last_record:
            self._record_writer = await self._streaming.open_stream(RECORD_NAME, ArtifactKind.RAY_RECORD, None)
        if self._record_writer is not None:
            sealed = await self._record_writer.seal()
            self.evidence.artifacts[RECORD_NAME] = artifact_of(
                RECORD_NAME, ArtifactKind.RAY_RECORD, sealed, reason="every version that was seen"
            )

    async def refresh(self, head: RayHead, job_id: str | None) -> None:
        """One look at the state while the job runs. Errors are the head's, and the next look is soon enough."""
        async with self._tools.looks:
            await self._refresh(head, job_id)

    async def _refresh(self, head: RayHead, job_id: str | None) -> None:
        async for step, answer, _ in read_state(self._tools.ray, head, job_id):
            if self._view.is_ending():
                return  # the snapshot asks the same, and waits for its turn at this head
            if answer is not None:
                await self._keep_state(step, answer, Completeness.PARTIAL, "as last seen while the job ran")

    async def snapshot(
        self, head: RayHead | None, workers: Mapping[str, str], job_id: str | None, *, only_of: tuple[str, ...] = ()
    ) -> None:
        """Everything once more at the end, most telling first, until the budget is used up or the head is gone."""
        if head is None:
            self._note_missing(_NOT_READ, {})
            return
        began, errors = time.monotonic(), dict[str, str]()
        why = _NOT_READ
        try:
            async with asyncio.timeout(self._tools.settings.snapshot_seconds):
                await self._read_states(head, job_id, began, errors)
                async with self._tools.looks:
                    await self.files.read(head, workers, only_of)
        except TimeoutError:
            why = f"the time budget of {self._tools.settings.snapshot_seconds:g} s was used up"
        await self.files.close(why)
        self._note_missing(why, errors)

    async def _read_states(self, head: RayHead, job_id: str | None, began: float, errors: dict[str, str]) -> None:
        async with self._tools.looks:
            await self._look(head, job_id, len(STATE_STEPS), errors)
        left = _SECOND_LOOK_SECONDS - (time.monotonic() - began)
        if left > 0 and self._view.head() is not None:
            await asyncio.sleep(left)
            async with self._tools.looks:
                await self._look(head, job_id, _SECOND_LOOK_STEPS, {})

    async def _look(self, head: RayHead, job_id: str | None, steps: int, errors: dict[str, str]) -> None:
        number = 0
        async for step, answer, error in read_state(self._tools.ray, head, job_id):
            if answer is not None:
                await self._keep_state(step, answer, Completeness.COMPLETE, "read at the end of the job")
            else:
                errors[step.document] = f"Ray did not give it: {error}" if error else ""
            if error is not None:
                _log.info("ray state not read", document=step.document, error=str(error))
                if self._view.head() is None:
                    return
            number += 1
            if number == steps:
                return

    async def _keep_state(
        self, step: StateStep, answer: Mapping[str, Any], completeness: Completeness, reason: str
    ) -> None:
        """Written and noted, or neither: the manifest must never say another sum than the object has."""
        masked = redact_json(answer)
        await unbroken(self._put_state(step, masked, completeness, reason))

    async def _put_state(self, step: StateStep, masked: Any, completeness: Completeness, reason: str) -> None:
        body = json.dumps(masked, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
        sealed = await self._streaming.put_document(step.document, body + b"\n")
        artifact = artifact_of(step.document, ArtifactKind.RAY_STATE, sealed, reason=reason)
        self.evidence.documents[step.document] = masked
        self.evidence.artifacts[step.document] = replace(artifact, completeness=completeness, reason=reason)

    def _note_missing(self, why: str, errors: Mapping[str, str]) -> None:
        """Says of each document that is not there why. What this Ray does not serve at all is not missing."""
        for step in STATE_STEPS:
            reason = why if self._view.head() is None else errors.get(step.document, why)
            kept = self.evidence.artifacts.get(step.document)
            if kept is None and reason:
                self.evidence.artifacts[step.document] = lost(step.document, ArtifactKind.RAY_STATE, reason)
            elif kept is not None and kept.completeness is Completeness.PARTIAL:
                said = f"as last seen while the job ran: {reason or why}"
                self.evidence.artifacts[step.document] = replace(kept, reason=said)

    def ray_job_id(self) -> str | None:
        """Ray's hex job id, by which state rows are told apart; None until the driver reached ``ray.init``."""
        return text(self.evidence.documents.get("ray/job.json"), "job_id") or None


def _is_of_ray(name: str) -> bool:
    return name.startswith(("ray/", "logs/driver", "logs/ray/"))


def _json_of(body: bytes | None) -> dict[str, Any] | None:
    try:
        document = json.loads(body or b"null")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
