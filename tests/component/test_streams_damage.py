"""Objects in the bucket that were damaged or removed: what is left is sealed and says so, and nothing waits for ever."""

from pathlib import Path

import pytest

from archiver.collect.streams import Streams
from archiver.core.keys import part_key
from archiver.core.model import GapReason
from archiver.store.filesystem import FilesystemStore
from tests.component.streaming import NAME, NOW, PREFIX, archived, block_of, follow, log, running, text_of
from tests.unit.core.logtext import stamped


async def _three_parts(store: FilesystemStore, spool: Path) -> None:
    async with running(store, spool) as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for first in (0, 100, 200):
            await writer.write_lines(block_of(log(first, 100)))
            await writer.flush()
        await streams.settle(PREFIX)


async def _damage(store: FilesystemStore, number: int, how: str) -> None:
    key = part_key(PREFIX, NAME, number)
    body = await store.get(key)
    assert body is not None
    await store.delete([key])
    if how == "scrambled":
        await store.put(key, bytes(len(body)))
    elif how == "cut":
        await store.put(key, body[: len(body) // 2])
    elif how == "flipped":
        await store.put(key, body[:20] + bytes([body[20] ^ 255]) + body[21:])


@pytest.mark.parametrize("how", ["removed", "scrambled", "cut", "flipped"])
async def test_a_damaged_part_costs_its_own_lines_and_is_a_gap(tmp_path: Path, how: str) -> None:
    store = FilesystemStore(tmp_path / "store")
    await _three_parts(store, tmp_path / "spool")
    await _damage(store, 1, how)
    async with running(store, tmp_path / "spool") as streams:
        sealed = await (await streams.open(PREFIX, NAME, now=NOW)).seal()
    left = log(0, 100) + log(200, 100)
    assert (sealed.lines, await archived(store)) == (200, text_of(left))
    assert sealed.gaps
    assert all(gap.at_line == 100 for gap in sealed.gaps if gap.missing_bytes)
    assert any(gap.reason is GapReason.UNREADABLE and "damaged" in gap.detail for gap in sealed.gaps)


async def test_a_part_that_is_removed_behind_the_writer_is_a_gap_too(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path / "store")
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for first in (0, 100):
            await writer.write_lines(block_of(log(first, 100)))
            await writer.flush()
        await streams.settle(PREFIX)
        await _damage(store, 0, "removed")
        sealed = await writer.seal()
        again = await writer.seal()
        await writer.discard_parts()
    assert (sealed.lines, again.sha256) == (100, sealed.sha256)
    assert await archived(store) == text_of(log(100, 100))
    assert any(gap.reason is GapReason.UNREADABLE for gap in sealed.gaps)


@pytest.mark.parametrize("how", ["scrambled", "cut"])
async def test_what_the_newest_part_had_is_read_from_its_source_again(tmp_path: Path, how: str) -> None:
    store = FilesystemStore(tmp_path / "store")
    await _three_parts(store, tmp_path / "spool")
    await _damage(store, 2, how)
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, 400)))
        sealed = await writer.seal()
    assert (sealed.lines, await archived(store)) == (400, text_of(log(0, 400)))


async def test_a_log_all_of_whose_parts_are_damaged_is_an_empty_one_with_a_gap(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path / "store")
    await _three_parts(store, tmp_path / "spool")
    for number in range(3):
        await _damage(store, number, "scrambled")
    async with running(store, tmp_path / "spool") as streams:
        sealed = await (await streams.open(PREFIX, NAME, now=NOW)).seal()
    assert sealed.raw_bytes == 0
    assert [gap.reason for gap in sealed.gaps] == [GapReason.UNREADABLE]


async def test_a_small_stream_is_read_back_without_what_is_damaged(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path / "store")
    await _three_parts(store, tmp_path / "spool")
    await _damage(store, 1, "flipped")
    async with running(store, tmp_path / "spool") as streams:
        lines = await streams.read_back(PREFIX, NAME)
    assert lines == [line for _, line in log(0, 100) + log(200, 100)]


async def test_a_part_damaged_in_the_spool_holds_up_nothing(tmp_path: Path) -> None:
    store, spool = FilesystemStore(tmp_path / "store"), tmp_path / "spool"
    idle = Streams(store, spool, spool_limit_bytes=1 << 30)
    await idle.start()  # and never run: nothing leaves the spool
    writer = await idle.open(PREFIX, NAME, now=NOW)
    await writer.write_lines(block_of(log(0, 100)))
    await writer.flush()
    damaged = list(spool.rglob("*.part"))
    for path in damaged:
        path.write_bytes(bytes(path.stat().st_size))
    async with running(store, spool) as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, 200)))
        sealed = await writer.seal()
    assert damaged
    assert (sealed.lines, await archived(store)) == (200, text_of(log(0, 200)))
