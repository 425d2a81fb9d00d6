"""Running streams for tests: a store, a spool, the task that moves them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from archiver.collect.streams import Streams, StreamWriter
from archiver.core import keys
from archiver.core.lines import Block, TimedParser, to_ns
from archiver.core.resume import Seam
from archiver.ports import ObjectStore
from archiver.store.codec import ZstdCodec
from archiver.store.reader import LogReader

PREFIX = "v1/c/n/2026-03-01/job/uid-1/attempt-001/"
NAME = "logs/driver.log"
KEY = keys.artifact_key(PREFIX, NAME)
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
T0 = to_ns(NOW)
_DEADLINE_SECONDS = 60.0


@asynccontextmanager
async def running(store: ObjectStore, spool: Path, *, limit_bytes: int = 1 << 30) -> AsyncIterator[Streams]:
    """Started streams; stopped the hard way, as by a kill: what is in memory is gone."""
    streams = Streams(store, spool, spool_limit_bytes=limit_bytes)
    await streams.start()
    task = asyncio.create_task(streams.run(), name="streams under test")
    try:
        yield streams
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(claim: Callable[[], bool]) -> None:
    """Waits until it is true."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not claim():  # noqa: ASYNC110 - what it waits for is files and servers
            await asyncio.sleep(0.01)


def log(first: int, count: int) -> list[tuple[int, bytes]]:
    """Lines by number; three of them share each time."""
    return [(T0 + number // 3 * 1_000_003, b"line %d" % number) for number in range(first, first + count)]


def text_of(lines: list[tuple[int, bytes]]) -> bytes:
    return b"".join(line + b"\n" for _, line in lines)


def block_of(lines: list[tuple[int, bytes]]) -> Block:
    return Block(text_of(lines), [time for time, _ in lines])


async def follow(writer: StreamWriter, served: bytes, *, chunk_bytes: int = 10_000) -> Seam:
    """What a collector does with a log that it reads from its checkpoint."""
    parser, seam = TimedParser(), Seam(writer.checkpoint)
    for start in range(0, len(served), chunk_bytes):
        block = parser.feed(served[start : start + chunk_bytes])
        await writer.write_lines(seam.drop(block) if block else None)
    last = parser.flush()
    await writer.write_lines(seam.drop(last) if last else None)
    seam.finish()
    return seam


async def archived(store: ObjectStore, key: str = KEY) -> bytes:
    """The text as the store has it, sealed or not."""
    return b"".join([piece async for piece in LogReader(store, ZstdCodec()).iter_raw(key)])
