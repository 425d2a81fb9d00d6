"""Playing recordings: in order, at any speed, under any name; held, deleted, followed to the last byte."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from archiver.sandbox import Recording, SandboxServer, load_builtin_recordings
from archiver.sandbox.replay import Playback

RECORDINGS = {recording.header.name: recording for recording in load_builtin_recordings()}
RAYJOBS = "/apis/ray.io/v1/rayjobs"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer(speed=20.0) as running:
        yield running


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session:
        yield session


async def finished(*playbacks: Playback, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        for playback in playbacks:
            await playback.wait()


async def eventually(is_there: Callable[[], object], *, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not is_there():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


class Seen:
    """All watch events of one path, as they come."""

    def __init__(self, client: aiohttp.ClientSession, path: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.is_open = asyncio.Event()
        self._client = client
        self._path = path

    async def run(self) -> None:
        async with self._client.get(f"{self._path}?watch=1&resourceVersion=0") as response:
            self.is_open.set()
            async for line in response.content:
                self.events.append(json.loads(line))

    async def until(self, is_there: Callable[[list[dict[str, Any]]], object]) -> None:
        await eventually(lambda: is_there(self.events))


@pytest.fixture
async def rayjobs(client: aiohttp.ClientSession) -> AsyncIterator[Seen]:
    seen = Seen(client, RAYJOBS)
    task = asyncio.create_task(seen.run(), name="watch rayjobs")
    await asyncio.wait_for(seen.is_open.wait(), 10)
    yield seen
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def states(events: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for event in events:
        state = event["object"].get("status", {}).get("jobDeploymentStatus", "")
        if not found or found[-1] != state:
            found.append(state)
    return found


@pytest.mark.parametrize("name", sorted(RECORDINGS))
async def test_every_recording_plays_to_its_outcome(name: str) -> None:
    async with SandboxServer(speed=200.0) as server:
        playback = server.play(RECORDINGS[name])
        await finished(playback)
        assert not playback.was_cut_short
        job = server.cluster.get("rayjobs", playback.namespace, playback.rayjob)
        truth = server.truths()[0]
        if name == "user-deletes":
            assert job is None
        else:
            assert job is not None
            assert job["status"]["jobDeploymentStatus"] == truth.truth.outcome
            assert job["metadata"]["uid"] == truth.uid
        assert not list(server.cluster.items("rayclusters", playback.namespace))
        assert len(truth.truth.attempts) == len(RECORDINGS[name].truth.attempts)


async def test_states_come_in_order(server: SandboxServer, rayjobs: Seen) -> None:
    await finished(server.play(RECORDINGS["retry-to-success"]))
    await rayjobs.until(lambda events: states(events)[-1:] == ["Complete"])
    again = ["Initializing", "Running", "Retrying", ""]
    assert states(rayjobs.events) == ["", *again, *again, "Initializing", "Running", "Complete"]


async def test_times_are_those_of_now(server: SandboxServer) -> None:
    before = datetime.now(UTC)
    playback = server.play(RECORDINGS["success"])
    await finished(playback)
    job = server.cluster.get("rayjobs", playback.namespace, playback.rayjob)
    assert job is not None
    created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    ended = datetime.fromisoformat(job["status"]["endTime"])
    assert abs((created - before).total_seconds()) <= 2
    assert (datetime.now(UTC) - ended).total_seconds() < 10
    lasted = RECORDINGS["success"].duration_seconds / 20
    assert (ended - created).total_seconds() <= lasted + 1


async def test_a_suffix_makes_another_rayjob(server: SandboxServer) -> None:
    first = server.play(RECORDINGS["early-exit"])
    second = server.play(RECORDINGS["early-exit"], name_suffix="-b", at=0.05)
    await finished(first, second)
    jobs = {job["metadata"]["name"]: job for job in server.cluster.items("rayjobs")}
    assert set(jobs) == {"detector-sweep-17", "detector-sweep-17-b"}
    renamed = jobs["detector-sweep-17-b"]
    assert renamed["metadata"]["uid"] != jobs["detector-sweep-17"]["metadata"]["uid"]
    attempt = second.truth.attempts[0]
    assert attempt.ray_cluster.startswith("detector-sweep-17-b-")
    assert renamed["status"]["jobId"] == attempt.submission_id
    assert renamed["status"]["rayClusterName"] == attempt.ray_cluster
    names = {event["involvedObject"]["name"] for event in server.cluster.items("events")}
    assert "detector-sweep-17-b" in names


async def follow_driver(server: SandboxServer, client: aiohttp.ClientSession, playback: Playback) -> bytes:
    """What somebody gets who reads the driver's file by ranges until it has the size that the truth tells."""
    attempt, data = playback.truth.attempts[0], bytearray()
    assert attempt.driver is not None
    while len(data) < attempt.driver.size_bytes:
        await asyncio.sleep(0.005)
        heads = server.cluster.items("pods", playback.namespace)
        head = next((pod for pod in heads if pod["metadata"]["labels"].get("ray.io/node-type") == "head"), None)
        if head is None or not head["status"].get("podIP"):
            continue
        url = f"http://{head['status']['podIP']}:52365/logs/job-driver-{attempt.submission_id}.log"
        try:
            async with client.get(url, headers={"Range": f"bytes={len(data)}-"}) as response:
                data += await response.read() if response.status == 206 else b""
        except aiohttp.ClientConnectorError:
            continue
    return bytes(data)


