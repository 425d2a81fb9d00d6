"""Tails Ray's own driver log, byte for byte, from the moment the head answers until the job's record says it is over.

In HTTPMode the first sign of failure comes 9 ms before the cluster is deleted, and the file dies with the head 1–3 s
later: so it is read while it grows. Where more is left at the end than the time allows, the tail is read first, then
backwards; a middle that is missing becomes a gap. With the hold on, nothing has to be left out.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog

from archiver.collect.streams import StreamWriter
from archiver.core.backoff import backoff_seconds
from archiver.core.lifecycle import JOB_TERMINAL
from archiver.core.model import Gap, GapReason
from archiver.core.objects import text
from archiver.errors import RayDenied, RayError
from archiver.ports import FileRange, RayHead, RayNodes

CHUNK_BYTES = 8 << 20
TAIL_BYTES = 64 << 20
_RECORD_EVERY_SECONDS = 1.0
_SLOWER = 4
_log = structlog.get_logger()


class DriverView(Protocol):
    """What the tail asks about its attempt."""

    def head(self) -> RayHead | None: ...

    def is_ending(self) -> bool:
        """A sign of the end was seen."""

    def is_head_lost(self) -> bool:
        """The head is gone and no other will come for this attempt."""

    def is_held(self) -> bool: ...

    def on_record(self, record: Mapping[str, Any]) -> None:
        """A new version of the Ray job's record."""

    async def wait_change(self, timeout_seconds: float) -> None: ...


@dataclass(slots=True)
class _Progress:
    """``size`` is the file's size when last read; ``is_over`` that the record was terminal before the last full read."""

    size: int = 0
    is_over: bool = False
    record_at: datetime | None = None
    node_ip: str | None = None
    quiet: int = 0
    last_error: str = ""
    pod_uid: str = ""


class _AnotherSession(Exception):
    """The file is not the one that was followed so far."""


class DriverTail:
    """One submission's driver log into one stream. ``follow`` returns when nothing more can come."""

    def __init__(
        self,
        submission_id: str,
        writer: StreamWriter,
        *,
        ray: RayNodes,
        view: DriverView,
        now: Callable[[], datetime],
        first_pace_seconds: float,
    ) -> None:
        self._submission_id = submission_id
        self._path = f"job-driver-{submission_id}.log"
        self._writer = writer
        self._ray = ray
        self._view = view
        self._now = now
        self._pace_seconds = first_pace_seconds
        self._progress = _Progress()

    async def follow(self) -> bool:
        """Reads until the job is over and its file is read, or the head is lost.

        True where the head came back with another session: its file is to be followed in a stream of its own.
        """
        failures = 0
        while not self._view.is_head_lost():
            head = self._view.head()
            if head is None:
                await self._view.wait_change(1.0)
                continue
            try:
                if await self._step(head):
                    return False
                failures = 0
            except _AnotherSession:
                await self._note(GapReason.SOURCE_GONE, "the head restarted, and the files of its session are gone")
                return True
            except RayDenied as error:
                await self._note(GapReason.DENIED, f"Ray refuses the archiver: {error}")
                return False
            except RayError as error:
                failures += 1
                self._progress.last_error = str(error)
                await self._view.wait_change(
                    backoff_seconds(failures, random.random(), first=self._pace_seconds, cap=2.0)
                )
                continue
            await self._view.wait_change(self._pace())
        await self._head_lost()
        return False

    def _pace(self) -> float:
        if self._view.is_ending():
            return self._pace_seconds
        return self._pace_seconds * min(_SLOWER, 1 + self._progress.quiet / 40)

    async def _step(self, head: RayHead) -> bool:
        """One look: the record when due, then what the file has grown by. True when all is read."""
        was_over = await self._look_at_record(head)
        grown = await self._read_growth(head)
        self._progress.quiet = 0 if grown else self._progress.quiet + 1
        return was_over and not grown

    async def _look_at_record(self, head: RayHead) -> bool:
        now, progress = self._now(), self._progress
        if progress.is_over:
            return True
        due = progress.record_at is None or (now - progress.record_at).total_seconds() >= _RECORD_EVERY_SECONDS
        if not due and not self._view.is_ending():
            return False
        record = await self._ray.job(head, self._submission_id)
        progress.record_at = now
        if record is None:
            return False
        self._view.on_record(record)
        agent = urlsplit(text(record, "driver_agent_http_address")).hostname
        progress.node_ip = agent if agent and agent != head.pod_ip else None
        # not yet True for this look: bytes may have come between the last read and the record
        progress.is_over = text(record, "status") in JOB_TERMINAL
        return False

    async def _read_growth(self, head: RayHead) -> bool:
        grown = False
        while True:
            offset = self._writer.checkpoint.offset
            piece = await self._range(head, offset, CHUNK_BYTES)
            if piece is None:
                return grown
            self._progress.size = piece.size_bytes
            if piece.size_bytes < offset or (offset and self._progress.pod_uid not in ("", head.pod_uid)):
                raise _AnotherSession
            if piece.data:
                grown, self._progress.pod_uid = True, head.pod_uid
                await self._writer.write_bytes(piece.data, self._now(), offset)
            left = piece.size_bytes - offset - len(piece.data)
            if left <= 0 or not piece.data:
                return grown
            if left > TAIL_BYTES and self._view.is_ending() and not self._view.is_held():
                await self._read_backwards(head, piece.size_bytes)

    async def _read_backwards(self, head: RayHead, size: int) -> None:
        """The last pieces first, each from a line's beginning, down to what was read forwards."""
        end = size
        try:
            while end - self._writer.checkpoint.offset > CHUNK_BYTES:
                start = end - CHUNK_BYTES
                piece = await self._range(head, start, CHUNK_BYTES)
                if piece is None:
                    raise RayError("the driver log vanished")
                cut = piece.data.find(b"\n") + 1
                await self._write_piece(start + cut, piece.data[cut:])
                end = start + cut
            offset = self._writer.checkpoint.offset
            last = await self._range(head, offset, end - offset)
            if last is None:
                raise RayError("the driver log vanished")
            await self._writer.write_bytes(last.data, self._now(), offset)
        except RayError as error:
            missing = end - self._writer.checkpoint.offset
            await self._note(GapReason.DEADLINE, f"the head was gone before the middle was read: {error}", missing)
            await self._writer.skip_to(size)
            raise
        await self._writer.skip_to(size)

    async def _write_piece(self, start: int, data: bytes) -> None:
        piece = await self._writer.open_piece(start)
        await piece.write_bytes(data, self._now(), start)
        await piece.flush()

    async def _range(self, head: RayHead, start: int, length: int) -> FileRange | None:
        return await self._ray.read_log(head, self._path, start=start, length=length, node_ip=self._progress.node_ip)

    async def _head_lost(self) -> None:
        progress, offset = self._progress, self._writer.checkpoint.offset
        if progress.is_over and offset >= progress.size:
            return
        if offset == 0 and progress.size == 0:
            await self._note(
                GapReason.SOURCE_GONE, f"the head was gone before its driver log could be read: {progress.last_error}"
            )
            return
        known = max(0, progress.size - offset)
        await self._note(GapReason.SOURCE_GONE, "the head was gone while the driver was still writing", known or None)

    async def _note(self, reason: GapReason, detail: str, missing_bytes: int | None = None) -> None:
        _log.warning("driver log gap", submission_id=self._submission_id, reason=str(reason))
        gap = Gap(reason, detail, self._writer.lines, None, self._now(), missing_bytes)
        await self._writer.gap(gap)
