"""Any window of a 10 GB log: composed of one part many times, read by line, byte and time."""

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import TimedParser
from archiver.core.segments import Footer, PartBuilder, Span, StreamState, encode_footer
from archiver.store.codec import ZstdCodec
from archiver.store.filesystem import FilesystemStore
from archiver.store.reader import LogReader
from tests.bench import Row, Rows, benchmark
from tests.bench.logtext import lines, stamped
from tests.bench.pipeline import PREFIX, resident_mib

_RAW_BYTES = 10_000_000_000
_READS = 60
_LINES = 500
KEY = keys.artifact_key(PREFIX, "logs/driver.log")


@benchmark("windows of a 10 GB log")
async def windows() -> Rows:
    """Cold: a reader that has seen nothing. Warm: one that knows the index, as the web server does."""
    with TemporaryDirectory() as folder:
        store = FilesystemStore(Path(folder))
        count, stored = await _build(store)
        before = resident_mib()
        cold = [await _timed(LogReader(store, ZstdCodec()), count) for _ in range(10)]
        reader = LogReader(store, ZstdCodec())
        await _timed(reader, count)
        warm = [await _timed(reader, count) for _ in range(_READS)]
        by_time = await _by_time(reader, count)
        return [
            Row("stored", stored / 1e9, "GB", f"{count:,} lines"),
            Row(f"{_LINES} lines, cold, median", _median(cold), "ms", "target 100"),
            Row(f"{_LINES} lines, cold, worst", max(cold), "ms"),
            Row(f"{_LINES} lines, warm, median", _median(warm), "ms"),
            Row(f"{_LINES} lines, warm, worst", max(warm), "ms"),
            Row("line at a time, warm, median", by_time, "ms"),
            Row("resident memory for all of it", resident_mib() - before, "MiB"),
        ]


async def _build(store: FilesystemStore) -> tuple[int, int]:
    """One part of 8 MiB, and the sealed object that repeats it."""
    codec, parser = ZstdCodec(), TimedParser()
    block = parser.feed(stamped(lines(20_000), 4)[: 10 * 1024 * 1024])
    assert block is not None
    builder = PartBuilder(codec)
    builder.add(block)
    body, footer, table = builder.finish(sequence=0, writer="", source=Span(0, 1), state=StreamState())
    await store.put(PREFIX + "one", body)
    times, whole = _RAW_BYTES // footer.raw_bytes + 1, FrameTable()
    for number in range(times):
        whole.extend(table, shift=number * len(body))
    state = StreamState(next_sequence=times, raw_bytes=footer.raw_bytes * times, newlines=footer.newlines * times)
    sealed = Footer(times, "", state.raw_bytes, state.newlines, True, "", Span(0, 1), state, is_sealed=True)
    info = await store.compose([PREFIX + "one"] * times, KEY, tail=encode_footer(sealed, whole, codec))
    return state.newlines, info.size_bytes


async def _timed(reader: LogReader, count: int) -> float:
    first = random.randrange(count - _LINES)
    start = time.perf_counter()
    found = await reader.read_lines(KEY, first, _LINES)
    spent = (time.perf_counter() - start) * 1000
    assert found is not None
    assert [line.number for line in found] == list(range(first, first + _LINES))
    return spent


async def _by_time(reader: LogReader, count: int) -> float:
    found = await reader.read_lines(KEY, 1000, 1)
    assert found
    spent = []
    for _ in range(10):
        start = time.perf_counter()
        await reader.line_at(KEY, found[0].time)
        spent.append((time.perf_counter() - start) * 1000)
    return _median(spent)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