@pytest.mark.parametrize("name", ["binary-output", "missing-module", "rotated-log"])
async def test_a_follower_of_the_driver_gets_what_the_truth_says(
    server: SandboxServer, client: aiohttp.ClientSession, name: str
) -> None:
    """Held, so that a busy machine is no race against the head's death."""
    playback = server.play(RECORDINGS[name], speed=5.0)
    where = "rayclusters", playback.namespace, playback.truth.attempts[0].ray_cluster
    await eventually(lambda: server.cluster.get(*where))
    server.cluster.patch(*where, {"metadata": {"finalizers": ["example.com/hold"]}})
    data = await asyncio.wait_for(follow_driver(server, client, playback), 60)
    server.cluster.patch(*where, {"metadata": {"finalizers": None}})
    driver = playback.truth.attempts[0].driver
    assert driver is not None
    assert (len(data), hashlib.sha256(data).hexdigest()) == (driver.size_bytes, driver.sha256)
    await finished(playback)


async def follow_log(client: aiohttp.ClientSession, namespace: str, pod: str, container: str) -> bytes:
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&follow=true"
    async with asyncio.timeout(30), client.get(path) as response:
        return await response.read()


async def test_a_follower_of_the_submitter_reads_over_rotations(
    server: SandboxServer, client: aiohttp.ClientSession
) -> None:
    recording = RECORDINGS["rotated-log"]
    printed = {run.pod: data for run, data in recording.container_logs() if run.container == "ray-job-submitter"}
    ((pod, data),) = printed.items()
    playback = server.play(recording, speed=5.0)
    await eventually(lambda: (server.cluster.get("pods", playback.namespace, pod) or {}).get("status", {}).get("podIP"))
    got = await follow_log(client, playback.namespace, pod, "ray-job-submitter")
    assert got == data
    await finished(playback)


def is_marked(server: SandboxServer, ray_cluster: str) -> bool:
    found = server.cluster.get("rayclusters", "search", ray_cluster)
    return bool(found and found["metadata"].get("deletionTimestamp"))


async def test_a_hold_stops_the_death_until_it_is_released(
    server: SandboxServer, client: aiohttp.ClientSession, rayjobs: Seen
) -> None:
    """As measured on a real cluster: head and status stay, the retry goes on when the finalizer is gone."""
    playback = server.play(RECORDINGS["retry-to-success"])
    await rayjobs.until(lambda events: states(events)[-1:] == ["Running"])
    attempt = playback.truth.attempts[0]
    path = f"/apis/ray.io/v1/namespaces/search/rayclusters/{attempt.ray_cluster}"
    async with client.patch(path, json={"metadata": {"finalizers": ["example.com/hold"]}}, headers=MERGE) as response:
        assert response.status == 200
    await rayjobs.until(lambda events: states(events)[-1:] == ["Retrying"])
    await eventually(lambda: is_marked(server, attempt.ray_cluster))
    await asyncio.sleep(0.3)
    assert states(rayjobs.events)[-1] == "Retrying"
    assert rayjobs.events[-1]["object"]["status"]["jobId"] == attempt.submission_id
    head = next(pod for pod in server.cluster.items("pods", "search") if "-head-" in pod["metadata"]["name"])
    url = f"http://{head['status']['podIP']}:8265/api/jobs/{attempt.submission_id}"
    async with client.get(url) as response:
        assert (await response.json())["status"] == "FAILED"
    async with client.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE) as response:
        assert response.status == 200
    await finished(playback)
    assert server.cluster.get("rayclusters", "search", attempt.ray_cluster) is None
    await rayjobs.until(lambda events: states(events)[-1:] == ["Complete"])


async def test_a_finalizer_on_a_cluster_survives_the_operators_writes(server: SandboxServer, rayjobs: Seen) -> None:
    playback = server.play(RECORDINGS["success"])
    await rayjobs.until(lambda events: states(events)[-1:] == ["Initializing"])
    name = playback.truth.attempts[0].ray_cluster
    change = {"metadata": {"finalizers": ["example.com/hold"], "annotations": {"example.com/note": "mine"}}}
    server.cluster.patch("rayclusters", "analytics", name, change)
    await rayjobs.until(lambda events: states(events)[-1:] == ["Running"])
    cluster = server.cluster.get("rayclusters", "analytics", name)
    assert cluster is not None
    assert cluster["status"]["state"] == "ready"
    assert cluster["metadata"]["finalizers"] == ["example.com/hold"]
    assert cluster["metadata"]["annotations"]["example.com/note"] == "mine"


async def test_a_user_can_delete_what_plays(
    server: SandboxServer, client: aiohttp.ClientSession, rayjobs: Seen
) -> None:
    playback = server.play(RECORDINGS["success"])
    await rayjobs.until(lambda events: states(events)[-1:] == ["Running"])
    path = f"/apis/ray.io/v1/namespaces/{playback.namespace}/rayjobs/{playback.rayjob}"
    change = {"metadata": {"finalizers": None}}
    await (await client.patch(path, json=change, headers=MERGE)).read()
    async with client.delete(path) as response:
        assert response.status == 200
    await finished(playback)
    assert playback.was_cut_short
    await eventually(lambda: not list(server.cluster.items("pods", playback.namespace)))
    assert not list(server.cluster.items("rayclusters", playback.namespace))


async def test_twenty_at_once_stay_apart() -> None:
    names = ("early-exit", "segfault", "binary-output", "sidecar-exit")
    recordings: list[Recording] = [RECORDINGS[name] for name in names]
    async with SandboxServer(speed=50.0) as server:
        playbacks = [server.play(recordings[n % 4], name_suffix=f"-{n}", at=0.01 * n) for n in range(20)]
        await finished(*playbacks, seconds=60)
        jobs = list(server.cluster.items("rayjobs"))
        assert len(jobs) == 20
        assert {job["status"]["jobDeploymentStatus"] for job in jobs} == {"Failed"}
        assert len({truth.uid for truth in server.truths()}) == 20
