"""Fixtures that every test may ask for. Postgres is a real one: one server a session, one database a module."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.index import migrate
from archiver.index.engine import open_engine
from archiver.index.tables import metadata
from archiver.sandbox.postgres import EmbeddedPostgres

TEMPLATE = "template_archiver"
OTHERS = "datname = current_database() AND pid <> pg_backend_pid()"
OTHERS_END = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The server, with one migrated database that the others are copied from.

    Not below pytest's own folder: each start of pytest shuts that folder for other users, and under root Postgres is one.
    """
    with TemporaryDirectory(prefix="archiver-postgres-") as folder:
        server = EmbeddedPostgres(Path(folder), throwaway=True)
        server.start()
        try:
            migrate.upgrade(server.create_database(TEMPLATE))
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def database_url(postgres: EmbeddedPostgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated database of the module's own."""
    name = re.sub(r"\W+", "_", request.module.__name__)[-60:].lower()
    url = postgres.create_database(name, template=TEMPLATE)
    yield url
    postgres.drop_database(name)


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """A pool on the module's database, whose tables are empty."""
    opened = open_engine(database_url)
    try:
        async with opened.begin() as connection:
            # a statement that a test before gave up on may still run in the server, and hold its locks
            await connection.execute(text(OTHERS_END))
            await connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            await connection.execute(text(f"TRUNCATE {', '.join(metadata.tables)}"))
        yield opened
    finally:
        await opened.dispose()
