"""The index's writer: many manifests by one transaction, and no good row behind a bad one."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from archiver.collect.catalog import Catalog
from archiver.collect.indexer import Indexer
from archiver.core.manifest import Manifest, from_json
from archiver.core.model import AttemptId, RayJobId
from archiver.errors import DatabaseError
from archiver.store.filesystem import FilesystemStore
from archiver.store.notes import Notes
from archiver.telemetry import Metrics
from tests.component.streaming import NOW
from tests.unit.core.test_manifest import MINIMAL


@dataclass(slots=True)
class Refusing:
    """Refuses whatever has one bad row."""

    bad: str
    batches: list[list[str]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)

    async def write(self, rows: Sequence[tuple[Manifest, str]]) -> None:
        names = [manifest.attempt.rayjob.name for manifest, _ in rows]
        self.batches.append(names)
        if self.bad in names:
            raise DatabaseError("a row that Postgres refuses")
        self.written |= set(names)


def manifest(name: str) -> Manifest:
    return replace(
        from_json(json.dumps(MINIMAL).encode()), attempt=AttemptId(RayJobId("c", "ns", name, f"uid-{name}"), 1)
    )


async def run(tmp_path: Path, index: Refusing, names: list[str], wanted: int) -> None:
    catalog = Catalog(FilesystemStore(tmp_path / "store"), Notes(tmp_path / "notes"), prefix="", cluster="c")
    indexer = Indexer(index.write, catalog, Metrics())
    for name in names:
        indexer.submit(manifest(name), f"{name}/manifest.json", NOW)
    task = asyncio.create_task(indexer.run())
    async with asyncio.timeout(60):
        while len(index.written) < wanted:  # noqa: ASYNC110 - the writer has its own pace
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_manifests_that_wait_together_are_written_together(tmp_path: Path) -> None:
    index, names = Refusing(bad=""), [f"job-{number}" for number in range(30)]
    await run(tmp_path, index, names, wanted=30)
    assert index.batches == [names]


async def test_a_bad_row_keeps_no_good_one_waiting(tmp_path: Path) -> None:
    index, names = Refusing(bad="job-3"), [f"job-{number}" for number in range(12)]
    await run(tmp_path, index, names, wanted=11)
    assert index.written == set(names) - {"job-3"}
    assert all(index.batches.count([name]) == 1 for name in index.written)
