"""The API server's proxy to pods and services, as far as Ray nodes stand behind them."""

import re

from aiohttp import web

from archiver.sandbox import rayhttp
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.raynode import AGENT_PORT, DASHBOARD_PORT, RayNode
from archiver.sandbox.resources import Resource
from archiver.sandbox.status import no_such_resource, not_found, unavailable

_PORT_NAMES = {"dashboard": DASHBOARD_PORT, "dashboard-agent": AGENT_PORT, "": 80}
_LINK = re.compile(r'(href|src)="/')


async def answer(
    cluster: SandboxCluster, request: web.BaseRequest, resource: Resource, namespace: str, address: str
) -> web.StreamResponse:
    """``address`` is ``[scheme:]name[:port]``."""
    if resource.plural not in ("pods", "services"):
        raise no_such_resource()
    parts = address.split(":")
    name, port_text = (parts[1], parts[2]) if len(parts) == 3 else (parts[0], parts[1] if len(parts) == 2 else "")
    pod = _pod_behind(cluster, resource, namespace, name)
    port = int(port_text) if port_text.isdigit() else _PORT_NAMES.get(port_text, 0)
    prefix, _, rest = request.rel_url.raw_path.partition("/proxy")
    node = cluster.ray_node(namespace, pod["metadata"]["name"])
    response = await _reached(node, pod, request, port, rest or "/")
    return _with_links(response, f"{prefix}/proxy")


def _pod_behind(cluster: SandboxCluster, resource: Resource, namespace: str, name: str) -> JsonObject:
    found = cluster.get(resource.plural, namespace, name)
    if found is None:
        raise not_found(resource, name)
    if resource.plural == "pods":
        return found
    chosen = (found.get("spec") or {}).get("selector") or {}
    for pod in cluster.items("pods", namespace):
        labels = pod["metadata"].get("labels") or {}
        if chosen and all(labels.get(key) == value for key, value in chosen.items()):
            return pod
    raise unavailable(f'no endpoints available for service "{name}"')


async def _reached(
    node: RayNode | None, pod: JsonObject, request: web.BaseRequest, port: int, path: str
) -> web.StreamResponse:
    address = (pod.get("status") or {}).get("podIP", "")
    if node is None:
        raise unavailable(f"error trying to reach service: dial tcp {address}:{port}: connect: connection refused")
    try:
        return await rayhttp.answer(node, request, port=port, path=path, is_proxied=True)
    except ConnectionRefusedError as error:
        raise unavailable(f"error trying to reach service: {error}") from error


def _with_links(response: web.StreamResponse, prefix: str) -> web.StreamResponse:
    """The proxy rewrites links of HTML pages, so that a browser stays behind it."""
    if isinstance(response, web.Response) and response.content_type == "text/html" and response.text:
        response.text = _LINK.sub(rf'\1="{prefix}/', response.text)
    return response
