"""Opening Postgres, and its errors in our words. The one place that knows SQLAlchemy's and psycopg's exceptions."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import psycopg
from sqlalchemy import URL, exc, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from archiver.errors import DatabaseError, DatabaseOutdated, DatabaseUnavailable, UserError

# SQLSTATEs after which the same statement may succeed: deadlock, serialisation, lock or statement timeout, shutdown,
# too many connections, read-only during a fail-over.
_RETRYABLE = frozenset({"40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "53300", "25006"})
# A table, a column or a function that this release knows and the database does not.
_OUTDATED = frozenset({"42P01", "42703", "42883"})
MIGRATE = "run `archiver migrate` to bring it to the tables of this release"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long anything may take. A list that takes longer than ``statement_seconds`` is cut off, not waited for."""

    connect_seconds: float = 5.0
    statement_seconds: float = 10.0
    lock_seconds: float = 3.0
    idle_transaction_seconds: float = 60.0
    pool_seconds: float = 5.0
    pool_size: int = 8


def database_url(url: str) -> URL:
    """Accepts ``postgres://`` and ``postgresql://`` alike; raises UserError on anything else."""
    try:
        parsed = make_url(url.strip())
    except exc.ArgumentError as error:
        raise UserError(
            "the database URL cannot be read; it looks like postgresql://user@host:5432/database"
        ) from error
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise UserError(f"the database must be Postgres, not {parsed.get_backend_name()}")
    return parsed.set(drivername="postgresql+psycopg")


def open_engine(url: str, limits: Limits | None = None) -> AsyncEngine:
    """A pool that connects when first used. The caller disposes of it."""
    limits = limits or Limits()
    return create_async_engine(
        database_url(url),
        pool_size=limits.pool_size,
        max_overflow=limits.pool_size,
        pool_timeout=limits.pool_seconds,
        pool_pre_ping=True,
        connect_args=_connect_arguments(limits),
    )


def _connect_arguments(limits: Limits) -> dict[str, str | int]:
    """The keepalives notice a server that vanished without a word, where no statement timeout can fire."""
    return {
        "options": _options(limits),
        "connect_timeout": max(2, int(limits.connect_seconds)),  # libpq takes no less
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int((limits.statement_seconds + 10) * 1000),
    }


def _options(limits: Limits) -> str:
    """Session settings, sent at connect so that they cost no round trip. Values are milliseconds."""
    settings = {
        "TimeZone": "UTC",
        "application_name": "rayjob-archiver",
        "statement_timeout": int(limits.statement_seconds * 1000),
        "lock_timeout": int(limits.lock_seconds * 1000),
        "idle_in_transaction_session_timeout": int(limits.idle_transaction_seconds * 1000),
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


@contextmanager
def translated() -> Iterator[None]:
    """Foreign database errors become DatabaseUnavailable (try again), DatabaseOutdated (migrate) or DatabaseError."""
    try:
        yield
    except exc.DBAPIError as error:
        raise _translation(error) from error
    except exc.TimeoutError as error:
        raise DatabaseUnavailable(f"no database connection: {error}") from error
    except exc.SQLAlchemyError as error:
        raise DatabaseError(f"the database layer refused: {error}") from error


def _translation(error: exc.DBAPIError) -> DatabaseError:
    cause = error.orig
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    text = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    if state in _RETRYABLE or (state or "").startswith("08") or error.connection_invalidated:
        return DatabaseUnavailable(f"the database cannot answer now: {text}")
    if state is None and isinstance(cause, psycopg.OperationalError):
        return DatabaseUnavailable(f"the database cannot be reached: {text}")
    if state in _OUTDATED:
        return DatabaseOutdated(f"the database is older than this release ({text}): {MIGRATE}")
    return DatabaseError(f"the database refused a statement: {text}")


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection in a read-only transaction with one snapshot for all its statements."""
    with translated():
        async with engine.connect() as plain:
            connection = await plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection in one transaction: committed at the end of the block, rolled back on any error."""
    with translated():
        async with engine.begin() as connection:
            yield connection
