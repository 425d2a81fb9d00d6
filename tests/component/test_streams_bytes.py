"""Byte-addressed sources: forwards, tail first, backwards, again, in any order; holes are said where they are."""

import asyncio
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.core.model import Gap, GapReason
from archiver.core.segments import Span
from archiver.store.filesystem import FilesystemStore
from tests.component.streaming import NAME, NOW, PREFIX, archived, running

FILE = b"".join(b"row %06d of the driver\n" % number for number in range(2000))


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "store")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=st.lists(st.tuples(st.integers(0, 999), st.integers(1, 400)), max_size=12), restart=st.integers(0, 12))
def test_whatever_is_read_in_whatever_order_is_stored_once(
    tmp_path: Path, reads: list[tuple[int, int]], restart: int
) -> None:
    asyncio.run(_check_reads(Path(mkdtemp(dir=tmp_path)), reads, restart))


async def _check_reads(root: Path, reads: list[tuple[int, int]], restart: int) -> None:
    store, file = FilesystemStore(root / "store"), FILE[:1200]
    reads = [(start, size) for start, size in reads if start < len(file)]
    async with running(store, root / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for start, size in reads[:restart]:
            await writer.write_bytes(file[start : start + size], NOW, start)
        await writer.flush()
    async with running(store, root / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        # an unfinished line that masking held back was in memory only: what is missing is read again
        for start, size in reads:
            await writer.write_bytes(file[start : start + size], NOW, start)
        sealed = await writer.seal()
    stored = sorted({byte for start, size in reads for byte in range(start, min(start + size, len(file)))})
    pieces = _runs(file, stored)
    wanted = b""
    for number, piece in enumerate(pieces):
        wanted += piece if number == len(pieces) - 1 or piece.endswith(b"\n") else piece + b"\n"
    assert await archived(store) == wanted
    assert sealed.sha256 == sha256(wanted).hexdigest()
    assert sealed.source_bytes == len(stored)
    holes = [gap.missing_bytes for gap in sealed.gaps]
    assert sum(hole or 0 for hole in holes) == (stored[-1] + 1 - len(stored) if stored else 0)


def _runs(file: bytes, stored: list[int]) -> list[bytes]:
    """The stored bytes, one string for each range without a hole."""
    runs: list[bytes] = []
    for number, byte in enumerate(stored):
        if number and stored[number - 1] == byte - 1:
            runs[-1] += file[byte : byte + 1]
        else:
            runs.append(file[byte : byte + 1])
    return runs


async def test_a_file_that_grows_is_byte_exact(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for end in range(0, len(FILE), 997):
            start = writer.checkpoint.offset
            await writer.write_bytes(FILE[start:end], NOW, start)
            assert writer.checkpoint.offset == max(start, end)
        await writer.write_bytes(FILE[writer.checkpoint.offset :], NOW, writer.checkpoint.offset)
        sealed = await writer.seal()
    assert (sealed.raw_bytes, sealed.sha256, sealed.gaps) == (len(FILE), sha256(FILE).hexdigest(), ())
    assert await archived(store) == FILE


async def test_an_unfinished_line_is_not_asked_for_again_and_again(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_bytes(b"done\nprogress 10%", NOW, 0)
        assert writer.checkpoint.offset == 17
        await writer.flush()
        assert writer.checkpoint.offset == 17
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        # the held back end was in memory only, and is read again
        assert writer.checkpoint.offset == 5
        await writer.write_bytes(b"progress 10%\rprogress 20%", NOW, 5)
        await writer.seal()
    assert await archived(store) == b"done\nprogress 10%\rprogress 20%"


async def test_tail_first_then_backwards_is_the_whole_file(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_bytes(FILE[:1000], NOW, 0)
        for start in (30_000, 20_000, 10_000):
            cut = FILE.index(b"\n", start) + 1
            end = writer.spans[1].start if len(writer.spans) > 1 else len(FILE)
            piece = await writer.open_piece(cut)
            await piece.write_bytes(FILE[cut:end], NOW, cut)
            await piece.flush()
            assert piece.position == end
        assert writer.checkpoint.offset == 1000
        await writer.write_bytes(FILE[1000 : writer.spans[1].start], NOW, 1000)
        await writer.skip_to(len(FILE))
        assert writer.checkpoint.offset == len(FILE)
        assert writer.spans == (Span(0, len(FILE)),)
        sealed = await writer.seal()
    assert (sealed.sha256, sealed.gaps, sealed.lines) == (sha256(FILE).hexdigest(), (), 2000)
    assert await archived(store) == FILE


async def test_a_middle_that_is_missing_is_a_gap_at_its_line(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_bytes(FILE[:1010], NOW, 0)
        cut = FILE.index(b"\n", 30_000) + 1
        piece = await writer.open_piece(cut)
        await piece.write_bytes(FILE[cut:], NOW, cut)
        await writer.gap(Gap(GapReason.DEADLINE, "the head was gone", 0, missing_bytes=cut - 1010))
        sealed = await writer.seal()
    head = FILE[:1010] + b"\n"
    assert await archived(store) == head + FILE[cut:]
    (gap,) = sealed.gaps
    assert (gap.reason, gap.at_line, gap.missing_bytes) == (GapReason.DEADLINE, head.count(b"\n"), cut - 1010)
    assert sealed.lines == (head + FILE[cut:]).count(b"\n")
    assert sealed.raw_bytes == len(head + FILE[cut:])


async def test_a_hole_nobody_spoke_of_is_a_gap_too(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_bytes(b"tail\n", NOW, 500)
        sealed = await writer.seal()
    (gap,) = sealed.gaps
    assert (gap.reason, gap.at_line, gap.missing_bytes) == (GapReason.SOURCE_GONE, 0, 500)


async def test_a_missing_end_is_a_gap_at_the_end(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_bytes(FILE[:230], NOW, 0)
        await writer.gap(Gap(GapReason.SOURCE_GONE, "the head was gone", 0, missing_bytes=77))
        sealed = await writer.seal()
    (gap,) = sealed.gaps
    assert (gap.at_line, sealed.lines) == (10, 10)


async def test_a_key_cut_by_a_piece_is_masked(store: FilesystemStore, tmp_path: Path) -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"[:64].encode()
    file = b"-----BEGIN " + b"PRIVATE KEY-----\n" + (body + b"\n") * 20 + b"-----END " + b"PRIVATE KEY-----\nafter\n"
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        middle = file.index(body) + 65 * 10
        piece = await writer.open_piece(middle)
        await piece.write_bytes(file[middle:], NOW, middle)
        await writer.write_bytes(file[:middle], NOW, 0)
        await writer.seal()
    text = await archived(store)
    assert body not in text
    assert text.count(b"\n") == file.count(b"\n")
    assert text.endswith(b"after\n")


async def test_a_cancelled_piece_leaves_reading_forwards_where_it_was(store: FilesystemStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_bytes(FILE[:1010], NOW, 0)
        piece = await writer.open_piece(30_000)
        for turns in range(8):
            task = asyncio.create_task(piece.write_bytes(FILE[30_000:40_000], NOW, 30_000), name="piece under test")
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert writer.checkpoint.offset == 1010
        await writer.write_bytes(FILE[1010:], NOW, 1010)
        sealed = await writer.seal()
    assert (sealed.sha256, sealed.gaps) == (sha256(FILE).hexdigest(), ())
