"""A head that goes before its driver log was read to the end after the job was over: nobody may call that log complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from archiver.collect.driver import TAIL_BYTES, DriverTail, TailEnd
from archiver.collect.streams import StreamWriter
from archiver.core.model import GapReason
from archiver.errors import RayUnavailable
from archiver.ports import FileRange, RayHead
from archiver.store.codec import ZstdCodec
from archiver.store.filesystem import FilesystemStore
from archiver.store.reader import LogReader
from tests.component.streaming import NAME, NOW, PREFIX, running
from tests.component.test_hopeless_sources import Failing, Over

READ = b"line 1\nline 2\n"


@dataclass(slots=True)
class Going(Over):
    """The RayJob says that the job is over; the head goes at the second look."""

    def is_head_lost(self) -> bool:
        return self.minutes >= 2


@dataclass(slots=True)
class Gone(Failing):
    """The head's ports are closed already."""

    async def job(self, head: RayHead, submission_id: str) -> Mapping[str, Any] | None:
        raise self.error


@dataclass(slots=True)
class Whole(Failing):
    """The file is read once more after the job's end; then the head is gone."""

    async def read_log(self, head: RayHead, path: str, **where: Any) -> FileRange | None:
        self.asked += 1
        if self.asked > 1:
            raise self.error
        return FileRange(where["start"], b"", len(READ))


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[StreamWriter]:
    """A stream that an earlier look, or an earlier archiver, has begun."""
    async with running(FilesystemStore(tmp_path / "store"), tmp_path / "spool") as streams:
        opened = await streams.open(PREFIX, NAME, now=NOW)
        await opened.write_bytes(READ, NOW, 0)
        yield opened


async def _ends(writer: StreamWriter, source: Failing) -> list[GapReason]:
    view = Going()
    clocks = (lambda: NOW, view.monotonic)
    tail = DriverTail("sub-1", writer, ray=source, view=view, clocks=clocks, first_pace_seconds=0.25)
    assert await tail.follow() is TailEnd.LOST
    return [gap.reason for gap in (await writer.seal()).gaps]


@pytest.mark.parametrize("kind", [Gone, Failing])
async def test_a_log_that_was_not_read_after_the_jobs_end_has_a_gap(writer: StreamWriter, kind: type[Failing]) -> None:
    """`Gone`: the archiver was away at the end. `Failing`: Ray still told the end, and the read after it failed."""
    assert await _ends(writer, kind(RayUnavailable("connection refused"))) == [GapReason.SOURCE_GONE]


async def test_a_log_that_was_read_after_the_jobs_end_is_whole(writer: StreamWriter) -> None:
    assert await _ends(writer, Whole(RayUnavailable("connection refused"))) == []


LINE = b"%010d " + b"x" * 500 + b"\n"
LARGE = b"".join(LINE % number for number in range(200_000))  # 100 MB
TAIL_READS = 9  # 64 MiB in pieces of 8 MiB, each from a line's beginning


@dataclass(slots=True)
class ShortLived(Failing):
    """A head that gives the tail of a large file and then is gone. Notes what was stored of it at each read."""

    store: FilesystemStore | None = None
    stored: list[int] = field(default_factory=list)

    async def read_log(self, head: RayHead, path: str, **where: Any) -> FileRange | None:
        self.asked += 1
        if self.asked > 1 + TAIL_READS:
            raise self.error
        assert self.store
        self.stored.append(len([entry async for entry in self.store.list(PREFIX)]))
        data = LARGE[where["start"] : where["start"] + where["length"]]
        return FileRange(where["start"], data, len(LARGE))


@dataclass(slots=True)
class Soon(Over):
    """The head is known to be gone once it has failed."""

    source: Failing | None = None

    def is_head_lost(self) -> bool:
        assert self.source
        return self.source.asked > 1 + TAIL_READS


async def test_the_tail_of_a_large_log_is_fetched_before_any_of_it_is_stored(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path / "store")
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        source = ShortLived(RayUnavailable("connection refused"), store=store)
        view = Soon(source=source)
        clocks = (lambda: NOW, view.monotonic)
        tail = DriverTail("sub-1", writer, ray=source, view=view, clocks=clocks, first_pace_seconds=0.25)
        assert await tail.follow() is TailEnd.LOST
        sealed = await writer.seal()
        archived = b"".join([piece async for piece in LogReader(store, ZstdCodec()).iter_raw(sealed.key)])
    assert max(source.stored) <= 1  # what was read forwards
    assert sum(gap.missing_bytes or 0 for gap in sealed.gaps if gap.reason is GapReason.DEADLINE) > 0
    kept = archived[-TAIL_BYTES:]
    assert len(kept) == TAIL_BYTES
    assert LARGE.endswith(kept)
