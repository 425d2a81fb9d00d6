"""The manifests' rights are enough: with every other right refused, a whole RayJob is archived, hold and token included."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from archiver.collect.hold import FINALIZER
from archiver.core.model import Completeness
from archiver.sandbox import SandboxServer
from archiver.sandbox.resources import RESOURCES
from tests.component.operating import Operated
from tests.component.watching import named, rig, said, until_true
from tests.unit.test_deploy_manifests import KUSTOMIZE, rights

WORDS = b"".join(b"step %d\n" % number for number in range(2000))
VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
SUBRESOURCES = ("pods/log", "pods/proxy", "services/proxy", "pods/exec", "rayclusters/status", "rayjobs/status")


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as running:
        yield running


def grant_only(server: SandboxServer, *files: str) -> None:
    """Refuses what the roles of some manifests do not grant."""
    granted = {(resource, verb) for file in files for _, resource, verb in rights(KUSTOMIZE / file)}
    names = [*(resource.plural for resource in RESOURCES), *SUBRESOURCES]
    for verb, name in product(VERBS, names):
        if (name, verb) not in granted:
            server.cluster.deny(verb, name)


async def test_the_manifests_grant_all_that_a_watcher_with_a_hold_calls(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    grant_only(server, "cluster/rbac.yaml", "components/hold/rbac.yaml")
    async with rig(tmp_path, database_url, server, hold_seconds=60) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head(is_listening=False)  # by the API server's proxy
        job.write(job.head_run, WORDS)
        job.record("RUNNING")
        job.drive(WORDS)
        await until_true(lambda: job.finalizers() == [FINALIZER])
        await watched.until_read(job.uid, "logs/driver", len(WORDS))
        job.record("FAILED")
        job.end()
        job.delete_cluster()
        await until_true(lambda: not job.is_cluster_there)
        job.kill_pods()
        manifest = await watched.archived(job.uid)
        await until_true(lambda: not watched.status.not_ready())
    for name in ("logs/driver", "logs/head"):
        assert named(manifest, name).completeness is Completeness.COMPLETE, said(manifest)


async def test_with_the_manifests_rights_a_namespace_that_is_going_is_not_held_up(
    tmp_path: Path, database_url: str, server: SandboxServer
) -> None:
    grant_only(server, "cluster/rbac.yaml", "components/hold/rbac.yaml")
    going = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a"},
        "status": {"phase": "Terminating"},
    }
    server.cluster.create(going)
    async with rig(tmp_path, database_url, server, hold_seconds=60) as watched:
        job = Operated(server, mode="HTTPMode").create()
        job.begin()
        await job.start_head()
        job.record("RUNNING")
        job.drive(WORDS)
        await watched.until_read(job.uid, "logs/driver", len(WORDS))
        assert job.finalizers() == []
