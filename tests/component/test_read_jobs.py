"""Lists and single jobs through the Reader, on a real Postgres."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest
from archiver.core.model import Attribution, Completeness
from archiver.errors import DatabaseUnavailable, UserError
from archiver.index.engine import Limits, open_engine, writing
from archiver.index.writes import write_manifests
from archiver.read.service import Reader
from archiver.read.views import Certainty, JobFilter, JobRow, PageRequest, Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, log, manifest, verdict

EVERYTHING = Scope.everything()


@pytest.fixture
def reader(engine: AsyncEngine, tmp_path: Path) -> Reader:
    return Reader(engine, FilesystemStore(tmp_path))


async def put(engine: AsyncEngine, *manifests: Manifest) -> None:
    async with writing(engine) as connection:
        await write_manifests(connection, [(each, key_of(each)) for each in manifests])


async def all_uids(reader: Reader, job_filter: JobFilter, size: int = 50) -> list[str]:
    found: list[str] = []
    token: str | None = None
    while True:
        page = await reader.jobs(EVERYTHING, PageRequest(job_filter, size, token))
        found += [row.uid for row in page.rows]
        token = page.next_token
        if token is None:
            return found


async def test_lists_newest_first_and_says_all_of_a_row(engine: AsyncEngine, reader: Reader) -> None:
    await put(engine, manifest("old", start=START - timedelta(days=1)), manifest("new"))
    page = await reader.jobs(EVERYTHING, PageRequest())
    assert [row.uid for row in page.rows] == ["new", "old"]
    row: JobRow = page.rows[0]
    assert (row.cluster, row.namespace, row.name, row.status) == ("prod", "ml-a", "llama-ft-7b", "failed")
    assert row.team == Attribution("language", "label:team")
    assert row.cause is not None
    assert (row.cause.cause, row.cause.certainty) == ("missing-module", Certainty.SURE)
    assert row.decisive is not None
    assert (row.decisive.artifact, row.decisive.line) == ("logs/driver.log", 812)
    assert (row.duration_seconds, row.gpus, row.gpu_seconds) == (250.0, 8.0, 2_000.0)
    assert row.completeness is Completeness.COMPLETE
    assert [cell.status for cell in row.attempts] == ["failed"]
    assert (page.next_token, page.prev_token) == (None, None)


@pytest.mark.parametrize("seed", range(4))
async def test_paging_shows_every_row_once_while_others_come_in(engine: AsyncEngine, reader: Reader, seed: int) -> None:
    """200 rows, many of one moment; between two pages newer ones are inserted, as a busy cluster does."""
    luck = random.Random(seed)
    moments = [START + timedelta(seconds=luck.randrange(40)) for _ in range(200)]
    before = [manifest(f"uid-{luck.random()}-{n}", start=moment) for n, moment in enumerate(moments)]
    await put(engine, *before)
    seen: list[str] = []
    backwards: list[str] = []
    token: str | None = None
    for step in range(1_000):
        page = await reader.jobs(EVERYTHING, PageRequest(JobFilter(), luck.randint(1, 23), token))
        seen += [row.uid for row in page.rows]
        later = START + timedelta(hours=1, seconds=step)
        await put(engine, *(manifest(f"later-{seed}-{step}-{n}", start=later) for n in range(3)))
        if page.next_token is None:
            break
        token = page.next_token
    expected = sorted(before, key=lambda m: (m.times.ended, m.attempt.rayjob.uid), reverse=True)
    assert seen == [each.attempt.rayjob.uid for each in expected]

    while page.prev_token is not None and len(backwards) < 1_000:
        page = await reader.jobs(EVERYTHING, PageRequest(JobFilter(), luck.randint(1, 23), page.prev_token))
        backwards = [row.uid for row in page.rows] + backwards
    stayed = [uid for uid in backwards if not uid.startswith("later")]
    assert seen[: len(stayed)] == stayed
    assert len(backwards) == len(set(backwards))


@pytest.mark.parametrize(
    ("job_filter", "expected"),
    [
        (JobFilter(teams=("language",)), {"a", "c"}),
        (JobFilter(teams=("",)), {"d"}),
        (JobFilter(teams=("", "vision")), {"b", "d"}),
        (JobFilter(namespaces=("ml-b",)), {"b"}),
        (JobFilter(clusters=("edge",)), {"c"}),
        (JobFilter(statuses=("succeeded", "stopped")), {"d"}),
        (JobFilter(causes=("gpu-oom",)), {"b"}),
        (JobFilter(categories=("environment",), teams=("language",)), {"a", "c"}),
        (JobFilter(nodes=("node-9", "node-8")), {"c"}),
        (JobFilter(completeness=("lost",)), {"b"}),
        (JobFilter(text="FT-7"), {"a", "b", "d"}),
        (JobFilter(text="50%_"), {"c"}),
        (JobFilter(queues=("gpu-a",), since=START + timedelta(hours=1)), {"b", "c", "d"}),
        (JobFilter(until=START + timedelta(hours=1)), {"a"}),
        (JobFilter(teams=("no\0body", "\ud800")), set()),
        (JobFilter(text="\0"), set()),
    ],
)
async def test_narrows_by(engine: AsyncEngine, reader: Reader, job_filter: JobFilter, expected: set[str]) -> None:
    later = START + timedelta(hours=2)
    await put(
        engine,
        manifest("a"),
        manifest(
            "b",
            namespace="ml-b",
            start=later,
            team=Attribution("vision", "namespace"),
            verdict=verdict("gpu-oom", "memory"),
            completeness=Completeness.LOST,
        ),
        manifest("c", cluster="edge", start=later, name="at-50%_of", nodes=("node-9",)),
        manifest("d", start=later, ended_as="succeeded", verdict=None, team=None),
    )
    assert set(await all_uids(reader, job_filter)) == expected


async def test_what_lies_outside_the_scope_does_not_exist(engine: AsyncEngine, reader: Reader) -> None:
    await put(engine, manifest("mine"), manifest("theirs", namespace="ml-b"))
    scope = Scope(frozenset({("prod", "ml-a")}))
    assert [row.uid for row in (await reader.jobs(scope, PageRequest())).rows] == ["mine"]
    assert await reader.job(scope, "theirs") is None
    assert await reader.attempt(scope, "theirs", 1) is None
    assert await reader.job_named(scope, "prod", "ml-b", "llama-ft-7b") is None
    assert (await reader.facets(scope, JobFilter())).total == 1
    nobody = Scope(frozenset())
    assert (await reader.jobs(nobody, PageRequest())).rows == ()
    assert await reader.job(nobody, "mine") is None


async def test_a_job_has_its_attempts_and_the_others_of_its_name(engine: AsyncEngine, reader: Reader) -> None:
    await put(
        engine,
        manifest("first", start=START - timedelta(days=2)),
        manifest(
            "second",
            1,
            ended_as="retried",
            artifacts=[log(), log("logs/gone.log", completeness=Completeness.LOST, reason="the pod was deleted first")],
        ),
        manifest("second", 2),
    )
    job = await reader.job_named(EVERYTHING, "prod", "ml-a", "llama-ft-7b")
    assert job is not None
    assert job == await reader.job(EVERYTHING, "second")
    assert [attempt.number for attempt in job.attempts] == [1, 2]
    assert job.newest.number == 2
    assert [other.uid for other in job.same_name] == ["first"]
    assert job.attempts[0].missing == ("logs/gone.log: lost. the pod was deleted first",)
    found = job.newest.verdict
    assert found is not None
    assert (found.evidence[0].artifact, found.rule, found.symptoms) == (
        "logs/driver.log",
        "r1",
        ("jobDeploymentStatus Failed",),
    )
    assert await reader.attempt(EVERYTHING, "second", 2) == job.newest
    assert await reader.artifacts(EVERYTHING, "second", 2) == job.newest.artifacts


async def test_what_is_not_there_is_none(reader: Reader) -> None:
    assert await reader.job(EVERYTHING, "nothing") is None
    assert await reader.job(EVERYTHING, "no\0thing") is None
    assert await reader.job_named(EVERYTHING, "a", "b", "c") is None
    assert await reader.attempt(EVERYTHING, "nothing", 2**40) is None
    assert await reader.artifacts(EVERYTHING, "nothing", 0) is None
    assert await reader.manifest(EVERYTHING, "nothing", 1) is None


async def test_facets_count_what_the_filter_gives(engine: AsyncEngine, reader: Reader) -> None:
    await put(
        engine,
        manifest("a"),
        manifest("b", team=None),
        manifest("c", ended_as="succeeded", verdict=None),
        manifest("d", namespace="ml-b"),
    )
    found = await reader.facets(EVERYTHING, JobFilter(namespaces=("ml-a",)))
    assert (found.total, found.failed, found.capped, found.gpu_seconds_lost) == (3, 2, False, 4_000.0)
    counts = {facet.name: {value.value: value.count for value in facet.values} for facet in found.facets}
    assert counts["teams"] == {"language": 2, "": 1}
    assert counts["causes"] == {"missing-module": 2, "": 1}
    assert counts["statuses"] == {"failed": 2, "succeeded": 1}
    # what another choice of the same facet would give
    assert counts["namespaces"] == {"ml-a": 3, "ml-b": 1}
    assert counts["nodes"] == {"node-1": 3, "node-2": 3}
    assert (await reader.facets(EVERYTHING, JobFilter(teams=("none",)))).total == 0


async def test_a_token_of_another_filter_is_the_users_mistake(engine: AsyncEngine, reader: Reader) -> None:
    await put(engine, *(manifest(f"uid-{n}") for n in range(3)))
    token = (await reader.jobs(EVERYTHING, PageRequest(size=1))).next_token
    with pytest.raises(UserError, match="page token"):
        await reader.jobs(EVERYTHING, PageRequest(JobFilter(teams=("x",)), 1, token))


async def test_a_running_job_is_placed_by_its_start_and_has_no_duration(engine: AsyncEngine, reader: Reader) -> None:
    await put(engine, manifest("run", ended_as="running"))
    (row,) = (await reader.jobs(EVERYTHING, PageRequest())).rows
    assert (row.at, row.ended, row.duration_seconds, row.cause) == (START, None, None, None)


async def test_a_job_that_was_never_started_is_placed_by_its_creation(engine: AsyncEngine, reader: Reader) -> None:
    record: Any = manifest("pending", ended_as="running")
    await put(engine, replace(record, times=replace(record.times, started=None)))
    (row,) = (await reader.jobs(EVERYTHING, PageRequest())).rows
    assert row.at == START - timedelta(seconds=60)


async def test_a_database_that_is_away_is_worth_another_try(tmp_path: Path) -> None:
    engine = open_engine("postgresql://nobody@127.0.0.1:1/none", Limits(connect_seconds=2))
    try:
        with pytest.raises(DatabaseUnavailable):
            await Reader(engine, FilesystemStore(tmp_path)).jobs(EVERYTHING, PageRequest())
    finally:
        await engine.dispose()


async def test_a_statement_that_takes_too_long_is_cut_off(database_url: str, tmp_path: Path) -> None:
    from sqlalchemy import text

    from archiver.index.engine import reading

    engine = open_engine(database_url, Limits(statement_seconds=0.05))
    try:
        with pytest.raises(DatabaseUnavailable, match="statement timeout"):
            async with reading(engine) as connection:
                await connection.execute(text("select pg_sleep(5)"))
    finally:
        await engine.dispose()
