"""A log that is silent is opened again by schedule, so that a connection which died without a sign costs no line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from archiver.collect.podlog import LogFollower
from archiver.core.model import LogKind
from archiver.core.pods import WantedLog
from archiver.kube.access import PlainAccess
from archiver.kube.podlogs import ApiServerPodLogs
from archiver.kube.transport import Transport
from archiver.ports import LogRequest
from archiver.sandbox import SandboxServer
from archiver.store.filesystem import FilesystemStore
from tests.component.operating import Operated
from tests.component.streaming import NAME, NOW, PREFIX, archived, eventually, running
from tests.component.test_hopeless_sources import Over

SILENT_SECONDS = 0.2


class Living(Over):
    """A container that runs until it is told to be over."""

    is_over = False

    def is_finished(self, run: object) -> bool:
        return self.is_over

    def started_at(self, run: object) -> None:
        return None

    async def wait_change(self, timeout_seconds: float) -> None:
        await asyncio.sleep(0.01)


class Counting(ApiServerPodLogs):
    """Counts how often the log is opened."""

    opened = 0

    def stream(self, request: LogRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.opened += 1
        return super().stream(request)


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as made:
        yield made


async def test_a_silent_log_is_opened_again_and_no_line_is_lost_or_doubled(
    server: SandboxServer, tmp_path: Path
) -> None:
    job = Operated(server).create()
    job.begin()
    await job.start_head()
    run, view = job.head_run, Living()
    assert run is not None
    async with (
        Transport(PlainAccess(server.url, server.token, where="the sandbox")) as transport,
        running(FilesystemStore(tmp_path / "store"), tmp_path / "spool") as streams,
    ):
        logs = Counting(transport, silent_seconds=SILENT_SECONDS)
        writer = await streams.open(PREFIX, NAME, now=NOW)
        wanted = WantedLog(run, LogKind.HEAD, is_finished=False)
        follower = LogFollower(wanted, writer, logs=logs, view=view, now=lambda: datetime.now(UTC))
        following = asyncio.create_task(follower.follow())
        expected = b""
        for turn in range(3):
            before = logs.opened
            text = b"turn %d\nturn %d\n" % (turn, turn)
            expected += text
            job.write(run, text)
            await eventually(lambda before=before: logs.opened > before + 1)  # type: ignore[misc]
        job.finish(run, 0)
        view.is_over = True
        await following
        sealed = await writer.seal()
    assert (await archived(FilesystemStore(tmp_path / "store")), sealed.gaps) == (expected, ())
