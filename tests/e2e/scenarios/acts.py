"""What a scenario does to its RayJob from outside, and the signs that it waits for before it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.scenarios.kube import Document, Kube, until
from tests.e2e.scenarios.rayjob import ENTRYPOINT
from tests.e2e.scenarios.scenario import Act
from tests.e2e.scenarios.truth import Truth

POLL_SECONDS = 0.5
SUBMITTED = "by-hand-0001"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where acts are done: one RayJob in a namespace of its own."""

    kube: Kube
    truth: Truth
    namespace: str
    rayjob: Document

    @property
    def name(self) -> str:
        name: str = self.rayjob["metadata"]["name"]
        return name


async def perform(act: Act, stage: Stage) -> None:
    """Waits until every sign of `when` is there, then does it. TimeoutError names the sign that never came."""
    for sign, wanted in act.when.items():
        await until(
            f"{stage.name}: {sign} {wanted}",
            lambda sign=sign, wanted=wanted: SIGNS[sign](stage, wanted),
            seconds=act.seconds,
            poll_seconds=POLL_SECONDS,
        )
    await DEEDS[act.do](stage)


async def _status(stage: Stage) -> Mapping[str, Any]:
    found = await stage.kube.get("RayJob", stage.namespace, stage.name)
    status: Mapping[str, Any] = (found or {}).get("status") or {}
    return status


async def _has_job_status(stage: Stage, wanted: str) -> bool:
    return (await _status(stage)).get("jobStatus") == wanted


async def _has_deployment_status(stage: Stage, wanted: str) -> bool:
    return (await _status(stage)).get("jobDeploymentStatus") == wanted


async def _has_printed(stage: Stage, wanted: str) -> bool:
    return await stage.truth.has_printed(stage.namespace, wanted)


async def _has_event(stage: Stage, wanted: str) -> bool:
    """A Kubernetes Event whose reason or message has the text."""
    events = await stage.kube.list("Event", stage.namespace)
    return any(wanted in f"{event.get('reason')} {event.get('message')}" for event in events)


async def _is_gone(stage: Stage, _: bool) -> bool:
    return await stage.kube.get("RayJob", stage.namespace, stage.name) is None


async def _delete_rayjob(stage: Stage) -> None:
    await stage.kube.delete("RayJob", stage.namespace, stage.name)


async def _delete_raycluster(stage: Stage) -> None:
    """Returns when it is gone: the operator makes another one of the same name at once."""
    before = {cluster["metadata"]["uid"] for cluster in await stage.kube.list("RayCluster", stage.namespace)}
    for cluster in await stage.kube.list("RayCluster", stage.namespace):
        await stage.kube.delete("RayCluster", stage.namespace, cluster["metadata"]["name"])

    async def are_gone() -> bool:
        now = {cluster["metadata"]["uid"] for cluster in await stage.kube.list("RayCluster", stage.namespace)}
        return not before & now

    await until(f"{stage.name}: its RayCluster is not gone", are_gone, seconds=120)


async def _delete_namespace(stage: Stage) -> None:
    await stage.kube.delete("Namespace", "", stage.namespace)


async def _create_again(stage: Stage) -> None:
    await until(f"{stage.name} is not gone", lambda: _is_gone(stage, True), seconds=120)
    await stage.kube.apply(stage.rayjob)


async def _suspend(stage: Stage) -> None:
    await stage.kube.patch("RayJob", stage.namespace, stage.name, {"spec": {"suspend": True}})


async def _resume(stage: Stage) -> None:
    await stage.kube.patch("RayJob", stage.namespace, stage.name, {"spec": {"suspend": False}})


async def _set_deadline(stage: Stage) -> None:
    """The deadline of a running job is shortened: how long a start takes must not matter."""
    await stage.kube.patch("RayJob", stage.namespace, stage.name, {"spec": {"activeDeadlineSeconds": 1}})


async def _submit(stage: Stage) -> None:
    """What a user does in InteractiveMode: submits to the waiting cluster, and tells the RayJob the id."""
    heads = await stage.kube.list("Pod", stage.namespace, "ray.io/node-type=head")
    target, body = f"pods/{heads[0]['metadata']['name']}:8265", {"entrypoint": ENTRYPOINT, "submission_id": SUBMITTED}
    await stage.kube.proxied(target, stage.namespace, "/api/jobs/", body=body)
    await stage.kube.patch("RayJob", stage.namespace, stage.name, {"spec": {"jobId": SUBMITTED}})


async def _evict_head(stage: Stage) -> None:
    """What `kubectl drain` does to each pod of a node."""
    for pod in await stage.kube.list("Pod", stage.namespace, "ray.io/node-type=head"):
        await stage.kube.evict(stage.namespace, pod["metadata"]["name"])


async def _stop_kubelet(_: Stage) -> None:
    await asyncio.to_thread(Cluster().stop, "kubelet")


async def _start_kubelet(_: Stage) -> None:
    await asyncio.to_thread(Cluster().start, "kubelet")


def _kill(selector: str) -> Callable[[Stage], Awaitable[None]]:
    async def kill(stage: Stage) -> None:
        """Deletes the pod without grace: the kubelet kills its processes with SIGKILL."""
        for pod in await stage.kube.list("Pod", stage.namespace, selector):
            await stage.kube.delete("Pod", stage.namespace, pod["metadata"]["name"], grace_seconds=0)

    return kill


SIGNS: dict[str, Callable[[Stage, Any], Awaitable[bool]]] = {
    "job_status": _has_job_status,
    "deployment_status": _has_deployment_status,
    "printed": _has_printed,
    "event": _has_event,
    "gone": _is_gone,
}
DEEDS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "delete-rayjob": _delete_rayjob,
    "delete-namespace": _delete_namespace,
    "create-again": _create_again,
    "set-deadline": _set_deadline,
    "submit": _submit,
    "suspend": _suspend,
    "resume": _resume,
    "kill-head": _kill("ray.io/node-type=head"),
    "kill-workers": _kill("ray.io/node-type=worker"),
    "kill-submitters": _kill("job-name"),
    "evict-head": _evict_head,
    "delete-raycluster": _delete_raycluster,
    "stop-kubelet": _stop_kubelet,
    "start-kubelet": _start_kubelet,
}
