"""Rebuilding the index from the bucket, and finding every difference and damage."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, to_json
from archiver.core.model import Artifact, ArtifactKind, Completeness
from archiver.index.engine import reading
from archiver.index.tables import artifacts, attempts, rayjobs
from archiver.index.writes import record
from archiver.read.reindex import ReindexProgress, reindex
from archiver.read.verify import VerifyProgress, verify
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, manifest
from tests.fakes.streams import put_sealed


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


async def dump(engine: AsyncEngine) -> dict[str, list[Any]]:
    async with reading(engine) as connection:
        return {
            table.name: sorted((await connection.execute(select(table))).all(), key=repr)
            for table in (rayjobs, attempts, artifacts)
        }


async def save(store: FilesystemStore, engine: AsyncEngine, each: Manifest, *, indexed: bool = True) -> Manifest:
    await store.put(key_of(each), to_json(each))
    if indexed:
        await record(engine, each, key_of(each))
    return each


async def archived(store: FilesystemStore, engine: AsyncEngine, count: int = 9) -> list[Manifest]:
    """Jobs with one to three attempts and real logs, written in a random order as a watcher would."""
    luck = random.Random(7)
    made = []
    for number in range(count):
        for attempt in range(1, 1 + luck.randint(1, 3)):
            bare = manifest(f"uid-{number}", attempt, name=f"job-{number}", start=START + timedelta(minutes=number))
            prefix = key_of(bare).removesuffix("manifest.json")
            log = await put_sealed(store, prefix, "logs/driver.log", [b"line\n" * number, b"last"])
            lost = Artifact("logs/w.log", ArtifactKind.LOG, "", 0, 0, 0, "", Completeness.LOST, "gone")
            made.append(replace(bare, artifacts=(log, lost)))
    luck.shuffle(made)
    for each in made:
        await save(store, engine, each)
    return made


async def test_rebuilds_an_empty_index_to_the_same(engine: AsyncEngine, store: FilesystemStore) -> None:
    made = await archived(store, engine)
    before = await dump(engine)
    async with engine.begin() as connection:
        await connection.execute(text("TRUNCATE rayjobs, attempts, artifacts"))
    seen: list[ReindexProgress] = []
    report = await reindex(store, engine, progress=seen.append)
    assert await dump(engine) == before
    assert (report.manifests, report.written, report.removed, report.skipped) == (len(made), len(made), 0, ())
    assert seen[-1].manifests == len(made)


async def test_mends_what_went_wrong_in_the_index(engine: AsyncEngine, store: FilesystemStore) -> None:
    await archived(store, engine, 6)
    before = await dump(engine)
    ghost = manifest("ghost")
    await record(engine, ghost, key_of(ghost))
    ahead = manifest("uid-3", 1, name="job-3", revision=99, ended_as="succeeded")
    await record(engine, ahead, key_of(ahead))
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE rayjobs SET status = 'succeeded', cause = NULL WHERE uid = 'uid-1'"))
        await connection.execute(text("UPDATE attempts SET document = '{}', reason = 'x' WHERE rayjob_uid = 'uid-2'"))
        await connection.execute(text("DELETE FROM artifacts WHERE rayjob_uid = 'uid-4'"))
        await connection.execute(text("DELETE FROM rayjobs WHERE uid = 'uid-5'"))
    report = await reindex(store, engine)
    assert await dump(engine) == before
    assert report.removed == 1
    assert (await verify(store, engine)).is_clean


async def test_a_watcher_that_goes_on_is_never_undone(engine: AsyncEngine, store: FilesystemStore) -> None:
    made = await archived(store, engine, 9)

    async def watch() -> None:
        for each in made:
            await save(store, engine, replace(each, revision=2, completeness_reason="looked at again"))

    await asyncio.gather(watch(), reindex(store, engine), reindex(store, engine))
    assert (await verify(store, engine)).is_clean
    assert {row.revision for row in (await dump(engine))["attempts"]} == {2}


async def test_a_manifest_that_cannot_be_read_is_skipped_and_named(engine: AsyncEngine, store: FilesystemStore) -> None:
    await archived(store, engine, 2)
    broken = key_of(manifest("broken"))
    await store.put(broken, b'{"schema": 1')
    report = await reindex(store, engine)
    assert [finding.key for finding in report.skipped] == [broken]
    assert [finding.key for finding in (await verify(store, engine)).findings] == [broken]


async def test_text_that_postgres_cannot_keep_is_no_difference(engine: AsyncEngine, store: FilesystemStore) -> None:
    """A driver's binary output ends up in Ray's message, NUL and all."""
    made, *_ = await archived(store, engine, 1)
    outcome = replace(made.outcome, message="exit code 1:\n\0\x01 \ud800 end")
    told = {**(made.verdict or {}), "summary": "Decisive: \0 in the log"}
    await save(store, engine, replace(made, revision=2, outcome=outcome, verdict=told))
    assert (await verify(store, engine)).is_clean
    await reindex(store, engine)
    assert (await verify(store, engine)).is_clean


async def test_finds_nothing_in_a_sound_archive_and_reads_all_of_it(
    engine: AsyncEngine, store: FilesystemStore
) -> None:
    made = await archived(store, engine)
    seen: list[VerifyProgress] = []
    report = await verify(store, engine, progress=seen.append)
    assert report.is_clean
    assert (report.attempts, report.artifacts) == (len(made), len(made))
    assert report.bytes_read == sum(each.artifacts[0].raw_bytes for each in made)
    assert seen[-1].bytes_read == report.bytes_read


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("changed", "not what the manifest says"),
        ("truncated", "index"),
        ("deleted", "gone"),
        ("unindexed", "not in the index"),
        ("behind", "revision 1, the bucket 2"),
        ("altered", "something else"),
        ("row", "whose manifest is gone"),
        ("claimed", "has no object"),
    ],
)
async def test_finds(engine: AsyncEngine, store: FilesystemStore, damage: str, told: str) -> None:
    await archived(store, engine, 3)
    bare = manifest("victim")
    prefix = key_of(bare).removesuffix("manifest.json")
    log = await put_sealed(store, prefix, "logs/driver.log", [b"some text\n"])
    victim = await save(store, engine, replace(bare, artifacts=(log,)), indexed=damage != "unindexed")
    if damage == "changed":
        await put_sealed(store, prefix, "logs/driver.log", [b"more text\n"])
    elif damage == "truncated":
        body = await store.get(log.key)
        assert body is not None
        await store.put(log.key, body[:-10])
    elif damage == "deleted":
        await store.delete([log.key])
    elif damage == "behind":
        await save(store, engine, replace(victim, revision=2), indexed=False)
    elif damage == "altered":
        await save(store, engine, replace(victim, job_id="another"), indexed=False)
    elif damage == "row":
        await store.delete([key_of(victim)])
    elif damage == "claimed":
        await save(store, engine, replace(victim, artifacts=(replace(log, key=""),)))
    report = await verify(store, engine)
    assert len(report.findings) == 1
    assert told in report.findings[0].problem
    assert "victim" in report.findings[0].key
