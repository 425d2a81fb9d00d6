"""Migrations on a real server: up, down, and equal to what the code believes the tables are."""

from collections.abc import Iterator

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

from archiver.errors import DatabaseUnavailable, UserError
from archiver.index import migrate
from archiver.index.tables import metadata
from archiver.sandbox.postgres import EmbeddedPostgres


@pytest.fixture
def empty_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    yield postgres.create_database("migrations")
    postgres.drop_database("migrations")


def tables_of(url: str) -> set[str]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_goes_up_and_down_again_and_up(empty_url: str) -> None:
    assert migrate.current(empty_url) is None
    migrate.upgrade(empty_url)
    assert migrate.current(empty_url) == migrate.head()
    assert tables_of(empty_url) == set(metadata.tables)
    migrate.downgrade(empty_url, "base")
    assert tables_of(empty_url) == set()
    assert migrate.current(empty_url) is None
    migrate.upgrade(empty_url)
    assert tables_of(empty_url) == set(metadata.tables)


def test_every_revision_alone_goes_down_and_up(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    while migrate.current(empty_url) is not None:
        before = migrate.current(empty_url)
        migrate.downgrade(empty_url)
        assert migrate.current(empty_url) != before
        migrate.upgrade(empty_url, "+1")
        assert migrate.current(empty_url) == before
        migrate.downgrade(empty_url)


def test_makes_the_tables_that_the_code_declares(database_url: str) -> None:
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_an_unknown_revision_is_named(empty_url: str) -> None:
    with pytest.raises(UserError, match="9999"):
        migrate.upgrade(empty_url, "9999")


def test_an_unreachable_server_is_worth_another_try() -> None:
    with pytest.raises(DatabaseUnavailable):
        migrate.current("postgresql://nobody@127.0.0.1:1/none")


def test_two_migrations_at_once_wait_for_each_other(empty_url: str) -> None:
    plain = empty_url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as other:
        other.execute("select pg_advisory_lock(7162001)")
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            migrate.upgrade(empty_url, lock_seconds=0.2)
        assert tables_of(empty_url) == set()
