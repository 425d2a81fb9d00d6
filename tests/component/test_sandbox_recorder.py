"""Recording a live RayJob: what was recorded plays again and leaves the same evidence; secrets do not get in."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archiver.errors import UserError
from archiver.kube.access import PlainAccess
from archiver.kube.transport import Transport
from archiver.sandbox import Recording, SandboxServer, load_builtin_recordings, read_recording
from archiver.sandbox.masking import MASK, masked_document
from archiver.sandbox.recorder import record
from archiver.sandbox.recording import Made, RayAnswerEntry, RayJobEntry, WatchEntry
from archiver.sandbox.recordingfile import dump_recording
from archiver.sandbox.replay import Playback

RECORDINGS = {recording.header.name: recording for recording in load_builtin_recordings()}


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer(speed=4.0) as running:
        yield running


async def hold(server: SandboxServer, playback: Playback) -> None:
    """Keeps the head for some seconds, so that a busy machine is no race against its death."""
    where = "rayclusters", playback.namespace, playback.truth.attempts[0].ray_cluster
    while (found := server.cluster.get(*where)) is None or not found["metadata"].get("deletionTimestamp"):
        if found is not None and not found["metadata"].get("finalizers"):
            server.cluster.patch(*where, {"metadata": {"finalizers": ["example.com/hold"]}})
        await asyncio.sleep(0.02)
    await asyncio.sleep(3.0)
    server.cluster.patch(*where, {"metadata": {"finalizers": None}})


async def recorded(server: SandboxServer, name: str, out: Path) -> Recording:
    """Plays a recording and records it meanwhile."""
    playback = server.play(RECORDINGS[name], at=0.3)
    async with Transport(PlainAccess(server.url, server.token)) as transport, asyncio.timeout(60):
        holding = asyncio.create_task(hold(server, playback), name="hold the cluster")
        found = await record(transport, playback.namespace, playback.rayjob, out, until_gone_seconds=10)
        await playback.wait()
        await holding
    assert read_recording(out) == found
    return found


def statuses(recording: Recording) -> list[tuple[str, str]]:
    """The RayJob's states as they changed."""
    found: list[tuple[str, str]] = []
    for entry in recording.entries:
        if isinstance(entry, WatchEntry) and entry.object["kind"] == "RayJob":
            status: dict[str, Any] = entry.object.get("status", {})
            state = (status.get("jobDeploymentStatus", ""), status.get("jobStatus", ""))
            if not found or found[-1] != state:
                found.append(state)
    return found


@pytest.mark.parametrize("name", ["missing-module", "binary-output"])
async def test_what_is_recorded_plays_again(server: SandboxServer, tmp_path: Path, name: str) -> None:
    original, found = RECORDINGS[name], await recorded(server, name, tmp_path / "a.rec.zst")
    assert found.header.made is Made.RECORDED
    assert found.header.versions["kubernetes"] == "v1.34.4"
    assert found.header.versions["ray"] == "2.60.0"
    assert statuses(found) == statuses(original)
    assert found.truth.outcome == original.truth.outcome
    attempt, true_attempt = found.truth.attempts[0], original.truth.attempts[0]
    assert (attempt.ray_cluster, attempt.submission_id) == (true_attempt.ray_cluster, true_attempt.submission_id)
    assert attempt.driver == true_attempt.driver
    assert attempt.cause == "unknown"
    printed = {(run.pod, run.container): data for run, data in original.container_logs()}
    assert {(run.pod, run.container): data for run, data in found.container_logs()} == printed
    async with SandboxServer(speed=50.0) as again:
        playback = again.play(found)
        async with asyncio.timeout(30):
            await playback.wait()
        job = again.cluster.get("rayjobs", playback.namespace, playback.rayjob)
        assert job is not None
        assert job["status"]["jobDeploymentStatus"] == original.truth.outcome


async def test_only_the_rayjobs_own_objects_are_kept(server: SandboxServer, tmp_path: Path) -> None:
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "namespace": "vision"}}
    server.cluster.create({**stranger, "spec": {"containers": [{"name": "c"}]}})
    server.play(RECORDINGS["segfault"])
    found = await recorded(server, "early-exit", tmp_path / "a.rec.zst")
    objects = [entry.object for entry in found.entries if isinstance(entry, WatchEntry)]
    kinds = {item["kind"] for item in objects}
    assert kinds >= {"RayJob", "RayCluster", "Pod", "Event", "Node"}
    for item in objects:
        about = item.get("involvedObject", item["metadata"])["name"]
        assert item["kind"] == "Node" or about.startswith(("detector-sweep-17", "gpu-a"))
    answers = {entry.path for entry in found.entries if isinstance(entry, RayAnswerEntry)}
    assert answers >= {"/api/version", "/events", "/api/v0/tasks", "/api/v0/nodes"}


async def test_secrets_do_not_get_in(server: SandboxServer, tmp_path: Path) -> None:
    found = await recorded(server, "secrets-in-output", tmp_path / "a.rec.zst")
    assert any(isinstance(entry, RayJobEntry) for entry in found.entries)
    raw = dump_recording(found).decode()
    for secret in ("wJalrXUtnFEMI", "s3cr3t-pa55", "hf_exampleExampleExampleExample0123456"):
        assert secret not in raw
    assert "masked:" in raw


async def test_a_rayjob_that_never_appears_is_named(server: SandboxServer, tmp_path: Path) -> None:
    async with Transport(PlainAccess(server.url, server.token)) as transport:
        with pytest.raises(UserError, match=r"no RayJob search/absent appeared within 0\.2 s"):
            await record(transport, "search", "absent", tmp_path / "a", until_gone_seconds=1, appear_seconds=0.2)


def test_masks_what_is_called_a_secret() -> None:
    document = {
        "env": [{"name": "DB_PASSWORD", "value": "short"}, {"name": "STAGE", "value": "prod"}],
        "runtime_env": {"env_vars": {"HF_TOKEN": "x", "DEBUG": "1"}},
    }
    assert masked_document(document) == {
        "env": [{"name": "DB_PASSWORD", "value": MASK}, {"name": "STAGE", "value": "prod"}],
        "runtime_env": {"env_vars": {"HF_TOKEN": MASK, "DEBUG": "1"}},
    }
