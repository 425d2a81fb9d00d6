"""Kubernetes as a scenario needs it: apply, get, delete, wait, and GETs through the API server's proxy.

The connection is the product's own transport, so that every kubeconfig works here that works there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from archiver.errors import ArchiverError
from archiver.kube.answers import Call
from archiver.kube.transport import Transport, next_chunk

Document = dict[str, Any]
MANAGER = {"fieldManager": "rayjob-archiver-e2e", "force": "true"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
SILENCE_SECONDS = 60.0

# kind -> API's root, plural, whether it belongs to a namespace
RESOURCES = {
    "Namespace": ("/api/v1", "namespaces", False),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Secret": ("/api/v1", "secrets", True),
    "Service": ("/api/v1", "services", True),
    "Pod": ("/api/v1", "pods", True),
    "Event": ("/api/v1", "events", True),
    "ResourceQuota": ("/api/v1", "resourcequotas", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "ValidatingAdmissionPolicy": ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        False,
    ),
    "RayJob": ("/apis/ray.io/v1", "rayjobs", True),
    "RayCluster": ("/apis/ray.io/v1", "rayclusters", True),
}


def path_of(kind: str, namespace: str, name: str = "") -> str:
    root, plural, is_namespaced = RESOURCES[kind]
    middle = f"/namespaces/{namespace}" if is_namespaced else ""
    return f"{root}{middle}/{plural}" + (f"/{name}" if name else "")


class Kube:
    """One API server, as the administrator of the test cluster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        found: Document | None = await self._send("get", kind, path_of(kind, namespace, name), namespace)
        return found

    async def list(self, kind: str, namespace: str, selector: str = "") -> list[Document]:
        params = {"labelSelector": selector} if selector else {}
        found = await self._send("list", kind, path_of(kind, namespace), namespace, params=params)
        items: list[Document] = (found or {}).get("items", [])
        return items

    async def apply(self, document: Document) -> None:
        """Server-side apply, taking over fields of others."""
        metadata, kind = document["metadata"], document["kind"]
        namespace = metadata.get("namespace", "")
        path = path_of(kind, namespace, metadata["name"])
        await self._send("patch", kind, path, namespace, "PATCH", body=document, params=MANAGER, headers=APPLY)

    async def is_denied(self, document: Document) -> bool:
        """Whether a policy would refuse an object: asked without creating it."""
        namespace, kind = document["metadata"]["namespace"], document["kind"]
        path, params = path_of(kind, namespace), {"dryRun": "All"}
        try:
            await self._send("create", kind, path, namespace, "POST", body=document, params=params)
        except ArchiverError as error:
            return "denied request" in str(error)
        return False

    async def patch(self, kind: str, namespace: str, name: str, body: Document) -> None:
        await self._send("patch", kind, path_of(kind, namespace, name), namespace, "PATCH", body=body, headers=MERGE)

    async def delete(self, kind: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete in the background; what is not there is deleted."""
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        body = {"propagationPolicy": "Background", **grace}
        await self._send("delete", kind, path_of(kind, namespace, name), namespace, "DELETE", body=body)

    async def evict(self, namespace: str, name: str) -> None:
        """Asks the API server to evict a pod, as a drain does; a budget may refuse it."""
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"{path_of('Pod', namespace, name)}/eviction"
        await self._send("create", "Pod", path, namespace, "POST", body=body)

    async def proxied(
        self,
        target: str,
        namespace: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Document | None = None,
    ) -> bytes:
        """What `services/NAME:PORT` or `pods/NAME:PORT` answers to a GET, or to a POST of a body.

        LookupError for a 404, OSError for every other refusal.
        """
        whole = f"/api/v1/namespaces/{namespace}/{target}/proxy{path}"
        method = "GET" if body is None else "POST"
        call = Call("get", target, whole, namespace, method, params=params or {}, body=body, is_proxied=True)
        async with self._transport.open(call, header_timeout_seconds=SILENCE_SECONDS) as response:
            received = bytearray()
            while chunk := await next_chunk(call, response, silence_seconds=SILENCE_SECONDS):
                received += chunk
        if response.status == 404:
            raise LookupError(f"{target}{path}")
        if response.status != 200:
            raise OSError(f"{target}{path} was answered with {response.status}: {bytes(received[:300])!r}")
        return bytes(received)

    async def logs(self, namespace: str, pod: str) -> str:
        call = Call("get", "pods/log", f"{path_of('Pod', namespace, pod)}/log", namespace, is_proxied=True)
        async with self._transport.open(call, header_timeout_seconds=SILENCE_SECONDS) as response:
            return (await response.read()).decode(errors="replace")

    async def _send(
        self,
        verb: str,
        kind: str,
        path: str,
        namespace: str,
        method: str = "GET",
        **more: Any,
    ) -> Any:
        call = Call(verb, RESOURCES[kind][1], path, namespace or None, method, is_paced=False, **more)
        return await self._transport.read_json(call)


async def until(what: str, holds: Callable[[], Awaitable[Any]], *, seconds: float, poll_seconds: float = 0.5) -> Any:
    """What `holds` gives as soon as it is true; a server that does not answer yet is a no. TimeoutError names `what`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        reason = ""
        try:
            if found := await holds():
                return found
        except (OSError, LookupError, ArchiverError) as error:
            reason = f" ({error})"
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s{reason}")
        await asyncio.sleep(poll_seconds)
