"""Asks whether the database answers and has the tables of this release. Changes nothing: that is ``migrate``'s."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.errors import DatabaseOutdated
from archiver.index import migrate
from archiver.index.engine import MIGRATE, reading


async def check_revision(engine: AsyncEngine) -> None:
    """Raises DatabaseUnavailable where Postgres does not answer, DatabaseOutdated where its tables are older.

    A revision that this release does not know is a newer release's, and those leave the tables readable.
    """
    async with reading(engine) as connection:
        if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
            raise DatabaseOutdated(f"the database has no tables yet: {MIGRATE}")
        found = await connection.scalar(text("SELECT version_num FROM alembic_version"))
    known = migrate.revisions()
    if found is None or found in known[1:]:
        raise DatabaseOutdated(f"the database is at revision {found or 'none'}, not {known[0]}: {MIGRATE}")
