"""Follows the log of one container run from its first line to its end, over cuts, restarts of the API server and our own.

A clean end of a stream proves nothing: an API server that loses the kubelet ends the response politely. So the log is
opened again from the checkpoint until a read brings nothing new and the container is known to be over. What cannot be
shown to be continuous becomes a gap. The endpoint serves whichever instance is the newest: once the container has gone on
to another one, only ``previous`` is asked, so that a run's log has nothing of the next run.
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
from archiver.core.lines import Block, TimedParser, to_ns, to_time
from archiver.core.model import ContainerRun, Gap, GapReason
from archiver.core.pods import WantedLog
from archiver.core.resume import Seam
from archiver.errors import KubeDenied, KubeError, KubeGone, KubeNotReady
from archiver.ports import LogRequest, PodLogs

# an archiver that came this late, to a first line this late, may have missed a rotated beginning
_LATE = timedelta(seconds=30)
_DENIED_WAIT_SECONDS = 30.0
_MOST_REFUSALS = 5
# an API server may be away for as long; what still fails after that, of a container that is over, will not come back
_UNREADABLE_SECONDS = 600.0
# after a clean end, so long for the pod's status to say whether the container ended; it is posted within a second
_STATUS_SECONDS = 2.0
_GONE_STATUS_SECONDS = 5.0
# a container's end is known by whole seconds
_END_PRECISION = timedelta(seconds=1)
_log = structlog.get_logger()


class RunView(Protocol):
    """What the follower asks about its container run."""

    def is_finished(self, run: ContainerRun) -> bool: ...

    def is_pod_gone(self, run: ContainerRun) -> bool: ...

    def is_node_lost(self, run: ContainerRun) -> bool: ...

    def has_restarted(self, run: ContainerRun) -> bool:
        """Whether a newer instance of the container runs, or has run."""

    def started_at(self, run: ContainerRun) -> datetime | None: ...

    def ended_at(self, run: ContainerRun) -> datetime | None: ...

    def monotonic(self) -> float: ...

    async def wait_change(self, timeout_seconds: float) -> None: ...


class PassEnd(Enum):
    """How one read of the log ended."""

    EOF = "eof"
    CUT = "cut"
    GONE = "gone"
    NOT_READY = "not-ready"
    DENIED = "denied"
    REFUSED = "refused"  # an answer that no trying again would change


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
        self._run = wanted.run
        self._writer = writer
        self._logs = logs
        self._view = view
        self._now = now
        self._leftover: Callable[[], Awaitable[None]] | None = None
        self._attached: datetime | None = None
        self._was_clean = False
        self._broken: Seam | None = None
        self._failing_since: float | None = None

    async def follow(self) -> None:
        """Reads until the end. Raises only what the stream's writer raises for good."""
        quiet = 0
        while True:
            last = await self._read()
            quiet = 0 if last.brought else quiet + 1
            if last.end is PassEnd.GONE or (last.end is PassEnd.NOT_READY and self._is_refused(quiet)):
                await self._source_gone(last)
                return
            if last.end is PassEnd.DENIED and self._is_over() and quiet > 1:
                await self._denied(last.detail)
                return
            if self._is_hopeless(last, quiet):
                await self._unreadable(last.detail)
                return
            if last.end is PassEnd.EOF:
                self._was_clean = True
                if not last.brought and self._is_over():
                    return
            elif last.end in (PassEnd.CUT, PassEnd.REFUSED):
                self._was_clean = False
            await self._pause(last, quiet)

    def _is_over(self) -> bool:
        return self._wanted.previous or self._view.is_finished(self._run)

    def _is_refused(self, quiet: int) -> bool:
        return self._is_over() and quiet > _MOST_REFUSALS

    def _is_hopeless(self, last: _Pass, quiet: int) -> bool:
        """Whether an error will not go away: only of a container that is over can nothing better be hoped for."""
        now = self._view.monotonic()
        is_failing = last.end in (PassEnd.CUT, PassEnd.REFUSED) and not last.brought
        if not is_failing:
            self._failing_since = None
            return False
        self._failing_since = now if self._failing_since is None else self._failing_since
        if not self._is_over():
            return False
        is_final = last.end is PassEnd.REFUSED and quiet > _MOST_REFUSALS
        return is_final or now - self._failing_since > _UNREADABLE_SECONDS

    async def _pause(self, last: _Pass, quiet: int) -> None:
        if last.end is PassEnd.EOF:
            await self._wait_status(_STATUS_SECONDS, self._is_over)
            if not last.brought and self._is_over():
                return
        if last.end is PassEnd.EOF and last.brought:
            return
        if last.end is PassEnd.DENIED:
            await self._wait_status(_DENIED_WAIT_SECONDS, self._is_over)
        await self._view.wait_change(backoff_seconds(quiet, random.random(), first=0.05, cap=2.0))

    async def _wait_status(self, seconds: float, is_known: Callable[[], bool]) -> None:
        """Waits until something is known of the pod, at most so long."""
        deadline = self._view.monotonic() + seconds
        while not is_known() and (left := deadline - self._view.monotonic()) > 0:
            await self._view.wait_change(left)

    def _request(self) -> LogRequest:
        is_previous = self._wanted.previous or self._view.has_restarted(self._run)
        follow = not is_previous and not self._view.is_finished(self._run)
        return LogRequest(self._run, follow=follow, previous=is_previous, since=self._writer.checkpoint.since)

    async def _read(self) -> _Pass:
        if self._view.is_pod_gone(self._run):
            # another pod may have its name by now
            return _Pass(PassEnd.GONE, detail="the pod was deleted")
        request = self._request()
        parser, seam = TimedParser(), Seam(self._writer.checkpoint)
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
        block = self._own(block) if block is not None else None
        if block is None:
            return 0
        fresh = seam.drop(block)
        await self._note_break(seam)
        if fresh is None:
            return 0
        if self._writer.checkpoint.is_empty and fresh.times:
            await self._check_beginning(to_time(fresh.times[0]))
        await self._writer.write_lines(fresh)
        return len(fresh.text)

    def _own(self, block: Block) -> Block | None:
        """The block without what the container's next instance printed; as far as this one's end is known."""
        ended = self._view.ended_at(self._run) if self._view.has_restarted(self._run) else None
        if ended is None or not block.times:
            return block
        limit = to_ns(ended + _END_PRECISION)
        kept = next((number for number, time in enumerate(block.times) if time >= limit), len(block.times))
        if kept == len(block.times):
            return block
        lines = block.text.split(b"\n", kept)[:kept]
        return Block(b"".join(line + b"\n" for line in lines), block.times[:kept]) if kept else None

    async def _note_break(self, seam: Seam) -> None:
        if not seam.is_broken or self._broken is seam:
            return
        self._broken = seam
        since = to_time(self._writer.checkpoint.time)
        detail = "the log went on in a newer file before it could be read again; older text may be missing"
        await self._gap(GapReason.ROTATED, detail, since, seam.broken_at)

    async def _source_gone(self, last: _Pass) -> None:
        """The pod, or its log, is not there any more: whether that left a hole depends on what was known of it."""
        if self._leftover:
            await self._leftover()
        # the log may be gone a moment before the watch says that the container ended
        await self._wait_status(_GONE_STATUS_SECONDS if self._was_clean else 0.0, self._is_over)
        if self._was_clean and self._is_over() and not self._view.is_node_lost(self._run):
            return
        checkpoint = self._writer.checkpoint
        since = to_time(checkpoint.time)
        what = "the pod was gone" if last.end is PassEnd.GONE else "the kubelet had the log no more"
        if self._attached:
            detail = f"the stream was cut and {what} before it could be read again: {last.detail}"
            await self._gap(GapReason.STREAM_CUT, detail, since, self._now())
        elif checkpoint.is_empty:
            await self._gap(GapReason.SOURCE_GONE, f"{what} before its log could be opened: {last.detail}", None, None)
        else:
            detail = f"{what} when the archiver came back; what it printed meanwhile is missing"
            await self._gap(GapReason.ARCHIVER_DOWN, detail, since, self._now())

    async def _denied(self, detail: str) -> None:
        since = to_time(self._writer.checkpoint.time)
        await self._gap(GapReason.DENIED, f"the archiver may not read it: {detail}", since, self._now())

    async def _unreadable(self, detail: str) -> None:
        if self._leftover:
            await self._leftover()
        since = to_time(self._writer.checkpoint.time)
        await self._gap(GapReason.UNREADABLE, f"its log could not be read to its end: {detail}", since, self._now())

    async def _check_beginning(self, first_line: datetime | None) -> None:
        """An archiver that came late may have found only the newest of several files."""
        started = self._view.started_at(self._run)
        if started is None or self._attached is None or first_line is None:
            return
        if self._attached - started > _LATE and first_line - started > _LATE:
            late = round((self._attached - started).total_seconds())
            detail = f"first read {late} s after the container started; the kubelet may have rotated older text away"
            await self._writer.gap(Gap(GapReason.ARCHIVER_DOWN, detail, 0, started, first_line))

    async def _gap(self, reason: GapReason, detail: str, since: datetime | None, until: datetime | None) -> None:
        run = self._run
        _log.warning("log gap", namespace=run.namespace, pod=run.pod, container=run.container, reason=str(reason))
        await self._writer.gap(Gap(reason, detail, self._writer.lines, since, until))


def _end_of(error: KubeError) -> PassEnd:
    if isinstance(error, KubeGone):
        return PassEnd.GONE
    if isinstance(error, KubeNotReady):
        return PassEnd.NOT_READY
    if isinstance(error, KubeDenied):
        return PassEnd.DENIED
    return PassEnd.CUT if error.retryable else PassEnd.REFUSED
