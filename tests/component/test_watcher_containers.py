"""Containers and Ray nodes of every sort: restarted, initial, beside Ray's, behind a token, out of reach, on a worker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archiver.core.model import Completeness
from archiver.sandbox import NodeState
from tests.component.operating import Operated
from tests.component.watching import Rig, named, rig, said

WORDS = b"".join(b"step %d\n" % number for number in range(3000))


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def watched(tmp_path: Path, database_url: str) -> AsyncIterator[Rig]:
    async with rig(tmp_path, database_url, ray_token_secrets=True) as made:
        yield made


async def end(job: Operated, watched: Rig, name: str = "logs/driver", size: int = len(WORDS)) -> None:
    job.record("FAILED")
    job.end()
    job.delete_cluster()
    await watched.until_read(job.uid, name, size)
    job.kill_pods()


async def test_a_restarted_container_has_a_log_for_each_run(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    await job.start_head()
    first = job.head_run
    job.write(first, b"first run\n" * 800)
    await watched.until_stored(job.uid, ".parts/logs/head")
    job.finish(first, 137, reason="OOMKilled", restart=True)
    second = watched.server.cluster.current_run(job.namespace, job.head_pod, "ray-head")
    job.write(second, b"second run\n" * 800)
    job.record("RUNNING")
    job.drive(WORDS)
    await watched.until_read(job.uid, "ray-head.1.log", 800 * 11)
    await end(job, watched)
    manifest = await watched.archived(job.uid)
    texts = [await watched.text(named(manifest, f"logs/head-{job.head_pod}.ray-head.{n}")) for n in (0, 1)]
    assert texts == [b"first run\n" * 800, b"second run\n" * 800], said(manifest)


async def test_two_head_pods_of_one_name_have_logs_of_their_own(watched: Rig) -> None:
    """With deterministic head names a head that is made again has the name of the one before."""
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    await job.start_head(name="train-head")
    job.write(job.head_run, b"first head\n")
    await watched.until_stored(job.uid, ".parts/logs/head")
    job.finish(job.head_run, 1)
    watched.server.cluster.delete("pods", job.namespace, "train-head")
    await job.start_head(name="train-head")
    job.write(job.head_run, b"second head\n")
    job.record("RUNNING")
    job.drive(WORDS)
    assert job.head_run is not None
    await watched.until_stored(job.uid, f".parts/logs/head-train-head-{job.head_run.pod_uid[:8]}")
    await end(job, watched)
    manifest = await watched.archived(job.uid)
    heads = [artifact for artifact in manifest.artifacts if artifact.name.startswith("logs/head")]
    assert sorted([await watched.text(artifact) for artifact in heads]) == [b"first head\n", b"second head\n"]


async def test_init_containers_and_the_autoscaler_are_kept_and_strangers_not(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    await job.start_head()
    sandbox = watched.server.cluster
    pod = sandbox.get("pods", job.namespace, job.head_pod)
    assert pod is not None
    names = [*pod["spec"]["containers"], {"name": "autoscaler"}, {"name": "istio-proxy"}]
    sandbox.patch(
        "pods", job.namespace, job.head_pod, {"spec": {"containers": names, "initContainers": [{"name": "wait"}]}}
    )
    for container, text in (("wait", b"waited\n"), ("autoscaler", b"scaled\n"), ("istio-proxy", b"proxied\n")):
        run = sandbox.start_container(job.namespace, job.head_pod, container)
        job.write(run, text)
        if container == "wait":
            job.finish(run)
    job.record("RUNNING")
    job.drive(WORDS)
    await watched.until_stored(job.uid, "logs/init-", "logs/autoscaler-", ".parts/logs/driver")
    await end(job, watched)
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/init-")) == b"waited\n"
    assert await watched.text(named(manifest, "logs/autoscaler-")) == b"scaled\n"
    assert not [artifact for artifact in manifest.artifacts if "istio" in artifact.name]


@pytest.mark.parametrize("has_token", [True, False])
async def test_a_token_is_read_where_it_may_be_and_a_refusal_is_a_gap(watched: Rig, has_token: bool) -> None:
    job = Operated(watched.server, mode="HTTPMode", token="secret-token").create()
    if not has_token:
        watched.server.cluster.deny("get", "secrets")
    job.begin()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": job.cluster_name, "namespace": job.namespace}}
    watched.server.cluster.create({**secret, "data": {"auth_token": "c2VjcmV0LXRva2Vu"}})
    await job.start_head()
    job.write(job.head_run, b"started\n")
    job.record("RUNNING")
    job.drive(WORDS)
    await watched.until_stored(job.uid, ".parts/logs/driver" if has_token else ".parts/logs/head")
    job.record("FAILED")
    job.end()
    job.delete_cluster()
    if has_token:
        await watched.until_read(job.uid, "logs/driver", len(WORDS))
        job.kill_pods()
    manifest_of = watched.archived(job.uid)
    if not has_token:
        await watched.until_stored(job.uid, "logs/driver.log.zst")
        job.kill_pods()
    manifest = await manifest_of
    driver = named(manifest, "logs/driver")
    if has_token:
        assert await watched.text(driver) == WORDS
    else:
        assert driver.completeness is Completeness.LOST, said(manifest)
        assert "refuses" in driver.reason


async def test_a_pod_out_of_reach_is_read_through_the_api_server(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    await job.start_head(is_listening=False)
    job.record("RUNNING")
    job.drive(WORDS)
    await watched.until_stored(job.uid, ".parts/logs/driver")
    await end(job, watched)
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == WORDS


async def test_a_driver_on_a_worker_is_read_there(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    await job.start_head()
    worker, run, _ = await job.start_worker()
    job.write(run, b"worker up\n")
    job.record("RUNNING", driver_agent_http_address=f"http://{worker.address}:52365")
    worker.append(f"job-driver-{job.submission_id}.log", WORDS)
    await watched.until_stored(job.uid, ".parts/logs/driver", ".parts/logs/worker")
    await end(job, watched)
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == WORDS
    assert await watched.text(named(manifest, "logs/worker")) == b"worker up\n"


async def test_ray_files_of_a_worker_out_of_reach_come_through_the_api_server(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
    job.begin()
    await job.start_head()
    worker, run, pod = await job.start_worker(is_listening=False)
    job.write(run, b"worker up\n")
    worker.append("raylet.err", b"the raylet of a worker says why\n")
    job.record("RUNNING", driver_agent_http_address=f"http://{worker.address}:52365")
    worker.append(f"job-driver-{job.submission_id}.log", WORDS)
    await watched.until_read(job.uid, "logs/driver", len(WORDS))
    job.record("FAILED")
    job.end()
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == WORDS
    raylet = named(manifest, f"logs/ray/{pod}/raylet.err")
    assert await watched.text(raylet) == b"the raylet of a worker says why\n", said(manifest)


async def test_a_job_that_is_submitted_again_has_a_second_driver_log(watched: Rig) -> None:
    """A head that restarts in its pod: KubeRay submits again under the same id, and the new file grows past the old."""
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    await job.start_head()
    job.record("RUNNING")
    job.drive(b"first submission\n" * 100)
    await watched.until_read(job.uid, ".parts/logs/driver.log", 1700)
    assert job.head is not None
    job.head.truncate(f"job-driver-{job.submission_id}.log")
    job.finish(job.head_run, 1, restart=True)
    job.record("RUNNING", start_time=1_900_000_000_000)
    job.drive(b"second submission\n" * 5000)
    await watched.until_stored(job.uid, ".parts/logs/driver-2.log")
    await end(job, watched, "logs/driver-2.log", 90_000)
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver.log")) == b"first submission\n" * 100
    assert await watched.text(named(manifest, "logs/driver-2.log")) == b"second submission\n" * 5000


async def test_a_head_that_falls_silent_leaves_its_last_known_state(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode").create()
    job.begin()
    head = await job.start_head()
    job.record("RUNNING")
    job.state(
        "tasks", [{"name": "train", "state": "RUNNING", "job_id": "02000000", "start_time_ms": 1_800_000_100_000}]
    )
    job.drive(WORDS)
    await watched.until_stored(job.uid, "ray/tasks.json")
    head.die(NodeState.REFUSED)
    job.status(job="FAILED", deployment="Failed", message="head gone")
    job.delete_cluster()
    job.kill_pods()
    manifest = await watched.archived(job.uid)
    tasks = named(manifest, "ray/tasks.json")
    assert tasks.completeness is Completeness.PARTIAL
    assert tasks.reason.startswith("as last seen while the job ran")
    assert named(manifest, "logs/driver").completeness is not Completeness.LOST
