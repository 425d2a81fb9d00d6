"""Follows the log of one container run from its first line to its end, over cuts, restarts of the API server and our own.

A clean end of a stream proves nothing: an API server that loses the kubelet ends the response politely. So the log is
opened again from the checkpoint until a read brings nothing new and the container is known to be over. What cannot be
shown to be continuous becomes a gap.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

import structlog

from archiver.collect.streams import StreamWriter
from archiver.core.backoff import backoff_seconds
from archiver.core.lines import Block, TimedParser, to_time
from archiver.core.model import ContainerRun, Gap, GapReason
from archiver.core.pods import WantedLog
from archiver.core.resume import Seam
from archiver.errors import KubeDenied, KubeError, KubeGone, KubeNotReady
from archiver.ports import LogRequest, PodLogs

# an archiver that came this late, to a first line this late, may have missed a rotated beginning
_LATE = timedelta(seconds=30)
_DENIED_WAIT_SECONDS = 60.0
_log = structlog.get_logger()


class RunView(Protocol):
    """What the follower asks about its container run."""

    def is_finished(self, run: ContainerRun) -> bool: ...

    def is_pod_gone(self, run: ContainerRun) -> bool: ...

    def started_at(self, run: ContainerRun) -> datetime | None: ...

    async def wait_change(self, timeout_seconds: float) -> None: ...


class PassEnd(Enum):
    """How one read of the log ended."""

    EOF = "eof"
    CUT = "cut"
    GONE = "gone"
    NOT_READY = "not-ready"
    DENIED = "denied"


@dataclass(slots=True)
class _Pass:
    end: PassEnd
    brought: int = 0
    detail: str = ""


class LogFollower:
    """One container run's log into one stream. ``follow`` returns when nothing more can come."""

    def __init__(
        self, wanted: WantedLog, writer: StreamWriter, *, logs: PodLogs, view: RunView, now: Callable[[], datetime]
    ) -> None:
        self._wanted = wanted
        self._writer = writer
        self._logs = logs
        self._view = view
        self._now = now
        self._leftover: Callable[[], Awaitable[None]] | None = None
        self._first_line: datetime | None = None
        self._attached: datetime | None = None
        self._denied = ""

    async def follow(self) -> None:
        """Reads until the end. Raises only what the stream's writer raises for good."""
        quiet_passes = 0
        was_clean = False
        while True:
            last = await self._read(follow=not self._wanted.previous)
            quiet_passes = 0 if last.brought else quiet_passes + 1
            if last.end is PassEnd.GONE:
                await self._source_gone(was_clean, last.detail)
                return
            if last.end is PassEnd.EOF:
                was_clean = True
                if not last.brought and self._is_over():
                    break
            elif last.end is PassEnd.CUT:
                was_clean = False
            elif self._is_over() and quiet_passes > _MOST_REFUSALS:
                await self._source_gone(was_clean, last.detail)
                return
            await self._pause(last, quiet_passes)
        await self._check_beginning()

    def _is_over(self) -> bool:
        return self._wanted.previous or self._view.is_finished(self._wanted.run)

    async def _pause(self, last: _Pass, quiet_passes: int) -> None:
        if last.end is PassEnd.EOF and last.brought:
            return
        if last.end is PassEnd.DENIED:
            await self._view.wait_change(_DENIED_WAIT_SECONDS)
            return
        await self._view.wait_change(backoff_seconds(quiet_passes, random.random(), first=0.05, cap=2.0))

    async def _read(self, *, follow: bool) -> _Pass:
        checkpoint = self._writer.checkpoint
        parser, seam = TimedParser(), Seam(checkpoint)
        request = LogRequest(self._wanted.run, follow=follow, previous=self._wanted.previous, since=checkpoint.since)
        done = _Pass(PassEnd.EOF)
        try:
            async with self._logs.stream(request) as chunks:
                self._attached = self._attached or self._now()
                async for chunk in chunks:
                    done.brought += await self._take(parser.feed(chunk), seam)
        except (KubeGone, KubeNotReady, KubeDenied, KubeError) as error:
            done.end, done.detail = _end_of(error), str(error)
            # an unfinished line comes again when the log is opened again, and is kept only if it cannot be
            self._leftover = lambda: self._finish(parser, seam)
            return done
        self._leftover = None
        done.brought += await self._take(parser.flush(), seam)
        seam.finish()
        await self._note_break(seam)
        return done

    async def _finish(self, parser: TimedParser, seam: Seam) -> None:
        await self._take(parser.flush(), seam)

    async def _take(self, block: Block | None, seam: Seam) -> int:
        if block is None:
            return 0
        fresh = seam.drop(block)
        await self._note_break(seam)
        if fresh is None:
            return 0
        if self._first_line is None and fresh.times:
            self._first_line = to_time(fresh.times[0])
        await self._writer.write_lines(fresh)
        return len(fresh.text)

    async def _note_break(self, seam: Seam) -> None:
        if not seam.is_broken or getattr(self, "_noted", None) is seam:
            return
        self._noted = seam
        since = to_time(self._writer.checkpoint.time)
        detail = "the log went on in a newer file before it could be read again; older text may be missing"
        await self._gap(GapReason.ROTATED, detail, since, seam.broken_at)

    async def _source_gone(self, was_clean: bool, detail: str) -> None:
        if self._leftover:
            await self._leftover()
        if self._denied or (was_clean and self._is_over()):
            return
        if self._writer.checkpoint.is_empty and not self._attached:
            await self._gap(
                GapReason.SOURCE_GONE, f"the pod was gone before its log could be opened: {detail}", None, None
            )
            return
        since = to_time(self._writer.checkpoint.time)
        await self._gap(
            GapReason.STREAM_CUT,
            f"the stream was cut and the pod was gone before it could be read again: {detail}",
            since,
            self._now(),
        )

    async def _check_beginning(self) -> None:
        """An archiver that came late may have found only the newest of several files."""
        started = self._view.started_at(self._wanted.run)
        if started is None or self._attached is None or self._first_line is None:
            return
        if self._attached - started > _LATE and self._first_line - started > _LATE:
            late = round((self._attached - started).total_seconds())
            detail = f"first read {late} s after the container started; the kubelet may have rotated older text away"
            await self._writer.gap(Gap(GapReason.ARCHIVER_DOWN, detail, 0, started, self._first_line))

    async def _gap(self, reason: GapReason, detail: str, since: datetime | None, until: datetime | None) -> None:
        run = self._wanted.run
        _log.warning("log gap", namespace=run.namespace, pod=run.pod, container=run.container, reason=str(reason))
        await self._writer.gap(Gap(reason, detail, self._writer.lines, since, until))


_MOST_REFUSALS = 5


def _end_of(error: KubeError) -> PassEnd:
    if isinstance(error, KubeGone):
        return PassEnd.GONE
    if isinstance(error, KubeNotReady):
        return PassEnd.NOT_READY
    return PassEnd.DENIED if isinstance(error, KubeDenied) else PassEnd.CUT
