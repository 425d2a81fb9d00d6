"""Replayed Ray nodes: by their own address and through the API server's proxies, alive and dead."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from archiver.sandbox import NodeState, RayNode, SandboxServer
from archiver.sandbox.raynode import Canned

PROXY = "/api/v1/namespaces/n/pods/head:52365/proxy"
DASHBOARD = "/api/v1/namespaces/n/services/head-svc:dashboard/proxy"


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer() as running:
        yield running


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session:
        yield session


@pytest.fixture
async def node(server: SandboxServer) -> RayNode:
    labels = {"ray.io/cluster": "c", "ray.io/node-type": "head"}
    address = server.cluster.next_address()
    server.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "head", "namespace": "n", "labels": labels},
            "spec": {"containers": [{"name": "ray-head"}], "nodeName": "m"},
            "status": {"podIP": address},
        }
    )
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "head-svc", "namespace": "n"}}
    server.cluster.create({**service, "spec": {"selector": labels}})
    head = RayNode(address, node_id="abc")
    server.cluster.add_ray_node("n", "head", head)
    assert await server.listen(head)
    return head


async def fetch(
    client: aiohttp.ClientSession, url: str, *, method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with asyncio.timeout(10), client.request(method, url, headers=names) as response:
        return response.status, await response.read(), dict(response.headers)


@pytest.mark.parametrize("is_direct", [True, False])
async def test_serves_ranges_of_a_growing_file(client: aiohttp.ClientSession, node: RayNode, is_direct: bool) -> None:
    url = (f"http://{node.address}:52365" if is_direct else PROXY) + "/logs/job-driver-s.log"
    assert (await fetch(client, url))[0] == 404
    node.append("job-driver-s.log", b"0123456789")
    status, body, headers = await fetch(client, url)
    assert (status, body, headers["Content-Length"]) == (200, b"0123456789", "10")
    status, body, headers = await fetch(client, url, Range="bytes=4-")
    assert (status, body, headers["Content-Range"]) == (206, b"456789", "bytes 4-9/10")
    status, body, headers = await fetch(client, url, Range="bytes=4-5")
    assert (status, body, headers["Content-Range"]) == (206, b"45", "bytes 4-5/10")
    status, body, headers = await fetch(client, url, Range="bytes=-3")
    assert (status, body) == (206, b"789")
    status, body, headers = await fetch(client, url, Range="bytes=10-")
    assert (status, headers["Content-Range"]) == (416, "bytes */10")
    node.append("job-driver-s.log", b"ab\xff\x00")
    status, body, headers = await fetch(client, url, Range="bytes=10-")
    assert (status, body) == (206, b"ab\xff\x00")
    status, body, headers = await fetch(client, url, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", "14")


async def test_lists_folders_as_html(client: aiohttp.ClientSession, node: RayNode) -> None:
    for path in ("raylet.out", "events/event_JOBS.log", "a b.log"):
        node.append(path, b"x")
    _, direct, _ = await fetch(client, f"http://{node.address}:52365/logs/")
    assert b'<li><a href="/logs/events">events/</a></li>' in direct
    assert b'<li><a href="/logs/raylet.out">raylet.out</a></li>' in direct
    assert b'<a href="/logs/a%20b.log">a b.log</a>' in direct
    _, inner, _ = await fetch(client, f"http://{node.address}:52365/logs/events")
    assert b"event_JOBS.log" in inner
    assert (await fetch(client, f"http://{node.address}:52365/logs/a%20b.log"))[1] == b"x"
    _, proxied, _ = await fetch(client, f"{PROXY}/logs/")
    assert f'href="{PROXY}/logs/raylet.out"'.encode() in proxied, "the proxy rewrites links"


async def test_answers_for_jobs(client: aiohttp.ClientSession, node: RayNode) -> None:
    record = {"submission_id": "s", "job_id": "02000000", "status": "RUNNING"}
    node.set_job(record)
    node.append("job-driver-s.log", b"hello\n")
    for url in (f"http://{node.address}:8265", DASHBOARD):
        assert json.loads((await fetch(client, f"{url}/api/jobs/s"))[1]) == record
        assert json.loads((await fetch(client, f"{url}/api/jobs/02000000"))[1]) == record
        assert json.loads((await fetch(client, f"{url}/api/jobs/"))[1]) == [record]
        assert json.loads((await fetch(client, f"{url}/api/jobs/s/logs"))[1]) == {"logs": "hello\n"}
        assert (await fetch(client, f"{url}/api/jobs/x"))[:2] == (404, b"Job x does not exist")
    node.append("job-driver-s.log", b"\xff")
    status, body, _ = await fetch(client, f"{DASHBOARD}/api/jobs/s/logs")
    assert status == 500
    assert b"UnicodeDecodeError" in body


async def test_filters_and_limits_rows(client: aiohttp.ClientSession, node: RayNode) -> None:
    rows = [{"task_id": str(n), "job_id": "01" if n % 2 else "02", "state": "FAILED"} for n in range(10)]
    body: dict[str, Any] = {"result": True, "msg": "", "data": {"result": {"total": 10, "result": rows}}}
    node.set_answer("/api/v0/tasks", Canned(200, body))
    path = f"{DASHBOARD}/api/v0/tasks"
    query = "detail=1&filter_keys=job_id&filter_predicates=%3D&filter_values=01"
    found = json.loads((await fetch(client, f"{path}?{query}"))[1])["data"]["result"]
    assert [row["task_id"] for row in found["result"]] == ["1", "3", "5", "7", "9"]
    found = json.loads((await fetch(client, f"{path}?limit=3"))[1])["data"]["result"]
    assert (found["total"], found["num_after_truncation"], len(found["result"])) == (10, 3, 3)
    status, text, _ = await fetch(client, f"{path}?limit=10001")
    assert status == 400
    assert b"exceeds the supported limit 10000" in text
    empty = json.loads((await fetch(client, f"{DASHBOARD}/api/v0/actors"))[1])
    assert empty["data"]["result"]["result"] == []


async def test_gives_files_over_the_dashboard(client: aiohttp.ClientSession, node: RayNode) -> None:
    node.append("raylet.out", b"".join(b"%d\n" % n for n in range(2000)))
    path = f"{DASHBOARD}/api/v0/logs/file?node_id=abc&filename=raylet.out"
    assert (await fetch(client, path))[1].startswith(b"1000\n"), "the default is a silent cut"
    assert (await fetch(client, f"{path}&lines=-1"))[1].startswith(b"0\n")
    status, text, _ = await fetch(client, f"{DASHBOARD}/api/v0/logs/file?node_id=abc&filename=none")
    assert (status, text) == (500, b"A file is not found at: none")
    listed = json.loads((await fetch(client, f"{DASHBOARD}/api/v0/logs?node_id=abc"))[1])
    assert listed["data"]["result"] == {"raylet": ["raylet.out"]}


async def test_token_authentication(client: aiohttp.ClientSession, node: RayNode) -> None:
    node.token = "t0p"
    node.append("x.log", b"x")
    url = f"http://{node.address}:52365/logs/x.log"
    async with aiohttp.ClientSession() as stranger:
        assert (await fetch(stranger, url))[0] == 401
        assert (await fetch(stranger, url, Authorization="Bearer no"))[0] == 403
        assert (await fetch(stranger, url, Authorization="Bearer t0p"))[0] == 200
        assert (await fetch(stranger, f"http://{node.address}:8265/api/gcs_healthz"))[0] == 200
    assert (await fetch(client, f"{PROXY}/logs/x.log"))[0] == 401, "the proxy keeps Authorization to itself"
    assert (await fetch(client, f"{PROXY}/logs/x.log", X_Ray_Authorization="Bearer t0p"))[0] == 200


async def test_a_dead_node_refuses(client: aiohttp.ClientSession, node: RayNode) -> None:
    node.append("x.log", b"x")
    node.die()
    status, body, _ = await fetch(client, f"{PROXY}/logs/x.log")
    assert status == 503
    message = json.loads(body)["message"]
    assert message == f"error trying to reach service: dial tcp {node.address}:52365: connect: connection refused"
    async with asyncio.timeout(10):
        while True:
            try:
                await fetch(client, f"http://{node.address}:52365/logs/x.log")
            except aiohttp.ClientConnectorError:
                break
            except aiohttp.ClientError:
                await asyncio.sleep(0.01)


async def test_a_lost_machine_is_silent(client: aiohttp.ClientSession, node: RayNode) -> None:
    node.die(NodeState.SILENT)
    asked = asyncio.create_task(fetch(client, f"{PROXY}/logs/"), name="ask a lost machine")
    done, _ = await asyncio.wait([asked], timeout=0.3)
    assert not done
    node.die()
    assert (await asked)[0] == 503


async def test_a_port_where_nothing_listens(client: aiohttp.ClientSession, node: RayNode) -> None:
    assert (await fetch(client, "/api/v1/namespaces/n/pods/head:9999/proxy/"))[0] == 503
    assert (await fetch(client, "/api/v1/namespaces/n/pods/other:52365/proxy/"))[0] == 404
    assert (await fetch(client, "/api/v1/namespaces/n/services/other:8265/proxy/"))[0] == 404


async def test_a_service_without_pods_has_no_endpoints(
    server: SandboxServer, client: aiohttp.ClientSession, node: RayNode
) -> None:
    server.cluster.delete("pods", "n", "head")
    status, body, _ = await fetch(client, f"{DASHBOARD}/api/version")
    assert status == 503
    assert json.loads(body)["message"] == 'no endpoints available for service "head-svc"'
    assert node.state is NodeState.REFUSED, "a deleted pod's processes are gone"
