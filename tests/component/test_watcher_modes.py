"""Every way a RayJob is submitted: the driver's bytes are archived, apart by attempt, whatever the mode and the end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archiver.core.model import Completeness, LogKind
from tests.component.operating import Operated
from tests.component.watching import Rig, named, rig, said

WORDS = b"".join(b"step %d of the training\n" % number for number in range(2000))


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def watched(tmp_path: Path, database_url: str) -> AsyncIterator[Rig]:
    async with rig(tmp_path, database_url) as made:
        yield made


async def run_driver(job: Operated, watched: Rig, text: bytes = WORDS, *, is_listening: bool = True) -> None:
    """From the cluster to a driver that prints; returns when the archiver follows it and the head."""
    job.begin()
    await job.start_head(is_listening=is_listening)
    job.write(job.head_run, b"ray started\n")
    job.status(deployment="Running")
    job.record("RUNNING")
    job.drive(text[: len(text) // 2])
    attempt = f"attempt-{job.attempt:03d}"
    await watched.until_stored(job.uid, f"{attempt}/.parts/logs/driver", f"{attempt}/.parts/logs/head")
    job.drive(text[len(text) // 2 :])


async def lose(job: Operated, watched: Rig, text: bytes = WORDS) -> None:
    """The RayCluster is deleted at once; its head dies a moment later, as measured: what is left of it is read by then."""
    job.delete_cluster()
    await watched.until_read(job.uid, f"attempt-{job.attempt:03d}/.parts/logs/driver", len(text))
    job.kill_pods()


async def test_k8s_job_mode_keeps_all_three_tries_and_the_driver(watched: Rig) -> None:
    job = Operated(watched.server).create()
    await run_driver(job, watched)
    for number in range(3):
        run = job.start_submitter()
        job.write(run, b"try %d\n" % number + WORDS)
        job.finish(run, 1)
    job.record("FAILED", message="exit 1", driver_exit_code=3)
    job.end(message="exit 1")
    await lose(job, watched)
    manifest = await watched.archived(job.uid)
    tries = [
        artifact for artifact in manifest.artifacts if artifact.source and artifact.source.kind is LogKind.SUBMITTER
    ]
    texts = sorted([await watched.text(artifact) for artifact in tries])
    assert texts == [b"try %d\n" % number + WORDS for number in range(3)]
    assert await watched.text(named(manifest, "logs/driver")) == WORDS, said(manifest)
    assert await watched.text(named(manifest, "logs/head")) == b"ray started\n", said(manifest)
    assert manifest.outcome.driver_exit_code == 3
    assert all(artifact.completeness is not Completeness.LOST for artifact in manifest.artifacts if artifact.source)


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode", "SidecarMode"])
async def test_keeps_the_drivers_bytes_in_mode(watched: Rig, mode: str) -> None:
    job = Operated(watched.server, mode=mode).create()
    await run_driver(job, watched)
    if mode == "SidecarMode":
        run = job.start_submitter()
        job.write(run, WORDS)
        await watched.until_stored(job.uid, "logs/submitter")
        job.finish(run, 1)
    job.record("FAILED", message="exit 7")
    job.end(message="exit 7")
    await lose(job, watched)
    manifest = await watched.archived(job.uid)
    driver = named(manifest, "logs/driver")
    assert await watched.text(driver) == WORDS
    assert driver.completeness is Completeness.COMPLETE, said(manifest)
    assert manifest.submission_mode == mode
    if mode == "SidecarMode":
        assert await watched.text(named(manifest, "logs/submitter")) == WORDS


async def test_keeps_only_the_jobs_own_of_a_shared_cluster(watched: Rig) -> None:
    host = Operated(watched.server, name="shared").create()
    host.begin()
    await host.start_head()
    job = Operated(
        watched.server, mode="HTTPMode", spec={"clusterSelector": {"ray.io/cluster": host.cluster_name}}
    ).create()
    job.cluster, job.head, job.head_pod, job.submission_id = host.cluster, host.head, host.head_pod, "train-xyz"
    job.attempt = 1
    job.status(deployment="Running", cluster=host.cluster_name, job_id="train-xyz")
    job.record("RUNNING", job_id="07000000")
    job.drive(WORDS)
    assert host.head is not None
    host.head.append("worker-aa-07000000-1.err", b"mine\n")
    host.head.append("worker-bb-08000000-2.err", b"another job's\n")
    await watched.until_stored(job.uid, ".parts/logs/driver")
    job.record("FAILED", job_id="07000000")
    job.end()
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == WORDS
    assert await watched.text(named(manifest, "logs/ray/")) == b"mine\n"
    assert not [artifact for artifact in manifest.artifacts if artifact.name.startswith("logs/head")]


async def test_keeps_attempts_apart_over_a_retry_wipe(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode", spec={"backoffLimit": 1}).create()
    await run_driver(job, watched, b"first\n" * 500)
    job.record("FAILED", message="first try failed")
    job.status(job="FAILED", deployment="Retrying", message="first try failed", failed=1)
    await lose(job, watched, b"first\n" * 500)
    job.wipe()
    await run_driver(job, watched, b"second\n" * 500)
    job.record("SUCCEEDED")
    job.end("SUCCEEDED")
    await lose(job, watched, b"second\n" * 500)
    first, second = await watched.archived(job.uid, 1), await watched.archived(job.uid, 2)
    assert await watched.text(named(first, "logs/driver")) == b"first\n" * 500
    assert await watched.text(named(second, "logs/driver")) == b"second\n" * 500
    assert (first.outcome.ended_as, second.outcome.ended_as) == ("retried", "succeeded")
    assert first.outcome.message == "first try failed"
    assert first.ray_cluster != second.ray_cluster


async def test_a_suspend_and_a_resume_are_two_attempts(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode").create()
    await run_driver(job, watched, b"before\n" * 500)
    job.status(deployment="Suspending")
    await lose(job, watched, b"before\n" * 500)
    job.status(deployment="Suspended", cluster=None, job_id=None, job="")
    job.status(deployment="")
    await run_driver(job, watched, b"after\n" * 500)
    job.record("SUCCEEDED")
    job.end("SUCCEEDED")
    await lose(job, watched, b"after\n" * 500)
    first, second = await watched.archived(job.uid, 1), await watched.archived(job.uid, 2)
    assert (first.outcome.ended_as, second.outcome.ended_as) == ("suspended", "succeeded")
    assert await watched.text(named(first, "logs/driver")) == b"before\n" * 500
    assert await watched.text(named(second, "logs/driver")) == b"after\n" * 500


async def test_a_rayjob_that_is_born_suspended_is_one_attempt_that_waits(watched: Rig) -> None:
    """As Kueue does it: KubeRay gives names and takes them back, and nothing has begun."""
    job = Operated(watched.server, mode="HTTPMode", spec={"suspend": True, "shutdownAfterJobFinishes": False}).create()
    job.status(deployment="Initializing", cluster="train-never", job_id="train-never", job="")
    job.status(deployment="Suspending")
    job.status(deployment="Suspended", cluster=None, job_id=None, job="")
    await watched.until_stored(job.uid, "manifest.json", ".parts/kube/rayjobs")
    await watched.restart()
    job.sandbox.patch("rayjobs", job.namespace, job.name, {"spec": {"suspend": False}})
    job.status(deployment="")
    await run_driver(job, watched, b"admitted\n" * 500)
    assert [manifest.outcome.ended_as for manifest in await watched.manifests(job.uid)] == ["running"]
    job.record("SUCCEEDED")
    job.end("SUCCEEDED")
    await watched.archived(job.uid)
    (only,) = await watched.manifests(job.uid)
    assert (only.outcome.ended_as, only.ray_cluster) == ("succeeded", job.cluster_name)
    assert await watched.text(named(only, "logs/driver")) == b"admitted\n" * 500


async def test_a_rayjob_that_is_deleted_while_it_waits_was_deleted(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode", spec={"suspend": True}).create()
    job.status(deployment="Suspended")
    await watched.until_stored(job.uid, "manifest.json")
    job.sandbox.delete("rayjobs", job.namespace, job.name)
    manifest = await watched.archived(job.uid)
    assert manifest.outcome.ended_as == "deleted"


async def test_a_rayjob_deleted_in_the_middle_leaves_what_it_printed(watched: Rig) -> None:
    job = Operated(watched.server).create()
    await run_driver(job, watched)
    await watched.until_read(job.uid, ".parts/logs/driver", len(WORDS))
    watched.server.cluster.delete("rayjobs", job.namespace, job.name)
    job.delete_cluster()
    job.kill_pods()
    manifest = await watched.archived(job.uid)
    driver = named(manifest, "logs/driver")
    assert manifest.outcome.ended_as == "deleted"
    assert await watched.text(driver) == WORDS
    assert driver.completeness is Completeness.PARTIAL, driver.reason


async def test_goes_on_with_a_raycluster_that_was_deleted_in_the_middle(watched: Rig) -> None:
    """KubeRay makes another one of the same name and, in HTTPMode, submits the job again."""
    job = Operated(watched.server, mode="HTTPMode").create()
    await run_driver(job, watched, b"first session\n" * 300)
    name = job.cluster_name
    await lose(job, watched, b"first session\n" * 300)
    job.make_cluster(name)
    await job.start_head()
    job.record("RUNNING", start_time=1_900_000_000_000)
    job.drive(b"second session\n" * 600)
    await watched.until_stored(job.uid, ".parts/logs/driver-2")
    job.record("SUCCEEDED", start_time=1_900_000_000_000)
    job.end("SUCCEEDED")
    job.delete_cluster()
    await watched.until_read(job.uid, "logs/driver-2", 15 * 600)
    job.kill_pods()
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver.log")) == b"first session\n" * 300
    assert await watched.text(named(manifest, "logs/driver-2.log")) == b"second session\n" * 600


async def test_a_recreated_rayjob_of_the_same_name_is_another_one(watched: Rig) -> None:
    jobs = []
    for text in (b"one\n" * 400, b"two\n" * 400):
        job = Operated(watched.server, mode="HTTPMode").create()
        await run_driver(job, watched, text)
        job.record("FAILED")
        job.end()
        await lose(job, watched, text)
        watched.server.cluster.delete("rayjobs", job.namespace, job.name)
        jobs.append((job, text))
    assert jobs[0][0].uid != jobs[1][0].uid
    for job, text in jobs:
        manifest = await watched.archived(job.uid)
        assert await watched.text(named(manifest, "logs/driver")) == text
        assert len(await watched.manifests(job.uid)) == 1


async def test_an_invalid_rayjob_is_a_row_without_logs(watched: Rig) -> None:
    job = Operated(watched.server).create()
    job.status(deployment="ValidationFailed", reason="ValidationFailed", message="the name is too long")
    manifest = await watched.archived(job.uid)
    assert manifest.outcome.ended_as == "invalid"
    assert manifest.completeness is Completeness.COMPLETE, manifest.completeness_reason
    assert manifest.completeness_reason == "nothing had started, so there is no log"


async def test_of_a_job_that_never_started_nothing_is_called_lost(watched: Rig) -> None:
    job = Operated(watched.server).create()
    job.begin()
    await job.start_pod("head-waits")
    waiting = {"name": "ray-head", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    watched.server.cluster.patch("pods", job.namespace, "head-waits", {"status": {"containerStatuses": [waiting]}})
    await watched.until_stored(job.uid, "kube/pods")
    job.status(deployment="Failed", reason="DeadlineExceeded", message="too long")
    job.delete_cluster()
    job.kill_pods()
    manifest = await watched.archived(job.uid)
    assert manifest.outcome.reason == "DeadlineExceeded"
    assert manifest.completeness is Completeness.COMPLETE, said(manifest)
    assert manifest.completeness_reason == "no driver log: the driver never started"


async def test_a_deadline_closes_an_attempt_whose_job_runs_on(watched: Rig) -> None:
    """The default: nobody deletes the cluster, and after a deadline nobody stops Ray's job either."""
    job = Operated(watched.server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
    await run_driver(job, watched)
    job.status(deployment="Failed", reason="DeadlineExceeded", message="too long", job="RUNNING")
    manifest = await watched.archived(job.uid)
    driver = named(manifest, "logs/driver")
    assert await watched.text(driver) == WORDS
    assert (driver.completeness, driver.reason) == (
        Completeness.PARTIAL,
        "the job still ran when the attempt was closed",
    )
    assert named(manifest, "logs/head").completeness is Completeness.COMPLETE, said(manifest)
