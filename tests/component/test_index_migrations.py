"""Migrations on a real server: up, down, and equal to what the code believes the tables are."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, func, insert, inspect, select
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import NullPool

from archiver.errors import DatabaseUnavailable, UserError
from archiver.index import migrate, rows
from archiver.index.engine import open_engine, reading
from archiver.index.tables import attempt_days, attempts, group_days, metadata, rayjobs
from archiver.index.writes import record
from archiver.sandbox.postgres import EmbeddedPostgres
from tests.fakes.manifests import key_of, manifest


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


async def test_what_the_release_before_wrote_is_counted_and_found_like_what_this_one_writes(empty_url: str) -> None:
    await asyncio.to_thread(migrate.upgrade, empty_url)
    engine = open_engine(empty_url)
    try:
        for number in range(1, 4):
            each = manifest(f"uid-{number % 2}", number, name=f"Train-{number % 2}", nodes=(f"node-{number}", "node-9"))
            await record(engine, each, key_of(each))
        await record(engine, manifest("uid-7", team=None, verdict=None), "k")
        written = await _derived(engine)
        await asyncio.to_thread(migrate.downgrade, empty_url, "0001")
        await asyncio.to_thread(migrate.upgrade, empty_url)
        assert await _derived(engine) == written
    finally:
        await engine.dispose()


async def test_an_attempt_that_the_release_before_writes_meanwhile_is_counted(empty_url: str) -> None:
    await asyncio.to_thread(migrate.upgrade, empty_url)
    engine = open_engine(empty_url)
    try:
        each = manifest()
        row = rows.attempt_row(each, "k")
        old = {name: value for name, value in row.items() if name not in ("at", "team", "queue", "nodes", "images")}
        async with engine.begin() as connection:
            await connection.execute(insert(rayjobs), [rows.rayjob_row([each])])
            await connection.execute(insert(attempts), [old])
            counted = (await connection.execute(select(attempt_days.c.day, attempt_days.c.attempts))).all()
        assert [tuple(found) for found in counted] == [(row["ended_at"].date(), 1)]
    finally:
        await engine.dispose()


async def _derived(engine: AsyncEngine) -> dict[str, list[str]]:
    """Everything that the second migration brought."""
    a, r = attempts.c, rayjobs.c
    asked = (
        select(a.rayjob_uid, a.number, a.at, a.team, a.queue, a.nodes, a.images),
        select(r.uid, r.fingerprint, r.images, func.cardinality(r.name_grams)),
        select(attempt_days),
        select(group_days),
    )
    async with reading(engine) as connection:
        return {str(each): sorted(map(repr, (await connection.execute(each)).all())) for each in asked}


async def test_large_tables_are_indexed_while_others_write(empty_url: str) -> None:
    """A build that is not concurrent waits for the writer before it, and all writers after it wait for the build."""
    await asyncio.to_thread(migrate.upgrade, empty_url, "0002")
    engine, plain = open_engine(empty_url), empty_url.replace("+psycopg", "")
    try:
        await record(engine, manifest("uid-1"), "k")
        with psycopg.connect(plain) as busy:
            busy.execute("LOCK TABLE attempts IN ROW EXCLUSIVE MODE")
            building = asyncio.create_task(asyncio.to_thread(migrate.upgrade, empty_url))
            await asyncio.to_thread(_wait_for_build, plain)
            assert await record(engine, manifest("uid-2"), "k")
        await building
    finally:
        await engine.dispose()
    assert migrate.current(empty_url) == migrate.head()


def test_an_index_that_was_cut_off_halfway_is_built_anew(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0002")
    with psycopg.connect(empty_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE INDEX ix_attempts_at ON attempts (at DESC)")
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_attempts_at'::regclass")
        migrate.upgrade(empty_url)
        found = connection.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid").fetchone()
    assert found == (0,)


def _wait_for_build(url: str) -> None:
    """Until the build of an index waits for a writer."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(asked).fetchone() is None:
            pass
