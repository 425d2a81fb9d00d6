"""A watcher that is killed at any moment and started again: no byte lost that can still be read, nothing twice."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archiver.core.model import Artifact, Completeness
from archiver.sandbox import SandboxServer
from tests.component.operating import Operated
from tests.component.watcher_process import WatcherProcess
from tests.component.watching import Rig, named, rig, said, until, until_true

KILLS = 3


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as running:
        yield running


@pytest.fixture
async def reader(tmp_path: Path, database_url: str, server: SandboxServer) -> AsyncIterator[Rig]:
    """The archive alone; the watcher is a process of its own."""
    async with rig(tmp_path, database_url, server, is_started=False) as made:
        yield made


@pytest.fixture
async def process(tmp_path: Path, database_url: str, server: SandboxServer) -> AsyncIterator[WatcherProcess]:
    made = WatcherProcess(server, tmp_path, database_url)
    yield made
    await made.kill()


class Printing:
    """A RayJob whose containers and driver print numbered lines until they are told to stop."""

    def __init__(self, server: SandboxServer, name: str) -> None:
        self.job = Operated(server, name=name, spec={"shutdownAfterJobFinishes": False}).create()
        self.printed = bytearray()
        self.number = 0

    async def begin(self) -> None:
        self.job.begin()
        await self.job.start_head()
        self.job.status(deployment="Running")
        self.job.record("RUNNING")
        self.run = self.job.start_submitter()

    def print(self, lines: int) -> None:
        text = b"".join(b"%s line %d\n" % (self.job.name.encode(), self.number + n) for n in range(lines))
        self.number += lines
        self.printed += text
        self.job.write(self.run, text)
        self.job.write(self.job.head_run, text)
        self.job.drive(text)

    def end(self) -> None:
        self.job.finish(self.run, 1)
        self.job.record("FAILED")
        self.job.end()


async def test_kills_at_random_moments_lose_nothing_and_double_nothing(
    server: SandboxServer, reader: Rig, process: WatcherProcess
) -> None:
    dice = random.Random(20261130)
    jobs = [Printing(server, f"job-{number}") for number in range(4)]
    is_over = asyncio.Event()

    async def live() -> None:
        while not is_over.is_set():
            for printing in jobs:
                printing.print(dice.randrange(1, 40))
            await asyncio.sleep(0.05)

    for printing in jobs:
        await printing.begin()
    life = asyncio.create_task(live())
    for kill in range(KILLS):
        before = len(await reader.keys(".parts/"))
        await process.start()
        await _more_parts(reader, before)
        await asyncio.sleep(dice.random() * 1.5)  # the moment of the kill
        if kill == KILLS - 1:
            jobs[0].end()
        await process.kill()
    is_over.set()
    await life
    for printing in jobs[1:]:
        printing.end()
    await process.start()
    for printing in jobs:
        manifest = await reader.archived(printing.job.uid)
        for name in ("logs/submitter", "logs/head", "logs/driver"):
            artifact = named(manifest, name)
            assert await reader.text(artifact) == bytes(printing.printed), (name, said(manifest))
            assert artifact.completeness is Completeness.COMPLETE, said(manifest)
        await _nothing_twice(reader, manifest.artifacts)
    assert '"level": "error"' not in process.said(), process.said()[-3000:]


async def _more_parts(reader: Rig, before: int) -> None:
    async def look() -> bool:
        return len(await reader.keys(".parts/")) > before

    await until(look)


async def _nothing_twice(reader: Rig, artifacts: tuple[Artifact, ...]) -> None:
    """The same version of an object is in its journal once."""
    for artifact in artifacts:
        if artifact.name.endswith(".ndjson") and artifact.name.startswith("kube/"):
            lines = Counter((await reader.text(artifact)).splitlines())
            assert max(lines.values()) == 1, artifact.name


async def test_what_died_while_nobody_watched_is_said_to_be_missing(
    server: SandboxServer, reader: Rig, process: WatcherProcess
) -> None:
    printing = Printing(server, "lost")
    await printing.begin()
    printing.print(500)
    await process.start()
    uid = printing.job.uid
    await reader.until_read(uid, "logs/head", len(printing.printed))
    await reader.until_read(uid, "logs/driver", len(printing.printed))
    await reader.until_stored(uid, "manifest.json")
    seen = bytes(printing.printed)
    await process.kill()
    printing.print(500)
    printing.end()
    printing.job.delete_cluster()
    printing.job.kill_pods()
    await process.start()
    manifest = await reader.archived(uid)
    head, driver = named(manifest, "logs/head"), named(manifest, "logs/driver")
    assert (await reader.text(head), await reader.text(driver)) == (seen, seen)
    assert {head.completeness, driver.completeness} == {Completeness.PARTIAL}, said(manifest)
    assert "when the archiver came back" in head.reason
    assert "when the archiver came back" in driver.reason
    assert await reader.text(named(manifest, "logs/submitter")) == bytes(printing.printed)
    assert manifest.completeness is Completeness.PARTIAL


async def test_a_stop_stores_what_was_read_and_ends_in_time(
    server: SandboxServer, reader: Rig, process: WatcherProcess
) -> None:
    printing = Printing(server, "stopped")
    await printing.begin()
    await process.start()
    for _ in range(20):
        printing.print(50)
        await reader.until_read(printing.job.uid, "logs/head", 1)
    last = len(printing.printed)
    await until_true(lambda: "watch synced" in process.said())
    await reader.until_read(printing.job.uid, "logs/driver", last)
    assert await process.terminate() == 0
    assert '"level": "error"' not in process.said(), process.said()[-3000:]
    stored = [key for key in await reader.keys("logs/head") if ".parts/" in key]
    artifact = stored[0].replace("/.parts/", "/").rpartition("/")[0]
    assert await reader.text(Artifact(**{**_EMPTY, "key": artifact})) == bytes(printing.printed)


_EMPTY = {
    "name": "",
    "kind": "log",
    "raw_bytes": 0,
    "stored_bytes": 0,
    "lines": 0,
    "sha256": "",
    "completeness": Completeness.COMPLETE,
    "reason": "",
}


async def test_another_replica_takes_over_within_15_seconds_and_doubles_nothing(
    server: SandboxServer, reader: Rig, database_url: str, tmp_path: Path
) -> None:
    printing = Printing(server, "handed-over")
    await printing.begin()
    printing.print(300)
    lease = {"lease_namespace": "team-a", "store": str(tmp_path / "store")}
    first = WatcherProcess(server, tmp_path / "first", database_url, {**lease, "identity": "first"})
    second = WatcherProcess(server, tmp_path / "second", database_url, {**lease, "identity": "second"})
    try:
        await first.start()
        await reader.until_read(printing.job.uid, "logs/head", len(printing.printed))
        await second.start()
        await until_true(lambda: (tmp_path / "second" / "watcher.log").stat().st_size >= 0)
        await first.kill()
        printing.print(300)
        began = asyncio.get_running_loop().time()
        await until_true(lambda: '"leading"' in second.said())
        taken_over = asyncio.get_running_loop().time() - began
        printing.end()
        manifest = await reader.archived(printing.job.uid)
    finally:
        await first.kill()
        await second.kill()
    assert taken_over < 15 + 10  # a lease of 10 s, and the start of a process on a slow machine
    for name in ("logs/submitter", "logs/head", "logs/driver"):
        assert await reader.text(named(manifest, name)) == bytes(printing.printed), said(manifest)
