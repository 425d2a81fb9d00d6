"""The index where nobody configured one: the configured database, or an embedded Postgres below HOME, shared by processes.

The first process starts the server and says where; others on the same folder connect to it while it runs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from archiver.errors import UserError
from archiver.index.migrate import upgrade
from archiver.sandbox.postgres import EmbeddedPostgres
from archiver.settings import Settings

_DATABASE = "archiver"


@asynccontextmanager
async def index_url(settings: Settings) -> AsyncIterator[str]:
    """The URL of the index, migrated where it is ours."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    folder = settings.home_dir / "postgres"
    note = folder / "url"
    running = await asyncio.to_thread(_running, note)
    if running:
        yield running
        return
    postgres = EmbeddedPostgres(folder)
    await asyncio.to_thread(postgres.start)
    try:
        url = await asyncio.to_thread(postgres.create_database, _DATABASE)
        await asyncio.to_thread(upgrade, url)
        note.write_text(url, encoding="utf-8")
        yield url
    finally:
        note.unlink(missing_ok=True)
        await asyncio.to_thread(postgres.stop)


def _running(note: Path) -> str | None:
    """Where another process's server answers; a note that a killed process left leads nowhere."""
    try:
        url = note.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    try:
        psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return None
    return url


def require_url(settings: Settings) -> str:
    """The configured database, for what runs in a cluster. Raises UserError where there is none."""
    if settings.database_url is None:
        raise UserError(
            "ARCHIVER_DATABASE_URL is not set: give the index's postgresql://… address, or use `archiver up`"
        )
    return settings.database_url.get_secret_value()
