"""The write road on one core: lines, masking, frames, checksums, write-ahead file, store; and memory with many streams."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.collect.streams import Streams, StreamWriter
from archiver.core.lines import Block, TimedParser
from archiver.core.redact import Redactor
from archiver.core.resume import Seam
from archiver.core.segments import PartBuilder, Span, StreamState
from archiver.store.codec import ZstdCodec
from archiver.store.filesystem import FilesystemStore
from tests.bench import Row, Rows, benchmark
from tests.bench.logtext import lines, stamped

_CHUNK_BYTES = 64 * 1024
_STREAMS = 1000
PREFIX = "v1/c/n/2026-03-01/job/uid/attempt-001/"


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _chunks(log: bytes) -> list[bytes]:
    return [log[start : start + _CHUNK_BYTES] for start in range(0, len(log), _CHUNK_BYTES)]


def _parse(chunks: list[bytes]) -> list[Block]:
    parser = TimedParser()
    found = [parser.feed(chunk) for chunk in chunks]
    return [block for block in [*found, parser.flush()] if block]


def _mask(blocks: list[Block]) -> None:
    redactor = Redactor()
    for block in blocks:
        redactor.feed(block)


def _frame(blocks: list[Block]) -> None:
    builder = PartBuilder(ZstdCodec())
    for block in blocks:
        builder.add(block)
    builder.finish(sequence=0, writer="", source=Span(0, 0), state=StreamState())


@benchmark("write road, one core, CPU time")
async def write_road() -> Rows:
    """Everything in one process, on the bytes that the log endpoint sends (times included in what is counted)."""
    log = stamped(lines(20_000), 25)
    chunks, size = _chunks(log), len(log) / 1e6
    blocks = _parse(chunks)
    text = b"".join(block.text for block in blocks)
    codec = ZstdCodec()
    seconds = {
        "lines": _cpu(lambda: _parse(chunks)),
        "masking": _cpu(lambda: _mask(blocks)),
        "frames, times and checksums": _cpu(lambda: _frame(blocks)),
        "plain zstd -3 (text in 256 KiB frames)": _cpu(
            lambda: [codec.compress(text[at : at + (1 << 18)]) for at in range(0, len(text), 1 << 18)]
        ),
        "plain gzip -6 (a quarter of it, times four)": 4 * _cpu(lambda: gzip.compress(text[: len(text) // 4], 6)),
    }
    road, stored = await _whole_road(chunks)
    rows = [Row(name, size / spent, "MB/s") for name, spent in seconds.items()]
    zstd = seconds["plain zstd -3 (text in 256 KiB frames)"]
    gzipped = seconds["plain gzip -6 (a quarter of it, times four)"]
    rows.append(
        Row(
            "whole road into a folder",
            size / road,
            "MB/s",
            f"target 50; {zstd / road:.2f} of zstd, {gzipped / road:.2f} of gzip",
        )
    )
    rows.append(Row("text to stored bytes", len(text) / stored, "", "ratio, times and index included"))
    return rows


async def _whole_road(chunks: list[bytes]) -> tuple[float, int]:
    """CPU seconds and stored bytes, sealing included."""
    async with _streams() as streams:
        start = time.process_time()
        writer = await streams.open(PREFIX, "logs/driver.log", now=datetime.now(UTC))
        parser, seam = TimedParser(), Seam(writer.checkpoint)
        for chunk in chunks:
            block = parser.feed(chunk)
            await writer.write_lines(seam.drop(block) if block else None)
        sealed = await writer.seal()
        return time.process_time() - start, sealed.stored_bytes


@benchmark("memory with 1,000 open streams")
async def open_streams() -> Rows:
    """Every stream takes a line a second at least; resident memory of the whole process, before and after."""
    texts = [text.encode() + b"\n" for text in lines(400)]
    async with _streams() as streams:
        before = resident_mib()
        now = datetime.now(UTC)
        writers = [await streams.open(PREFIX, f"logs/{number}.log", now=now) for number in range(_STREAMS)]
        opened = resident_mib()
        for turn in range(10):
            some = texts[turn * 40 : turn * 40 + 40]
            block = Block(b"".join(some), list(range(len(some))))
            await _each(writers, lambda writer, block=block: writer.write_lines(block))
        busy = resident_mib()
        await _each(writers, lambda writer: writer.seal())
        return [
            Row("before", before, "MiB"),
            Row("1,000 streams open", opened, "MiB"),
            Row("40 KiB written to each", busy, "MiB", "target 256 + 1 a stream"),
            Row("a stream", (busy - before) * 1024 / _STREAMS, "KiB"),
        ]


async def _each(writers: list[StreamWriter], step: Callable[[StreamWriter], Awaitable[object]]) -> None:
    for start in range(0, len(writers), 50):
        await asyncio.gather(*(step(writer) for writer in writers[start : start + 50]))


def resident_mib() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@asynccontextmanager
async def _streams() -> AsyncIterator[Streams]:
    """Running streams over folders that vanish afterwards."""
    with TemporaryDirectory() as folder:
        streams = Streams(FilesystemStore(Path(folder) / "store"), Path(folder) / "spool", spool_limit_bytes=1 << 33)
        await streams.start()
        task = asyncio.create_task(streams.run(), name="streams")
        try:
            yield streams
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
