"""The opt-in hold: kept until the evidence is safe, never longer than its cap, and never left behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archiver.collect.hold import FINALIZER
from archiver.core.model import Completeness, GapReason
from archiver.sandbox import SandboxServer
from archiver.sandbox.manifests import owner_of, raycluster
from tests.component.operating import Operated
from tests.component.watching import named, rig, said, until_true

MEGABYTE = 1 << 20


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as running:
        yield running


def large_log(megabytes: int) -> bytes:
    line = b"epoch %07d loss 0.123456 " + b"x" * 100 + b"\n"
    return b"".join(line % number for number in range(megabytes * MEGABYTE // len(line % 0)))


async def ending_in_a_burst(job: Operated, text: bytes) -> None:
    """A driver that prints very much and dies; the operator deletes the cluster in the same reconcile."""
    job.drive(text)
    job.record("FAILED", message="exit 1")
    job.end()
    job.delete_cluster()


async def test_keeps_the_cluster_until_a_large_log_is_safe(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    text = large_log(100)
    async with rig(tmp_path, database_url, server, hold_seconds=60) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(b"begun\n")
        await until_true(lambda: job.finalizers() == [FINALIZER])
        await watched.until_stored(job.uid, ".parts/logs/driver")
        await ending_in_a_burst(job, text)
        assert job.is_cluster_there
        await until_true(lambda: not job.is_cluster_there)
        job.kill_pods()
        manifest = await watched.archived(job.uid)
        driver = named(manifest, "logs/driver")
        assert driver.completeness is Completeness.COMPLETE, said(manifest)
        assert driver.raw_bytes == len(text) + len(b"begun\n")
        assert manifest.margin_seconds is not None
        assert manifest.margin_seconds > 0


async def test_without_the_hold_the_tail_comes_first_and_the_rest_is_a_gap(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    text = large_log(100)
    async with rig(tmp_path, database_url, server) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(b"begun\n")
        await watched.until_stored(job.uid, ".parts/logs/driver")
        await ending_in_a_burst(job, text)
        await watched.until_read(job.uid, ".parts/logs/driver", 9 * MEGABYTE)
        job.kill_pods()
        manifest = await watched.archived(job.uid)
        driver = named(manifest, "logs/driver")
        archived = await watched.text(driver)
        assert archived.startswith(b"begun\n")
        if driver.completeness is Completeness.COMPLETE:  # a machine that is fast enough leaves nothing out
            assert archived == b"begun\n" + text
            return
        missing = [gap for gap in driver.gaps if gap.missing_bytes]
        assert sum(gap.missing_bytes or 0 for gap in missing) == len(text) + 6 - (driver.source_bytes or 0)
        assert {gap.reason for gap in missing} <= {GapReason.DEADLINE, GapReason.SOURCE_GONE}


async def test_the_cap_ends_a_hold_whose_evidence_never_gets_safe(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    async with rig(tmp_path, database_url, server, hold_seconds=2) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(b"for ever\n")
        await until_true(lambda: job.finalizers() == [FINALIZER])
        await watched.until_stored(job.uid, ".parts/logs/driver")
        # nobody says that Ray's job is over: it is not, and the driver prints on
        job.status(deployment="Retrying", job="RUNNING")
        job.delete_cluster()
        assert job.is_cluster_there
        await until_true(lambda: not job.is_cluster_there)
        job.kill_pods()
        manifest = await watched.archived(job.uid)
        assert named(manifest, "logs/driver").completeness is Completeness.PARTIAL


async def test_a_stop_and_a_start_leave_no_finalizer_behind(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    async with rig(tmp_path, database_url, server, hold_seconds=20) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        await until_true(lambda: job.finalizers() == [FINALIZER])
        await watched.stop()
        assert job.finalizers() == []


@pytest.mark.parametrize("hold_seconds", [0, 3])
async def test_a_start_sweeps_what_a_killed_process_left(
    tmp_path: Path, database_url: str, server: SandboxServer, hold_seconds: int
) -> None:
    """Also with the hold configured: nobody counts the hold of a RayCluster whose RayJob is gone."""
    job = Operated(server).create()
    left = raycluster(job.template, "left-behind", owner_of(job.job))
    left["metadata"]["finalizers"] = ["another.io/one", FINALIZER]
    server.cluster.create(left)
    server.cluster.delete("rayjobs", job.namespace, job.name)
    async with rig(tmp_path, database_url, server, hold_seconds=hold_seconds):

        def finalizers() -> list[str]:
            cluster = server.cluster.get("rayclusters", job.namespace, "left-behind")
            assert cluster is not None
            return list(cluster["metadata"].get("finalizers") or [])

        await until_true(lambda: finalizers() == ["another.io/one"])


async def test_no_hold_in_a_namespace_that_is_being_deleted(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    async with rig(tmp_path, database_url, server, hold_seconds=20) as watched:
        job = Operated(server, mode="HTTPMode").create()
        server.cluster.patch("namespaces", "", job.namespace, {"status": {"phase": "Terminating"}})
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(b"text\n")
        await watched.until_stored(job.uid, ".parts/logs/driver")
        job.record("FAILED")
        job.end()
        assert job.finalizers() == []
        job.delete_cluster()
        assert not job.is_cluster_there
        job.kill_pods()
        await watched.archived(job.uid)
