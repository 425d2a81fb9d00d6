"""Brings the tables of the index to a revision: up, down, and which one it is. Synchronous; for one-off commands.

Two that run at once wait for each other. A lock that another session holds is waited for briefly, then it is an error:
a migration must not stand in the way of the writers behind it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from archiver.errors import UserError
from archiver.index.engine import database_url, translated

_ADVISORY_LOCK = 7_162_001
LOCK_SECONDS = 10.0


def head() -> str:
    """The revision that this release needs."""
    return revisions()[0]


@cache
def revisions() -> tuple[str, ...]:
    """All that this release knows, the newest first."""
    return tuple(each.revision for each in ScriptDirectory.from_config(_config()).walk_revisions())


def current(url: str) -> str | None:
    """The revision of a database, None before the first migration."""
    with _connected(url, LOCK_SECONDS) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(url: str, revision: str = "head", *, lock_seconds: float = LOCK_SECONDS) -> None:
    """Raises DatabaseUnavailable, DatabaseError, or UserError for a revision that does not exist."""
    with _connected(url, lock_seconds) as connection:
        _run(connection, command.upgrade, revision)


def downgrade(url: str, revision: str = "-1", *, lock_seconds: float = LOCK_SECONDS) -> None:
    """``base`` takes every table away; what they held can be rebuilt from the bucket."""
    with _connected(url, lock_seconds) as connection:
        _run(connection, command.downgrade, revision)


def _run(connection: Connection, step: object, revision: str) -> None:
    assert callable(step)
    config = _config()
    config.attributes["connection"] = connection
    try:
        step(config, revision)
    except CommandError as error:
        raise UserError(f"cannot migrate to {revision}: {error}") from error
    connection.commit()


@contextmanager
def _connected(url: str, lock_seconds: float) -> Iterator[Connection]:
    engine = create_engine(database_url(url), poolclass=NullPool, connect_args={"connect_timeout": 10})
    with translated(), engine.connect() as connection:
        connection.execute(text(f"SET lock_timeout = {int(lock_seconds * 1000)}"))
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _ADVISORY_LOCK})
        connection.commit()
        yield connection


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.set_main_option("path_separator", "os")
    return config
