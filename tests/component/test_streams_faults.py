"""A store that fails, a spool that is full, a disk that ends: capture waits or goes on, and loses nothing."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from archiver.collect.streams import Streams
from archiver.errors import StoreError
from archiver.store.s3 import S3Options, S3Store
from tests.component.streaming import NAME, NOW, PREFIX, archived, block_of, eventually, follow, log, running, text_of
from tests.fakes.store.proxy import Fault, FaultProxy, proxy_before
from tests.fakes.store.servers import S3Server
from tests.fakes.store.servers import running as s3_running
from tests.unit.core.logtext import stamped


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_running("moto", tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
async def proxy(server: S3Server) -> AsyncIterator[FaultProxy]:
    async with proxy_before(server.url) as started:
        yield started


@pytest.fixture
async def store(server: S3Server, proxy: FaultProxy) -> AsyncIterator[S3Store]:
    options = await asyncio.to_thread(server.options)
    near = S3Server(proxy.url, server.access_key, server.secret_key).access()
    async with S3Store(S3Options(bucket=options.bucket, **(near | {"call_timeout_seconds": 3.0}))) as opened:  # type: ignore[arg-type]
        yield opened


@pytest.mark.parametrize(
    "fault",
    [Fault(500), Fault(503, "SlowDown"), Fault(403, "AccessDenied"), Fault(404, "NoSuchBucket"), Fault(cut=True)],
)
async def test_capture_goes_on_while_the_store_fails(
    store: S3Store, proxy: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    async with running(store, tmp_path / "spool") as streams:
        proxy.fail_always(fault)
        writer = await streams.open(PREFIX, NAME, now=NOW)
        for first in range(0, 500, 100):
            await writer.write_lines(block_of(log(first, 100)))
            await writer.flush()
        await eventually(lambda: streams.last_error is not None)
        assert streams.usage_bytes > 0
        assert streams.oldest_seconds > 0
        proxy.heal()
        sealed = await writer.seal()
        assert streams.last_error is None
    assert (sealed.lines, await archived(store)) == (500, text_of(log(0, 500)))


async def test_a_put_whose_answer_was_lost_is_our_own(store: S3Store, proxy: FaultProxy, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(block_of(log(0, 100)))
        proxy.fail(1, Fault(500, after=True), "PUT")
        sealed = await writer.seal()
        assert not writer.is_lost
    assert (sealed.lines, await archived(store)) == (100, text_of(log(0, 100)))


async def test_a_seal_that_fails_can_be_asked_for_again(store: S3Store, proxy: FaultProxy, tmp_path: Path) -> None:
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, 100)))
        await writer.flush()
        await streams.settle(PREFIX)
        proxy.fail_always(Fault(400, "InvalidArgument"))
        with pytest.raises(StoreError, match="answered 400"):
            await writer.seal()
        proxy.heal()
        assert (await writer.seal()).lines == 100


async def test_a_full_spool_makes_writers_wait_and_drops_nothing(
    store: S3Store, proxy: FaultProxy, tmp_path: Path
) -> None:
    async with running(store, tmp_path / "spool", limit_bytes=20_000) as streams:
        proxy.fail_always(Fault(503, "SlowDown"))
        writer = await streams.open(PREFIX, NAME, now=NOW)
        done: list[int] = []

        async def write() -> None:
            for first in range(0, 5000, 100):
                await writer.write_lines(block_of(log(first, 100)))
                await writer.sync()
                done.append(first)

        task = asyncio.create_task(write(), name="writer under test")
        await eventually(lambda: streams.is_full)
        waiting = len(done)
        assert not streams.healthy
        assert waiting < 50
        await writer.flush()
        proxy.heal()
        await task
        sealed = await writer.seal()
        assert streams.usage_bytes < 20_000
    assert (sealed.lines, await archived(store)) == (5000, text_of(log(0, 5000)))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB where we may mount one; elsewhere the process's own limit for files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        if not is_mounted:
            (folder / "spool").symlink_to("/dev/full")
        yield folder
    finally:
        if is_mounted:
            subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_is_a_full_spool(store: S3Store, proxy: FaultProxy, small_disk: Path) -> None:
    if (small_disk / "spool").is_symlink():
        (small_disk / "spool").unlink()
    (small_disk / "filler").write_bytes(bytes(300_000))
    async with running(store, small_disk / "spool") as streams:
        proxy.fail_always(Fault(503, "SlowDown"))
        writer = await streams.open(PREFIX, NAME, now=NOW)
        task = asyncio.create_task(_write_much(streams), name="writer under test")
        await eventually(lambda: streams.is_full or task.done())
        (small_disk / "filler").unlink()
        proxy.heal()
        await task
        sealed = await writer.seal()
    assert (sealed.lines, await archived(store)) == (60_000, text_of(log(0, 60_000)))


async def _write_much(streams: Streams) -> None:
    writer = await streams.open(PREFIX, NAME, now=NOW)
    for first in range(0, 60_000, 2000):
        await writer.write_lines(block_of(log(first, 2000)))
        await writer.sync()


async def test_a_stop_that_finds_no_store_leaves_everything_on_the_disk(
    store: S3Store, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.fail_always(Fault(503, "SlowDown"))
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await writer.write_lines(block_of(log(0, 100)))
    await streams.close(deadline_seconds=0.5)
    proxy.heal()
    async with running(store, tmp_path / "spool") as streams:
        sealed = await (await streams.open(PREFIX, NAME, now=NOW)).seal()
    assert (sealed.lines, await archived(store)) == (100, text_of(log(0, 100)))
