"""A database that nobody migrated: everything that meets it says what to do, and goes on once it is done."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.errors import DatabaseOutdated, DatabaseUnavailable
from archiver.index import migrate
from archiver.index.engine import open_engine
from archiver.index.revision import check_revision
from archiver.index.writes import record
from archiver.read.service import Reader
from archiver.read.views import PageRequest, Scope
from archiver.sandbox.postgres import EmbeddedPostgres
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest
from web.main import create_app

ADVICE = "run `archiver migrate`"


@pytest.fixture
def old_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database of the first revision."""
    url = postgres.create_database("outdated")
    migrate.upgrade(url, "0001")
    yield url
    postgres.drop_database("outdated")


@pytest.fixture
async def old(old_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_engine(old_url)
    yield engine
    await engine.dispose()


async def test_the_check_names_both_revisions_and_what_to_do(old_url: str, old: AsyncEngine) -> None:
    with pytest.raises(DatabaseOutdated, match=rf"0001, not {migrate.head()}: {ADVICE}"):
        await check_revision(old)
    await asyncio.to_thread(migrate.upgrade, old_url)
    await check_revision(old)


async def test_the_check_knows_a_database_without_tables(old_url: str, old: AsyncEngine) -> None:
    await asyncio.to_thread(migrate.downgrade, old_url, "base")
    with pytest.raises(DatabaseOutdated, match=f"at revision none, not {migrate.head()}: {ADVICE}"):
        await check_revision(old)
    with psycopg.connect(old_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP TABLE alembic_version")
    with pytest.raises(DatabaseOutdated, match=f"no tables yet: {ADVICE}"):
        await check_revision(old)


async def test_a_newer_database_is_left_alone(database_url: str, engine: AsyncEngine) -> None:
    plain, head = database_url.replace("+psycopg", ""), migrate.head()
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        try:
            await check_revision(engine)
        finally:
            connection.execute("UPDATE alembic_version SET version_num = %s", (head,))


async def test_an_unreachable_server_is_not_called_old() -> None:
    engine = open_engine("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable):
        await check_revision(engine)
    await engine.dispose()


async def test_reading_and_writing_say_what_to_do_instead_of_naming_a_column_only(
    old: AsyncEngine, tmp_path: Path
) -> None:
    reader = Reader(old, FilesystemStore(tmp_path))
    with pytest.raises(DatabaseOutdated, match=ADVICE):
        await reader.jobs(Scope.everything(), PageRequest())
    written = manifest()
    with pytest.raises(DatabaseOutdated, match=ADVICE) as refused:
        await record(old, written, key_of(written))
    assert refused.value.retryable  # the watcher keeps it and tries again


async def test_readiness_pages_and_api_say_so_and_recover(old_url: str, old: AsyncEngine, tmp_path: Path) -> None:
    app = create_app(Reader(old, FilesystemStore(tmp_path)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        for address in ("/readyz", "/", "/api/v1/jobs"):
            answer = await client.get(address)
            assert (answer.status_code, ADVICE in answer.text) == (503, True), address
        await asyncio.to_thread(migrate.upgrade, old_url)
        for address in ("/readyz", "/", "/api/v1/jobs"):
            assert (await client.get(address)).status_code == 200, address


@pytest.mark.parametrize("command", [("web", "--port", "0", "--host", "127.0.0.1"), ("jobs",)], ids=["web", "jobs"])
async def test_commands_end_with_what_to_do(old_url: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    env = {"ARCHIVER_DATABASE_URL": old_url, "ARCHIVER_STORE": str(tmp_path), "ARCHIVER_HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "archiver", *command, env={**os.environ, **env}, stdout=PIPE, stderr=STDOUT
    )
    output, _ = await process.communicate()
    assert (process.returncode, ADVICE in output.decode()) == (1, True), output.decode()
