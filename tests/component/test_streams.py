"""Streams over a spool and a store: what is written is archived, in order, once, and can be read at any time."""

import asyncio
import shutil
import subprocess
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.core.lines import arrived, to_time
from archiver.core.model import Gap, GapReason
from archiver.core.resume import SeamState
from archiver.errors import StoreConflict, StoreError
from archiver.read import logs
from archiver.read.text import TextOpener, TextPlace
from archiver.store.codec import ZstdCodec, decompress_all
from archiver.store.filesystem import FilesystemStore
from archiver.store.parts import read_footer
from archiver.store.reader import LogReader
from tests.component.streaming import (
    KEY,
    NAME,
    NOW,
    PREFIX,
    T0,
    archived,
    block_of,
    eventually,
    follow,
    log,
    running,
    text_of,
)
from tests.unit.core.logtext import stamped


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "store")


async def test_a_log_is_sealed_as_it_was(store: FilesystemStore, tmp_path: Path) -> None:
    lines = log(0, 5000)
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(lines))
        sealed = await writer.seal()
        text = text_of(lines)
        assert (sealed.key, sealed.raw_bytes, sealed.lines, sealed.source_bytes) == (KEY, len(text), 5000, len(text))
        assert sealed.sha256 == sha256(text).hexdigest()
        assert (sealed.first_time, sealed.last_time) == (to_time(lines[0][0]), to_time(lines[-1][0]))
        assert (sealed.gaps, sealed.masked) == ((), {})
        stored = (tmp_path / "store" / KEY).read_bytes()
        assert sealed.stored_bytes == len(stored)
        assert decompress_all(stored, len(text)) == text
        assert await writer.seal() == sealed
        await writer.discard_parts()
        await writer.discard_parts()
    assert [info.key async for info in store.list("")] == [KEY]
    assert list((tmp_path / "spool" / "streams").iterdir()) == []


@pytest.mark.parametrize("kind", ["sealed", "parts"])
async def test_the_zstd_command_reads_it(store: FilesystemStore, tmp_path: Path, kind: str) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for first in range(0, 3000, 1000):
            await writer.write_lines(block_of(log(first, 1000)))
            await writer.flush()
        if kind == "sealed":
            await writer.seal()
        await streams.settle(PREFIX)
    files = [tmp_path / "store" / info.key async for info in store.list(KEY if kind == "sealed" else PREFIX)]
    if shutil.which("zstd"):
        command = ["zstd", "-dc", *map(str, files)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
        assert done.stdout == text_of(log(0, 3000))
    assert b"".join(decompress_all(file.read_bytes(), 1 << 20) for file in files) == text_of(log(0, 3000))


async def test_text_is_in_the_store_soon_by_itself(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=datetime.now(UTC))
        await writer.write_lines(block_of(log(0, 10)))
        await eventually(lambda: bool(list((tmp_path / "store").rglob("00000000.zst"))))
        assert await archived(store) == text_of(log(0, 10))


async def test_a_stream_without_a_byte_seals_to_an_empty_artifact(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        sealed = await writer.seal()
        await writer.discard_parts()
    assert (sealed.raw_bytes, sealed.lines, sealed.sha256) == (0, 0, sha256(b"").hexdigest())
    assert (sealed.first_time, sealed.last_time) == (None, None)
    assert decompress_all((tmp_path / "store" / KEY).read_bytes(), 10) == b""
    assert await LogReader(store, ZstdCodec()).read_bytes(KEY, 0, 10) == b""


async def test_an_unfinished_last_line_is_a_line(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, 3), ends=False))
        assert writer.lines == 2
        sealed = await writer.seal()
        assert (sealed.lines, await archived(store)) == (3, b"line 0\nline 1\nline 2")


