"""Store, index and API server that fail for a while: capture goes on or waits, says so, and catches up by itself."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from archiver.collect.catalog import Catalog
from archiver.core.manifest import ManifestState
from archiver.core.model import Completeness
from archiver.errors import DatabaseUnavailable
from archiver.index.migrate import upgrade
from archiver.read.views import Scope
from archiver.sandbox import SandboxServer
from archiver.sandbox.postgres import EmbeddedPostgres
from archiver.store.bucket import init_bucket
from archiver.store.notes import Notes
from archiver.store.s3 import S3Options
from tests.component.operating import Operated
from tests.component.watching import Rig, named, rig, said, until, until_true
from tests.fakes.store.proxy import Fault, FaultProxy, proxy_before
from tests.fakes.store.servers import S3Server, running

WORDS = b"".join(b"step %d of a job\n" % number for number in range(4000))


pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running("moto", tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def postgres_folder() -> Iterator[Path]:
    """Not below pytest's own folder, which each start of pytest shuts for other users: under root Postgres is one."""
    with TemporaryDirectory(prefix="archiver-postgres-") as folder:
        yield Path(folder)


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as made:
        yield made


@asynccontextmanager
async def on_s3(
    folder: Path, database_url: str, server: SandboxServer, s3: S3Server, *, has_bucket: bool = True, **changed: Any
) -> AsyncIterator[tuple[Rig, FaultProxy, S3Options]]:
    """A watcher whose bucket is behind a proxy that fails on order."""
    async with proxy_before(s3.url) as proxy:
        options = S3Options(**{**s3.access(), "bucket": f"watch-{os.urandom(6).hex()}"})  # type: ignore[arg-type]
        if has_bucket:
            await asyncio.to_thread(init_bucket, options)
        values = {
            "store": f"s3://{options.bucket}/evidence",
            "s3_endpoint": proxy.url,
            "s3_access_key": s3.access_key,
            "s3_secret_key": s3.secret_key,
            **changed,
        }
        async with rig(folder, database_url, server, **values) as made:
            yield made, proxy, options


async def run_to_its_end(job: Operated, watched: Rig, text: bytes = WORDS) -> None:
    """A whole life, at the pace at which the archiver reads it; the store has no part in that."""
    job.begin()
    await job.start_head()
    job.write(job.head_run, b"ray started\n")
    job.status(deployment="Running")
    job.record("RUNNING")
    job.drive(text)
    assert watched.status.streams is not None
    streams = watched.status.streams
    run = job.start_submitter()
    job.write(run, text)
    await until_true(lambda: streams.open_count >= 6)
    await until_true(lambda: streams.usage_bytes > 0 or streams.last_error is None)
    job.finish(run)
    job.record("FAILED")
    job.end()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503, code="SlowDown"),
        Fault(status=403, code="AccessDenied"),
        Fault(status=500),
        Fault(delay_seconds=1.0),
    ],
    ids=["503", "403", "500", "slow"],
)
async def test_a_store_that_fails_for_a_while_costs_nothing(
    tmp_path: Path, database_url: str, server: SandboxServer, s3: S3Server, fault: Fault
) -> None:
    async with on_s3(tmp_path, database_url, server, s3) as (watched, proxy, _):
        proxy.fail_always(fault)
        job = Operated(server, spec={"shutdownAfterJobFinishes": False}).create()
        await run_to_its_end(job, watched)
        streams = watched.status.streams
        assert streams is not None
        if fault.status:
            await until_true(lambda: streams.last_error)
        proxy.heal()
        manifest = await watched.archived(job.uid)
        for name in ("logs/driver", "logs/submitter"):
            assert await watched.text(named(manifest, name)) == WORDS, said(manifest)
        assert named(manifest, "logs/driver").completeness is Completeness.COMPLETE
        await until_true(lambda: streams.last_error is None)
        await until_true(lambda: not watched.status.not_ready())


async def test_a_bucket_that_does_not_exist_yet_is_waited_for(
    tmp_path: Path, database_url: str, server: SandboxServer, s3: S3Server
) -> None:
    async with on_s3(tmp_path, database_url, server, s3, has_bucket=False) as (watched, _, options):
        job = Operated(server, spec={"shutdownAfterJobFinishes": False}).create()
        await run_to_its_end(job, watched)
        streams = watched.status.streams
        assert streams is not None
        await until_true(lambda: streams.last_error)
        assert options.bucket in str(streams.last_error)
        await asyncio.to_thread(init_bucket, options)
        manifest = await watched.archived(job.uid)
        assert await watched.text(named(manifest, "logs/driver")) == WORDS


