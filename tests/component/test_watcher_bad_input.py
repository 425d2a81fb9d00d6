"""What nobody promised: bytes that are no text, statuses that are no statuses, names as long as they may be."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archiver.core.model import Completeness
from archiver.store.codec import decompress_all
from tests.component.operating import Operated
from tests.component.watching import Rig, masked, named, rig, said, until_true

pytestmark = pytest.mark.timeout(300)

ODD = (
    b"not utf-8: \xff\xfe\xc3\x28\n"
    b"nul: \x00\x00 in the middle\n"
    b"\x1b[31mred\x1b[0m and a bar 10%\r20%\r100%\n"
    b"\r\n\n\n" + b"x" * (10 << 20) + b"\n" + b"password=hunter2-and-more-of-it\n" + b"the last line has no end"
)


@pytest.fixture
async def watched(tmp_path: Path, database_url: str) -> AsyncIterator[Rig]:
    async with rig(tmp_path, database_url) as made:
        yield made


def broken_callbacks(watched: Rig) -> int:
    assert watched.status.informers is not None
    return sum(stats.callback_errors for stats in watched.status.informers.stats().values())


async def test_odd_bytes_are_kept_as_they_are_but_for_secrets(watched: Rig) -> None:
    job = Operated(watched.server, spec={"shutdownAfterJobFinishes": False}).create()
    job.begin()
    await job.start_head()
    job.record("RUNNING")
    run = job.start_submitter()
    job.drive(ODD)
    job.write(run, ODD)
    job.finish(run, 1)
    job.record("FAILED")
    job.end()
    manifest = await watched.archived(job.uid)
    expected = masked(ODD)
    driver, submitter = named(manifest, "logs/driver"), named(manifest, "logs/submitter")
    assert await watched.text(driver) == expected
    assert driver.source_bytes == len(ODD)
    assert (await watched.text(submitter)).rstrip(b"\n") == expected
    assert {driver.completeness, submitter.completeness} == {Completeness.COMPLETE}, said(manifest)


async def test_no_secret_of_a_spec_or_a_message_is_anywhere_in_the_archive(watched: Rig) -> None:
    secret = "wJalrXUtnFEMIxK7MDENGxbPxRfiCYEXAMPLEKEY"
    spec = {"runtimeEnvYAML": f"env_vars:\n  AWS_SECRET_ACCESS_KEY: {secret}\n", "shutdownAfterJobFinishes": False}
    job = Operated(watched.server, mode="HTTPMode", spec=spec).create()
    job.begin()
    await job.start_head()
    job.record("FAILED", runtime_env={"env_vars": {"AWS_SECRET_ACCESS_KEY": secret}})
    job.drive(b"AWS_SECRET_ACCESS_KEY=" + secret.encode() + b"\n")
    job.end(message=f"exit 1: AWS_SECRET_ACCESS_KEY={secret}")
    manifest = await watched.archived(job.uid)
    for key in await watched.keys(f"/{job.uid}/"):
        body = await watched.store.get(key) or b""
        assert secret.encode() not in (decompress_all(body, 1 << 24) if key.endswith(".zst") else body), key
    assert "exit 1" in manifest.outcome.message


async def test_a_burst_of_output_is_whole(watched: Rig) -> None:
    """A gigabyte in a minute, for three seconds of it."""
    line = b"%08d " + b"y" * 90 + b"\n"
    text = b"".join(line % number for number in range(500_000))
    job = Operated(watched.server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
    job.begin()
    await job.start_head()
    job.record("RUNNING")
    await watched.until_stored(job.uid, "manifest.json")
    for start in range(0, len(text), len(text) // 50):
        job.drive(text[start : start + len(text) // 50])
    job.record("SUCCEEDED")
    job.end("SUCCEEDED")
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == text


@pytest.mark.parametrize(
    "status",
    [
        {"jobStatus": "EXPLODED", "jobDeploymentStatus": "Rescheduling", "reason": "NoIdea"},
        {"jobStatus": 7, "jobDeploymentStatus": ["Failed"], "failed": "many", "endTime": 12, "message": {"a": 1}},
        {"rayJobInfo": "gone", "startTime": "2999-01-01T00:00:00Z", "endTime": "yesterday", "succeeded": None},
        {"rayClusterName": {"name": "x"}, "jobId": 3, "rayClusterStatus": []},
    ],
    ids=["unknown words", "wrong types", "times", "names"],
)
async def test_a_status_that_is_none_is_taken_and_the_next_one_too(watched: Rig, status: dict[str, Any]) -> None:
    job = Operated(watched.server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
    watched.server.cluster.patch("rayjobs", job.namespace, job.name, {"status": status})
    job.begin()
    await job.start_head()
    watched.server.cluster.patch(
        "rayjobs", job.namespace, job.name, {"status": {**status, "rayClusterName": job.cluster_name}}
    )
    job.status(cluster=job.cluster_name, job_id=job.submission_id, job="RUNNING", deployment="Running")
    job.record("FAILED")
    job.drive(b"text\n")
    job.end()
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == b"text\n"
    assert manifest.outcome.ended_as == "failed"
    assert broken_callbacks(watched) == 0


async def test_a_pod_that_is_none_stops_nobody(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}).create()
    job.begin()
    labels = {"ray.io/cluster": job.cluster_name, "ray.io/node-type": "worker"}
    for number, status in enumerate(
        (
            {"containerStatuses": "none"},
            {"containerStatuses": [7, None, {"name": 3, "state": "up"}], "conditions": {"a": 1}},
            {"containerStatuses": [{"name": "x", "restartCount": "1", "state": {"running": 5}}], "podIP": 9},
        )
    ):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"odd-{number}", "namespace": job.namespace, "labels": labels},
            "spec": {"containers": [{"name": "x"}], "nodeName": "n"},
            "status": status,
        }
        watched.server.cluster.create(pod)
    await job.start_head()
    job.record("FAILED")
    job.drive(b"text\n")
    job.end()
    manifest = await watched.archived(job.uid)
    assert await watched.text(named(manifest, "logs/driver")) == b"text\n"
    assert broken_callbacks(watched) == 0


async def test_names_may_be_as_long_as_kubernetes_lets_them(watched: Rig) -> None:
    job = Operated(watched.server, mode="HTTPMode", spec={"shutdownAfterJobFinishes": False}, name="j" * 253).create()
    job.begin()
    await job.start_head(name="p" * 253)
    job.write(job.head_run, b"started\n")
    job.record("RUNNING")
    job.drive(b"text\n")
    await watched.until_stored(job.uid, ".parts/logs/driver", ".parts/logs/head")
    job.record("FAILED")
    job.end()
    manifest = await watched.archived(job.uid)
    assert manifest.attempt.rayjob.name == "j" * 253
    assert await watched.text(named(manifest, "logs/head")) == b"started\n"
    await until_true(lambda: broken_callbacks(watched) == 0)
