"""All logs that are being written, and small documents: opened, resumed, kept moving, closed. The text goes through
stream_writer; what is sealed through stream_seal."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import structlog

from archiver.collect.stream_road import Road
from archiver.collect.stream_seal import Sealed, Sealer
from archiver.collect.stream_writer import StreamPiece, StreamWriter
from archiver.core import keys
from archiver.core.model import LogSource
from archiver.core.segments import StreamState, decode_footer
from archiver.errors import DataError, SpoolFull, StoreError
from archiver.ports import ObjectStore
from archiver.store.codec import ZstdCodec
from archiver.store.parts import readable_text, stored_state, unsealed_names
from archiver.store.reader import LogReader
from archiver.store.spool import Document, Spool, StreamId
from archiver.store.uploader import Uploader
from archiver.store.wal import WalRecord, decode_records

__all__ = ["Sealed", "StreamPiece", "StreamWriter", "Streams"]

_TICK_SECONDS = 0.1
_STORE_SECONDS = 10.0
_UNHEALTHY_SECONDS = 60.0
_HELD_UP_SECONDS = 3.0
_CLOSE_SECONDS = 15.0
_READ_BACK_BYTES = 256 * 1024 * 1024

_log = structlog.get_logger()


class Streams:
    """The write side's door to the object store. ``start``, then ``run`` in a task, then ``close``."""

    def __init__(
        self,
        store: ObjectStore,
        spool_root: Path,
        *,
        spool_limit_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._codec = ZstdCodec()
        self._spool = Spool(spool_root, limit_bytes=spool_limit_bytes)
        self._uploader = Uploader(store, self._spool, clock=clock)
        self._sealer = Sealer(store, self._codec)
        self._road = Road(self._spool, self._uploader, self._sealer, self._codec, clock, uuid4().hex)
        self._reader = LogReader(store, self._codec)
        self._writers: dict[StreamId, StreamWriter] = {}
        self._opening: dict[StreamId, asyncio.Lock] = {}

    async def start(self) -> None:
        """Makes the spool's folder and queues what an earlier process left. Raises UserError."""
        await asyncio.to_thread(self._spool.open)
        await self._uploader.recover()

    async def run(self) -> None:
        """Uploads, flushes and syncs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._uploader.run(), name="uploader")
            while True:
                now = self._road.clock()
                for writer in list(self._writers.values()):
                    if writer.is_due(now):
                        group.create_task(writer.tick(now), name=f"flush {writer.stream.name}")
                await asyncio.sleep(_TICK_SECONDS)

    async def close(self, *, deadline_seconds: float = _CLOSE_SECONDS) -> None:
        """Puts everything that was taken in into the store, or, where the time does not suffice, on the disk.

        Call it after ``run`` was cancelled. A pod's spool may go with the pod: the store is what counts.
        """
        uploads = asyncio.create_task(self._uploader.run(), name="last uploads")
        try:
            async with asyncio.timeout(deadline_seconds):
                await asyncio.gather(*(writer.flush_if_ours() for writer in self._writers.values()))
                await self._uploader.settle("")
        except TimeoutError:
            _log.warning("stopped before the store had everything", queued=self._uploader.queued)
        finally:
            uploads.cancel()
            await asyncio.gather(uploads, return_exceptions=True)
            self._writers.clear()

    async def open(
        self, attempt_prefix: str, name: str, *, source: LogSource | None = None, now: datetime
    ) -> StreamWriter:
        """A writer that goes on where the spool and the store end. One that is open already is given again.

        Pacing goes by a clock that does not jump, not by ``now``.
        With the store out of reach, the spool's word counts; should another process have written meanwhile, that shows
        when the first part is put.
        """
        stream = StreamId(attempt_prefix, name)
        async with self._opening.setdefault(stream, asyncio.Lock()):
            writer = self._writers.get(stream)
            if writer is None or writer.is_lost:
                writer = self._writers[stream] = await self._resume(stream)
        return writer

    async def put_document(self, attempt_prefix: str, name: str, body: bytes) -> Sealed:
        """Queues a small document under an artifact's key, compressed. ``settle`` waits until it is in the store."""
        key = keys.artifact_key(attempt_prefix, name)
        stored = self._codec.compress(body)
        document = await self._spool_document(key, stored)
        self._uploader.add_document(document)
        lines = body.count(b"\n") + (1 if body and not body.endswith(b"\n") else 0)
        return Sealed(key, len(body), len(stored), lines, sha256(body).hexdigest())

    async def settle(self, attempt_prefix: str) -> None:
        """Waits until nothing of an attempt waits for the store."""
        await self._uploader.settle(attempt_prefix)

    async def unsealed(self, attempt_prefix: str) -> list[str]:
        """Names of an attempt's streams that have parts in the spool or in the store. Raises StoreError."""
        spooled = await asyncio.to_thread(self._spool.streams)
        names = {stream.name: None for stream in spooled if stream.prefix == attempt_prefix}
        names.update(dict.fromkeys(await unsealed_names(self._store, attempt_prefix)))
        return list(names)

    async def read_back(self, attempt_prefix: str, name: str) -> list[bytes]:
        """The lines that the store has of a stream, without their newlines: for streams that are small by nature."""
        stream = StreamId(attempt_prefix, name)
        await self._uploader.lane(stream).settled.wait()
        key = keys.artifact_key(attempt_prefix, name)
        try:
            text = await self._reader.read_bytes(key, 0, _READ_BACK_BYTES)
        except DataError as error:
            # waiting would not mend it, and an attempt must not stand still for it
            _log.error("stored stream damaged, going on with the rest", key=key, error=str(error))
            text = await readable_text(self._store, stream, self._codec, limit_bytes=_READ_BACK_BYTES)
        return (text or b"").splitlines()

    async def forget(self, writer: StreamWriter) -> None:
        """The stream is done with: sealed and its parts discarded."""
        self._writers.pop(writer.stream, None)
        self._opening.pop(writer.stream, None)
        self._uploader.forget(writer.stream)

    @property
    def usage_bytes(self) -> int:
        """Bytes in the spool."""
        return self._spool.usage_bytes

    @property
    def limit_bytes(self) -> int:
        """Where writers begin to wait."""
        return self._spool.limit_bytes

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest queued object waits for the store."""
        return self._uploader.oldest_seconds

    @property
    def open_count(self) -> int:
        """Streams that are open."""
        return len(self._writers)

    @property
    def last_error(self) -> str | None:
        """Why the store did not take something, until it does again."""
        return self._uploader.last_error

    @property
    def is_full(self) -> bool:
        """Writers wait for room."""
        return self._spool.is_full

    @property
    def is_held_up(self) -> bool:
        """For some seconds already, something that waits could not be put: more than one error that passes."""
        is_waiting = self.last_error is not None and self.oldest_seconds > _HELD_UP_SECONDS
        return self._spool.is_full or is_waiting

    @property
    def healthy(self) -> bool:
        """The destination takes what it is given."""
        return not self._spool.is_full and (self.last_error is None or self.oldest_seconds < _UNHEALTHY_SECONDS)

    async def _spool_document(self, key: str, stored: bytes) -> Document:
        while True:
            try:
                return await asyncio.to_thread(self._spool.write_document, key, stored)
            except SpoolFull:
                await self._uploader.wait_for_room(1.0)
                await asyncio.to_thread(self._spool.probe)

    async def _resume(self, stream: StreamId) -> StreamWriter:
        await self._settle_leftovers(stream)
        state, is_certain = await self._known_state(stream)
        tail = await self._tail(stream, state, is_certain=is_certain)
        state = tail[-1].state if tail else state
        writer = StreamWriter(stream, state, road=self._road, opened_at=self._road.clock())
        await writer.replay(tail)
        return writer

    async def _settle_leftovers(self, stream: StreamId) -> None:
        """Parts of an earlier process go first: then the store knows whether another one went on meanwhile."""
        for sequence in await asyncio.to_thread(self._spool.queued, stream):
            self._uploader.add_part(stream, sequence)
        lane = self._uploader.lane(stream)
        await self._uploader.wait_outcome(stream, _STORE_SECONDS)
        if lane.is_lost:
            self._uploader.forget(stream)

    async def _known_state(self, stream: StreamId) -> tuple[StreamState, bool]:
        """The stream's state, and whether the store has confirmed it."""
        queued = await asyncio.to_thread(self._spool.queued, stream)
        local = await self._spooled_state(stream, queued)
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                stored = await stored_state(self._store, stream, self._codec)
        except (StoreError, TimeoutError):
            return local, False
        if stored is None or stored.next_sequence < local.next_sequence:
            return local, True
        return stored, True

    async def _spooled_state(self, stream: StreamId, queued: list[int]) -> StreamState:
        """Of the newest part in the spool that can be read; the numbers of those that cannot are taken all the same."""
        for sequence in reversed(queued):
            body = await asyncio.to_thread(self._spool.read_part, stream, sequence)
            with suppress(DataError):
                state = decode_footer(body or b"", self._codec)[0].state
                return replace(state, next_sequence=queued[-1] + 1)
        return StreamState(next_sequence=queued[-1] + 1 if queued else 0)

    async def _tail(self, stream: StreamId, state: StreamState, *, is_certain: bool) -> list[WalRecord]:
        """The write-ahead file that goes on from the state; one that belongs to another past is dropped."""
        for sequence in await asyncio.to_thread(self._spool.tails, stream):
            fits = sequence == state.next_sequence or (not is_certain and sequence > state.next_sequence)
            if not fits:
                await asyncio.to_thread(self._spool.drop_wal, stream, sequence)
                continue
            body = await asyncio.to_thread(self._spool.read_wal, stream, sequence)
            return list(decode_records(body))
        return []
