"""A store that is away from a RayJob's birth on, through a kill and a retry: attempts stay apart, and nothing is lost."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from archiver.core.manifest import Manifest
from archiver.core.model import Completeness
from archiver.sandbox import SandboxServer
from archiver.store.bucket import init_bucket
from archiver.store.s3 import S3Options
from tests.component.operating import Operated
from tests.component.watcher_process import WatcherProcess
from tests.component.watching import Rig, named, rig, said, until, until_true
from tests.fakes.store.proxy import Fault, FaultProxy, proxy_before
from tests.fakes.store.servers import S3Server, running

FIRST = b"".join(b"first attempt, step %d\n" % number for number in range(300))
SECOND = b"".join(b"second attempt, step %d\n" % number for number in range(300))


pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running("moto", tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as made:
        yield made


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[FaultProxy]:
    async with proxy_before(s3.url) as made:
        yield made


@pytest.fixture
async def place(s3: S3Server, proxy: FaultProxy) -> dict[str, str]:
    """Settings of a bucket behind the proxy."""
    options = S3Options(**{**s3.access(), "bucket": f"down-{os.urandom(6).hex()}"})  # type: ignore[arg-type]
    await asyncio.to_thread(init_bucket, options)
    return {
        "store": f"s3://{options.bucket}/evidence",
        "s3_endpoint": proxy.url,
        "s3_access_key": s3.access_key,
        "s3_secret_key": s3.secret_key,
    }


@pytest.fixture
async def reader(tmp_path: Path, database_url: str, server: SandboxServer, place: dict[str, str]) -> AsyncIterator[Rig]:
    async with rig(tmp_path, database_url, server, is_started=False, **place) as made:
        yield made


@pytest.fixture
async def process(
    tmp_path: Path, database_url: str, server: SandboxServer, place: dict[str, str]
) -> AsyncIterator[WatcherProcess]:
    made = WatcherProcess(server, tmp_path, database_url, place)
    yield made
    await made.kill()


async def _live(job: Operated, text: bytes) -> None:
    job.begin()
    await job.start_head()
    job.status(deployment="Running")
    job.record("RUNNING")
    job.drive(text)


def _retry(job: Operated) -> None:
    job.record("FAILED")
    job.status(job="FAILED", deployment="Retrying", failed=1)
    job.delete_cluster()
    job.kill_pods()
    job.wipe()


def _spooled(folder: Path, number: int, name: str) -> bool:
    """Whether a log of an attempt lies on the disk."""
    for meta in folder.glob("spool/streams/*/stream.json"):
        known = json.loads(meta.read_text())
        if known["name"] == name and known["prefix"].endswith(f"attempt-{number:03d}/"):
            return any(path.suffix in (".part", ".wal") for path in meta.parent.iterdir())
    return False


async def _until_watching(process: WatcherProcess) -> None:
    await process.start()
    await until_true(lambda: process.said().count("watch synced") >= 4)


async def test_attempts_stay_apart_through_a_kill_while_the_store_is_away(
    tmp_path: Path, server: SandboxServer, reader: Rig, process: WatcherProcess, proxy: FaultProxy
) -> None:
    proxy.fail_always(Fault(503, "SlowDown"))
    await _until_watching(process)
    job = Operated(server, mode="HTTPMode", spec={"backoffLimit": 1, "shutdownAfterJobFinishes": False}).create()
    await _live(job, FIRST)
    await until_true(lambda: _spooled(tmp_path, 1, "logs/driver.log"))
    await until_true(lambda: _has_read(tmp_path, len(FIRST)))
    _retry(job)
    await _live(job, SECOND)
    await until_true(lambda: _spooled(tmp_path, 2, "logs/driver.log"))
    await process.kill()
    proxy.heal()
    await process.start()
    await reader.until_read(job.uid, "attempt-002/.parts/logs/driver.log", len(SECOND))
    job.record("FAILED")
    job.end()
    first, second = await reader.archived(job.uid), await reader.archived(job.uid, 2)
    await _check(reader, first, second)


def _has_read(folder: Path, size: int) -> bool:
    """Whether the spool has so many bytes more than nothing: what the driver printed is not compressible to none."""
    return sum(path.stat().st_size for path in folder.glob("spool/streams/*/*") if path.suffix != ".json") > size // 10


async def _check(reader: Rig, first: Manifest, second: Manifest) -> None:
    assert first.ray_cluster != second.ray_cluster
    assert first.outcome.ended_as == "retried"
    assert await reader.text(named(first, "logs/driver")) == FIRST, said(first)
    assert await reader.text(named(second, "logs/driver")) == SECOND, said(second)
    assert named(second, "logs/driver").completeness is Completeness.COMPLETE


async def test_a_rayjob_that_was_born_and_deleted_while_the_store_was_away_is_closed_after_a_kill(
    tmp_path: Path, server: SandboxServer, reader: Rig, process: WatcherProcess, proxy: FaultProxy
) -> None:
    proxy.fail_always(Fault(503, "SlowDown"))
    await _until_watching(process)
    job = Operated(server, mode="HTTPMode").create()
    await _live(job, FIRST)
    await until_true(lambda: _spooled(tmp_path, 1, "logs/driver.log"))
    await process.kill()
    server.cluster.delete("rayjobs", job.namespace, job.name)
    job.delete_cluster()
    job.kill_pods()
    proxy.heal()
    await process.start()
    manifest = await reader.archived(job.uid)
    assert manifest.outcome.ended_as == "deleted"
    assert FIRST.startswith(await reader.text(named(manifest, "logs/driver")))

    async def unmarked() -> bool:
        return not await reader.keys("/_open/")

    await until(unmarked)
    await until_true(lambda: not list(tmp_path.glob("spool/attempts/*.json")))
