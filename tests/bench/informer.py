"""What a restart costs in a big cluster: listing, memory, and the watches' throughput. Not a test: it prints.

`python -m tests.bench.informer`. The API server is another process that fills its pages from templates, so time and
memory are the client's own (the server shares the machine's cores).
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from archiver.kube.access import PlainAccess
from archiver.kube.answers import Call
from archiver.kube.cache import Cache
from archiver.kube.informer import JOB_PODS, RAY_PODS, Informers
from archiver.kube.transport import Transport
from archiver.kube.trim import trim
from archiver.ports import Change, ChangeType, Kind

_PADDING = {
    "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:x": {"y" * 20: {}}}}}]
    * 18
}
_PLURALS = {"rayjobs": "RayJob", "rayclusters": "RayCluster", "jobs": "Job", "pods": "Pod", "events": "Event"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many objects of each sort a cluster has. ``batch_pods`` belong to Jobs that are none of Ray's."""

    name: str
    rayjobs: int = 0
    ray_pods: int = 0
    batch_pods: int = 0
    events: int = 0
    burst: int = 0


SCENARIOS = (
    Scenario("empty cluster"),
    Scenario("10,000 RayJobs, 50,000 Ray pods known", rayjobs=10_000, ray_pods=50_000),
    Scenario("busy cluster: 50,000 foreign pods of Jobs", rayjobs=100, ray_pods=500, batch_pods=50_000),
    Scenario("busy cluster: 100,000 foreign pod events", rayjobs=100, ray_pods=500, events=100_000),
    Scenario("burst of 20,000 pod changes", ray_pods=1_000, burst=20_000),
)


