"""Tails Ray's own driver log, byte for byte, from the moment the head answers until the job's record says it is over.

In HTTPMode the first sign of failure comes 9 ms before the cluster is deleted, and the file dies with the head 1–3 s
later: so it is read while it grows. Where more is left at the end than the time allows, the tail is read first, then
backwards; a middle that is missing becomes a gap. With the hold on, nothing has to be left out.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
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
_LEAST_BYTES = 256 << 10
_RECORD_EVERY_SECONDS = 1.0
_SLOWER = 4
_DENIED_WAIT_SECONDS = 30.0
_DENIED_AT_THE_END = 3
# a head that lives on after the job, and fails for as long, will not give the file any more
_UNREADABLE_SECONDS = 300.0
_log = structlog.get_logger()


class DriverView(Protocol):
    """What the tail asks about its attempt."""

    def head(self) -> RayHead | None: ...

    def head_run(self) -> tuple[str, int] | None:
        """Which run of the head's container it is: another run has another session, and other files."""

    def is_ending(self) -> bool:
        """A sign of the end was seen."""

    def is_job_over(self) -> bool:
        """The RayJob's status says that Ray's job is over, and Ray was known to have it."""

    def had_job(self) -> bool:
        """Ray is known to have had the job."""

    def is_head_lost(self) -> bool:
        """The head is gone and no other will come for this attempt."""

    def is_held(self) -> bool: ...

    def on_record(self, record: Mapping[str, Any]) -> None:
        """A new version of the Ray job's record."""

    async def wait_change(self, timeout_seconds: float) -> None: ...


class TailEnd(Enum):
    """Why nothing more can come."""

    OVER = "over"
    LOST = "lost"
    UNREADABLE = "unreadable"
    DENIED = "denied"
    NEXT_SESSION = "next-session"  # the head came back with another session: its file is a log of its own


@dataclass(slots=True)
class _Progress:
    """``size`` is the file's size when last read; ``is_over`` that the job is over; ``is_whole`` that the file was read
    to its end after that. Without ``is_whole`` nobody knows how long the file became: a restarted archiver, for one.
    """

    submitted: object = None
    size: int = 0
    is_over: bool = False
    is_whole: bool = False
    record_at: float | None = None
    node_ip: str | None = None
    quiet: int = 0
    last_error: str = ""
    run: tuple[str, int] | None = None
    chunk_bytes: int = CHUNK_BYTES
    failing_since: float | None = None


@dataclass(slots=True)
class _Backwards:
    """A file that is read from its end: ``end`` is where what is not read yet ends. In bytes."""

    size: int
    end: int = -1

    def __post_init__(self) -> None:
        self.end = self.size


class _AnotherSession(Exception):
    """The file is not the one that was followed so far."""


