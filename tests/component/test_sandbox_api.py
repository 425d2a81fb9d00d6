"""The sandbox's Kubernetes API over HTTP: status codes, Status bodies, lists, watches, faults."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from archiver.sandbox import SandboxCluster, SandboxServer

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
async def server() -> AsyncIterator[SandboxServer]:
    async with SandboxServer(cluster=SandboxCluster(bookmark_seconds=0.1)) as running:
        yield running


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session:
        yield session


async def answer(client: aiohttp.ClientSession, method: str, path: str, **options: Any) -> tuple[int, Any]:
    async with asyncio.timeout(10), client.request(method, path, **options) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.content_type == "application/json" else text


def pod(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}


class Watching:
    """An open watch; ``next`` gives its events one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> Any:
        async with asyncio.timeout(10):
            line = await self._response.content.readline()
        return json.loads(line) if line else None

    async def next_change(self) -> Any:
        while (event := await self.next()) is not None and event["type"] == "BOOKMARK":
            continue
        return event


async def test_says_no_as_an_api_server_does(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    status, document = await answer(client, "GET", f"{PODS}/a")
    assert status == 404
    assert document == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "kind": "pods"},
        "code": 404,
    }
    status, document = await answer(client, "GET", "/apis/ray.io/v1/namespaces/x/rayjobs/a")
    assert (status, document["message"]) == (404, 'rayjobs.ray.io "a" not found')
    assert document["details"] == {"name": "a", "group": "ray.io", "kind": "rayjobs"}


async def test_paths_that_are_not_served(client: aiohttp.ClientSession) -> None:
    assert await answer(client, "GET", "/apis/nope.example.com/v1/things") == (404, "404 page not found\n")
    status, document = await answer(client, "GET", "/apis/batch/v1/nothings")
    assert (status, document["message"]) == (404, "the server could not find the requested resource")


async def test_without_a_token_nothing_is_told(server: SandboxServer) -> None:
    async with aiohttp.ClientSession(server.url) as stranger:
        status, document = await answer(stranger, "GET", PODS)
        assert (status, document["reason"]) == (401, "Unauthorized")
        assert (await answer(stranger, "GET", "/version"))[0] == 200