def pod(number: int, version: int, labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod of the usual size: some 6 KB."""
    name = f"pod-{number:06d}"
    mounts = [{"name": f"volume-{i}", "mountPath": f"/mnt/volume-{i}", "readOnly": True} for i in range(6)]
    env = [{"name": f"RAY_SETTING_{i}", "value": f"value-{i}"} for i in range(14)]
    state = {"running": {"startedAt": "2026-11-30T12:00:00Z"}}
    status = {"name": "ray-worker", "ready": True, "restartCount": 0, "state": state, "lastState": {}, "image": "ray"}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-30T12:00:00Z", "lastProbeTime": None}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    owner = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": f"c-{number // 5}",
        "uid": f"cluster-{number // 5}",
    }
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 20}",
            "uid": f"3f7c8a52-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-30T11:59:00Z",
            "labels": dict(labels),
            "ownerReferences": [owner],
            **_PADDING,
        },
        "spec": {
            "nodeName": f"gpu-{number % 400}",
            "containers": [{"name": "ray-worker", "image": "ray:2.52", "env": env, "volumeMounts": mounts}],
            "volumes": [{"name": f"volume-{i}", "configMap": {"name": f"config-{i}"}} for i in range(6)],
            "tolerations": [{"key": f"key-{i}", "operator": "Exists", "effect": "NoExecute"} for i in range(3)],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions, "containerStatuses": [status]},
    }


def rayjob(number: int) -> dict[str, Any]:
    """A RayJob that ended, with the driver's last words in its message."""
    template = {"spec": pod(number, 1, {})["spec"]}
    cluster = {
        "rayVersion": "2.52.0",
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{"template": template}],
    }
    status = {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": "Traceback\n" * 300}
    identity = {"name": f"job-{number:05d}", "namespace": f"team-{number % 20}", "uid": f"rayjob-{number}"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {**identity, "resourceVersion": str(number + 1), **_PADDING},
        "spec": {"entrypoint": "python train.py", "rayClusterSpec": cluster},
        "status": status,
    }


def event(number: int) -> dict[str, Any]:
    metadata = {"name": f"pod.{number:x}", "namespace": f"team-{number % 20}", "uid": f"event-{number}"}
    about = {
        "kind": "Pod",
        "name": f"pod-{number}",
        "namespace": f"team-{number % 20}",
        "uid": f"foreign-{number // 5}",
    }
    return {
        "metadata": metadata | {"resourceVersion": str(number + 1)},
        "involvedObject": about,
        "reason": "Pulled",
        "message": 'Successfully pulled image "registry.example/team/image:1" in 1.2s',
        "type": "Normal",
    }


class PageServer:
    """Pages and watches of one scenario. ``/burst`` lets the open watch of Ray's pods have its changes."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._burst = asyncio.Event()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/burst":
            self._burst.set()
            return web.Response()
        plural = request.path.rpartition("/")[2]
        if plural not in _PLURALS:
            return self._discovery(request.path)
        if "watch" in request.query:
            return await self._watch(request, plural)
        return self._page(request, plural)

    def _discovery(self, path: str) -> web.Response:
        served = {
            "/apis/ray.io/v1": ("rayjobs", "rayclusters"),
            "/apis/batch/v1": ("jobs",),
            "/api/v1": ("pods", "events"),
        }
        if path not in served:
            return web.Response(status=404)
        return web.json_response({"resources": [{"name": name} for name in served[path]]})

    def _page(self, request: web.BaseRequest, plural: str) -> web.Response:
        total = self._total(plural, request.query.get("labelSelector", ""))
        start = int(request.query.get("continue", "0"))
        end = min(total, start + int(request.query.get("limit", "500")))
        items = [self._item(plural, number, request.query.get("labelSelector", "")) for number in range(start, end)]
        metadata = {"resourceVersion": "1000000", "continue": str(end) if end < total else ""}
        return web.json_response({"kind": f"{_PLURALS[plural]}List", "metadata": metadata, "items": items})

    def _total(self, plural: str, selector: str) -> int:
        if plural == "pods":
            return {RAY_PODS: self._scenario.ray_pods, JOB_PODS: self._scenario.batch_pods}[selector]
        return {"rayjobs": self._scenario.rayjobs, "events": self._scenario.events}.get(plural, 0)

    def _item(self, plural: str, number: int, selector: str) -> dict[str, Any]:
        if plural == "rayjobs":
            return rayjob(number)
        if plural == "events":
            return event(number)
        labels = {"ray.io/cluster": f"c-{number // 5}"} if selector == RAY_PODS else {"job-name": "nightly"}
        return pod(number, number + 1, labels)

    async def _watch(self, request: web.BaseRequest, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await self._burst.wait()
        if plural == "pods" and request.query.get("labelSelector") == RAY_PODS:
            for step in range(0, self._scenario.burst, 100):
                await response.write(b"".join(self._change(number) for number in range(step, step + 100)))
        await asyncio.Event().wait()
        return response

    def _change(self, number: int) -> bytes:
        which = number % max(1, self._scenario.ray_pods)
        document = pod(which, 2_000_000 + number, {"ray.io/cluster": f"c-{which // 5}"})
        return json.dumps({"type": "MODIFIED", "object": document}).encode() + b"\n"


async def serve(scenario: Scenario) -> None:
    server = PageServer(scenario)
    runner = web.ServerRunner(web.Server(server.answer, handler_cancellation=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@asynccontextmanager
async def served(scenario: Scenario) -> AsyncIterator[str]:
    index = str(SCENARIOS.index(scenario))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.informer", "--serve", index, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def measure(scenario: Scenario) -> str:
    """One line of figures for one scenario, in this process."""
    changes = 0
    done = asyncio.Event()

    async def on_change(change: Change) -> None:
        nonlocal changes
        changes += 1
        if scenario.burst and changes == scenario.ray_pods + scenario.burst:
            done.set()

    async with served(scenario) as url, Transport(PlainAccess(url)) as transport:
        informers = Informers(transport, on_change)
        before, cpu, begun = resident_mib(), time.process_time(), time.perf_counter()
        task = asyncio.create_task(informers.run())
        await informers.wait_synced(timeout_seconds=600)
        seconds, used = time.perf_counter() - begun, time.process_time() - cpu
        line = (
            f"synced in {seconds:6.2f} s, {used:6.2f} s of CPU, +{resident_mib() - before:6.1f} MiB, {changes} changes"
        )
        if scenario.burst:
            line += f"; {await _burst(transport, scenario, done)}"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return line


async def _burst(transport: Transport, scenario: Scenario, done: asyncio.Event) -> str:
    cpu, begun = time.process_time(), time.perf_counter()
    async with transport.open(Call("get", "burst", "/burst"), header_timeout_seconds=10):
        await done.wait()
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    return f"burst: {scenario.burst / seconds:,.0f} changes/s, {1e6 * used / scenario.burst:.0f} µs of CPU each"


def representation() -> str:
    """The cached form beside what else it could be, for 10,000 pods."""
    whole = [json.loads(json.dumps(pod(number, 1, {"ray.io/cluster": "c"}))) for number in range(10_000)]
    size = len(json.dumps(whole[0]))
    before = resident_mib()
    again = [json.loads(json.dumps(document)) for document in whole]
    full = resident_mib() - before
    before = resident_mib()
    trimmed = [trim(Kind.POD, json.loads(json.dumps(document))) for document in whole]
    slim = resident_mib() - before
    cache, before = Cache(Kind.POD), resident_mib()
    for document in whole:
        cache.apply(ChangeType.ADDED, document)
    packed = resident_mib() - before
    begun = time.perf_counter()
    for document in whole:
        cache.by_uid(document["metadata"]["uid"])
    read = (time.perf_counter() - begun) * 1e6 / len(whole)
    assert len(again) == len(trimmed) == len(cache)
    return (
        f"a pod of {size} bytes in memory: whole {full / 10:.1f} KiB, trimmed {slim / 10:.1f} KiB, "
        f"as kept {packed / 10:.1f} KiB (× 1.024); reading one {read:.0f} µs"
    )


async def run_one(index: int) -> None:
    print(f"{SCENARIOS[index].name:45} {await measure(SCENARIOS[index])}", flush=True)


def main() -> None:
    """Each scenario in a fresh process: memory that Python keeps would flatter the next one."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(SCENARIOS[int(sys.argv[2])]))
    elif sys.argv[1:2] == ["--one"]:
        asyncio.run(run_one(int(sys.argv[2])))
    elif sys.argv[1:2] == ["--representation"]:
        print(representation(), flush=True)
    else:
        asyncio.run(_all())


async def _all() -> None:
    for arguments in (["--representation"], *(["--one", str(index)] for index in range(len(SCENARIOS)))):
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.bench.informer", *arguments)
        await process.wait()


if __name__ == "__main__":
    main()
