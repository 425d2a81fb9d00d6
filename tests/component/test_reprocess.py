"""History judged again: a rule changes, the verdicts in bucket and index follow, the evidence stays as it was."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.cli import main
from archiver.collect.again import Again
from archiver.core import keys
from archiver.core.manifest import Manifest, from_json, to_json
from archiver.diagnosis import Ruleset, load_ruleset
from archiver.errors import DatabaseUnavailable
from archiver.index.engine import open_engine, reading
from archiver.index.tables import attempts, rayjobs
from archiver.index.writes import record
from archiver.ports import ObjectStore
from archiver.read.reindex import reindex
from archiver.read.reprocess import CauseChange, ReprocessReport, ReprocessRequest, reprocess
from archiver.runtime import archive_judge
from archiver.store.filesystem import FilesystemStore
from tests.component.operating import Operated
from tests.component.watching import Rig, rig
from tests.fakes.manifests import START, key_of, manifest, verdict
from tests.fakes.store.servers import S3Server, running
from tests.fakes.streams import put_sealed

RULE = """
category: memory
leaves:
  gpu-oom:
    rules:
      - id: own-oom
        strength: certain
        patterns: ['MYLIB_OOM']
        hits: ['MYLIB_OOM at 0x1']
        misses: ['fine']
"""
WORDS = b"loading the shards\nMYLIB_OOM at 0x7\n"
EVERYTHING = ReprocessRequest(is_all=True)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def rules_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "own.yaml").write_text(RULE)
    return folder


@pytest.fixture(scope="module")
def ruleset(rules_dir: Path) -> Ruleset:
    return load_ruleset(rules_dir)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running("moto", tmp_path_factory.mktemp("s3")) as server:
        yield server


async def objects(store: ObjectStore) -> dict[str, bytes]:
    return {info.key: await store.get(info.key) or b"" async for info in store.list("")}


async def rows(engine: AsyncEngine) -> list[Any]:
    async with reading(engine) as connection:
        found = [list((await connection.execute(select(table))).all()) for table in (rayjobs, attempts)]
    return sorted((row for some in found for row in some), key=repr)


async def causes(engine: AsyncEngine) -> dict[str, tuple[str | None, str | None, int]]:
    """RayJob's uid to the cause of its row, that of its attempt, and the revision."""
    async with reading(engine) as connection:
        joined = select(rayjobs.c.uid, rayjobs.c.cause, attempts.c.cause, attempts.c.revision).join(
            attempts, attempts.c.rayjob_uid == rayjobs.c.uid
        )
        return {row[0]: (row[1], row[2], row[3]) for row in await connection.execute(joined)}


# -- what a watcher has archived, in S3


async def die(job: Operated, watched: Rig) -> Manifest:
    """A RayJob whose driver ends with words that only the changed rules understand."""
    job.create()
    job.begin()
    await job.start_head()
    job.status(deployment="Running")
    job.record("RUNNING")
    job.drive(WORDS)
    await watched.until_stored(job.uid, "/.parts/logs/driver")
    job.record("FAILED", message="exit 3", driver_exit_code=3)
    job.end(message="exit 3", reason="AppFailed")
    job.delete_cluster()
    await watched.until_read(job.uid, "/.parts/logs/driver", len(WORDS))
    job.kill_pods()
    made = await watched.archived(job.uid)
    assert watched.status.indexer is not None
    await watched.status.indexer.drain()
    await watched.stop()
    return made


async def call(watched: Rig, database_url: str, rules: Path, *words: str) -> Result:
    """``archiver reprocess`` as a person calls it."""
    return await call_main(watched, database_url, "reprocess", *words, rules_dir=str(rules))


async def call_main(watched: Rig, database_url: str, *words: str, **settings: str) -> Result:
    """``archiver`` on the archive of a rig."""
    secrets = {"s3_access_key": "archiver", "s3_secret_key": "archiver-secret", "database_url": database_url}
    plain = {name: str(getattr(watched.settings, name)) for name in ("home", "cluster", "store", "s3_endpoint")}
    env = {f"ARCHIVER_{name.upper()}": value for name, value in (plain | secrets | settings).items()}
    return await asyncio.to_thread(CliRunner().invoke, main, list(words), env=env)


