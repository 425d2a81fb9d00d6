"""The log endpoint: what a kubelet serves, waits for and refuses."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from archiver.core.model import ContainerRun
from archiver.sandbox import ContainerEnd, SandboxCluster, SandboxServer

LOG = "/api/v1/namespaces/n/pods/p/log"


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer(cluster=SandboxCluster(rotate_at_bytes=2000, rotation_check_seconds=0.0)) as running:
        yield running


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session:
        yield session


def create_pod(server: SandboxServer, *containers: str, **status: Any) -> None:
    spec = {"containers": [{"name": name} for name in containers or ("c",)]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    server.cluster.create({**document, "status": status or {"phase": "Pending"}})


@pytest.fixture
def run(server: SandboxServer) -> ContainerRun:
    create_pod(server)
    return server.cluster.start_container("n", "p", "c")


async def log(client: aiohttp.ClientSession, query: str = "", *, path: str = LOG) -> tuple[int, str]:
    async with asyncio.timeout(10), client.get(f"{path}?{query}") as response:
        return response.status, await response.text()


async def test_a_pod_without_a_node_has_no_answer(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    create_pod(server)
    assert await log(client) == (204, "")


async def test_a_container_that_has_not_started_is_a_400(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    waiting = {"name": "c", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    create_pod(server, phase="Pending", containerStatuses=[waiting])
    server.cluster.patch("pods", "n", "p", {"spec": {"nodeName": "m"}})
    status, text = await log(client)
    assert status == 400
    assert r"container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image" in text


async def test_a_pod_that_is_not_there_is_a_404(client: aiohttp.ClientSession) -> None:
    status, text = await log(client)
    assert status == 404
    assert r"pods \"p\" not found" in text


async def test_names_the_containers_to_choose_from(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    create_pod(server, "one", "two")
    assert "a container name must be specified for pod p, choose one of: [one two]" in (await log(client))[1]
    status, text = await log(client, "container=three")
    assert status == 400
    assert "container three is not valid for pod p" in text


async def test_gives_lines_with_stamps(server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun) -> None:
    server.cluster.write_log(run, b"one\ntwo\n", stamp_ns=1_700_000_000_123_456_789)
    stamp = "2023-11-14T22:13:20.123456789Z"
    assert await log(client) == (200, "one\ntwo\n")
    assert await log(client, "timestamps=true") == (200, f"{stamp} one\n{stamp} two\n")
    assert await log(client, "tailLines=1") == (200, "two\n")
    assert await log(client, "limitBytes=5") == (200, "one\nt")


async def test_since_is_cut_to_whole_seconds(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    for number in range(4):
        server.cluster.write_log(run, b"%d\n" % number, stamp_ns=1_700_000_000_000_000_000 + number * 500_000_000)
    assert await log(client, "sinceTime=2023-11-14T22:13:21.900Z") == (200, "2\n3\n")
    assert (await log(client, "sinceTime=yesterday"))[0] == 400
    assert (await log(client, "sinceTime=2023-11-14T22:13:21Z&sinceSeconds=3"))[0] == 422
    assert (await log(client, "tailLines=-1"))[0] == 422


async def test_a_follower_gets_everything_until_the_end(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    server.cluster.write_log(run, b"before\n")
    async with asyncio.timeout(10), client.get(f"{LOG}?follow=true") as response:
        assert await response.content.readline() == b"before\n"
        server.cluster.write_log(run, b"after\n")
        assert await response.content.readline() == b"after\n"
        server.cluster.write_log(run, b"without newline")
        server.cluster.finish_container(run, ContainerEnd(3))
        assert await response.content.read() == b"without newline"
    status = server.cluster.get("pods", "n", "p")
    assert status is not None
    assert status["status"]["phase"] == "Failed"
    assert status["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_a_silent_container_sends_no_head_yet(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    """The kubelet's answer begins with the first line: a client must not wait for the head with a short timeout."""
    asked = asyncio.create_task(log(client, "follow=true"), name="follow")
    done, _ = await asyncio.wait([asked], timeout=0.3)
    assert not done
    server.cluster.finish_container(run)
    assert await asked == (200, "")


async def test_only_the_newest_file_is_served_after_a_rotation(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    server.cluster.write_log(run, b"line 000\n")
    async with asyncio.timeout(10), client.get(f"{LOG}?follow=true") as response:
        assert await response.content.readline() == b"line 000\n"
        for number in range(1, 100):
            server.cluster.write_log(run, b"line %03d\n" % number)
            assert await response.content.readline() == b"line %03d\n" % number
    _, text = await log(client)
    assert text.endswith("line 099\n")
    assert "line 000" not in text


async def test_the_log_of_the_previous_instance(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    status, text = await log(client, "previous=true")
    assert status == 400
    assert r"previous terminated container \"c\" in pod \"p\" not found" in text
    server.cluster.write_log(run, b"first life\n")
    server.cluster.finish_container(run, ContainerEnd(137, reason="OOMKilled", restart=True))
    second = server.cluster.current_run("n", "p", "c")
    assert second.restart == 1
    server.cluster.write_log(second, b"second life\n")
    assert await log(client, "previous=true") == (200, "first life\n")
    assert await log(client) == (200, "second life\n")


async def test_only_one_dead_instance_is_kept(server: SandboxServer, run: ContainerRun) -> None:
    server.cluster.write_log(run, b"first\n")
    for expected in (1, 2):
        current = server.cluster.current_run("n", "p", "c")
        server.cluster.finish_container(current, ContainerEnd(1, restart=True))
        assert server.cluster.current_run("n", "p", "c").restart == expected
    assert server.cluster.find_log(run) is None


async def test_a_follower_ends_when_its_pod_is_deleted(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    server.cluster.write_log(run, b"last words\n")
    async with asyncio.timeout(10), client.get(f"{LOG}?follow=true") as response:
        assert await response.content.readline() == b"last words\n"
        server.cluster.delete("pods", "n", "p")
        assert await response.content.read() == b""
    assert (await log(client))[0] == 404


async def test_a_log_whose_file_is_gone_complains_in_its_text(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    server.cluster.write_log(run, b"gone\n")
    server.cluster.remove_log(run)
    status, text = await log(client)
    assert status == 200
    assert text.startswith("unable to retrieve container logs for containerd://")


async def test_a_cut_follower_sees_a_broken_stream(
    server: SandboxServer, client: aiohttp.ClientSession, run: ContainerRun
) -> None:
    server.cluster.write_log(run, b"one\n")
    async with asyncio.timeout(10), client.get(f"{LOG}?follow=true") as response:
        await response.content.readline()
        assert server.cluster.cut_streams("log") == 1
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()


async def test_a_megabyte_passes_unchanged(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    create_pod(server)
    roomy = SandboxCluster()
    async with SandboxServer(cluster=roomy) as other:
        create_pod(other)
        run = roomy.start_container("n", "p", "c")
        data = bytes(range(1, 10)) * 7 + b"\n" + b"x" * 1_000_000 + b"\nend"
        roomy.write_log(run, data)
        roomy.finish_container(run)
        headers = {"Authorization": f"Bearer {other.token}"}
        async with client.get(f"{other.url}{LOG}", headers=headers) as response:
            assert await response.read() == data