class DriverTail:
    """One submission's driver log into one stream. ``follow`` returns when nothing more can come.

    ``submitted``: the record's start time of the session that the stream was begun in, None where that is not known.
    ``tails``: how many may hold a whole tail in memory at the same time.
    """

    def __init__(
        self,
        submission_id: str,
        writer: StreamWriter,
        *,
        ray: RayNodes,
        view: DriverView,
        clocks: tuple[Callable[[], datetime], Callable[[], float]],
        first_pace_seconds: float,
        submitted: object = None,
        tails: asyncio.Semaphore | None = None,
    ) -> None:
        self._submission_id = submission_id
        self._path = f"job-driver-{submission_id}.log"
        self._writer = writer
        self._ray = ray
        self._view = view
        self._now, self._monotonic = clocks
        self._pace_seconds = first_pace_seconds
        self._tails = tails or asyncio.Semaphore()
        self._progress = _Progress(submitted=submitted)

    async def follow(self) -> TailEnd:
        """Reads until the job is over and its file is read, or the head is lost."""
        failures = denials = 0
        while not self._view.is_head_lost():
            head = self._view.head()
            if head is None:
                await self._view.wait_change(1.0)
                continue
            try:
                if await self._step(head):
                    return TailEnd.OVER
                failures = denials = 0
                self._progress.failing_since = None
                await self._view.wait_change(self._pace())
            except _AnotherSession:
                await self._note(GapReason.SOURCE_GONE, "the head restarted, and the files of its session are gone")
                return TailEnd.NEXT_SESSION
            except RayDenied as error:
                denials += 1
                if denials > _DENIED_AT_THE_END and self._view.is_ending():
                    await self._note(GapReason.DENIED, f"Ray refuses the archiver: {error}")
                    return TailEnd.DENIED
                await self._wait_after(denials, error, cap=_DENIED_WAIT_SECONDS)
            except RayError as error:
                failures += 1
                if self._is_hopeless():
                    await self._note(GapReason.UNREADABLE, f"Ray does not give the driver's log: {error}")
                    return TailEnd.UNREADABLE
                await self._wait_after(failures, error, cap=2.0)
        await self._head_lost()
        return TailEnd.LOST

    async def _wait_after(self, failures: int, error: RayError, *, cap: float) -> None:
        self._progress.last_error = str(error)
        await self._view.wait_change(backoff_seconds(failures, random.random(), first=self._pace_seconds, cap=cap))

    def _is_hopeless(self) -> bool:
        """Whether the job is over and its head has only failed for long."""
        now, progress = self._monotonic(), self._progress
        progress.failing_since = now if progress.failing_since is None else progress.failing_since
        return self._view.is_job_over() and now - progress.failing_since > _UNREADABLE_SECONDS

    def _pace(self) -> float:
        if self._view.is_ending():
            return self._pace_seconds
        return self._pace_seconds * min(_SLOWER, 1 + self._progress.quiet / 40)

    async def _step(self, head: RayHead) -> bool:
        """One look: the record when due, then what the file has grown by. True when all is read."""
        was_over = await self._is_over(head)
        grown = await self._read_growth(head)
        self._progress.is_whole = self._progress.is_over
        self._progress.quiet = 0 if grown else self._progress.quiet + 1
        return was_over and not grown

    async def _is_over(self, head: RayHead) -> bool:
        """Whether the job was over before this look. The RayJob's word counts where Ray itself does not give its own."""
        if self._progress.is_over:
            return True
        try:
            has_answered = await self._look_at_record(head)
        except RayError:
            if not self._view.is_job_over():
                raise
            has_answered = False
        if not has_answered and self._view.is_job_over():
            self._progress.is_over = True
        return False

    async def _look_at_record(self, head: RayHead) -> bool:
        """False where Ray does not know the job."""
        now, progress = self._monotonic(), self._progress
        is_due = progress.record_at is None or now - progress.record_at >= _RECORD_EVERY_SECONDS
        if not is_due and not self._view.is_ending():
            return True
        record = await self._ray.job(head, self._submission_id)
        progress.record_at = now
        if record is None:
            return False
        self._check_session(record.get("start_time"))
        self._view.on_record(record)
        agent = urlsplit(text(record, "driver_agent_http_address")).hostname
        progress.node_ip = agent if agent and agent != head.pod_ip else None
        # not yet True for this look: bytes may have come between the last read and the record
        progress.is_over = text(record, "status") in JOB_TERMINAL
        return True

    def _check_session(self, submitted: object) -> None:
        """A job that was submitted again (by the operator, after a restart of the head) has a file of its own."""
        known = self._progress.submitted
        if known is not None and submitted is not None and submitted != known and self._writer.checkpoint.offset:
            raise _AnotherSession
        self._progress.submitted = submitted if submitted is not None else known

    async def _read_growth(self, head: RayHead) -> bool:
        grown, progress = False, self._progress
        while True:
            offset = self._writer.checkpoint.offset
            run = self._view.head_run()
            if offset and progress.node_ip is None and progress.run not in (None, run):
                raise _AnotherSession
            piece = await self._range(head, offset, progress.chunk_bytes)
            if piece is None:
                return grown
            if piece.size_bytes < offset:
                raise _AnotherSession
            progress.size = piece.size_bytes
            if piece.data:
                grown, progress.run = True, run
                await self._writer.write_bytes(piece.data, self._now(), offset)
            left = piece.size_bytes - offset - len(piece.data)
            if left <= 0 or not piece.data:
                return grown
            if left > TAIL_BYTES and self._view.is_ending() and not self._view.is_held():
                await self._read_backwards(head, piece.size_bytes)

    async def _read_backwards(self, head: RayHead, size: int) -> None:
        """The last pieces first, each from a line's beginning, down to what was read forwards."""
        left = _Backwards(size)
        try:
            await self._read_tail(head, left)
            while left.end - self._writer.checkpoint.offset > self._progress.chunk_bytes:
                await self._write_piece(*await self._piece_before(head, left))
            offset = self._writer.checkpoint.offset
            rest = await self._whole_range(head, offset, left.end - offset)
            await self._writer.write_bytes(rest, self._now(), offset)
        except RayError as error:
            missing = left.end - self._writer.checkpoint.offset
            await self._note(GapReason.DEADLINE, f"the head was gone before the middle was read: {error}", missing)
            await self._writer.skip_to(size)
            raise
        await self._writer.skip_to(size)

    async def _read_tail(self, head: RayHead, left: _Backwards) -> None:
        """All of the tail is fetched before any of it is masked and stored: that takes longer than the head may live."""
        fetched: list[tuple[int, bytes]] = []
        async with self._tails:
            try:
                while left.size - left.end < TAIL_BYTES:
                    if left.end - self._writer.checkpoint.offset <= self._progress.chunk_bytes:
                        break
                    fetched.append(await self._piece_before(head, left))
            finally:
                for start, data in fetched:
                    await self._write_piece(start, data)

    async def _piece_before(self, head: RayHead, left: _Backwards) -> tuple[int, bytes]:
        """Where the piece begins that ends where the last one began, and its text."""
        start = left.end - self._progress.chunk_bytes
        data = await self._whole_range(head, start, left.end - start)
        cut = data.find(b"\n") + 1
        left.end = start + cut
        return start + cut, data[cut:]

    async def _whole_range(self, head: RayHead, start: int, length: int) -> bytes:
        piece = await self._range(head, start, length)
        if piece is None or len(piece.data) < length:
            raise RayError("the driver log vanished")
        return piece.data

    async def _write_piece(self, start: int, data: bytes) -> None:
        piece = await self._writer.open_piece(start)
        await piece.write_bytes(data, self._now(), start)
        await piece.flush()

    async def _range(self, head: RayHead, start: int, length: int) -> FileRange | None:
        """One read. Where it fails, the next ones ask for less: a slow way to the head must not end in nothing."""
        progress = self._progress
        try:
            piece = await self._ray.read_log(head, self._path, start=start, length=length, node_ip=progress.node_ip)
        except RayDenied:
            raise
        except RayError:
            progress.chunk_bytes = max(_LEAST_BYTES, progress.chunk_bytes // 2)
            raise
        progress.chunk_bytes = min(CHUNK_BYTES, progress.chunk_bytes * 2)
        return piece

    async def _head_lost(self) -> None:
        progress, offset = self._progress, self._writer.checkpoint.offset
        if progress.is_whole:
            return
        if offset == 0 and progress.size == 0:
            # a job that never began has no log to lose
            if self._view.had_job():
                why = f": {progress.last_error}" if progress.last_error else ""
                await self._note(GapReason.SOURCE_GONE, f"the head was gone before its driver log could be read{why}")
            return
        known = max(0, progress.size - offset)
        rest = (
            "before the rest of the driver log was read" if progress.is_over else "while the driver was still writing"
        )
        await self._note(GapReason.SOURCE_GONE, f"the head was gone {rest}", known or None)

    async def _note(self, reason: GapReason, detail: str, missing_bytes: int | None = None) -> None:
        _log.warning("driver log gap", submission_id=self._submission_id, reason=str(reason))
        gap = Gap(reason, detail, self._writer.lines, None, self._now(), missing_bytes)
        await self._writer.gap(gap)
