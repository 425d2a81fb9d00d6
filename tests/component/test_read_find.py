"""Searching one log in a real store: counts, places and neighbours of a line are what the whole text says."""

from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.search import ERRORS, Pattern
from archiver.index.writes import record
from archiver.read.found import CELLS, Grep, Seek
from archiver.read.service import Reader
from archiver.read.views import Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest
from tests.fakes.streams import put_sealed

EVERYTHING = Scope.everything()
NAME = "logs/driver.log"
NEEDLE = Pattern("needle")
FOUND = [3, 4, 250, 251, 777, 3999, 4000]
WHERE = ("uid-1", 1, NAME)


@pytest.fixture
async def reader(engine: AsyncEngine, tmp_path: Path) -> Reader:
    """A log of 4,000 lines in 80 frames whose edges lie inside lines; the needles at FOUND."""
    store = FilesystemStore(tmp_path)
    bare = manifest()
    text = b"".join(b"needle\n" if n in FOUND else b"hay %d\n" % n for n in range(1, 4001))
    size = len(text) // 80 + 1
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    log = await put_sealed(store, key_of(bare).removesuffix("manifest.json"), NAME, pieces)
    await record(engine, manifest(artifacts=[log]), key_of(bare))
    return Reader(engine, store)


async def test_the_next_and_the_last_hit_are_found_from_any_line(reader: Reader) -> None:
    for is_known in (False, True):
        if is_known:  # the second time from memory
            await reader.log_marks(EVERYTHING, *WHERE, NEEDLE, seconds=60)
        for line in (0, 1, 3, 4, 100, 250, 776, 777, 778, 3999, 4000, 4001):
            ahead = await reader.log_seek(EVERYTHING, *WHERE, Seek(NEEDLE, line))
            behind = await reader.log_seek(EVERYTHING, *WHERE, Seek(NEEDLE, line, is_backward=True))
            assert ahead is not None
            assert behind is not None
            assert ahead.line == next((n for n in FOUND if n > line), None)
            assert behind.line == next((n for n in reversed(FOUND) if n < line), None)
            assert ahead.is_complete
            assert behind.is_complete


async def test_marks_are_learnt_bit_by_bit_and_exact_in_the_end(reader: Reader) -> None:
    marks = await reader.log_marks(EVERYTHING, *WHERE, NEEDLE, seconds=0)
    while marks is not None and not marks.is_complete:
        before = marks.to_line
        marks = await reader.log_marks(EVERYTHING, *WHERE, NEEDLE, seconds=0)
        assert marks is not None
        assert marks.to_line > before
    assert marks is not None
    assert marks.count == len(FOUND)
    assert [cell.line for cell in marks.cells] == [3, 250, 777, 3999]
    assert [cell.place for cell in marks.cells] == [(n - 1) * CELLS // 4000 for n in (3, 250, 777, 3999)]
    assert marks.scanned_bytes == marks.total_bytes


async def test_grep_gives_lines_with_their_time_and_neighbours(reader: Reader) -> None:
    found = await reader.log_grep(EVERYTHING, *WHERE, Grep(NEEDLE, first=4, limit=3, context=2))
    assert found is not None
    assert [match.line.number for match in found.matches] == [4, 250, 251]
    assert (found.count, found.next_line, found.is_complete) == (6, 252, True)
    assert [line.number for line in found.matches[1].before] == [248, 249]
    assert [line.number for line in found.matches[1].after] == [251, 252]
    assert all(match.line.time_ns for match in found.matches)


async def test_nobody_searches_a_log_that_he_may_not_see(reader: Reader) -> None:
    stranger = Scope(frozenset({("prod", "somebody-else")}))
    assert await reader.log_grep(stranger, *WHERE, Grep(NEEDLE)) is None
    assert await reader.log_marks(stranger, *WHERE, ERRORS, seconds=1) is None
    assert await reader.log_seek(stranger, *WHERE, Seek(NEEDLE, 0)) is None
    assert await reader.log_tail(stranger, *WHERE) is None