async def test_a_changed_rule_is_told_then_written_and_kept_by_a_reindex(
    tmp_path: Path, database_url: str, engine: AsyncEngine, s3: S3Server, rules_dir: Path, ruleset: Ruleset
) -> None:
    options = await asyncio.to_thread(s3.options)
    place = {"store": f"s3://{options.bucket}/some/where", "s3_endpoint": s3.url}
    secrets = {"s3_access_key": s3.access_key, "s3_secret_key": s3.secret_key}
    async with rig(tmp_path, database_url, **place, **secrets) as watched:
        job = Operated(watched.server)
        made = await die(job, watched)
        assert made.verdict is not None
        before, rows_before = await objects(watched.store), await rows(engine)

        dry = await call(watched, database_url, rules_dir, "--dry-run")
        assert "1 would change, 0 unchanged" in dry.stderr, (dry.stderr, dry.exception)
        assert dry.stdout.splitlines()[1].split(maxsplit=3) == [
            made.verdict["cause"],
            "gpu-oom",
            "1",
            "team-a/train attempt 1",
        ]
        assert "1 would change, 0 unchanged" in dry.stderr
        assert (await objects(watched.store), await rows(engine)) == (before, rows_before)

        wet = await call(watched, database_url, rules_dir, "-o", "json")
        assert json.loads(wet.stdout)["changes"][0]["after"] == "gpu-oom"
        after = await objects(watched.store)
        key = next(key for key in after if key.endswith("/manifest.json"))
        beside = keys.verdict_key(key.removesuffix("manifest.json"), ruleset.version)
        assert {name for name in after if after[name] != before.get(name)} == {key, beside}
        written = from_json(after[key])
        assert (written.revision, written.verdict) == (made.revision + 1, json.loads(after[beside]))
        assert replace(written, revision=made.revision, verdict=made.verdict) == made
        assert (await causes(engine))[job.uid] == ("gpu-oom", "gpu-oom", written.revision)

        rows_after = await rows(engine)
        await reindex(watched.store, engine, prefix=watched.archive.prefix)
        assert await rows(engine) == rows_after
        again = await call(watched, database_url, rules_dir)
        assert (again.stdout, again.exit_code) == ("", 0)
        assert "0 attempts judged" in again.stderr
        assert "1 judged by it already" in again.stderr


async def test_the_same_rules_say_what_the_watcher_said(tmp_path: Path, database_url: str, engine: AsyncEngine) -> None:
    async with rig(tmp_path, database_url) as watched:
        job = Operated(watched.server)
        made = await die(job, watched)
        judge = await archive_judge(watched.settings, watched.archive)
        report = await reprocess(watched.store, engine, judge, EVERYTHING, prefix=watched.archive.prefix)
        assert (report.judged, report.unchanged, report.findings) == (1, 1, ())
        (now,) = await watched.manifests(job.uid)
        assert now.verdict == made.verdict


async def test_a_bundle_has_the_same_verdict_without_the_archive(
    tmp_path: Path, database_url: str, engine: AsyncEngine, rules_dir: Path
) -> None:
    bundle = tmp_path / "train-attempt-1.zip"
    async with rig(tmp_path, database_url) as watched:
        job = Operated(watched.server)
        made = await die(job, watched)
        done = await call_main(watched, database_url, "download", "team-a/train", "--bundle", "--to", str(tmp_path))
        assert done.stdout == f"{bundle}\n", done.output
    alone = await asyncio.to_thread(CliRunner().invoke, main, ["diagnose", str(bundle), "--json"])
    assert json.loads(alone.stdout) == made.verdict, alone.output
    ruled = ["diagnose", str(bundle), "--json", "--rules", str(rules_dir)]
    assert json.loads((await asyncio.to_thread(CliRunner().invoke, main, ruled)).stdout)["cause"] == "gpu-oom"


# -- archives made by hand


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


async def archived(store: FilesystemStore, engine: AsyncEngine, uid: str, **changed: Any) -> Manifest:
    """An attempt with a driver's log, in the bucket and in the index."""
    bare = manifest(uid, name=uid, **changed)
    log = await put_sealed(store, key_of(bare).removesuffix("manifest.json"), "logs/driver.log", [WORDS])
    made = replace(bare, artifacts=(log,))
    await store.put(key_of(made), to_json(made))
    await record(engine, made, key_of(made))
    return made


