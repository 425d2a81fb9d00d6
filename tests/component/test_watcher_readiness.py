"""Readiness names what does not answer, in words and before anything has to be written, and takes it back by itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from archiver.index.migrate import upgrade
from archiver.sandbox import SandboxServer
from archiver.sandbox.postgres import EmbeddedPostgres
from tests.component.test_watcher_faults import on_s3
from tests.component.watching import Rig, rig, until_true
from tests.fakes.store.proxy import Fault
from tests.fakes.store.servers import S3Server, running

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running("moto", tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as made:
        yield made


def says(watched: Rig, *words: str) -> bool:
    return any(all(word in problem for word in words) for problem in watched.status.not_ready())


@pytest.mark.parametrize(
    ("fault", "words"),
    [(Fault(status=503, code="SlowDown"), "503"), (Fault(delay_seconds=30.0), "no answer within 3 s")],
    ids=["refusing", "hanging"],
)
async def test_says_that_the_store_does_not_answer_while_nothing_is_written(
    tmp_path: Path, database_url: str, server: SandboxServer, s3: S3Server, fault: Fault, words: str
) -> None:
    async with on_s3(tmp_path, database_url, server, s3) as (watched, proxy, _):
        await until_true(lambda: not watched.status.not_ready())
        proxy.fail_always(fault)
        await until_true(lambda: says(watched, "the object store does not answer", words))
        proxy.heal()
        await until_true(lambda: not watched.status.not_ready())


async def test_says_that_the_index_and_the_api_server_do_not_answer(server: SandboxServer) -> None:
    # not below pytest's own folder, which it shuts for the user that Postgres runs as
    with TemporaryDirectory(prefix="archiver-postgres-") as folder:
        postgres = EmbeddedPostgres(Path(folder))
        await asyncio.to_thread(postgres.start)
        try:
            url = await asyncio.to_thread(postgres.create_database, "pinged")
            await asyncio.to_thread(upgrade, url)
            with TemporaryDirectory() as home:
                async with rig(Path(home), url, server) as watched:
                    await asyncio.to_thread(postgres.stop)
                    await server.stop()
                    await until_true(lambda: says(watched, "the index does not answer"))
                    await until_true(lambda: says(watched, "the API server does not answer"))
                    await asyncio.to_thread(postgres.start)
                    await server.start()
                    await until_true(lambda: not watched.status.not_ready())
        finally:
            await asyncio.to_thread(postgres.stop)
