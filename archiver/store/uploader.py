"""Empties the spool into the object store: parts in order per stream, with backoff, for ever. Reads no source.

A part is put only where there is none of its number. If another one is there, another process writes this stream: the
stream is *lost* here, its spool is dropped, and its writer is told.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from archiver.core.backoff import backoff_seconds
from archiver.core.keys import part_key
from archiver.errors import StoreConflict, StoreError
from archiver.ports import ObjectStore
from archiver.store.spool import Document, Spool, StreamId

WORKERS = 16
_RETRY_CAP_SECONDS = 15.0


@dataclass(eq=False, slots=True)
class Lane:
    """What waits of one stream, or of one document. ``since`` is when the oldest began to wait."""

    stream: StreamId | None = None
    document: Document | None = None
    waiting: deque[int] = field(default_factory=deque)
    since: deque[float] = field(default_factory=deque)
    failures: int = 0
    is_lost: bool = False
    is_scheduled: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    failed: asyncio.Event = field(default_factory=asyncio.Event)


class Uploader:
    """``run`` works until it is cancelled; everything else may be called before that."""

    def __init__(self, store: ObjectStore, spool: Spool, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._spool = spool
        self._clock = clock
        self._lanes: dict[StreamId | str, Lane] = {}
        self._ready: asyncio.Queue[Lane] = asyncio.Queue()  # every lane is in it once at most
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._freed = asyncio.Event()
        self.last_error: str | None = None

    async def recover(self) -> None:
        """Queues what an earlier process left."""
        for stream in await asyncio.to_thread(self._spool.streams):
            for sequence in await asyncio.to_thread(self._spool.queued, stream):
                self.add_part(stream, sequence)
        for document in await asyncio.to_thread(self._spool.documents):
            self.add_document(document)

    async def run(self) -> None:
        """Never returns by itself."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"upload-{number}")

    def lane(self, stream: StreamId) -> Lane:
        """A stream's lane; made where there is none."""
        lane = self._lanes.get(stream)
        if lane is None:
            lane = self._lanes[stream] = Lane(stream=stream)
            lane.settled.set()
        return lane

    def forget(self, stream: StreamId) -> None:
        """The stream is closed or begins anew; nothing waits any more."""
        self._lanes.pop(stream, None)

    def add_part(self, stream: StreamId, sequence: int) -> None:
        """A part is in the spool. One that is queued already is no second one."""
        lane = self.lane(stream)
        if sequence not in lane.waiting:
            self._queue(lane, sequence)

    def add_document(self, document: Document) -> None:
        """A document is in the spool."""
        lane = self._lanes.get(document.key) or Lane(document=document)
        self._lanes[document.key] = lane
        self._queue(lane, 0)

    async def settle(self, prefix: str) -> None:
        """Waits until nothing waits below a prefix of the bucket."""
        while lanes := [lane for lane in self._lanes.values() if lane.waiting and _key_prefix(lane).startswith(prefix)]:
            await lanes[0].settled.wait()

    async def wait_outcome(self, stream: StreamId, seconds: float) -> None:
        """Until a stream's parts are in the store, or one could not be put, or the time is over."""
        lane = self.lane(stream)
        waits = [asyncio.create_task(event.wait(), name="outcome") for event in (lane.settled, lane.failed)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def wait_for_room(self, seconds: float) -> None:
        """Until something was removed from the spool, or the time is over."""
        self._freed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._freed.wait()
        except TimeoutError:
            return

    @property
    def queued(self) -> int:
        """Objects that wait."""
        return sum(len(lane.waiting) for lane in self._lanes.values())

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest object waits."""
        oldest = min((lane.since[0] for lane in self._lanes.values() if lane.since), default=None)
        return 0.0 if oldest is None else max(0.0, self._clock() - oldest)

    async def put_part(self, stream: StreamId, sequence: int, body: bytes) -> None:
        """One try. Raises StoreConflict where another process's part is there; our own is no conflict."""
        key = part_key(stream.prefix, stream.name, sequence)
        try:
            await self._store.put(key, body, if_absent=True)
        except StoreConflict:
            # an earlier try may have arrived although its answer did not
            if await self._store.get(key) != body:
                raise

    def _queue(self, lane: Lane, sequence: int) -> None:
        lane.waiting.append(sequence)
        lane.since.append(self._clock())
        lane.settled.clear()
        self._schedule(lane)

    def _schedule(self, lane: Lane) -> None:
        if not lane.is_scheduled:
            lane.is_scheduled = True
            self._ready.put_nowait(lane)

    async def _work(self) -> None:
        while True:
            lane = await self._ready.get()
            try:
                await self._put_first(lane)
            except StoreConflict as conflict:
                await self._lose(lane, conflict)
            except (StoreError, OSError, TimeoutError) as error:
                await self._retry(lane, error)
            except asyncio.CancelledError:
                # whoever runs next begins with it: putting a part twice does no harm
                self._ready.put_nowait(lane)
                raise
            else:
                self._succeed(lane)

    async def _put_first(self, lane: Lane) -> None:
        if lane.document is not None:
            body = await asyncio.to_thread(self._spool.read_document, lane.document)
            if body is not None:
                await self._store.put(lane.document.key, body)
                await asyncio.to_thread(self._spool.drop_document, lane.document, body)
        elif lane.stream is not None and lane.waiting:
            part = await asyncio.to_thread(self._spool.read_part, lane.stream, lane.waiting[0])
            if part is not None:
                await self.put_part(lane.stream, lane.waiting[0], part)
                await asyncio.to_thread(self._spool.drop_part, lane.stream, lane.waiting[0])

    def _succeed(self, lane: Lane) -> None:
        lane.failures, lane.is_scheduled = 0, False
        lane.failed.clear()
        if lane.waiting:
            lane.waiting.popleft()
            lane.since.popleft()
        self._freed.set()
        if self.last_error is not None:
            self.last_error = None
            self._hurry()
        if lane.waiting:
            self._schedule(lane)
        else:
            self._settle(lane)

    def _settle(self, lane: Lane) -> None:
        lane.settled.set()
        if lane.document is not None:
            self._lanes.pop(lane.document.key, None)

    async def _lose(self, lane: Lane, conflict: StoreConflict) -> None:
        if lane.stream is None:
            await self._retry(lane, conflict)
            return
        lane.is_lost, lane.is_scheduled = True, False
        lane.waiting.clear()
        lane.since.clear()
        await asyncio.to_thread(self._spool.drop_stream, lane.stream)
        lane.settled.set()
        self._freed.set()

    async def _retry(self, lane: Lane, error: Exception) -> None:
        lane.failures += 1
        lane.failed.set()
        self.last_error = str(error)
        if lane.failures == 1 and lane.stream is not None and lane.waiting:
            await asyncio.to_thread(self._spool.sync_part, lane.stream, lane.waiting[0])
        delay = backoff_seconds(lane.failures, random.random(), cap=_RETRY_CAP_SECONDS)
        self._timers[id(lane)] = asyncio.get_running_loop().call_later(delay, self._try_again, lane)

    def _try_again(self, lane: Lane) -> None:
        if self._timers.pop(id(lane), None) is not None:
            self._ready.put_nowait(lane)

    def _hurry(self) -> None:
        """The store answers again: nobody needs to wait any longer."""
        for lane in list(self._lanes.values()):
            timer = self._timers.pop(id(lane), None)
            if timer is not None:
                timer.cancel()
                self._ready.put_nowait(lane)


def _key_prefix(lane: Lane) -> str:
    return lane.document.key if lane.document else lane.stream.prefix if lane.stream else ""
