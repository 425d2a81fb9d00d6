"""Requests: what is retried, what is translated, what is bounded. Against a server that answers by script."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from archiver.errors import KubeDenied, KubeError, KubeGone, KubeUnavailable
from archiver.kube.access import Credentials, PlainAccess
from archiver.kube.answers import Call
from archiver.kube.discovery import kuberay_version
from archiver.kube.listwatch import ListWatch, Target, Timing
from archiver.kube.objects import ApiServerObjects, ProxyKind, ProxyRequest, ProxyTarget
from archiver.kube.pacing import TokenBucket
from archiver.kube.preflight import Features, missing_rights
from archiver.kube.resources import CANDIDATES
from archiver.kube.transport import Transport
from archiver.ports import Kind
from archiver.sandbox.server import SandboxServer
from tests.fakes.kube.documents import NAMESPACE, ray_pod

pytest_plugins = ("tests.fakes.kube.fixtures",)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
LIST = Call("list", "pods", "/api/v1/pods")


@asynccontextmanager
async def scripted(handler: Handler, *, pace: TokenBucket | None = None) -> AsyncIterator[Transport]:
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with Transport(PlainAccess(f"http://127.0.0.1:{port}", "t"), pace=pace) as transport:
            yield transport
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("status", [429, 503])
async def test_comes_back_when_the_server_says_later(status: int) -> None:
    times: list[float] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            return web.Response(status=status, headers={"Retry-After": "1"})
        return web.json_response({"items": []})

    async with scripted(handler) as transport:
        assert await transport.read_json(LIST) == {"items": []}
    assert times[1] - times[0] >= 1.0


async def test_does_not_come_back_for_ever() -> None:
    count = 0

    async def handler(request: web.BaseRequest) -> web.Response:
        nonlocal count
        count += 1
        return web.Response(status=429, headers={"Retry-After": "0"})

    async with scripted(handler) as transport:
        with pytest.raises(KubeUnavailable, match="HTTP 429"):
            await transport.read_json(LIST)
    assert count == 6


async def test_errors_without_retry_after_are_left_to_the_caller() -> None:
    count = 0

    async def handler(request: web.BaseRequest) -> web.Response:
        nonlocal count
        count += 1
        return web.Response(status=500, text="etcd is away")

    async with scripted(handler) as transport:
        with pytest.raises(KubeUnavailable, match="etcd is away"):
            await transport.read_json(LIST)
    assert count == 1


class Renewing:
    """An access whose first token is not accepted any more."""

    where = "a test"
    namespace = None

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self.renewals = 0

    async def credentials(self, *, renew: bool = False) -> Credentials:
        self.renewals += renew
        return Credentials(self._base_url, f"Bearer {self.renewals}")


async def test_renews_refused_credentials_once(sandbox: SandboxServer) -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({"items": []}, status=401 if len(seen) == 1 else 200)

    async with scripted(handler) as transport:
        transport.access = Renewing((await transport.access.credentials()).base_url)
        assert await transport.read_json(LIST) == {"items": []}
    assert seen == ["Bearer 0", "Bearer 1"]


async def test_says_that_credentials_are_not_accepted(sandbox: SandboxServer) -> None:
    async with Transport(PlainAccess(sandbox.url, "wrong")) as transport:
        with pytest.raises(KubeDenied, match="does not accept our credentials"):
            await transport.read_json(LIST)


async def test_an_answer_that_does_not_come_is_unavailable() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with scripted(handler) as transport:
        with pytest.raises(KubeUnavailable, match="cannot list pods in all namespaces: no answer in time"):
            await transport.read_json(LIST, timeout_seconds=0.2)


@pytest.mark.parametrize(
    "answer",
    [
        {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {"resourceVersion": "1"}, "items": ["text"]},
        {"metadata": {"resourceVersion": "1"}, "items": {"a": 1}},
        {"metadata": {}, "items": []},
        [],
        "text",
    ],
)
async def test_an_answer_that_is_no_list_is_unavailable(answer: object) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.json_response(answer)

    async with scripted(handler) as transport:
        source = ListWatch(transport, CANDIDATES[Kind.POD][0], Target(Kind.POD), Timing())
        with pytest.raises(KubeUnavailable, match="the answer"):
            await source.page(limit=500)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"{", b"\xff"])
async def test_an_answer_that_is_no_json_is_unavailable(body: bytes) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(body=body)

    async with scripted(handler) as transport:
        with pytest.raises(KubeUnavailable, match="not JSON"):
            await transport.read_json(LIST)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with Transport(PlainAccess("http://127.0.0.1:9")) as transport:
        with pytest.raises(KubeUnavailable, match="cannot list pods"):
            await transport.read_json(LIST)


async def test_requests_are_paced_and_urgent_ones_are_not() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.json_response({})

    async with scripted(handler, pace=TokenBucket(rate_per_second=20.0, burst=1.0)) as transport:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.gather(*(transport.read_json(LIST) for _ in range(5)))
        assert loop.time() - begun >= 4 / 20
        paced = asyncio.gather(*(transport.read_json(LIST) for _ in range(40)))
        urgent = asyncio.ensure_future(
            transport.read_json(Call("get", "leases", "/x", is_paced=False)),
        )
        await urgent
        assert not paced.done()
        await paced


def target(kind: ProxyKind = ProxyKind.POD) -> ProxyTarget:
    return ProxyTarget(kind, "team-a", "head", 52365)


async def test_the_proxy_passes_ranges_and_answers_through() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.path == "/api/v1/namespaces/team-a/pods/head:52365/proxy/logs/job-driver-a b.log"
        assert request.query["x"] == "1"
        assert request.headers["Range"] == "bytes=5-9"
        return web.Response(status=206, body=b"56789", headers={"Content-Range": "bytes 5-9/10"})

    async with scripted(handler) as transport:
        request = ProxyRequest("/logs/job-driver-a b.log", {"x": "1"}, {"Range": "bytes=5-9"})
        answer = await ApiServerObjects(transport).proxy_get(target(), request)
    assert (answer.status, answer.body, answer.headers["content-range"]) == (206, b"56789", "bytes 5-9/10")
    assert not answer.is_cut


async def test_the_proxy_reads_no_more_than_allowed() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * 1_000_000)

    async with scripted(handler) as transport:
        answer = await ApiServerObjects(transport).proxy_get(target(), ProxyRequest("/", limit_bytes=1000))
    assert len(answer.body) == 1000
    assert answer.is_cut


@pytest.mark.parametrize("status", [400, 401, 403, 404, 416, 500, 503])
async def test_a_refusal_of_the_proxys_target_is_an_answer(status: int) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text="no")

    async with scripted(handler) as transport:
        answer = await ApiServerObjects(transport).proxy_get(target(ProxyKind.SERVICE), ProxyRequest("/"))
    assert (answer.status, answer.body) == (status, b"no")


async def test_a_target_that_is_not_there_is_gone(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    with pytest.raises(KubeGone, match="cannot get pods/proxy"):
        await ApiServerObjects(to_sandbox).proxy_get(target(), ProxyRequest("/"))


async def test_a_target_that_the_proxy_cannot_reach_is_unavailable(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    document = ray_pod("head")
    document["spec"]["nodeName"] = "node-1"
    sandbox.cluster.create(document)
    with pytest.raises(KubeUnavailable, match="cannot get pods/proxy"):
        await ApiServerObjects(to_sandbox).proxy_get(target(), ProxyRequest("/"))


async def test_a_proxied_answer_that_stops_is_unavailable() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begin")
        await asyncio.Event().wait()
        return response

    async with scripted(handler) as transport:
        with pytest.raises(KubeUnavailable, match="stopped in the middle"):
            await ApiServerObjects(transport).proxy_get(target(), ProxyRequest("/", timeout_seconds=0.2))


async def test_a_forbidden_proxy_is_named(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.deny("get", "pods/proxy")
    with pytest.raises(KubeDenied, match="cannot get pods/proxy in namespace team-a"):
        await ApiServerObjects(to_sandbox).proxy_get(target(), ProxyRequest("/"))


async def test_a_secret_that_we_may_not_read_is_none(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    data = {"auth_token": base64.b64encode(b"abc").decode()}
    metadata = {"name": "s", "namespace": NAMESPACE}
    sandbox.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    objects = ApiServerObjects(to_sandbox)
    assert await objects.secret_value(NAMESPACE, "s", "auth_token") == "abc"
    sandbox.cluster.deny("get", "secrets")
    assert await objects.secret_value(NAMESPACE, "s", "auth_token") is None


async def test_a_secret_that_is_no_text_is_an_error(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    metadata = {"name": "s", "namespace": NAMESPACE}
    data = {"auth_token": base64.b64encode(b"\xff\xfe").decode()}
    sandbox.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    with pytest.raises(KubeError, match="holds no text"):
        await ApiServerObjects(to_sandbox).secret_value(NAMESPACE, "s", "auth_token")


async def test_objects_of_a_kind_that_is_not_served_are_none(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    objects = ApiServerObjects(to_sandbox)
    assert await objects.get(Kind.WORKLOAD, NAMESPACE, "w") is None
    assert await objects.patch(Kind.WORKLOAD, NAMESPACE, "w", {}) is None


async def test_missing_rights_are_sentences(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.deny("watch", "rayjobs")
    sandbox.cluster.deny("*", "nodes")
    sandbox.cluster.deny("get", "pods/log", namespace="team-b")
    missing = await missing_rights(to_sandbox, Features(), namespaces=["team-a", "team-b"])
    needed = [item.sentence for item in missing if item.right.is_needed]
    assert needed == [
        f'cannot watch rayjobs.ray.io in namespace {name} (needed: watching): grant the verb "watch" on "rayjobs" of '
        'API group "ray.io" in a Role'
        for name in ("team-a", "team-b")
    ] + [
        'cannot get pods/log in namespace team-b (needed: following logs): grant the verb "get" on "pods/log" of '
        'API group "" in a Role'
    ]
    assert {item.right.label for item in missing if not item.right.is_needed} == {"nodes"}


async def test_the_hold_and_leases_need_more_rights(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    for verb, resource in (("patch", "rayclusters"), ("get", "secrets"), ("update", "leases")):
        sandbox.cluster.deny(verb, resource)
    assert await missing_rights(to_sandbox, Features()) == []
    features = Features(hold=True, ray_tokens=True, lease_namespace="archiver")
    missing = await missing_rights(to_sandbox, features)
    found = [(item.right.verb, item.right.resource, item.namespace) for item in missing]
    assert found == [("patch", "rayclusters", None), ("get", "secrets", None), ("update", "leases", "archiver")]


async def test_reads_kuberays_version_where_it_may() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        if "team-a" in request.path:
            return web.json_response({"message": "no"}, status=403)
        containers = [{"image": "quay.io/kuberay/operator:v1.6.2"}]
        item = {"spec": {"template": {"spec": {"containers": containers}}}}
        return web.json_response({"items": [item]})

    async with scripted(handler) as transport:
        assert await kuberay_version(transport) == "1.6.2"
        assert await kuberay_version(transport, ("team-a",)) is None
