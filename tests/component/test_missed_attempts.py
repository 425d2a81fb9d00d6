"""A watcher that comes while a RayJob is at a later attempt: no attempt is taken for another, none goes without a row."""

import asyncio
from pathlib import Path

from archiver.core.model import Completeness
from archiver.sandbox import SandboxServer, read_recording
from tests.component.test_recorded_deaths import FOLDER
from tests.component.watching import rig, until_true


async def test_attempts_that_nobody_captured_are_rows(tmp_path: Path, database_url: str) -> None:
    recording = read_recording(FOLDER / "three-deaths.rec.zst")
    async with SandboxServer(speed=4.0) as server, rig(tmp_path, database_url, server, is_started=False) as watching:
        playback = server.play(recording)

        def failed() -> int:
            rayjob = server.cluster.get("rayjobs", playback.namespace, playback.rayjob) or {}
            return int((rayjob.get("status") or {}).get("failed") or 0)

        await until_true(lambda: failed() >= 1)
        await asyncio.sleep(1.0)
        missed = failed()
        await watching.start()
        lost = await watching.archived(playback.uid, 1)
        last = await watching.archived(playback.uid, 3)
    assert missed in (1, 2)
    assert (lost.completeness, lost.outcome.ended_as, lost.ray_cluster) == (Completeness.LOST, "retried", None)
    assert "was not there" in lost.completeness_reason
    assert last.outcome.ended_as == "failed"


async def test_an_attempt_that_another_machine_began_is_not_taken_for_the_next_one(
    tmp_path: Path, database_url: str
) -> None:
    """The first watcher is gone with its disk before it wrote a manifest: its mark in the bucket is all that is left."""
    recording = read_recording(FOLDER / "three-deaths.rec.zst")
    bucket = str(tmp_path / "bucket")
    async with SandboxServer(speed=2.0) as server:
        playback = server.play(recording)
        first, second, _ = playback.truth.attempts
        async with rig(tmp_path / "a", database_url, server, store=bucket) as watching:
            await watching.until_stored(playback.uid, "rayclusters.ndjson")
            async for entry in watching.store.list(""):
                if entry.key.endswith("manifest.json"):
                    await watching.store.delete([entry.key])

        def cluster() -> str:
            rayjob = server.cluster.get("rayjobs", playback.namespace, playback.rayjob) or {}
            return str((rayjob.get("status") or {}).get("rayClusterName") or "")

        await until_true(lambda: cluster() == second.ray_cluster)
        async with rig(tmp_path / "b", database_url, server, store=bucket) as watching:
            manifests = [await watching.archived(playback.uid, number) for number in (1, 2, 3)]
    assert [manifest.ray_cluster for manifest in manifests] == [each.ray_cluster for each in playback.truth.attempts]
    assert manifests[0].ray_cluster == first.ray_cluster
