"""Pytest plugin: the API servers that the contract suite runs over. The sandbox always; a real one with ``-m cluster``.

The real one is the current context of KUBECONFIG, or the cluster that ``make cluster`` made.
"""

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archiver.kube.access import KubeconfigAccess, PlainAccess
from archiver.kube.transport import Transport
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.server import SandboxServer
from tests.fakes.kube.apis import ApiServer

MADE_CLUSTER = Path(__file__).parents[3] / ".cluster" / "kubeconfig"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kube_api" not in metafunc.fixturenames:
        return
    servers: list[Any] = ["sandbox"]
    if "cluster" in (metafunc.config.option.markexpr or "") and _kubeconfig():
        servers.append(pytest.param("cluster", marks=pytest.mark.cluster))
    metafunc.parametrize("kube_api", servers, indirect=True)


def _kubeconfig() -> str | None:
    return os.environ.get("KUBECONFIG") or (str(MADE_CLUSTER) if MADE_CLUSTER.exists() else None)


@pytest.fixture
async def kube_api(request: pytest.FixtureRequest) -> AsyncIterator[ApiServer]:
    """One API server with an empty namespace of the test's own."""
    namespace = f"archiver-test-{uuid.uuid4().hex[:8]}"
    if request.param == "cluster":
        api = ApiServer(KubeconfigAccess(_kubeconfig() or "", None), namespace, bookmark_seconds=60.0)
        await api.open()
        yield api
        await api.close()
        return
    async with SandboxServer(cluster=SandboxCluster(bookmark_seconds=0.1)) as server:
        api = ApiServer(PlainAccess(server.url, server.token), namespace, bookmark_seconds=0.1, sandbox=server)
        await api.open()
        yield api
        await api.close()


@pytest.fixture
async def transport(kube_api: ApiServer) -> AsyncIterator[Transport]:
    async with Transport(kube_api.access) as opened:
        yield opened


@pytest.fixture
async def sandbox() -> AsyncIterator[SandboxServer]:
    """A sandbox for tests that break it; bookmarks come often enough for short silences."""
    async with SandboxServer(cluster=SandboxCluster(bookmark_seconds=0.3)) as server:
        yield server


@pytest.fixture
async def to_sandbox(sandbox: SandboxServer) -> AsyncIterator[Transport]:
    async with Transport(PlainAccess(sandbox.url, sandbox.token)) as opened:
        yield opened
