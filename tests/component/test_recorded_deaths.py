"""Deaths recorded on a real cluster, replayed to the real watcher: the archive has what was written, or says what lacks."""

import asyncio
from pathlib import Path

from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import Completeness
from archiver.sandbox import SandboxServer, read_recording
from archiver.sandbox.recording import AttemptTruth, Recording
from tests.component.watching import Rig, masked, named, rig, said, until

FOLDER = Path(__file__).parent.parent / "data" / "recordings" / "recorded"


async def test_every_recorded_death_is_archived_as_its_driver_wrote_it(tmp_path: Path, database_url: str) -> None:
    every = [read_recording(path) for path in sorted(FOLDER.glob("*.rec.zst"))]
    recordings = [recording for recording in every if any(truth.driver for truth in recording.truth.attempts)]
    assert len(recordings) >= 6
    async with SandboxServer(speed=2.0) as server, rig(tmp_path, database_url, server) as watching:
        for recording in recordings:
            server.play(recording)
        await asyncio.gather(*[_is_archived(watching, recording) for recording in recordings])


async def _is_archived(watching: Rig, recording: Recording) -> None:
    for truth in recording.truth.attempts:
        manifest = await _final(watching, truth.ray_cluster)
        if truth.driver is not None:
            await _has_driver(watching, manifest, recording, truth)


async def _final(watching: Rig, ray_cluster: str) -> Manifest:
    """By the RayCluster: a namesake that came later counts its attempts anew."""

    async def look() -> Manifest | None:
        found = [manifest async for manifest in watching.every_manifest() if manifest.ray_cluster == ray_cluster]
        return next((manifest for manifest in found if manifest.state is ManifestState.FINAL), None)

    return await until(look, seconds=110)


async def _has_driver(watching: Rig, manifest: Manifest, recording: Recording, truth: AttemptTruth) -> None:
    """Complete and equal; or incomplete, and then a beginning of it with a reason."""
    artifact = named(manifest, "logs/driver.log")
    written, archived = masked(recording.driver_log(truth.submission_id)), await watching.text(artifact)
    if artifact.completeness is Completeness.COMPLETE:
        assert archived == written, recording.header.name
    else:
        assert artifact.reason, recording.header.name
        assert written.startswith(archived), (recording.header.name, said(manifest))
