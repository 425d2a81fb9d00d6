"""``archiver reprocess --ray`` on a real Ray: the workers read the bucket, the verdicts are the same as without Ray."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import from_json
from archiver.read.reindex import reindex
from archiver.store.filesystem import FilesystemStore
from tests.component.test_reprocess import RULE, archived, causes
from tests.fakes.manifests import key_of

pytestmark = pytest.mark.timeout(300)
NO_TOKEN = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
START_SECONDS = 120


@dataclass(frozen=True, slots=True)
class RayCluster:
    """``settings`` are those of its workers."""

    address: str
    settings: Mapping[str, str]
    home: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    home = tmp_path_factory.mktemp("archive")
    rules = tmp_path_factory.mktemp("rules")
    (rules / "own.yaml").write_text(RULE)
    settings = {"ARCHIVER_HOME": str(home), "ARCHIVER_RULES_DIR": str(rules), "ARCHIVER_CLUSTER": "prod"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--port={port}"]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
    log = home.parent / "ray.log"
    with log.open("w") as output:
        started = subprocess.Popen(
            command, env=os.environ | NO_TOKEN | settings, stdout=output, stderr=output, start_new_session=True
        )
        try:
            until_answering(port, started, log)
            yield RayCluster(f"127.0.0.1:{port}", settings, home)
        finally:
            os.killpg(started.pid, signal.SIGTERM)
            started.wait(60)


def until_answering(port: int, started: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while "Ray runtime started" not in log.read_text():
        assert started.poll() is None, log.read_text()
        assert time.monotonic() < until, f"no Ray at {port}: {log.read_text()}"
        time.sleep(0.1)


async def call(cluster: RayCluster, database_url: str, *words: str, **changed: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error; a process of its own, as Ray is one a process."""
    env = os.environ | NO_TOKEN | cluster.settings | {"ARCHIVER_DATABASE_URL": database_url} | changed
    program = str(Path(sys.executable).with_name("archiver"))
    process = await asyncio.create_subprocess_exec(
        program, "reprocess", *words, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_workers_judge_what_the_bucket_has(cluster: RayCluster, database_url: str, engine: AsyncEngine) -> None:
    store = FilesystemStore(cluster.home / "store")
    made = [await archived(store, engine, f"uid-{number}") for number in range(5)]
    await store.delete([made[2].artifacts[0].key])
    code, out, err = await call(cluster, database_url, "--ray", cluster.address, "-o", "json")
    report = json.loads(out)
    assert [(each["after"], each["count"]) for each in report["changes"]] == [("gpu-oom", 4)], err
    assert (code, report["judged"], [each["key"] for each in report["findings"]]) == (4, 4, [key_of(made[2])])
    assert [cause[1] for cause in (await causes(engine)).values()].count("gpu-oom") == 4
    on_ray = from_json(await store.get(key_of(made[0])) or b"").verdict
    await call(cluster, database_url, "--all")
    assert from_json(await store.get(key_of(made[0])) or b"").verdict == on_ray
    await reindex(store, engine, prefix="")


async def test_workers_with_other_rules_are_refused(
    cluster: RayCluster, database_url: str, engine: AsyncEngine
) -> None:
    await archived(FilesystemStore(cluster.home / "store"), engine, "other")
    code, _, err = await call(cluster, database_url, "--all", "--ray", cluster.address, ARCHIVER_RULES_DIR="")
    assert (code, "give both the same version" in err) == (2, True), err


async def test_a_cluster_that_is_not_there_is_a_sentence(cluster: RayCluster, database_url: str) -> None:
    code, _, err = await call(cluster, database_url, "--ray", "127.0.0.1:1")
    assert (code, "no Ray cluster at '127.0.0.1:1'" in err, "Traceback" in err) == (2, True, False), err