async def test_a_gap_is_where_it_happened(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(block_of(log(0, 2)))
        await writer.write_lines(arrived(b"unfinished", T0))
        await writer.gap(Gap(GapReason.ROTATED, "rotated", 0, NOW, NOW))
        await writer.write_lines(block_of(log(7, 1)))
        sealed = await writer.seal()
    assert sealed.gaps == (Gap(GapReason.ROTATED, "rotated", 3, NOW, NOW),)
    assert await archived(store) == b"line 0\nline 1\nunfinished\nline 7\n"


async def test_a_gap_alone_is_kept_over_a_restart(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.gap(Gap(GapReason.SOURCE_GONE, "gone", 0))
        await writer.flush()
    async with running(store, tmp_path / "spool") as streams:
        sealed = await (await streams.open(PREFIX, NAME, now=NOW)).seal()
    assert [gap.detail for gap in sealed.gaps] == ["gone"]


async def test_secrets_are_masked_before_they_touch_a_disk(store: FilesystemStore, tmp_path: Path) -> None:
    secret = b"hf_" + b"exampleExampleExampleExample0123456"
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(arrived(b"login with " + secret + b"\nok\n", T0))
        await writer.sync()
        for path in (tmp_path / "spool").rglob("*"):
            assert path.is_dir() or secret not in path.read_bytes()
        sealed = await writer.seal()
    assert sealed.masked == {"huggingface-token": 1}
    assert sealed.source_bytes == len(b"login with " + secret + b"\nok\n")
    assert await archived(store) == "login with ‹masked:huggingface-token›\nok\n".encode()


async def test_a_stream_goes_on_after_its_seal(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(block_of(log(0, 10)))
        await writer.seal()
        await writer.discard_parts()
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        seam = await follow(writer, stamped(log(0, 25)))
        assert seam.state is SeamState.JOINED
        sealed = await writer.seal()
        assert await writer.seal() == sealed
    assert (sealed.lines, await archived(store)) == (25, text_of(log(0, 25)))
    assert sealed.sha256 == sha256(text_of(log(0, 25))).hexdigest()


async def test_parts_are_not_discarded_before_the_seal(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(block_of(log(0, 10)))
        await writer.flush()
        with pytest.raises(StoreError, match="not sealed"):
            await writer.discard_parts()


async def test_documents_go_through_the_spool(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        facts = await streams.put_document(PREFIX, "ray/job.json", b'{"a":1}\n')
        await streams.put_document(PREFIX, "ray/job.json", b'{"a":2}\n')
        await streams.settle(PREFIX)
        assert streams.usage_bytes == 0
    assert facts.key == PREFIX + "ray/job.json.zst"
    assert (facts.raw_bytes, facts.lines, facts.sha256) == (8, 1, sha256(b'{"a":1}\n').hexdigest())
    assert decompress_all(await store.get(facts.key) or b"", 100) == b'{"a":2}\n'


async def test_unsealed_streams_are_found_in_spool_and_store(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        for name in ("logs/a.log", "logs/b/c.log"):
            writer = await streams.open(PREFIX, name, now=NOW)
            await writer.write_lines(block_of(log(0, 1)))
            await writer.flush()
        await streams.settle(PREFIX)
        tail = await streams.open(PREFIX, "logs/d.log", now=NOW)
        await tail.write_lines(block_of(log(0, 1)))
        await tail.sync()
        assert sorted(await streams.unsealed(PREFIX)) == ["logs/a.log", "logs/b/c.log", "logs/d.log"]
        assert await streams.read_back(PREFIX, "logs/a.log") == [b"line 0"]


async def test_the_same_stream_opened_twice_is_one_writer(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        one, two = await asyncio.gather(*(streams.open(PREFIX, NAME, now=NOW) for _ in range(2)))
        assert one is two


async def test_of_two_processes_the_later_one_gives_way(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "one") as ours, running(store, tmp_path / "two") as theirs:
        first, second = await ours.open(PREFIX, NAME, now=NOW), await theirs.open(PREFIX, NAME, now=NOW)
        await follow(first, stamped(log(0, 100)))
        await first.flush()
        await ours.settle(PREFIX)
        await follow(second, stamped(log(0, 70)))
        await second.flush()
        await eventually(lambda: second.is_lost)
        with pytest.raises(StoreConflict, match="another process"):
            await second.write_lines(block_of(log(70, 1)))
        second = await theirs.open(PREFIX, NAME, now=NOW)
        assert second.lines == 100
        seam = await follow(second, stamped(log(0, 130)))
        assert seam.state is SeamState.JOINED
        sealed = await second.seal()
    assert (sealed.lines, await archived(store)) == (130, text_of(log(0, 130)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_window_is_the_text(tmp_path: Path, data: st.DataObject) -> None:
    asyncio.run(_check_windows(Path(mkdtemp(dir=tmp_path)), data))


async def _check_windows(root: Path, data: st.DataObject) -> None:
    store, length = FilesystemStore(root / "store"), st.sampled_from([0, 5, 80, 3000, 70_000, 300_000])
    bodies = [b"%d:" % number + b"x" * data.draw(length) for number in range(data.draw(st.integers(1, 12)))]
    text, times = b"".join(body + b"\n" for body in bodies), [T0 + number * 10 for number in range(len(bodies))]
    reader = LogReader(store, ZstdCodec())
    async with running(store, root / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for body, time in zip(bodies, times, strict=True):
            await writer.write_lines(arrived(body + b"\n", time))
            if data.draw(st.booleans()):
                await writer.flush()
        await writer.flush()
        await streams.settle(PREFIX)
        for is_sealed in (False, True):
            if is_sealed:
                await writer.seal()
            index = await reader.read_index(KEY)
            assert index is not None
            assert (index.lines, index.raw_bytes, index.is_sealed) == (len(bodies), len(text), is_sealed)
            first, count = data.draw(st.integers(0, len(bodies) + 1)), data.draw(st.integers(0, 5))
            text_of_parts = await TextOpener(store).open(TextPlace(PREFIX, NAME, None))
            assert text_of_parts is not None
            lines, _ = await logs.read_lines(
                store, text_of_parts, logs.Plan(first + 1, min(first + count, len(bodies)))
            )
            wanted = list(zip(range(1, len(bodies) + 1), bodies, times, strict=True))[first : first + count]
            assert [(line.number, line.data, line.time_ns) for line in lines] == wanted
            start, size = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 400_000))
            assert await reader.read_bytes(KEY, start, size) == text[start : start + size]


async def test_what_is_not_there_reads_as_none(store: FilesystemStore) -> None:
    reader = LogReader(store, ZstdCodec())
    assert await reader.read_index(KEY) is None
    assert await reader.read_bytes(KEY, 0, 1) is None
    assert [piece async for piece in reader.iter_raw(KEY)] == []


async def test_the_index_says_all_that_the_seal_said(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(block_of(log(0, 10)))
        await writer.gap(Gap(GapReason.DEADLINE, "late", 0))
        sealed = await writer.seal()
    found = await read_footer(store, KEY, ZstdCodec())
    assert found is not None
    footer = found[0]
    assert (footer.is_sealed, footer.sha256, footer.state.gaps) == (True, sealed.sha256, sealed.gaps)
