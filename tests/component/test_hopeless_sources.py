"""Errors that will never go away: a source that is over and cannot be read ends in a gap with its reason, in no loop."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from archiver.collect.driver import DriverTail, TailEnd
from archiver.collect.podlog import LogFollower
from archiver.collect.streams import StreamWriter
from archiver.core.model import ContainerRun, GapReason, LogKind
from archiver.core.pods import WantedLog
from archiver.errors import KubeError, KubeUnavailable, RayUnavailable
from archiver.ports import FileRange, LogRequest, RayHead
from archiver.store.filesystem import FilesystemStore
from tests.component.streaming import NAME, NOW, PREFIX, running

RUN = ContainerRun("team-a", "pod-1", "uid-1", "main", 0)
HEAD = RayHead("team-a", "cluster-1", "head-1", "uid-2", "127.0.0.1", None)


@dataclass(slots=True)
class Over:
    """A container and a job that are over, on a pod that stays; each wait takes a minute of its clock."""

    minutes: int = 0
    records: list[Mapping[str, Any]] = field(default_factory=list)

    def is_finished(self, run: ContainerRun) -> bool:
        return True

    def is_pod_gone(self, run: ContainerRun) -> bool:
        return False

    def is_node_lost(self, run: ContainerRun) -> bool:
        return False

    def has_restarted(self, run: ContainerRun) -> bool:
        return False

    def started_at(self, run: ContainerRun) -> datetime | None:
        return NOW

    def ended_at(self, run: ContainerRun) -> datetime | None:
        return NOW

    def head(self) -> RayHead | None:
        return HEAD

    def head_run(self) -> tuple[str, int] | None:
        return HEAD.pod_uid, 0

    def is_ending(self) -> bool:
        return True

    def is_job_over(self) -> bool:
        return True

    def had_job(self) -> bool:
        return True

    def is_head_lost(self) -> bool:
        return False

    def is_held(self) -> bool:
        return False

    def on_record(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)

    def monotonic(self) -> float:
        return 60.0 * self.minutes

    async def wait_change(self, timeout_seconds: float) -> None:
        self.minutes += 1


@dataclass(slots=True)
class Failing:
    """A log endpoint and a Ray head that give one error for ever."""

    error: Exception
    asked: int = 0

    @asynccontextmanager
    async def stream(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked += 1
        if self.asked:
            raise self.error
        yield _nothing()

    async def job(self, head: RayHead, submission_id: str) -> Mapping[str, Any] | None:
        return {"status": "FAILED"}

    async def read_log(self, head: RayHead, path: str, **where: Any) -> FileRange | None:
        self.asked += 1
        raise self.error

    async def list_logs(self, head: RayHead, **where: Any) -> Mapping[str, int | None] | None:
        return None

    async def state(self, head: RayHead, what: str, **how: Any) -> Mapping[str, Any] | None:
        return None


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[StreamWriter]:
    async with running(FilesystemStore(tmp_path / "store"), tmp_path / "spool") as streams:
        yield await streams.open(PREFIX, NAME, now=NOW)


@pytest.mark.parametrize(("error", "most"), [(KubeError("HTTP 422: no"), 10), (KubeUnavailable("HTTP 500: gone"), 20)])
async def test_a_log_that_will_never_be_read_is_a_gap(writer: StreamWriter, error: KubeError, most: int) -> None:
    source = Failing(error)
    wanted = WantedLog(RUN, LogKind.SUBMITTER, is_finished=True)
    await LogFollower(wanted, writer, logs=source, view=Over(), now=lambda: NOW).follow()
    sealed = await writer.seal()
    assert [gap.reason for gap in sealed.gaps] == [GapReason.UNREADABLE]
    assert str(error) in sealed.gaps[0].detail
    assert source.asked <= most


async def test_an_api_server_that_is_away_for_minutes_is_waited_for(writer: StreamWriter) -> None:
    view, source = Over(), Failing(KubeUnavailable("no answer"))
    wanted = WantedLog(RUN, LogKind.SUBMITTER, is_finished=True)
    await LogFollower(wanted, writer, logs=source, view=view, now=lambda: NOW).follow()
    assert view.minutes >= 10


async def test_a_driver_log_that_a_living_head_never_gives_is_a_gap(writer: StreamWriter) -> None:
    view = Over()
    source = Failing(RayUnavailable("Ray answered 500"))
    tail = DriverTail(
        "sub-1", writer, ray=source, view=view, clocks=(lambda: NOW, view.monotonic), first_pace_seconds=0.25
    )
    assert await tail.follow() is TailEnd.UNREADABLE
    sealed = await writer.seal()
    assert [gap.reason for gap in sealed.gaps] == [GapReason.UNREADABLE]
    assert view.minutes >= 5
