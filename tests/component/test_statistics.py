"""Counts of attempts over a real index: kept by the database however it is written, the same however they are read."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest
from archiver.core.model import Attribution, Completeness, ResourceUse
from archiver.index.engine import reading, writing
from archiver.index.statistics import Cell, count_attempts, count_days, is_daily
from archiver.index.tables import attempt_days, group_days
from archiver.index.writes import delete_attempts, record, write_manifests
from archiver.read.service import Reader
from archiver.read.views import JobFilter, Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest, verdict

EVERYTHING = Scope.everything()
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
def reader(engine: AsyncEngine, tmp_path: Path) -> Reader:
    return Reader(engine, FilesystemStore(tmp_path))


async def put(engine: AsyncEngine, *manifests: Manifest) -> None:
    for each in manifests:
        await record(engine, each, key_of(each))


async def kept(
    engine: AsyncEngine,
) -> tuple[dict[tuple[object, ...], tuple[int, float]], dict[tuple[object, ...], int]]:
    """What the database counted, without rows that say nothing."""
    days, groups = attempt_days.c, group_days.c
    by = (days.day, days.namespace, days.team, days.ended_as, days.cause)
    async with reading(engine) as connection:
        found = await connection.execute(select(*by, days.attempts, days.gpu_seconds).where(days.attempts != 0))
        counted = {tuple(row[:5]): (row[5], row[6]) for row in found}
        grouped = await connection.execute(
            select(groups.fingerprint, groups.day, groups.namespace, groups.attempts).where(groups.attempts != 0)
        )
        return counted, {tuple(row[:3]): row[3] for row in grouped}


async def test_a_new_revision_moves_an_attempt_to_where_it_belongs_now(engine: AsyncEngine) -> None:
    start = NOON
    await put(engine, manifest(start=start, ended_as="running"))
    day = start.date()
    assert await kept(engine) == ({(day, "ml-a", "language", "running", ""): (1, 2_000.0)}, {})
    await put(engine, manifest(start=start, revision=2))
    assert await kept(engine) == (
        {(day, "ml-a", "language", "failed", "missing-module"): (1, 2_000.0)},
        {("abc", day, "ml-a"): 1},
    )
    await put(engine, manifest(start=start, revision=2))
    assert (await kept(engine))[1] == {("abc", day, "ml-a"): 1}


async def test_what_is_deleted_is_counted_no_longer(engine: AsyncEngine) -> None:
    await put(engine, manifest("a"), manifest("b"))
    async with writing(engine) as connection:
        await delete_attempts(connection, [("a", 1)])
    assert list((await kept(engine))[1].values()) == [1]
    async with writing(engine) as connection:
        await delete_attempts(connection, [("b", 1)])
    assert await kept(engine) == ({}, {})


async def test_batches_that_count_the_same_days_do_not_wait_for_each_other_for_ever(engine: AsyncEngine) -> None:

    def batch(name: str, order: int) -> list[tuple[Manifest, str]]:
        made = [manifest(f"{name}-{n}", start=NOON + timedelta(days=n)) for n in range(12)]
        return [(each, key_of(each)) for each in made[::order]]

    async def write(written: list[tuple[Manifest, str]]) -> None:
        for each in written:
            await record(engine, *each)
        async with writing(engine) as connection:
            await write_manifests(connection, written)

    await asyncio.gather(*(write(batch(name, order)) for name, order in (("a", 1), ("b", -1), ("c", 1), ("d", -1))))
    assert sum(count for count, _ in (await kept(engine))[0].values()) == 48


WRITES = st.lists(
    st.tuples(
        st.integers(0, 3),  # the RayJob
        st.integers(1, 2),  # its attempt
        st.integers(1, 3),  # the revision
        st.sampled_from(["failed", "retried", "succeeded", "running", "deleted"]),
        st.sampled_from(["missing-module", "gpu-oom"]),
        st.integers(0, 3),  # days
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(writes=WRITES, deleted=st.integers(0, 3))
async def test_the_counts_by_day_are_those_of_the_attempts(
    engine: AsyncEngine, writes: Sequence[tuple[int, int, int, str, str, int]], deleted: int
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("TRUNCATE rayjobs, attempts, artifacts, attempt_days, group_days"))
    for job, number, revision, ended_as, cause, days in writes:
        told = None if ended_as in ("running", "succeeded") else verdict(cause, fingerprint=f"f-{cause}")
        start = NOON + timedelta(days=days)
        await put(
            engine,
            manifest(f"uid-{job}", number, revision=revision, ended_as=ended_as, start=start, verdict=told),
        )
    async with writing(engine) as connection:
        await delete_attempts(connection, [(f"uid-{deleted}", 1)])
    async with reading(engine) as connection:
        whole = JobFilter()
        slow, _ = await count_attempts(connection, EVERYTHING, whole, bucket=timedelta(days=1), limit=10_000)
        fast = await count_days(connection, EVERYTHING, whole, since=None, until=date(2027, 1, 1))
    assert _told(fast) == _told(slow)


def _told(cells: list[Cell]) -> set[tuple[object, ...]]:
    """Without cells of nothing: their sums are of no row."""
    told = {(c.bucket, c.category, c.cause, c.team, c.attempts, c.failed, c.gpu_seconds_lost) for c in cells}
    return {each for each in told if each[4]}


async def test_edges_of_a_long_time_are_counted_to_the_second(engine: AsyncEngine, reader: Reader) -> None:
    starts = [NOON + timedelta(days=n) for n in range(10)]
    await put(engine, *(manifest(f"uid-{n}", start=start) for n, start in enumerate(starts)))
    now = NOON + timedelta(days=20)
    ends = [start + timedelta(seconds=250) for start in starts]
    for since, until, expected in (
        (ends[0], None, 10),
        (ends[0] + timedelta(seconds=1), None, 9),
        (ends[0], ends[9], 9),
        (ends[0], ends[9] + timedelta(seconds=1), 10),
        (None, ends[5], 5),
    ):
        found = await reader.statistics.count(EVERYTHING, JobFilter(since=since, until=until), now=now)
        assert found.failed == expected
        assert sum(slot.failed for slot in found.slots) == expected
        assert sum(share.failed for share in found.causes) == expected


async def test_counts_what_failed_among_everything_and_what_it_cost(engine: AsyncEngine, reader: Reader) -> None:
    await put(
        engine,
        manifest("a", resources=ResourceUse(gpu_seconds=3_600.0)),
        manifest("b", team=Attribution("vision", "label:team"), verdict=verdict("gpu-oom", "memory")),
        manifest("c", ended_as="succeeded", verdict=None, completeness=Completeness.PARTIAL),
    )
    found = await reader.statistics.count(EVERYTHING, JobFilter(statuses=("failed",)), now=datetime.now(UTC))
    assert (found.attempts, found.failed, found.gpu_seconds_lost, found.incomplete) == (3, 2, 5_600.0, 1)
    assert [(share.name, share.gpu_seconds_lost) for share in found.causes] == [
        ("missing-module", 3_600.0),
        ("gpu-oom", 2_000.0),
    ]
    assert [(share.name, share.failed, share.attempts) for share in found.teams] == [
        ("language", 1, 2),
        ("vision", 1, 1),
    ]


async def test_a_kind_is_new_where_nobody_saw_it_before(engine: AsyncEngine, reader: Reader) -> None:
    now = datetime.now(UTC)
    day = JobFilter(since=now - timedelta(days=1))
    await put(engine, manifest("a", start=now - timedelta(hours=2)))
    assert (await reader.statistics.count(EVERYTHING, day, now=now)).new_kinds is None  # nothing is older
    await put(
        engine,
        manifest("old", start=now - timedelta(days=9)),
        manifest("b", start=now - timedelta(hours=3), verdict=verdict(fingerprint="other")),
    )
    assert (await reader.statistics.count(EVERYTHING, day, now=now)).new_kinds == 1
    seen = await reader.groups.first_seen(EVERYTHING, ["abc", "other", "none"])
    assert {name: (now - first).days for name, first in seen.items()} == {"abc": 8, "other": 0}


async def test_nobody_counts_another_teams_failures(engine: AsyncEngine, reader: Reader) -> None:
    now = datetime.now(UTC)
    await put(engine, manifest("a"), manifest("b", namespace="ml-b", nodes=("node-b",), images={"head": "image-b"}))
    mine = Scope(frozenset({("prod", "ml-a")}))
    for wanted in (JobFilter(), JobFilter(queues=("gpu-a",))):
        assert (await reader.statistics.count(mine, wanted, now=now)).attempts == 1
    facets = await reader.facets(mine, JobFilter(namespaces=("ml-a",)))
    told = {value.value for facet in facets.facets for value in facet.values}
    assert told.isdisjoint({"ml-b", "node-b", "image-b"})
    assert {each.node for each in (await reader.statistics.nodes(mine, since=NOON - timedelta(days=90))).nodes} == {
        "node-1",
        "node-2",
    }
    nobody = Scope(frozenset())
    assert (await reader.statistics.count(nobody, JobFilter(), now=now)).attempts == 0
    assert not await reader.statistics.has_failures(nobody, JobFilter())


async def test_a_node_is_named_only_where_chance_does_not_explain_it(engine: AsyncEngine, reader: Reader) -> None:
    now = datetime.now(UTC)
    hardware = verdict("gpu-memory-ecc", "accelerator")
    made = []
    for number in range(120):
        is_hard = number % 12 == 0
        node = "bad" if is_hard and number % 24 == 0 else f"node-{number % 20}"
        made.append(
            manifest(
                f"uid-{number}",
                name=f"job-{number}",
                start=now - timedelta(hours=1),
                nodes=(node,),
                verdict=hardware if is_hard else verdict(),
            )
        )
    await put(engine, *made)
    found = await reader.statistics.nodes(EVERYTHING, since=now - timedelta(days=1))
    assert [node.node for node in found.nodes if node.is_suspect] == ["bad"]
    bad = found.nodes[0]
    assert (bad.attempts, bad.hardware, bad.jobs) == (5, 5, 5)
    assert bad.expected == pytest.approx(5 * 5 / 115)
    assert bad.chance < 1e-4


async def test_one_job_that_fails_again_and_again_accuses_no_node(engine: AsyncEngine, reader: Reader) -> None:
    now = datetime.now(UTC)
    hardware = verdict("gpu-memory-ecc", "accelerator")
    again = [manifest(f"a-{n}", start=now - timedelta(hours=1), nodes=("bad",), verdict=hardware) for n in range(8)]
    fine = [manifest(f"b-{n}", start=now - timedelta(hours=1), nodes=(f"node-{n}",)) for n in range(40)]
    one = manifest("c", start=now - timedelta(hours=1), nodes=("node-1",), verdict=hardware)
    await put(engine, *again, *fine, one)
    found = await reader.statistics.nodes(EVERYTHING, since=now - timedelta(days=1))
    assert found.nodes[0].node == "bad"
    assert found.nodes[0].chance < 0.01
    assert not any(node.is_suspect for node in found.nodes)


def test_only_what_the_counts_by_day_know_is_asked_of_them() -> None:
    assert is_daily(JobFilter(teams=("a",), causes=("b",), since=NOON))
    assert not any(is_daily(JobFilter(**{name: ("x",)})) for name in ("nodes", "images", "queues", "fingerprints"))
    assert not is_daily(JobFilter(text="x"))
