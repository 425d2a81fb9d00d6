"""Manifests into Postgres: idempotent, the highest revision stays, RayJobs sum up their attempts."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, Outcome
from archiver.core.model import Attribution, Completeness
from archiver.index.engine import reading, writing
from archiver.index.filters import Scope
from archiver.index.queries import find_job, load_attempts
from archiver.index.tables import artifacts, attempts, rayjobs
from archiver.index.writes import delete_attempts, record, write_manifests
from tests.fakes.manifests import key_of, log, manifest, verdict

EVERYTHING = Scope.everything()


async def put(engine: AsyncEngine, *manifests: Manifest) -> None:
    for each in manifests:
        await record(engine, each, key_of(each))


async def job_row(engine: AsyncEngine, uid: str = "uid-1") -> Any:
    async with reading(engine) as connection:
        return await find_job(connection, EVERYTHING, uid)


async def dump(engine: AsyncEngine) -> dict[str, list[Any]]:
    async with reading(engine) as connection:
        return {
            table.name: sorted((await connection.execute(select(table))).all(), key=repr)
            for table in (rayjobs, attempts, artifacts)
        }


async def test_gives_back_the_manifest_that_was_written(engine: AsyncEngine) -> None:
    written = manifest(artifacts=[log(), log("logs/head.log"), log("logs/a.log")])
    await put(engine, written)
    async with reading(engine) as connection:
        (stored,) = await load_attempts(connection, EVERYTHING, "uid-1")
    assert stored.manifest == written
    assert stored.key == key_of(written)


async def test_writing_twice_is_writing_once(engine: AsyncEngine) -> None:
    await put(engine, manifest())
    once = await dump(engine)
    await put(engine, manifest())
    assert await dump(engine) == once


async def test_an_older_revision_never_overwrites_a_newer_one(engine: AsyncEngine) -> None:
    newer = manifest(revision=5, artifacts=[log("logs/new.log")])
    assert await record(engine, newer, key_of(newer))
    before = await dump(engine)
    older = manifest(revision=4, ended_as="running", artifacts=[log("logs/old.log"), log("logs/older.log")])
    assert not await record(engine, older, key_of(older))
    assert await dump(engine) == before


async def test_a_newer_revision_takes_away_artifacts_that_it_no_longer_has(engine: AsyncEngine) -> None:
    await put(engine, manifest(artifacts=[log("a"), log("b")]), manifest(revision=2, artifacts=[log("b")]))
    async with reading(engine) as connection:
        (stored,) = await load_attempts(connection, EVERYTHING, "uid-1")
    assert [artifact.name for artifact in stored.manifest.artifacts] == ["b"]


async def test_a_rayjob_shows_its_newest_attempt_and_sums_up_all(engine: AsyncEngine) -> None:
    second = manifest(number=2, ended_as="succeeded", verdict=None)
    first = manifest(
        number=1, ended_as="retried", completeness=Completeness.PARTIAL, completeness_reason="a worker log is cut"
    )
    await put(engine, second, first)  # the order of arrival does not matter
    row = await job_row(engine)
    assert (row.status, row.cause, row.gpus, row.gpu_seconds) == ("succeeded", None, 8.0, 4_000.0)
    assert [(cell["number"], cell["status"]) for cell in row.attempts] == [(1, "retried"), (2, "succeeded")]
    assert (row.completeness, row.completeness_reason) == ("partial", "attempt 1: a worker log is cut")


async def test_the_decisive_line_points_into_an_artifact_of_ours(engine: AsyncEngine) -> None:
    await put(engine, manifest())
    row = await job_row(engine)
    assert row.decisive == {
        "source": "driver",
        "artifact": "logs/driver.log",
        "line": 812,
        "text": "ModuleNotFoundError: No module named 'flash_attn'",
    }
    # also when it is summed up from what the database has
    await put(engine, manifest(number=0, ended_as="retried"))
    assert (await job_row(engine)).decisive["artifact"] == "logs/driver.log"


async def test_text_that_postgres_refuses_is_cleaned(engine: AsyncEngine) -> None:
    ugly = "a\0b\ud800c"
    await put(
        engine,
        manifest(
            outcome=Outcome(message=ugly, ended_as="failed", reason=ugly),
            team=Attribution(ugly, ugly),
            spec={ugly: [ugly, float("nan"), {"deep": ugly}]},
            verdict=verdict(evidence=[{"source": ugly, "line": 1, "text": ugly}]),
        ),
    )
    row = await job_row(engine)
    assert row.team == "ab\ufffdc"
    assert row.decisive["text"] == "ab\ufffdc"


async def test_words_too_long_for_an_index_are_cut_and_the_document_keeps_them(engine: AsyncEngine) -> None:
    long = "ж" * 20_000
    written = manifest(team=Attribution(long, "annotation:team"), nodes=(long,), name=long[:253])
    await put(engine, written)
    assert (await job_row(engine)).team == long[:300]
    async with reading(engine) as connection:
        (stored,) = await load_attempts(connection, EVERYTHING, "uid-1")
    assert stored.manifest == written


async def test_attempts_written_at_once_are_all_summed_up(engine: AsyncEngine) -> None:
    many = [manifest(number=number) for number in range(1, 13)]
    await asyncio.gather(*(record(engine, each, key_of(each)) for each in many))
    assert [cell["number"] for cell in (await job_row(engine)).attempts] == list(range(1, 13))


async def test_batches_that_overlap_do_not_deadlock(engine: AsyncEngine) -> None:
    batch = [(each, key_of(each)) for each in (manifest(f"uid-{n}") for n in range(40))]

    async def write(order: list[Any]) -> None:
        async with writing(engine) as connection:
            await write_manifests(connection, order)

    await asyncio.gather(write(batch), write(batch[::-1]), write(batch[20:] + batch[:20]))
    assert len((await dump(engine))["attempts"]) == 40


async def test_deleting_an_attempt_sums_up_anew_and_the_last_one_takes_the_rayjob(engine: AsyncEngine) -> None:
    await put(engine, manifest(number=1, ended_as="retried"), manifest(number=2))
    async with writing(engine) as connection:
        await delete_attempts(connection, [("uid-1", 2)])
    assert (await job_row(engine)).status == "retried"
    async with writing(engine) as connection:
        await delete_attempts(connection, [("uid-1", 1)])
    assert all(not found for found in (await dump(engine)).values())


async def test_nothing_is_visible_of_a_write_that_failed(engine: AsyncEngine) -> None:
    async def write_and_die() -> None:
        async with writing(engine) as connection:
            await write_manifests(connection, [(manifest(), "k")])
            raise RuntimeError("the process dies here")

    with pytest.raises(RuntimeError):
        await write_and_die()
    assert await job_row(engine) is None


async def test_a_manifest_without_any_time_still_has_a_place(engine: AsyncEngine) -> None:
    bare = manifest()
    await put(engine, replace(bare, times=type(bare.times)()))
    assert (await job_row(engine)).at.year == 1970