async def test_discovery_follows_what_is_installed(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    _, groups = await answer(client, "GET", "/apis")
    assert "ray.io" in [group["name"] for group in groups["groups"]]
    server.cluster.uninstall_kuberay()
    assert (await answer(client, "GET", "/apis/ray.io/v1"))[0] == 404
    assert await answer(client, "GET", "/apis/ray.io/v1/rayjobs") == (404, "404 page not found\n")
    server.cluster.install_kuberay("v1", "v1alpha1")
    _, group = await answer(client, "GET", "/apis/ray.io")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    _, resources = await answer(client, "GET", "/apis/ray.io/v1alpha1")
    assert [row["name"] for row in resources["resources"]] == [
        "rayclusters",
        "rayclusters/status",
        "rayjobs",
        "rayjobs/status",
    ]


async def test_both_versions_show_the_same_objects(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    server.cluster.install_kuberay("v1", "v1alpha1")
    server.cluster.create({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a", "namespace": "n"}})
    _, found = await answer(client, "GET", "/apis/ray.io/v1alpha1/namespaces/n/rayjobs/a")
    assert (found["apiVersion"], found["metadata"]["name"]) == ("ray.io/v1alpha1", "a")


async def test_creates_once(client: aiohttp.ClientSession) -> None:
    status, created = await answer(client, "POST", PODS, json=pod("a"))
    assert status == 201
    assert created["metadata"]["uid"]
    status, document = await answer(client, "POST", PODS, json=pod("a"))
    assert (status, document["reason"]) == (409, "AlreadyExists")
    status, document = await answer(client, "POST", "/api/v1/namespaces/absent/pods", json={"metadata": {"name": "a"}})
    assert (status, document["message"]) == (404, 'namespaces "absent" not found')
    status, _ = await answer(client, "POST", PODS, data=b"{", headers={"Content-Type": "application/json"})
    assert status == 400


async def test_lease_updates_are_refused_when_stale(client: aiohttp.ClientSession) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    _, created = await answer(client, "POST", LEASES, json=lease)
    mine = {**created, "spec": {"holderIdentity": "b"}}
    assert (await answer(client, "PUT", f"{LEASES}/l", json=mine))[0] == 200
    status, document = await answer(client, "PUT", f"{LEASES}/l", json=mine)
    assert (status, document["reason"]) == (409, "Conflict")
    assert "the object has been modified" in document["message"]


async def test_patch_takes_merge_patches_only(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a", "namespace": "default"}}
    server.cluster.create({**job, "spec": {"x": 1}, "status": {"jobStatus": "RUNNING"}})
    path = "/apis/ray.io/v1/namespaces/default/rayjobs/a"
    change = {"metadata": {"annotations": {"k": "v"}}, "status": {"jobStatus": "FAILED"}}
    status, patched = await answer(client, "PATCH", path, json=change, headers=MERGE)
    assert (status, patched["metadata"]["annotations"]) == (200, {"k": "v"})
    assert patched["status"] == {"jobStatus": "RUNNING"}, "the status has a path of its own"
    _, patched = await answer(client, "PATCH", f"{path}/status", json=change, headers=MERGE)
    assert patched["status"] == {"jobStatus": "FAILED"}
    status, document = await answer(client, "PATCH", path, json={})
    assert (status, document["reason"]) == (415, "UnsupportedMediaType")


async def test_a_finalizer_holds_and_its_removal_deletes(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    document = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c", "namespace": "default"}}
    server.cluster.create(document)
    path = "/apis/ray.io/v1/namespaces/default/rayclusters/c"
    await answer(client, "PATCH", path, json={"metadata": {"finalizers": ["example.com/hold"]}}, headers=MERGE)
    status, held = await answer(client, "DELETE", path)
    assert status == 200
    assert held["metadata"]["deletionTimestamp"]
    assert (await answer(client, "GET", path))[0] == 200
    await answer(client, "PATCH", path, json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert (await answer(client, "GET", path))[0] == 404


async def test_what_a_deleted_object_owned_follows_it(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a", "namespace": "default"}}
    created = server.cluster.create(job)
    owned = pod("p")
    owned["metadata"]["ownerReferences"] = [{"uid": created["metadata"]["uid"], "kind": "RayJob", "name": "a"}]
    server.cluster.create(owned)
    async with client.get("/api/v1/pods?watch=1&resourceVersion=0") as response:
        watch = Watching(response)
        assert (await watch.next_change())["type"] == "ADDED"
        status, document = await answer(client, "DELETE", "/apis/ray.io/v1/namespaces/default/rayjobs/a")
        assert (status, document["status"]) == (200, "Success")
        marked = await watch.next_change()
        assert (marked["type"], bool(marked["object"]["metadata"]["deletionTimestamp"])) == ("MODIFIED", True)
        assert (await watch.next_change())["type"] == "DELETED"


async def test_pages_show_one_moment(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    for number in range(5):
        server.cluster.create(pod(f"p{number}"))
    _, first = await answer(client, "GET", f"{PODS}?limit=2")
    assert first["kind"] == "PodList"
    assert "kind" not in first["items"][0]
    assert first["metadata"]["remainingItemCount"] == 3
    server.cluster.create(pod("p1-late"))
    server.cluster.delete("pods", "default", "p3")
    found = [item["metadata"]["name"] for item in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        _, page = await answer(client, "GET", f"{PODS}?limit=2&continue={token}")
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        found += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
    assert found == ["p0", "p1", "p2", "p3", "p4"]


async def test_a_forgotten_page_is_gone(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    for number in range(3):
        server.cluster.create(pod(f"p{number}"))
    _, first = await answer(client, "GET", f"{PODS}?limit=1")
    server.cluster.forget_history()
    status, document = await answer(client, "GET", f"{PODS}?limit=1&continue={first['metadata']['continue']}")
    assert (status, document["reason"]) == (410, "Expired")
    assert (await answer(client, "GET", f"{PODS}?continue=%21"))[0] == 400


async def test_a_version_of_the_future_is_too_large(client: aiohttp.ClientSession) -> None:
    status, document = await answer(client, "GET", f"{PODS}?resourceVersion=99999999")
    assert (status, document["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_a_watch_gives_every_change_and_then_bookmarks(
    server: SandboxServer, client: aiohttp.ClientSession
) -> None:
    _, listed = await answer(client, "GET", PODS)
    version = listed["metadata"]["resourceVersion"]
    server.cluster.create(pod("a"))
    server.cluster.patch("pods", "default", "a", {"status": {"phase": "Running"}})
    server.cluster.delete("pods", "default", "a")
    async with client.get(f"{PODS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true") as response:
        watch = Watching(response)
        events = [await watch.next_change() for _ in range(3)]
        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        bookmark = await watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(
        events[-1]["object"]["metadata"]["resourceVersion"]
    )


async def test_a_watch_from_zero_begins_with_what_exists(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    server.cluster.create(pod("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with client.get(f"{PODS}?{query}") as response:
        watch = Watching(response)
        assert (await watch.next())["object"]["metadata"]["name"] == "a"
        end = await watch.next()
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("is_status", [False, True])
async def test_a_forgotten_version_is_gone(
    server: SandboxServer, client: aiohttp.ClientSession, is_status: bool
) -> None:
    server.cluster.create(pod("a"))
    server.cluster.forget_history()
    server.cluster.refuses_old_watches = is_status
    status, document = await answer(client, "GET", f"{PODS}?watch=1&resourceVersion=1001")
    assert status == (410 if is_status else 200)
    refusal = document if is_status else document["object"]
    assert (refusal["code"], refusal["reason"]) == (410, "Expired")
    assert refusal["message"].startswith("too old resource version: 1001 (")


async def test_a_running_watch_survives_compaction(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    async with client.get(f"{PODS}?watch=1&resourceVersion={server.cluster.version}") as response:
        watch = Watching(response)
        server.cluster.forget_history()
        server.cluster.create(pod("a"))
        assert (await watch.next_change())["object"]["metadata"]["name"] == "a"


async def test_cut_streams_end_in_the_middle(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    server.cluster.create(pod("a"))
    async with client.get(f"{PODS}?watch=1") as response:
        watch = Watching(response)
        await watch.next()
        assert server.cluster.cut_streams("watch") == 1
        with pytest.raises(aiohttp.ClientPayloadError):
            await watch.next()


async def test_silence_keeps_connections_open(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    async with client.get(f"{PODS}?watch=1&allowWatchBookmarks=1&resourceVersion=0") as response:
        watch = Watching(response)
        server.cluster.pause()
        server.cluster.create(pod("a"))
        reading = asyncio.create_task(watch.next_change(), name="read in silence")
        done, _ = await asyncio.wait([reading], timeout=0.3)
        assert not done
        server.cluster.resume()
        assert (await reading)["object"]["metadata"]["name"] == "a"


async def test_fails_as_often_as_told(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    server.cluster.fail_next(2, 503, path="/pods")
    statuses = [(await answer(client, "GET", path))[0] for path in (LEASES, PODS, PODS, PODS)]
    assert statuses == [200, 503, 503, 200]


async def test_a_missing_right_is_named(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    server.cluster.deny("list", "rayjobs")
    status, document = await answer(client, "GET", "/apis/ray.io/v1/rayjobs")
    assert (status, document["reason"]) == (403, "Forbidden")
    assert 'cannot list resource "rayjobs" in API group "ray.io" at the cluster scope' in document["message"]


@pytest.mark.parametrize(("namespace", "is_allowed"), [("a", True), ("b", False)])
async def test_reviews_say_what_requests_would_get(
    server: SandboxServer, client: aiohttp.ClientSession, namespace: str, is_allowed: bool
) -> None:
    server.cluster.deny("get", "pods/log", namespace="b")
    attributes = {"verb": "get", "resource": "pods", "subresource": "log", "namespace": namespace}
    review = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    status, document = await answer(client, "POST", path, json=review)
    assert (status, document["status"]["allowed"]) == (201, is_allowed)


async def test_events_have_two_shapes(client: aiohttp.ClientSession) -> None:
    new = {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "something happened",
        "reason": "Something",
        "eventTime": "2026-11-30T10:00:00.000000Z",
        "reportingController": "archiver",
    }
    assert (await answer(client, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", json=new))[0] == 201
    _, core = await answer(client, "GET", "/api/v1/namespaces/default/events/e")
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "something happened", "p")
    assert (core["firstTimestamp"], core["reportingComponent"]) == (None, "archiver")
    _, listed = await answer(client, "GET", "/apis/events.k8s.io/v1/events")
    assert listed["items"][0]["note"] == "something happened"


async def test_restarts_on_the_same_port_with_its_objects(server: SandboxServer, client: aiohttp.ClientSession) -> None:
    server.cluster.create(pod("a"))
    port = server.port
    await server.stop()
    with pytest.raises(aiohttp.ClientError):
        await answer(client, "GET", PODS)
    await server.start()
    assert server.port == port
    assert (await answer(client, "GET", f"{PODS}/a"))[0] == 200


def test_kubeconfig_names_server_and_token() -> None:
    server = SandboxServer()
    config = server.kubeconfig()
    assert config["users"][0]["user"]["token"] == server.token
    assert config["current-context"] == "sandbox"
    assert server.token in server.kubeconfig_text()
