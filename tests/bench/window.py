"""Any window of a 10 GB log: composed of one part many times, read by line, byte and time."""

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import TimedParser, to_time
from archiver.core.search import ERRORS, Pattern
from archiver.core.segments import Footer, PartBuilder, Span, StreamState, encode_footer
from archiver.read import logs
from archiver.read.scan import Scans
from archiver.read.text import LogText, TextOpener, TextPlace
from archiver.read.windows import AtTime
from archiver.store.codec import ZstdCodec
from archiver.store.filesystem import FilesystemStore
from tests.bench import Row, Rows, benchmark
from tests.bench.logtext import lines, stamped
from tests.bench.pipeline import PREFIX, resident_mib

_RAW_BYTES = 10_000_000_000
_READS = 60
_LINES = 500
_SEARCHED_BYTES = 500_000_000
KEY = keys.artifact_key(PREFIX, "logs/driver.log")


@benchmark("windows of a 10 GB log")
async def windows() -> Rows:
    """Cold: a reader that has seen nothing. Warm: one that knows the index, as the web server does."""
    with TemporaryDirectory() as folder:
        store = FilesystemStore(Path(folder))
        count, stored = await _build(store)
        before = resident_mib()
        cold = [await _timed(store, TextOpener(store), count) for _ in range(10)]
        opener = TextOpener(store)
        await _timed(store, opener, count)
        warm = [await _timed(store, opener, count) for _ in range(_READS)]
        by_time = await _by_time(store, opener)
        searched = await _searched(store, opener)
        return [
            Row("stored", stored / 1e9, "GB", f"{count:,} lines"),
            Row(f"{_LINES} lines, cold, median", _median(cold), "ms", "target 100"),
            Row(f"{_LINES} lines, cold, worst", max(cold), "ms"),
            Row(f"{_LINES} lines, warm, median", _median(warm), "ms"),
            Row(f"{_LINES} lines, warm, worst", max(warm), "ms"),
            Row("line at a time, warm, median", by_time, "ms"),
            *searched,
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


async def _open(opener: TextOpener) -> LogText:
    found = await opener.open(TextPlace(PREFIX, "logs/driver.log", None))
    assert found is not None
    return found


async def _timed(store: FilesystemStore, opener: TextOpener, count: int) -> float:
    first = random.randrange(1, count - _LINES)
    start = time.perf_counter()
    found, _ = await logs.read_lines(store, await _open(opener), logs.Plan(first, first + _LINES - 1))
    spent = (time.perf_counter() - start) * 1000
    assert [line.number for line in found] == list(range(first, first + _LINES))
    return spent


async def _by_time(store: FilesystemStore, opener: TextOpener) -> float:
    text, spent = await _open(opener), []
    (line, *_), _ = await logs.read_lines(store, text, logs.Plan(1000, 1000))
    moment = to_time(line.time_ns or 0)
    assert moment is not None
    for _ in range(10):
        start = time.perf_counter()
        await logs.plan(store, text, AtTime(moment, 1))
        spent.append((time.perf_counter() - start) * 1000)
    return _median(spent)


async def _searched(store: FilesystemStore, opener: TextOpener) -> list[Row]:
    """The first gigabyte, for what is nowhere, for errors, and for what is on every line; one core."""
    text, scans, rows = await _open(opener), Scans(store, 1), []
    patterns = {
        "a rare text": Pattern("no such words"),
        "errors": ERRORS,
        "a pattern": Pattern(r"loss=\d+\.\d*7\b", is_regex=True),
        "every line": Pattern("e"),
    }
    for name, pattern in patterns.items():
        start, read, hits = time.perf_counter(), 0, 0
        async for step in scans.forward(text, pattern):
            read, hits = read + step.text_bytes, hits + len(step.hits)
            if read > _SEARCHED_BYTES:
                break
        rows.append(Row(f"search for {name}", read / 1e6 / (time.perf_counter() - start), "MB/s", f"{hits:,} lines"))
    return rows


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
