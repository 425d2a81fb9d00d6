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


def fill(template: str, number: int, version: int) -> str:
    """One object's JSON. Templates have the words NUMBER, VERSION, TEAM and CLUSTER in place of what differs."""
    text = template.replace("NUMBER", f"{number:012d}").replace("VERSION", str(version))
    return text.replace("TEAM", f"team-{number % 20}").replace("CLUSTER", f"c-{number // 5}")


def _identity(kind: str) -> dict[str, Any]:
    return {
        "name": f"{kind}-NUMBER",
        "namespace": "TEAM",
        "uid": f"{kind}-0000-4000-8000-NUMBER",
        "resourceVersion": "VERSION",
        "creationTimestamp": "2026-11-30T11:59:00Z",
    }


def _pod(labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod of the usual size: some 5 KB."""
    mounts = [{"name": f"volume-{i}", "mountPath": f"/mnt/volume-{i}", "readOnly": True} for i in range(6)]
    env = [{"name": f"RAY_SETTING_{i}", "value": f"value-{i}"} for i in range(14)]
    state = {"running": {"startedAt": "2026-11-30T12:00:00Z"}}
    status = {"name": "ray-worker", "ready": True, "restartCount": 0, "state": state, "lastState": {}, "image": "ray"}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-30T12:00:00Z", "lastProbeTime": None}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "CLUSTER", "uid": "cluster-uid-CLUSTER"}
    return {
        "metadata": {**_identity("pod"), "labels": dict(labels), "ownerReferences": [owner], **_PADDING},
        "spec": {
            "nodeName": "gpu-17",
            "containers": [{"name": "ray-worker", "image": "ray:2.52", "env": env, "volumeMounts": mounts}],
            "volumes": [{"name": f"volume-{i}", "configMap": {"name": f"config-{i}"}} for i in range(6)],
            "tolerations": [{"key": f"key-{i}", "operator": "Exists", "effect": "NoExecute"} for i in range(3)],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions, "containerStatuses": [status]},
    }


def _rayjob() -> dict[str, Any]:
    """A RayJob that ended, with the driver's last words in its message."""
    template = {"spec": _pod({})["spec"]}
    groups = [{"groupName": "gpu", "template": template}]
    cluster = {"rayVersion": "2.52.0", "headGroupSpec": {"template": template}, "workerGroupSpecs": groups}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {**_identity("rayjob"), **_PADDING},
        "spec": {"entrypoint": "python train.py", "rayClusterSpec": cluster},
        "status": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": "Traceback\n" * 300},
    }


def _event() -> dict[str, Any]:
    return {
        "metadata": _identity("event"),
        "involvedObject": {"kind": "Pod", "name": "pod-NUMBER", "namespace": "TEAM", "uid": "foreign-NUMBER"},
        "reason": "Pulled",
        "message": 'Successfully pulled image "registry.example/team/image:1" in 1.2s',
        "type": "Normal",
    }


RAY_POD = json.dumps(_pod({"ray.io/cluster": "CLUSTER"}))
BATCH_POD = json.dumps(_pod({"batch.kubernetes.io/job-name": "nightly"}))
RAYJOB = json.dumps(_rayjob())
EVENT = json.dumps(_event())


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
        template = self._template(plural, request.query.get("labelSelector", ""))
        items = ",".join(fill(template, number, number + 1) for number in range(start, end))
        metadata = {"resourceVersion": "1000000", "continue": str(end) if end < total else ""}
        head = json.dumps({"kind": f"{_PLURALS[plural]}List", "metadata": metadata})
        return web.Response(text=f'{head[:-1]},"items":[{items}]}}', content_type="application/json")

    def _total(self, plural: str, selector: str) -> int:
        if plural == "pods":
            return {RAY_PODS: self._scenario.ray_pods, JOB_PODS: self._scenario.batch_pods}[selector]
        return {"rayjobs": self._scenario.rayjobs, "events": self._scenario.events}.get(plural, 0)

    def _template(self, plural: str, selector: str) -> str:
        if plural == "pods":
            return RAY_POD if selector == RAY_PODS else BATCH_POD
        return {"rayjobs": RAYJOB, "events": EVENT}.get(plural, "")

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
        document = fill(RAY_POD, number % max(1, self._scenario.ray_pods), 2_000_000 + number)
        return f'{{"type":"MODIFIED","object":{document}}}\n'.encode()


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


def bare_parse_seconds(scenario: Scenario) -> float:
    """What parsing alone would cost, from a sample of each sort, page by page."""
    sorts = (
        (RAYJOB, scenario.rayjobs),
        (RAY_POD, scenario.ray_pods),
        (BATCH_POD, scenario.batch_pods),
        (EVENT, scenario.events),
    )
    total = 0.0
    for template, count in sorts:
        page = f"[{','.join(fill(template, number, 1) for number in range(500))}]"
        begun = time.process_time()
        for _ in range(4):
            json.loads(page)
        total += (time.process_time() - begun) / 2000 * count
    return total


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
        line += f"; bare json.loads of the same {bare_parse_seconds(scenario):.2f} s of CPU"
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
    texts = [fill(RAY_POD, number, 1) for number in range(10_000)]
    before = resident_mib()
    whole = [json.loads(text) for text in texts]
    full, before = resident_mib() - before, resident_mib()
    trimmed = [trim(Kind.POD, json.loads(text)) for text in texts]
    slim = resident_mib() - before
    cache, before = Cache(Kind.POD), resident_mib()
    for document in whole:
        cache.apply(ChangeType.ADDED, document)
    packed = resident_mib() - before
    begun = time.perf_counter()
    for document in whole:
        cache.by_uid(document["metadata"]["uid"])
    read = (time.perf_counter() - begun) * 1e6 / len(whole)
    assert len(trimmed) == len(cache)
    return (
        f"a pod of {len(texts[0])} bytes in memory: whole {full / 10:.1f} KiB, trimmed {slim / 10:.1f} KiB, "
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