async def test_a_full_spool_holds_the_writers_up_and_loses_nothing(
    tmp_path: Path, database_url: str, server: SandboxServer, s3: S3Server
) -> None:
    limit = 16 << 20
    # hardly compressible, so that the limit is reached however fast parts are made of it
    text = b"".join(base64.b85encode(os.urandom(960)) + b"\n" for _ in range(20_000))
    async with on_s3(tmp_path, database_url, server, s3, spool_limit_bytes=limit) as (watched, proxy, _):
        proxy.fail_always(Fault(status=503))
        job = Operated(server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        streams = watched.status.streams
        assert streams is not None
        await until_true(lambda: streams.open_count >= 3)
        for start in range(0, len(text), 1 << 20):
            job.drive(text[start : start + (1 << 20)])
            await asyncio.sleep(0)
        await until_true(lambda: streams.is_full)
        assert any("the object store takes nothing" in problem for problem in watched.status.not_ready())
        assert streams.usage_bytes < 2 * limit
        proxy.heal()
        await until_true(lambda: not streams.is_full)
        job.record("SUCCEEDED")
        job.end("SUCCEEDED")
        manifest = await watched.archived(job.uid)
        assert await watched.text(named(manifest, "logs/driver")) == text


async def test_a_start_while_the_store_is_down_forgets_no_pod(
    tmp_path: Path, database_url: str, server: SandboxServer, s3: S3Server
) -> None:
    """RayJobs wait for the archive's word; what the watches showed of their pods meanwhile is not lost."""
    async with on_s3(tmp_path, database_url, server, s3) as (watched, proxy, _):
        await watched.stop()
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(WORDS)
        proxy.fail_always(Fault(status=503))
        # the gate opens without the answer after ten seconds: pods come before their RayJob is known
        await watched.start()
        informers = watched.status.informers
        assert informers is not None
        await informers.wait_synced(timeout_seconds=60)
        proxy.heal()
        await watched.until_read(job.uid, ".parts/logs/driver", len(WORDS))
        job.record("FAILED")
        job.end()
        job.delete_cluster()
        await watched.until_read(job.uid, "logs/driver.log.zst", 1)
        job.kill_pods()
        manifest = await watched.archived(job.uid)
        assert await watched.text(named(manifest, "logs/driver")) == WORDS


async def test_the_index_may_be_down_for_the_whole_life_of_a_job(
    tmp_path: Path, postgres_folder: Path, server: SandboxServer
) -> None:
    postgres = EmbeddedPostgres(postgres_folder)
    await asyncio.to_thread(postgres.start)
    try:
        url = await asyncio.to_thread(postgres.create_database, "down")
        await asyncio.to_thread(upgrade, url)
        async with rig(tmp_path / "home", url, server) as watched:
            await asyncio.to_thread(postgres.stop)
            job = Operated(server, spec={"shutdownAfterJobFinishes": False}).create()
            await run_to_its_end(job, watched)
            manifest = await watched.archived(job.uid)
            assert await watched.text(named(manifest, "logs/driver")) == WORDS
            await until_true(watched.status.not_ready)
            assert any("the index takes nothing" in problem for problem in watched.status.not_ready())
            assert await watched.keys("/_open/")
            await asyncio.to_thread(postgres.start)

            async def row() -> bool:
                with suppress(DatabaseUnavailable):
                    found = await watched.archive.reader.job(Scope.everything(), job.uid)
                    return found is not None and found.attempts[0].state is ManifestState.FINAL
                return False

            await until(row)
            await until_true(lambda: not watched.status.not_ready())

            async def unmarked() -> bool:
                return not await watched.keys("/_open/")

            await until(unmarked)
    finally:
        await asyncio.to_thread(postgres.stop)


async def test_a_final_manifest_without_its_row_gets_it_at_the_next_start(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    """Killed between the manifest and the index: the RayJob is still there, and nothing of it changes any more."""
    async with rig(tmp_path, database_url, server) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.status(deployment="ValidationFailed", message="no")
        manifest = await watched.archived(job.uid)

        async def unmarked() -> bool:
            return not await watched.keys("/_open/")

        await until(unmarked)
        await watched.stop()
        async with watched.archive.engine.begin() as connection:
            await connection.exec_driver_sql("TRUNCATE rayjobs, attempts CASCADE")
        notes = Notes(tmp_path / "of-an-earlier-process")
        catalog = Catalog(watched.store, notes, prefix=watched.archive.prefix, cluster=watched.settings.cluster)
        assert manifest.times.created is not None
        await catalog.mark_open(manifest.attempt, manifest.times.created, "")
        await watched.start()

        async def row() -> bool:
            return await watched.archive.reader.job(Scope.everything(), job.uid) is not None

        await until(row)
        await until(unmarked)


async def test_a_deletion_that_the_index_missed_is_written_after_a_restart(
    postgres_folder: Path, tmp_path: Path, server: SandboxServer
) -> None:
    """The final manifest learns of the deletion while Postgres is away, and the watcher ends before it is back."""
    postgres = EmbeddedPostgres(postgres_folder)
    await asyncio.to_thread(postgres.start)
    try:
        url = await asyncio.to_thread(postgres.create_database, "amended")
        await asyncio.to_thread(upgrade, url)
        async with rig(tmp_path / "home", url, server) as watched:
            job = Operated(server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
            job.begin()
            await job.start_head()
            job.record("RUNNING")
            job.drive(WORDS)
            await watched.until_read(job.uid, "logs/driver", len(WORDS))
            job.record("FAILED")
            job.end()
            await watched.archived(job.uid)
            await until(lambda: _is_gone(watched, "/_open/"))
            await asyncio.to_thread(postgres.stop)
            job.delete_cluster()

            async def amended() -> bool:
                return (await watched.archived(job.uid)).times.cluster_deleted is not None

            await until(amended)
            wanted = (await watched.archived(job.uid)).revision
            await watched.stop()
            await asyncio.to_thread(postgres.start)
            await watched.start()

            async def row() -> bool:
                async with watched.archive.engine.connect() as connection:
                    found = await connection.exec_driver_sql("SELECT revision FROM attempts")
                    return found.scalar_one() == wanted

            await until(row)
            await until(lambda: _is_gone(watched, "/_open/"))
    finally:
        await asyncio.to_thread(postgres.stop)


async def _is_gone(watched: Rig, part: str) -> bool:
    return not await watched.keys(part)


async def test_an_api_server_that_restarts_and_forgets_costs_no_line(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    async with rig(tmp_path, database_url, server) as watched:
        job = Operated(server, spec={"shutdownAfterJobFinishes": False}).create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        run = job.start_submitter()
        expected = bytearray()
        for turn in range(4):
            text = b"".join(b"turn %d line %d\n" % (turn, number) for number in range(500))
            expected += text
            job.write(run, text)
            job.drive(text)
            await watched.until_read(job.uid, "logs/submitter", 1)
            if turn == 0:
                await server.stop()
                await server.start()
            elif turn == 1:
                server.cluster.cut_streams()
            elif turn == 2:
                server.cluster.forget_history()
                server.cluster.cut_streams("watch")
                server.cluster.fail_next(3, 503)
        await watched.until_read(job.uid, "logs/submitter", len(expected))
        job.finish(run, 1)
        job.record("FAILED")
        job.end()
        manifest = await watched.archived(job.uid)
        for name in ("logs/submitter", "logs/driver"):
            assert await watched.text(named(manifest, name)) == bytes(expected)
            assert named(manifest, name).completeness is Completeness.COMPLETE, said(manifest)


async def test_an_api_server_that_is_down_at_the_start_closes_no_attempt(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    """What cannot be listed is not gone."""
    async with rig(tmp_path, database_url, server) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(WORDS)
        await watched.until_stored(job.uid, "manifest.json", ".parts/logs/driver")
        await watched.stop()
        server.cluster.deny("list", "*")
        await watched.start()
        await until_true(watched.status.not_ready)
        server.cluster.allow_all()
        assert [manifest.state for manifest in await watched.manifests(job.uid)] == [ManifestState.OPEN]


async def test_what_was_deleted_while_the_api_server_was_away_is_seen(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    async with rig(tmp_path, database_url, server) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(WORDS)
        await watched.until_read(job.uid, ".parts/logs/driver", len(WORDS))
        await server.stop()
        server.cluster.delete("rayjobs", job.namespace, job.name)
        job.delete_cluster()
        job.kill_pods()
        server.cluster.forget_history()
        await server.start()
        manifest = await watched.archived(job.uid)
        assert manifest.outcome.ended_as == "deleted"
        assert await watched.text(named(manifest, "logs/driver")) == WORDS
