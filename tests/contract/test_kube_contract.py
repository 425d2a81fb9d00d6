"""What the adapter relies on in any API server: held against the sandbox always, against a real one with -m cluster."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from archiver.core.model import ContainerRun
from archiver.errors import KubeConflict, KubeError, KubeGone
from archiver.kube.answers import Call
from archiver.kube.discovery import find_resource, server_version
from archiver.kube.informer import EVENT_FIELDS, RAY_JOBS
from archiver.kube.listwatch import ListWatch, Target, Timing
from archiver.kube.objects import ApiServerObjects
from archiver.kube.podlogs import ApiServerPodLogs
from archiver.kube.preflight import Features, missing_rights
from archiver.kube.resources import CANDIDATES, LEASES
from archiver.kube.transport import Transport
from archiver.kube.watchlines import WatchEvent
from archiver.ports import Kind, LogRequest
from tests.fakes.kube.apis import ApiServer
from tests.fakes.kube.documents import job, kube_event, pod
from tests.fakes.kube.watching import eventually, watching

pytest_plugins = ("tests.fakes.kube.fixtures",)


def listwatch(transport: Transport, api: ApiServer, kind: Kind, **selectors: str) -> ListWatch:
    return ListWatch(transport, CANDIDATES[kind][0], Target(kind, api.namespace, **selectors), Timing())


def stamp(version: int) -> dict[str, Any]:
    """A change that no controller makes or undoes."""
    return {"metadata": {"annotations": {"archiver.test/version": str(version)}}}


@asynccontextmanager
async def collected(source: ListWatch, version: str) -> AsyncIterator[list[WatchEvent]]:
    """What a watch gives from a version on, as it comes."""
    events: list[WatchEvent] = []

    async def collect() -> None:
        async with aclosing(source.watch(version)) as stream:
            async for event in stream:
                events.append(event)

    task = asyncio.create_task(collect(), name="watch under test")
    try:
        yield events
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def about(events: list[WatchEvent], name: str) -> list[str]:
    types = [event.type for event in events if event.object["metadata"].get("name") == name]
    return [kind for number, kind in enumerate(types) if kind != "MODIFIED" or types[number - 1] != "MODIFIED"]


async def test_tells_its_version_and_what_it_serves(transport: Transport) -> None:
    version = await server_version(transport)
    assert version.major == 1
    assert version.minor >= 27, "batch.kubernetes.io/job-name is set since 1.27"
    assert version.git.startswith("v1.")
    for kind in (Kind.JOB, Kind.POD, Kind.EVENT, Kind.NODE):
        assert await find_resource(transport, kind) == CANDIDATES[kind][0]


async def test_pages_are_one_consistent_list(kube_api: ApiServer, transport: Transport) -> None:
    for number in range(5):
        await kube_api.create(kube_event(f"e{number}", namespace=kube_api.namespace))
    source = listwatch(transport, kube_api, Kind.EVENT)
    first = await source.page(limit=2)
    assert first is not None
    assert first.next_token
    await kube_api.create(kube_event("e0-late", namespace=kube_api.namespace))
    names, page = [item["metadata"]["name"] for item in first.items], first
    while page.next_token:
        following = await source.page(page.next_token, limit=2)
        assert following is not None
        page = following
        names += [item["metadata"]["name"] for item in page.items]
    assert names == ["e0", "e1", "e2", "e3", "e4"], "what came after the first page is not in the list"
    async with collected(source, page.version) as events:
        await eventually(lambda: about(events, "e0-late") == ["ADDED"])


async def test_listed_objects_say_what_they_are(kube_api: ApiServer, transport: Transport) -> None:
    await kube_api.create(job("a", namespace=kube_api.namespace))
    page = await listwatch(transport, kube_api, Kind.JOB).page(limit=500)
    assert page is not None
    assert [(item["apiVersion"], item["kind"]) for item in page.items] == [("batch/v1", "Job")]


async def test_a_watch_goes_on_exactly_after_its_list(kube_api: ApiServer, transport: Transport) -> None:
    document = job("a", namespace=kube_api.namespace)
    await kube_api.create(document)
    source = listwatch(transport, kube_api, Kind.JOB)
    page = await source.page(limit=500)
    assert page is not None
    await kube_api.patch(document, stamp(1))
    await kube_api.create(job("b", namespace=kube_api.namespace))
    await kube_api.delete(document)
    async with collected(source, page.version) as events:
        await eventually(lambda: about(events, "a")[-1:] == ["DELETED"] and about(events, "b")[:1] == ["ADDED"])
    assert about(events, "a") == ["MODIFIED", "DELETED"]
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)
    assert versions[0] > int(page.version), "also the DELETED has a version of its own"


async def test_an_object_that_leaves_the_selector_looks_deleted(kube_api: ApiServer, transport: Transport) -> None:
    ours, foreign = job("ours", namespace=kube_api.namespace), job("foreign", labels={}, namespace=kube_api.namespace)
    source = listwatch(transport, kube_api, Kind.JOB, label_selector=RAY_JOBS)
    page = await source.page(limit=500)
    assert page is not None
    async with collected(source, page.version) as events:
        await kube_api.create(foreign)
        await kube_api.create(ours)
        await eventually(lambda: about(events, "ours")[:1] == ["ADDED"])
        await kube_api.patch(ours, {"metadata": {"labels": {"ray.io/originated-from-crd": None}}})
        await eventually(lambda: about(events, "ours")[-1:] == ["DELETED"])
        await kube_api.patch(ours, {"metadata": {"labels": {"ray.io/originated-from-crd": "RayJob"}}})
        await eventually(lambda: about(events, "ours")[-1:] != ["DELETED"])
    assert about(events, "foreign") == []


async def test_selects_pods_that_have_one_label_and_lack_another(kube_api: ApiServer, transport: Transport) -> None:
    labels = {"batch.kubernetes.io/job-name": "j"}
    await kube_api.create(pod("submitter", labels=labels, namespace=kube_api.namespace))
    await kube_api.create(pod("both", labels=labels | {"ray.io/cluster": "c"}, namespace=kube_api.namespace))
    await kube_api.create(pod("neither", namespace=kube_api.namespace))
    selector = "batch.kubernetes.io/job-name,!ray.io/cluster"
    page = await listwatch(transport, kube_api, Kind.POD, label_selector=selector).page(limit=500)
    assert page is not None
    assert [item["metadata"]["name"] for item in page.items] == ["submitter"]


async def test_selects_events_by_what_they_are_about(kube_api: ApiServer, transport: Transport) -> None:
    await kube_api.create(kube_event("ours", namespace=kube_api.namespace))
    await kube_api.create(kube_event("foreign", kind="ReplicaSet", namespace=kube_api.namespace))
    source = listwatch(transport, kube_api, Kind.EVENT, field_selector=EVENT_FIELDS)
    page = await source.page(limit=500)
    assert page is not None
    assert [item["metadata"]["name"] for item in page.items] == ["ours"]
    async with collected(source, page.version) as events:
        await kube_api.create(kube_event("foreign-2", kind="ReplicaSet", namespace=kube_api.namespace))
        await kube_api.create(kube_event("ours-2", namespace=kube_api.namespace))
        await eventually(lambda: about(events, "ours-2") == ["ADDED"])
    assert about(events, "foreign-2") == []


@pytest.mark.timeout(180)
async def test_bookmarks_tell_how_far_a_watch_without_news_has_come(kube_api: ApiServer, transport: Transport) -> None:
    """They come when something of the resource changed that the watch does not cover; a quiet resource has none."""
    source = listwatch(transport, kube_api, Kind.JOB, label_selector=RAY_JOBS)
    page = await source.page(limit=500)
    assert page is not None
    async with collected(source, page.version) as events:
        foreign = await kube_api.create(job("foreign", labels={}, namespace=kube_api.namespace))
        version = int(foreign["metadata"]["resourceVersion"])
        seconds = kube_api.bookmark_seconds * 2 + 10
        await eventually(lambda: any(marked_version(event) >= version for event in events), seconds=seconds)
    assert {event.type for event in events} == {"BOOKMARK"}


def marked_version(event: WatchEvent) -> int:
    return int(event.object["metadata"]["resourceVersion"])


async def test_a_watch_ends_by_itself_when_its_time_is_over(kube_api: ApiServer, transport: Transport) -> None:
    target, timing = Target(Kind.JOB, kube_api.namespace), Timing(watch_timeout_seconds=1)
    source = ListWatch(transport, CANDIDATES[Kind.JOB][0], target, timing)
    page = await source.page(limit=500)
    assert page is not None
    async with asyncio.timeout(20):
        assert [event.type async for event in source.watch(page.version) if event.type != "BOOKMARK"] == []


async def test_a_resource_that_is_not_served_is_none(kube_api: ApiServer, transport: Transport) -> None:
    call = Call("list", "nothings.example.invalid", "/apis/example.invalid/v1/nothings")
    assert await transport.read_json(call) is None


async def test_merge_patch_sets_removes_and_respects_versions(kube_api: ApiServer, transport: Transport) -> None:
    created = await kube_api.create(job("a", namespace=kube_api.namespace))
    objects = ApiServerObjects(transport)
    patched = await objects.patch(Kind.JOB, kube_api.namespace, "a", stamp(1))
    assert patched is not None
    assert patched["metadata"]["annotations"]["archiver.test/version"] == "1"
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"], "annotations": {"x": "y"}}}
    with pytest.raises(KubeConflict):
        await objects.patch(Kind.JOB, kube_api.namespace, "a", stale)
    cleared = {"metadata": {"annotations": {"archiver.test/version": None}}}
    assert await objects.patch(Kind.JOB, kube_api.namespace, "a", cleared)
    found = await objects.get(Kind.JOB, kube_api.namespace, "a")
    assert found is not None
    assert "archiver.test/version" not in found["metadata"].get("annotations", {})
    assert (found["apiVersion"], found["kind"]) == ("batch/v1", "Job")


async def test_what_is_not_there_is_none(kube_api: ApiServer, transport: Transport) -> None:
    objects = ApiServerObjects(transport)
    assert await objects.get(Kind.JOB, kube_api.namespace, "none") is None
    assert await objects.patch(Kind.JOB, kube_api.namespace, "none", stamp(1)) is None
    assert await objects.secret_value(kube_api.namespace, "none", "auth_token") is None


async def test_reads_one_value_of_a_secret(kube_api: ApiServer, transport: Transport) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"auth_token": "w6RiYw=="}}
    await kube_api.create(secret)
    objects = ApiServerObjects(transport)
    assert await objects.secret_value(kube_api.namespace, "s", "auth_token") == "äbc"
    assert await objects.secret_value(kube_api.namespace, "s", "other") is None


async def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed(
    kube_api: ApiServer, transport: Transport
) -> None:
    document = job("held", namespace=kube_api.namespace)
    document["metadata"]["finalizers"] = ["archiver.test/hold"]
    await kube_api.create(document)
    objects = ApiServerObjects(transport)
    await kube_api.delete(document)
    held = await objects.get(Kind.JOB, kube_api.namespace, "held")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    await objects.patch(Kind.JOB, kube_api.namespace, "held", {"metadata": {"finalizers": None}})
    assert await objects.get(Kind.JOB, kube_api.namespace, "held") is None


async def test_leases_refuse_a_second_creation_and_a_stale_update(kube_api: ApiServer, transport: Transport) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    created = await kube_api.create(lease)
    again = Call("create", LEASES.label, LEASES.path(kube_api.namespace), method="POST", body=lease)
    with pytest.raises(KubeConflict):
        await transport.read_json(again)
    await kube_api.patch(lease, {"spec": {"holderIdentity": "other"}})
    stale = Call("update", LEASES.label, LEASES.path(kube_api.namespace, "l"), method="PUT", body=created)
    with pytest.raises(KubeConflict):
        await transport.read_json(stale)


async def test_tells_that_no_right_is_missing(kube_api: ApiServer, transport: Transport) -> None:
    features = Features(hold=True, ray_tokens=True, lease_namespace=kube_api.namespace)
    assert await missing_rights(transport, features, namespaces=[kube_api.namespace]) == []


def log_request(api: ApiServer, name: str, container: str = "main", **options: Any) -> LogRequest:
    return LogRequest(ContainerRun(api.namespace, name, "u", container), follow=False, **options)


async def opened(transport: Transport, request: LogRequest) -> bytes:
    async with ApiServerPodLogs(transport).stream(request) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_the_log_of_no_pod_is_gone(kube_api: ApiServer, transport: Transport) -> None:
    with pytest.raises(KubeGone, match="cannot get pods/log"):
        await opened(transport, log_request(kube_api, "none"))


async def test_the_log_of_a_container_that_the_pod_lacks_is_gone(kube_api: ApiServer, transport: Transport) -> None:
    await kube_api.create(pod("p", namespace=kube_api.namespace))
    with pytest.raises(KubeGone, match="not valid for pod"):
        await opened(transport, log_request(kube_api, "p", "other"))


async def test_the_log_of_an_unscheduled_pod_is_empty_or_not_ready(kube_api: ApiServer, transport: Transport) -> None:
    await kube_api.create(pod("p", namespace=kube_api.namespace))
    assert await opened(transport, log_request(kube_api, "p")) == b""


async def test_a_wrong_log_option_is_refused(kube_api: ApiServer, transport: Transport) -> None:
    await kube_api.create(pod("p", namespace=kube_api.namespace))
    with pytest.raises(KubeError, match="tailLines"):
        await opened(transport, log_request(kube_api, "p", tail_lines=-1))


async def test_the_informers_follow_a_namespace(kube_api: ApiServer, transport: Transport) -> None:
    first = job("first", namespace=kube_api.namespace)
    await kube_api.create(first)
    async with watching(transport, namespaces=[kube_api.namespace], timing=Timing()) as (informers, recorder):
        await kube_api.create(job("second", namespace=kube_api.namespace))
        await kube_api.create(kube_event("e", uid=str(uuid.uuid4()), namespace=kube_api.namespace))
        await kube_api.patch(first, stamp(1))
        await eventually(lambda: informers.get(Kind.EVENT, kube_api.namespace, "e"))
        await kube_api.delete(first)
        await eventually(lambda: informers.get(Kind.JOB, kube_api.namespace, "first") is None)
        assert informers.get(Kind.JOB, kube_api.namespace, "second")
        assert recorder.told(Kind.JOB)[0] == ("ADDED", "first")
        assert recorder.told(Kind.JOB)[-1] == ("DELETED", "first")
