"""A head that goes before its driver log was read to the end after the job was over: nobody may call that log complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from archiver.collect.driver import DriverTail, TailEnd
from archiver.collect.streams import StreamWriter
from archiver.core.model import GapReason
from archiver.errors import RayUnavailable
from archiver.ports import FileRange, RayHead
from archiver.store.filesystem import FilesystemStore
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