async def redo(
    store: ObjectStore, engine: AsyncEngine, ruleset: Ruleset, request: ReprocessRequest | None = None
) -> ReprocessReport:
    return await reprocess(store, engine, Again(ruleset, store), request or ReprocessRequest())


async def test_what_cannot_be_read_is_named_and_ends_nothing(
    engine: AsyncEngine, store: FilesystemStore, ruleset: Ruleset
) -> None:
    made = [await archived(store, engine, f"uid-{number}") for number in range(9)]
    damaged, gone, broken = made[1], made[3], made[5]
    body = await store.get(damaged.artifacts[0].key) or b""
    await store.put(damaged.artifacts[0].key, body[:10] + b"\xff" * 30 + body[40:])
    await store.delete([gone.artifacts[0].key])
    await store.put(key_of(broken), b'{"schema": 1')
    report = await redo(store, engine, ruleset)
    assert {finding.key for finding in report.findings} == {key_of(each) for each in (damaged, gone, broken)}
    assert (report.judged, report.unreadable, report.unchanged) == (6, 3, 0)
    names = tuple(f"ml-a/uid-{number} attempt 1" for number in (0, 2, 4))
    assert report.changes == (CauseChange("missing-module", "gpu-oom", 6, names),)
    kept = {uid: found[1] for uid, found in (await causes(engine)).items()}
    assert {uid for uid, cause in kept.items() if cause == "missing-module"} == {"uid-1", "uid-3", "uid-5"}


async def test_a_succeeded_job_loses_a_stale_verdict(
    engine: AsyncEngine, store: FilesystemStore, ruleset: Ruleset
) -> None:
    well = replace(manifest().outcome, job_status="SUCCEEDED", deployment_status="Complete", reason="")
    await archived(store, engine, "fine", outcome=replace(well, ended_as="succeeded"))
    report = await redo(store, engine, ruleset)
    assert [(each.before, each.after) for each in report.changes] == [("missing-module", "none")]
    assert (await causes(engine))["fine"][:2] == ("none", "none")


async def test_takes_only_what_ended_since_then_and_leaves_the_watchers_own(
    engine: AsyncEngine, store: FilesystemStore, ruleset: Ruleset
) -> None:
    await archived(store, engine, "old")
    await archived(store, engine, "young", start=START + timedelta(days=2))
    await archived(store, engine, "runs", ended_as="running", start=START + timedelta(days=2))
    report = await redo(store, engine, ruleset, ReprocessRequest(since=START + timedelta(days=1)))
    assert (report.judged, report.passed_over, report.unreadable) == (1, 0, 0)
    assert {uid: found[2] for uid, found in (await causes(engine)).items()} == {"old": 1, "young": 2, "runs": 1}


async def test_a_run_that_was_cut_off_between_bucket_and_index_is_gone_on_with(
    engine: AsyncEngine, store: FilesystemStore, ruleset: Ruleset
) -> None:
    made = await archived(store, engine, "cut")
    ahead = replace(made, revision=2, verdict=verdict("gpu-oom", "memory", ruleset=ruleset.version))
    await store.put(key_of(made), to_json(ahead))
    assert (await redo(store, engine, ruleset, ReprocessRequest(is_dry_run=True))).passed_over == 1
    assert (await causes(engine))["cut"] == ("missing-module", "missing-module", 1)
    report = await redo(store, engine, ruleset)
    assert (report.judged, report.passed_over) == (0, 1)
    assert (await causes(engine))["cut"] == ("gpu-oom", "gpu-oom", 2)
    assert (await redo(store, engine, ruleset, EVERYTHING)).judged == 1


async def test_an_index_that_is_away_costs_no_verdict(
    store: FilesystemStore, ruleset: Ruleset, engine: AsyncEngine
) -> None:
    await archived(store, engine, "kept")
    nowhere = open_engine("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable):
        await redo(store, nowhere, ruleset)
    await nowhere.dispose()
    report = await redo(store, engine, ruleset)
    assert (report.judged, (await causes(engine))["kept"][:2]) == (1, ("gpu-oom", "gpu-oom"))
