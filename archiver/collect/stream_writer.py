"""Writes one log: masking, frames, write-ahead file, parts. Knows nothing of where the text comes from."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from hashlib import sha256

from archiver.collect.stream_progress import Progress
from archiver.collect.stream_road import Road, finish
from archiver.collect.stream_seal import Sealed, Written
from archiver.core.backoff import backoff_seconds, flush_interval_seconds
from archiver.core.lines import Block, arrived, in_pieces, to_ns
from archiver.core.model import Gap
from archiver.core.redact import Masked, Redactor
from archiver.core.resume import Checkpoint, Tracker
from archiver.core.segments import PartBuilder, Span, StreamState, add_span, missing_spans
from archiver.errors import SpoolFull, StoreConflict, StoreError
from archiver.store.parts import Part
from archiver.store.spool import StreamId
from archiver.store.wal import WalRecord, encode_record

PART_BYTES = 8 * 1024 * 1024
_TAKE_BYTES = 256 * 1024
_UNSYNCED_BYTES = 1024 * 1024
_SYNC_SECONDS = 0.5
_ROOM_SECONDS = 1.0


class StreamWriter:
    """One open log. Every method may wait: for room in the spool, never for the store (but ``seal``).

    All of them raise StoreConflict once another process is found to write the same stream: open it again then, and go
    on from the new checkpoint.
    """

    def __init__(self, stream: StreamId, state: StreamState, *, road: Road, opened_at: float) -> None:
        self.stream = stream
        self._road = road
        self._opened_at = opened_at
        self._progress = Progress(state)
        self._builder = PartBuilder(road.codec)
        self._redactor = Redactor(in_key=state.in_key)
        self._lane = road.uploader.lane(stream)
        self._lock = asyncio.Lock()
        self._unsynced: list[Block] = []
        self._unsynced_bytes = 0
        self._unsynced_from = self._progress.position
        self._unsynced_since: float | None = None
        self._pending_since: float | None = None
        self._unqueued: list[tuple[int, bytes]] = []  # finished parts that are not in the spool yet
        # both are known while this process has written every part
        self._parts: list[Part] | None = [] if state.next_sequence == 0 else None
        self._hash = sha256()

    @property
    def checkpoint(self) -> Checkpoint:
        """How far the source was taken in; ``offset`` is where reading forwards goes on.

        It counts what masking holds back, for this writer has it. What is stored counts only what is stored.
        """
        checkpoint = self._progress.tracker.checkpoint(self._read_position)
        held = self._redactor.held
        if held is None:
            return checkpoint
        tracker = Tracker(checkpoint)
        tracker.track(held)
        return tracker.checkpoint(self._read_position)

    @property
    def is_lost(self) -> bool:
        """Another process writes the stream."""
        return self._lane.is_lost

    @property
    def lines(self) -> int:
        """Lines of the archived text so far."""
        return self._progress.lines

    @property
    def spans(self) -> tuple[Span, ...]:
        """Source bytes that are stored, for byte-addressed sources."""
        return self._progress.spans

    async def write_lines(self, block: Block | None) -> None:
        """Text of a log with times. None is nothing."""
        if block is None or not block.text:
            return
        await self._wait_for_room()
        async with self._lock:
            await self._take(block)

    async def write_bytes(self, data: bytes, at: datetime, source_offset: int) -> None:
        """Bytes of a byte-addressed source that were read at a moment. What is stored already is dropped; what lies
        between the position and ``source_offset`` stays missing."""
        await self._wait_for_room()
        async with self._lock:
            await self._take_range(data, to_ns(at), source_offset)

    async def gap(self, gap: Gap) -> None:
        """Something is missing here. ``at_line`` is set by the writer. A line that is open ends here."""
        async with self._lock:
            self._check()
            self._take_masked(self._redactor.flush())
            if not self._progress.ends_line:
                self._close_line()
            self._progress.add_gap(gap)
            self._mark()

    async def open_piece(self, source_start: int) -> "StreamPiece":
        """For writing out of order: a piece that begins at a line's first byte, by the caller's care."""
        return StreamPiece(self, source_start)

    async def skip_to(self, source_offset: int) -> None:
        """Reading forwards goes on there. What was left out and is not stored stays missing."""
        async with self._lock:
            self._check()
            self._move(source_offset)
            await self._drain()

    async def flush(self) -> None:
        """Everything taken in is a part in the spool after this."""
        async with self._lock:
            await self._flush()

    async def flush_if_ours(self) -> None:
        """As ``flush``, and nothing where another process writes the stream."""
        with suppress(StoreConflict):
            await self.flush()

    async def seal(self) -> Sealed:
        """Composes the parts to one object and verifies it. May be called again. Waits for the store as long as it takes
        to put the parts; raises StoreUnavailable where it then fails."""
        async with self._lock:
            self._check()
            self._take_masked(self._redactor.flush())
            await self._flush()
        await self._lane.settled.wait()
        async with self._lock:
            self._check()
            state = self._progress.state(in_key=self._redactor.in_key)
            written = Written(self._parts, self._hash.hexdigest()) if self._parts is not None else None
            return await self._road.sealer.seal(self.stream, state, written)

    async def discard_parts(self) -> None:
        """Removes what the sealed object replaces. Only after the manifest that names it is committed."""
        async with self._lock:
            await self._road.sealer.discard(self.stream)
            await asyncio.to_thread(self._road.spool.drop_stream, self.stream)
            self._parts = None

    async def sync(self) -> bool:
        """Appends what was taken in to the write-ahead file. False where the spool has no room."""
        async with self._lock:
            return await self._sync()

    def is_due(self, now: float) -> bool:
        """Whether ``tick`` has something to do."""
        return not self._lock.locked() and (self._flush_due(now) or self._sync_due(now))

    async def tick(self, now: float) -> None:
        """Flushes or syncs when it is time."""
        async with self._lock:
            if self._lane.is_lost:
                return
            if self._flush_due(now):
                await self._flush()
            elif self._sync_due(now):
                await self._sync()

    async def replay(self, recovered: Iterable[WalRecord]) -> None:
        """Takes the tail in that an earlier process left, and makes a part of it."""
        async with self._lock:
            await self._replay(list(recovered))

    async def write_piece(self, data: bytes, at: datetime, source_start: int) -> int:
        """Bytes out of order, as parts of their own; tells where the next byte belongs."""
        await self._wait_for_room()
        async with self._lock:
            forwards = self._read_position
            try:
                await self._take_range(data, to_ns(at), source_start)
            finally:
                self._move(forwards)
            await self._drain()
            return source_start + len(data)

    def _check(self) -> None:
        if self._lane.is_lost:
            raise StoreConflict(f"another process writes {self.stream.name}: open it again")

    async def _take(self, block: Block) -> None:
        self._check()
        await self._drain()
        # from here to the end of the loop nothing waits: a write that is cancelled is whole, or not there
        for piece in in_pieces(block, _TAKE_BYTES):
            self._take_masked(self._redactor.feed(piece))
        if self._builder.raw_bytes >= PART_BYTES:
            await self._flush()
        elif self._unsynced_bytes >= _UNSYNCED_BYTES:
            await self._sync()

    async def _take_range(self, data: bytes, at_ns: int, start: int) -> None:
        self._check()
        known = self._known()
        for span in missing_spans(known, start + len(data)):
            begin = max(span.start, start)
            if begin >= span.end:
                continue
            if begin != self._read_position:
                self._move(begin)
            await self._take(arrived(data[begin - start : span.end - start], at_ns))
        if start <= self._read_position < start + len(data):
            self._move(start + len(data))
        await self._drain()

    def _known(self) -> tuple[Span, ...]:
        held = Span(self._progress.position, self._read_position)
        return add_span(self._progress.spans, held)

    @property
    def _read_position(self) -> int:
        """The next source byte, with those counted that masking holds back."""
        held = self._redactor.held
        return self._progress.position + (len(held.text) if held else 0)

    def _take_masked(self, masked: Masked | None) -> None:
        if masked is None:
            return
        counts, self._redactor.counts = self._redactor.counts, Counter()
        self._progress.take(masked.raw, masked.text, counts)
        self._add(Block(masked.text, masked.raw.times))

    def _close_line(self) -> None:
        time = self._progress.tracker.checkpoint(0).open_time
        self._progress.close_line(time)
        self._add(Block(b"\n", [time]))

    def _add(self, block: Block) -> None:
        self._builder.add(block)
        self._hash.update(block.text)
        self._unsynced.append(block)
        self._unsynced_bytes += len(block.text)
        self._mark()

    def _mark(self) -> None:
        now = self._road.clock()
        self._unsynced_since = now if self._unsynced_since is None else self._unsynced_since
        self._pending_since = now if self._pending_since is None else self._pending_since

    def _flush_due(self, now: float) -> bool:
        if self._pending_since is None:
            return False
        # a full spool is emptied by putting parts: what lies in write-ahead files has to become some
        interval = 0 if self._road.spool.is_full else flush_interval_seconds(now - self._opened_at)
        return now - self._pending_since >= interval

    def _sync_due(self, now: float) -> bool:
        return self._unsynced_since is not None and now - self._unsynced_since >= _SYNC_SECONDS

    def _move(self, position: int) -> None:
        if position == self._read_position:
            return
        self._take_masked(self._redactor.flush())
        self._cut_part()
        self._redactor = Redactor(begins_inside=position > 0)
        self._progress.move(position)
        self._unsynced_from = position

    async def _wait_for_room(self) -> None:
        while self._road.spool.is_full:
            self._check()
            await self._road.uploader.wait_for_room(_ROOM_SECONDS)
            await asyncio.to_thread(self._road.spool.probe)

    async def _sync(self) -> bool:
        await self._drain()
        if self._unsynced_since is None:
            return True
        record, sequence = encode_record(self._record()), self._progress.sequence
        try:
            await finish(lambda: self._road.spool.append_wal(self.stream, sequence, record), self._synced)
        except SpoolFull:
            return False
        return True

    def _record(self) -> WalRecord:
        state = self._progress.state(in_key=self._redactor.in_key)
        return WalRecord.of(self._unsynced, Span(self._unsynced_from, self._progress.position), state)

    def _synced(self) -> None:
        self._unsynced.clear()
        self._unsynced_bytes = 0
        self._unsynced_since = None
        self._unsynced_from = self._progress.position

    async def _flush(self) -> None:
        self._check()
        self._cut_part()
        await self._drain()

    def _cut_part(self) -> None:
        """Finishes the part in memory. Nothing waits here, so that no part is torn or forgotten."""
        if not self._progress.has_news:
            return
        progress, sequence = self._progress, self._progress.sequence
        source = Span(progress.anchor, progress.position)
        progress.next_part()
        state = progress.state(in_key=self._redactor.in_key)
        body, footer, table = self._builder.finish(
            sequence=sequence, writer=self._road.writer_id, source=source, state=state
        )
        self._synced()
        self._pending_since = None
        if self._parts is not None:
            self._parts.append(Part.of(self.stream, len(body), footer, table))
        self._unqueued.append((sequence, body))

    async def _drain(self) -> None:
        """Finished parts go into the spool in order. One whose way there was cancelled goes again."""
        while self._unqueued:
            await self._queue(*self._unqueued[0])

    def _queued(self) -> None:
        sequence, _ = self._unqueued.pop(0)
        self._road.uploader.add_part(self.stream, sequence)

    async def _queue(self, sequence: int, body: bytes) -> None:
        """Into the spool; where the disk has no room, straight into the store, and until then nothing goes on."""
        failures = 0
        while True:
            try:
                await finish(lambda: self._road.spool.write_part(self.stream, sequence, body), self._queued)
            except SpoolFull:
                failures += 1
            else:
                return
            if not self._lane.waiting and await self._put(sequence, body):
                self._unqueued.pop(0)
                return
            await self._road.uploader.wait_for_room(backoff_seconds(failures, random.random(), cap=_ROOM_SECONDS))

    async def _put(self, sequence: int, body: bytes) -> bool:
        try:
            await self._road.uploader.put_part(self.stream, sequence, body)
        except StoreConflict:
            self._lane.is_lost = True
            raise
        except StoreError:
            return False
        await asyncio.to_thread(self._road.spool.drop_wal, self.stream, sequence)
        return True

    async def _replay(self, recovered: list[WalRecord]) -> None:
        for record in recovered:
            self._builder.add(record.block)
            self._hash.update(record.text)
        if recovered:
            self._progress = Progress.resumed(recovered[0].source.start, recovered[-1].state)
            self._redactor = Redactor(in_key=recovered[-1].state.in_key)
            await self._flush()


class StreamPiece:
    """A piece of a byte-addressed source that is written out of order, forwards from its start."""

    def __init__(self, writer: StreamWriter, source_start: int) -> None:
        self._writer = writer
        self.position = source_start

    async def write_bytes(self, data: bytes, at: datetime, source_offset: int) -> None:
        """As StreamWriter.write_bytes; a part of its own."""
        self.position = await self._writer.write_piece(data, at, source_offset)

    async def flush(self) -> None:
        """Every write has been one already."""
        await self._writer.flush()
