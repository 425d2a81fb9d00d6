"""The watches against an API server that breaks: whatever happens, the changes tell the truth, once."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from archiver.kube.access import PlainAccess
from archiver.kube.informer import Informers
from archiver.kube.listwatch import Target, Timing
from archiver.kube.reflector import Listener, Reflector
from archiver.kube.stats import WatchState, WatchStats
from archiver.kube.transport import Transport
from archiver.ports import Change, ChangeType, Kind
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.server import SandboxServer
from tests.fakes.kube.documents import NAMESPACE, job, kube_event, pod, ray_pod, rayjob, submitter_pod
from tests.fakes.kube.tcpfaults import TcpFaults
from tests.fakes.kube.watching import QUICK, Recorder, eventually, watching

pytest_plugins = ("tests.fakes.kube.fixtures",)

RAYJOBS = "watch rayjobs *"


@asynccontextmanager
async def through_faults(server: SandboxServer) -> AsyncIterator[tuple[TcpFaults, Transport]]:
    async with TcpFaults(server.port) as faults, Transport(PlainAccess(faults.url, server.token)) as transport:
        yield faults, transport


def versions(server: SandboxServer, plural: str = "rayjobs") -> dict[str, str]:
    """What the server holds."""
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in server.cluster.items(plural)}


def of(informers: Informers) -> WatchStats:
    return informers.stats()[RAYJOBS]


def touch(server: SandboxServer, name: str, status: str = "RUNNING") -> None:
    server.cluster.patch("rayjobs", NAMESPACE, name, {"status": {"jobStatus": status}})


async def test_tells_additions_changes_and_deletions(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.create(rayjob("before"))
    async with watching(to_sandbox) as (informers, recorder):
        sandbox.cluster.create(rayjob("a"))
        touch(sandbox, "a")
        sandbox.cluster.delete("rayjobs", NAMESPACE, "a")
        await eventually(lambda: ("DELETED", "a") in recorder.told(Kind.RAYJOB))
        assert recorder.told(Kind.RAYJOB) == [
            ("ADDED", "before"), ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"),
        ]  # fmt: skip
        assert [change.relisted for change in recorder.changes] == [True, False, False, False]
        assert informers.get(Kind.RAYJOB, NAMESPACE, "a") is None
        assert len(informers.list(Kind.RAYJOB)) == 1


async def test_goes_on_after_a_restart_of_the_server_without_a_relist(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    sandbox.cluster.create(rayjob("a"))
    async with watching(to_sandbox) as (informers, recorder):
        await sandbox.stop()
        touch(sandbox, "a")
        sandbox.cluster.create(rayjob("b"))
        await sandbox.start()
        await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
        assert of(informers).lists == 1
        assert not any(change.relisted for change in recorder.changes[1:])


@pytest.mark.parametrize("is_status", [True, False], ids=["HTTP 410", "ERROR event"])
async def test_relists_after_410(sandbox: SandboxServer, to_sandbox: Transport, is_status: bool) -> None:
    sandbox.cluster.refuses_old_watches = is_status
    for name in ("kept", "changed", "deleted", "recreated"):
        sandbox.cluster.create(rayjob(name))
    async with watching(to_sandbox) as (informers, recorder):
        told = len(recorder.changes)
        await sandbox.stop()
        touch(sandbox, "changed", "FAILED")
        sandbox.cluster.delete("rayjobs", NAMESPACE, "deleted")
        sandbox.cluster.delete("rayjobs", NAMESPACE, "recreated")
        sandbox.cluster.create(rayjob("recreated"))
        sandbox.cluster.create(rayjob("new"))
        sandbox.cluster.forget_history()
        await sandbox.start()
        await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
        await eventually(lambda: ("DELETED", "deleted") in recorder.told(Kind.RAYJOB))
        gap = [change for change in recorder.changes[told:] if change.kind is Kind.RAYJOB]
        assert all(change.relisted for change in gap)
        assert sorted((change.type.value, change.object["metadata"]["name"]) for change in gap) == [
            ("ADDED", "new"), ("ADDED", "recreated"), ("DELETED", "deleted"), ("DELETED", "recreated"),
            ("MODIFIED", "changed"),
        ]  # fmt: skip
        ends = [c.type for c in gap if c.object["metadata"]["name"] == "recreated"]
        assert ends == [ChangeType.DELETED, ChangeType.ADDED]
        assert of(informers).gone >= 1
        assert of(informers).state is WatchState.SYNCED


async def test_a_deletion_found_by_a_relist_carries_the_last_known_object(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    sandbox.cluster.create(rayjob("a", submissionMode="HTTPMode"))
    touch(sandbox, "a", "FAILED")
    async with watching(to_sandbox) as (_, recorder):
        await sandbox.stop()
        sandbox.cluster.delete("rayjobs", NAMESPACE, "a")
        sandbox.cluster.forget_history()
        await sandbox.start()
        await eventually(lambda: ("DELETED", "a") in recorder.told(Kind.RAYJOB))
        last = recorder.changes[-1].object
        assert last["status"]["jobStatus"] == "FAILED"
        assert last["spec"]["submissionMode"] == "HTTPMode"


async def test_a_watch_that_died_silently_is_opened_again(sandbox: SandboxServer) -> None:
    sandbox.cluster.create(rayjob("a"))
    async with through_faults(sandbox) as (faults, transport), watching(transport) as (informers, recorder):
        faults.freeze()
        sandbox.cluster.delete("rayjobs", NAMESPACE, "a")
        await eventually(lambda: ("DELETED", "a") in recorder.told(Kind.RAYJOB))
        assert (of(informers).silences, of(informers).lists) == (1, 1)


async def test_a_quiet_resource_without_bookmarks_is_no_failure() -> None:
    """As on an API server whose etcd does not notify of progress."""
    async with SandboxServer(cluster=SandboxCluster(bookmark_seconds=1000.0)) as server:
        server.cluster.create(rayjob("a"))
        timing = replace(QUICK, silence_seconds=0.1)
        async with (
            Transport(PlainAccess(server.url, server.token)) as transport,
            watching(transport, timing=timing) as (informers, recorder),
        ):
            seen = informers.freshness()[Kind.RAYJOB].last_seen_at
            await eventually(lambda: of(informers).silences >= 4)
            assert of(informers).lists == 1
            assert informers.missing() == []
            fresher = informers.freshness()[Kind.RAYJOB].last_seen_at
            assert seen is not None
            assert fresher is not None
            assert fresher > seen, "an opened watch is a sign of life"
            await eventually(lambda: of(informers).silences >= 11)
            assert of(informers).lists == 3, "one list after five silences"
            touch(server, "a")
            await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(server))
            assert informers.missing() == []


async def test_finds_the_way_back_after_a_restore_of_the_servers_database() -> None:
    """Resource versions went back: a watch from the future gets nothing at all, not even an error."""
    async with SandboxServer(cluster=SandboxCluster(bookmark_seconds=1000.0)) as server:
        for number in range(50):
            server.cluster.create(rayjob(f"lost-{number}"))
        restored = SandboxCluster(bookmark_seconds=1000.0)
        restored.create(rayjob("kept"))
        assert restored.version < server.cluster.version
        async with (
            Transport(PlainAccess(server.url, server.token)) as transport,
            watching(transport, timing=replace(QUICK, silence_seconds=0.1)) as (_, recorder),
        ):
            await server.stop()
            server.cluster = restored
            await server.start()
            await eventually(lambda: recorder.versions(Kind.RAYJOB) == {"kept": versions(server)["kept"]})


async def test_bookmarks_keep_a_quiet_watch_alive(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    async with watching(to_sandbox) as (informers, _):
        before = informers.freshness()[Kind.RAYJOB].last_seen_at
        await eventually(lambda: of(informers).bookmarks >= 5)
        assert (of(informers).silences, of(informers).lists, of(informers).watches) == (0, 1, 1)
        after = informers.freshness()[Kind.RAYJOB].last_seen_at
        assert before is not None
        assert after is not None
        assert after > before


async def test_resumes_from_the_version_of_a_bookmark(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    async with watching(to_sandbox) as (informers, recorder):
        for number in range(50):
            sandbox.cluster.create(job(f"other-{number}", labels={}))
        sandbox.cluster.forget_history()
        before = of(informers).bookmarks
        await eventually(lambda: of(informers).bookmarks > before)
        sandbox.cluster.cut_streams("watch")
        sandbox.cluster.create(rayjob("late"))
        await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
        assert (of(informers).watches, of(informers).lists) == (2, 1), "compaction below a bookmark costs no relist"


async def test_no_cut_anywhere_loses_or_doubles_a_change(sandbox: SandboxServer) -> None:
    """Connections die at arbitrary bytes, in lists and in the middle of watch lines."""
    chance = random.Random(20261130)
    for number in range(30):
        sandbox.cluster.create(rayjob(f"first-{number}"))
    async with through_faults(sandbox) as (faults, transport):
        faults.cut_at = [chance.randrange(1, 9000) for _ in range(150)]
        timing = replace(QUICK, page_limit=7)
        async with watching(transport, timing=timing, is_synced=False) as (informers, recorder):
            for number in range(200):
                name = f"first-{chance.randrange(30)}"
                if name not in versions(sandbox):
                    sandbox.cluster.create(rayjob(name))
                elif chance.random() < 0.3:
                    sandbox.cluster.delete("rayjobs", NAMESPACE, name)
                else:
                    touch(sandbox, name, f"STEP-{number}")
                if number % 40 == 0:
                    sandbox.cluster.forget_history()
                await asyncio.sleep(0.01)
            await informers.wait_synced(timeout_seconds=30)
            await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox), seconds=30)
        assert faults.cuts > 20


async def test_broken_lines_are_counted_and_the_watch_goes_on(sandbox: SandboxServer) -> None:
    sandbox.cluster.create(rayjob("a"))
    async with through_faults(sandbox) as (faults, transport), watching(transport) as (informers, recorder):
        faults.garble = [
            (b'{"type":"MODIFIED"', b'{"type":"MODIF{{{"'),
            (b'{"type":"MODIFIED"', b'["type":"MODIFIED"'),
        ]
        touch(sandbox, "a", "RUNNING")
        await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
        touch(sandbox, "a", "FAILED")
        await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
        assert of(informers).malformed == 2
        assert of(informers).lists == 1


async def test_survives_server_errors(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.create(rayjob("a"))
    sandbox.cluster.fail_next(4, 500, path="/rayjobs")
    sandbox.cluster.fail_next(1, 503, path="/apis/ray.io/v1/rayjobs")
    async with watching(to_sandbox, is_synced=False) as (informers, recorder):
        await informers.wait_synced(timeout_seconds=20)
        assert recorder.versions(Kind.RAYJOB) == versions(sandbox)
        assert of(informers).cuts == 5
        assert of(informers).state is WatchState.SYNCED


async def test_says_that_a_watch_fails_while_the_server_is_away(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    async with watching(to_sandbox) as (informers, _):
        await sandbox.stop()
        await eventually(lambda: informers.freshness()[Kind.RAYJOB].state is WatchState.FAILING)
        assert any("cannot watch rayjobs.ray.io" in sentence for sentence in informers.missing())
        await sandbox.start()
        await eventually(lambda: not informers.missing())


async def test_a_slow_server_is_waited_for(sandbox: SandboxServer) -> None:
    for number in range(60):
        sandbox.cluster.create(rayjob(f"a-{number}"))
    async with through_faults(sandbox) as (faults, transport):
        faults.bytes_per_second = 100_000
        async with watching(transport) as (informers, recorder):
            assert recorder.versions(Kind.RAYJOB) == versions(sandbox)
            assert of(informers).cuts == 0


async def test_pages_through_ten_thousand_objects(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    for number in range(10_000):
        sandbox.cluster.create(rayjob(f"a-{number:05d}"))
    async with watching(to_sandbox, timing=Timing()) as (informers, recorder):
        assert of(informers).pages == 20
        assert informers.count(Kind.RAYJOB) == 10_000
        assert recorder.versions(Kind.RAYJOB) == versions(sandbox)


async def test_a_list_that_expires_between_pages_begins_anew_with_larger_pages(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    for number in range(300):
        sandbox.cluster.create(rayjob(f"a-{number:03d}"))
    recorder, compactions = Recorder(), [150, 150, 155]

    async def on_change(change: Change) -> None:
        await recorder(change)
        if compactions and change.kind is Kind.RAYJOB and len(recorder.changes) >= compactions[0]:
            compactions.pop(0)
            sandbox.cluster.create(rayjob(f"b-{len(compactions)}"))
            sandbox.cluster.forget_history()

    informers = Informers(to_sandbox, on_change, timing=replace(QUICK, page_limit=10))
    task = asyncio.create_task(informers.run())
    try:
        await informers.wait_synced(timeout_seconds=30)
        await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
        assert of(informers).gone >= 1
        assert of(informers).callback_errors == 0
        assert of(informers).pages < 300 / 10 + 15 + 10, "the second try takes larger pages"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_names_the_right_that_is_missing_and_goes_on_when_it_is_granted(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    sandbox.cluster.create(rayjob("a"))
    sandbox.cluster.deny("list", "rayjobs")
    with capture_logs() as logs:
        async with watching(to_sandbox) as (informers, recorder):
            assert informers.freshness()[Kind.RAYJOB].state is WatchState.DENIED
            (sentence,) = informers.missing()
            assert sentence.startswith(
                'cannot list rayjobs.ray.io in all namespaces: grant the verb "list" on "rayjobs"'
            )
            await eventually(lambda: of(informers).lists >= 3)
            sandbox.cluster.allow_all()
            await eventually(lambda: recorder.versions(Kind.RAYJOB) == versions(sandbox))
            assert informers.missing() == []
    assert len([entry for entry in logs if entry["event"] == "watch not possible" and "rayjobs" in entry["watch"]]) == 1


async def test_a_right_that_is_taken_away_is_noticed(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    async with watching(to_sandbox) as (informers, _):
        sandbox.cluster.deny("watch", "rayjobs")
        sandbox.cluster.cut_streams("watch")
        await eventually(lambda: informers.freshness()[Kind.RAYJOB].state is WatchState.DENIED)


async def test_namespaced_mode_needs_no_cluster_rights(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.deny("*", "nodes")
    sandbox.cluster.ensure_namespace("team-b")
    sandbox.cluster.create(rayjob("a"))
    other = rayjob("elsewhere")
    other["metadata"]["namespace"] = "team-c"
    sandbox.cluster.create(other)
    async with watching(to_sandbox, namespaces=[NAMESPACE, "team-b"]) as (informers, recorder):
        assert recorder.told(Kind.RAYJOB) == [("ADDED", "a")]
        second = rayjob("b")
        second["metadata"]["namespace"] = "team-b"
        sandbox.cluster.create(second)
        await eventually(lambda: informers.get(Kind.RAYJOB, "team-b", "b"))
        assert informers.freshness()[Kind.NODE].state is WatchState.DENIED
        assert informers.missing() == [], "nodes are optional"
        assert [o["metadata"]["name"] for o in informers.list(Kind.RAYJOB, namespace="team-b")] == ["b"]


async def test_waits_for_the_crd_and_says_so(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.uninstall_kuberay()
    async with watching(to_sandbox) as (informers, recorder):
        assert informers.freshness()[Kind.RAYJOB].state is WatchState.ABSENT
        assert "the API server does not serve rayjobs.ray.io: waiting for its CRD" in informers.missing()
        sandbox.cluster.install_kuberay()
        sandbox.cluster.create(rayjob("a"))
        await eventually(lambda: recorder.told(Kind.RAYJOB) == [("ADDED", "a")])


async def test_watches_v1alpha1_where_only_that_is_served(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.create(rayjob("a"))
    sandbox.cluster.uninstall_kuberay()
    sandbox.cluster.install_kuberay("v1alpha1")
    async with watching(to_sandbox) as (informers, recorder):
        assert recorder.told(Kind.RAYJOB) == [("ADDED", "a")]
        assert informers.missing() == []


async def test_a_removed_crd_is_waited_for_again(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    async with watching(to_sandbox) as (informers, recorder):
        sandbox.cluster.uninstall_kuberay()
        sandbox.cluster.cut_streams("watch")
        await eventually(lambda: informers.freshness()[Kind.RAYJOB].state is WatchState.ABSENT)
        sandbox.cluster.install_kuberay()
        sandbox.cluster.create(rayjob("a"))
        await eventually(lambda: recorder.told(Kind.RAYJOB) == [("ADDED", "a")])


async def test_foreign_pods_are_neither_told_nor_kept(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    for number in range(20):
        sandbox.cluster.create(pod(f"web-{number}"))
        sandbox.cluster.create(pod(f"batch-{number}", labels={"batch.kubernetes.io/job-name": "nightly"}))
    sandbox.cluster.create(ray_pod("head"))
    sandbox.cluster.create(submitter_pod("submitter"))
    async with watching(to_sandbox) as (informers, recorder):
        sandbox.cluster.create(pod("batch-late", labels={"batch.kubernetes.io/job-name": "nightly"}))
        sandbox.cluster.create(submitter_pod("submitter-late"))
        await eventually(lambda: informers.get(Kind.POD, NAMESPACE, "submitter-late"))
        assert {name for _, name in recorder.told(Kind.POD)} == {"head", "submitter", "submitter-late"}
        assert informers.count(Kind.POD) == 3
        ignored = sum(stats.ignored for name, stats in informers.stats().items() if " pods " in name)
        assert ignored == 21, "the pods of foreign Jobs come to us, all others do not"


async def test_a_change_is_whole_and_the_cache_is_trimmed(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    document = ray_pod("head")
    document["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    document["metadata"]["managedFields"] = [{"manager": "kuberay"}]
    sandbox.cluster.create(document)
    async with watching(to_sandbox) as (informers, recorder):
        change = next(change for change in recorder.changes if change.kind is Kind.POD)
        assert change.object["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
        assert "managedFields" not in change.object["metadata"]
        assert (change.object["apiVersion"], change.object["kind"]) == ("v1", "Pod")
        cached = informers.by_uid(change.object["metadata"]["uid"])
        assert cached is not None
        assert "volumes" not in cached["spec"]
        assert cached["kind"] == "Pod"


async def test_finds_children_across_kinds(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    owner = sandbox.cluster.create(rayjob("a"))["metadata"]["uid"]
    child = job("a")
    child["metadata"]["ownerReferences"] = [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "a", "uid": owner}]
    sandbox.cluster.create(child)
    sandbox.cluster.create(kube_event("e", uid=owner))
    async with watching(to_sandbox) as (informers, _):
        assert [o["metadata"]["name"] for o in informers.children(Kind.JOB, owner)] == ["a"]
        assert [o["reason"] for o in informers.children(Kind.EVENT, owner)] == ["CreatedRayCluster"]
        assert informers.children(Kind.POD, owner) == []


async def test_kubernetes_events_come_after_what_they_are_about(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.create(kube_event("e"))
    for number in range(30):
        sandbox.cluster.create(rayjob(f"a-{number}"))
    async with watching(to_sandbox) as (_, recorder):
        assert [change.kind for change in recorder.changes] == [Kind.RAYJOB] * 30 + [Kind.EVENT]


async def test_one_change_that_cannot_be_taken_does_not_end_the_watch(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    taken: list[str] = []

    async def on_change(change: Change) -> None:
        name = change.object["metadata"]["name"]
        if name == "bad":
            raise RuntimeError("a bug of the services")
        taken.append(name)

    informers = Informers(to_sandbox, on_change, timing=QUICK)
    task = asyncio.create_task(informers.run())
    try:
        await informers.wait_synced(timeout_seconds=10)
        for name in ("bad", "good"):
            sandbox.cluster.create(rayjob(name))
        await eventually(lambda: taken == ["good"])
        assert of(informers).callback_errors == 1
        assert of(informers).watches == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_slow_consumer_slows_the_watch_and_keeps_the_order(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    steps: list[str] = []

    async def on_change(change: Change) -> None:
        await asyncio.sleep(0.002)
        if change.kind is Kind.RAYJOB:
            steps.append(change.object.get("status", {}).get("jobStatus", ""))

    informers = Informers(to_sandbox, on_change, timing=QUICK)
    task = asyncio.create_task(informers.run())
    try:
        await informers.wait_synced(timeout_seconds=10)
        sandbox.cluster.create(rayjob("a"))
        for number in range(100):
            touch(sandbox, "a", str(number))
        await eventually(lambda: len(steps) == 101)
        assert steps == ["", *map(str, range(100))]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_step_gives_the_pause_before_the_next(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    """The loop only waits; reconnects that bring nothing slow down."""
    listener = Listener(Recorder(), lambda: datetime.now(UTC))
    reflector = Reflector(to_sandbox, Target(Kind.RAYJOB), listener, QUICK)
    assert [await reflector.step(), await reflector.step()] == [0.0, 0.0], "discovered, listed"
    await sandbox.stop()
    pauses = [await reflector.step() for _ in range(12)]
    assert max(pauses) <= QUICK.backoff_cap_seconds
    assert min(pauses[6:]) >= QUICK.backoff_cap_seconds / 2
    assert min(pauses) > 0
