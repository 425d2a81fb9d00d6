"""Single objects: get, merge patch, one value of a Secret, and a GET through the API server's proxy. No watching."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import aiohttp

from archiver.errors import KubeDenied, KubeError, KubeUnavailable
from archiver.kube.answers import Call, error_of, is_status, status_message
from archiver.kube.discovery import find_resource
from archiver.kube.resources import CANDIDATES, NAMESPACES, SECRETS, Resource
from archiver.kube.transport import Transport, next_chunk
from archiver.ports import Kind

MERGE_PATCH = "application/merge-patch+json"


class ProxyKind(StrEnum):
    POD = "pods"
    SERVICE = "services"


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """What the API server shall forward to. ``port`` is a number, for services also a port's name."""

    kind: ProxyKind
    namespace: str
    name: str
    port: int | str


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """``path`` begins with a slash and is not encoded yet. At most ``limit_bytes`` of the answer are read."""

    path: str
    params: Mapping[str, str] | Sequence[tuple[str, str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: int = 16 * 1024 * 1024
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """The target's own answer, whatever its status. ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False  # the body was longer than ``limit_bytes``


class ApiServerObjects:
    """Implements ``ports.KubeObjects``, and ``proxy_get`` for the Ray adapter."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._served: dict[Kind, Resource] = {}

    async def get(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        resource = await self._resource(kind)
        answer = await self._transport.read_json(_call("get", resource, namespace, name))
        return None if answer is None else {"apiVersion": resource.api_version, "kind": resource.kind, **answer}

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """JSON merge patch. With ``metadata.resourceVersion`` in it, raises KubeConflict where the object changed."""
        resource = await self._resource(kind)
        call = _call("patch", resource, namespace, name)
        call = replace(call, method="PATCH", body=dict(patch), headers={"Content-Type": MERGE_PATCH})
        answer: Mapping[str, Any] | None = await self._transport.read_json(call)
        return answer

    async def secret_value(self, namespace: str, name: str, key: str) -> str | None:
        """None where there is no such Secret, no such key, or no right to read it (the right is opt-in)."""
        try:
            answer = await self._transport.read_json(_call("get", SECRETS, namespace, name))
        except KubeDenied:
            return None
        encoded = ((answer or {}).get("data") or {}).get(key)
        if not isinstance(encoded, str):
            return None
        try:
            return base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeError(f"the Secret {namespace}/{name} holds no text under {key}") from error

    async def namespace_phase(self, name: str) -> str | None:
        """``Active`` or ``Terminating``; None where there is no such namespace."""
        answer = await self._transport.read_json(_call("get", NAMESPACES, "", name))
        phase = ((answer or {}).get("status") or {}).get("phase")
        return phase if isinstance(phase, str) else None

    async def proxy_get(self, target: ProxyTarget, request: ProxyRequest) -> ProxyAnswer:
        """GET through ``pods/proxy`` or ``services/proxy``; pass ``Range`` in the request's headers.

        What the target itself says is an answer, whatever its status. KubeDenied where the proxy is forbidden,
        KubeGone where there is no such pod or service (any more), KubeUnavailable where the API server cannot reach
        the target or the answer does not come in time.
        """
        call = _proxy_call(target, request)
        async with self._transport.open(call, header_timeout_seconds=request.timeout_seconds) as response:
            body = await _read_body(call, response, request)
            headers = {name.lower(): value for name, value in response.headers.items()}
            if response.status >= 400 and is_status(body):
                raise error_of(call, 410 if response.status == 404 else response.status, status_message(body))
            is_cut = len(body) > request.limit_bytes
            return ProxyAnswer(response.status, headers, body[: request.limit_bytes], is_cut)

    async def _resource(self, kind: Kind) -> Resource:
        """The served version, asked for once; where there is none, the best one, whose 404 means "not found"."""
        if kind not in self._served:
            found = await find_resource(self._transport, kind)
            if found is None:
                return CANDIDATES[kind][0]
            self._served[kind] = found
        return self._served[kind]


def _call(verb: str, resource: Resource, namespace: str, name: str) -> Call:
    return Call(verb, resource.label, resource.path(namespace, name), namespace or None)


async def _read_body(call: Call, response: aiohttp.ClientResponse, request: ProxyRequest) -> bytes:
    """The body, or a little more than the limit of it."""
    body = bytearray()
    try:
        while len(body) <= request.limit_bytes:
            chunk = await next_chunk(call, response, silence_seconds=request.timeout_seconds)
            if not chunk:
                break
            body += chunk
    except TimeoutError as error:
        raise KubeUnavailable(f"cannot {call.intent}: the answer stopped in the middle") from error
    return bytes(body)


def _proxy_call(target: ProxyTarget, request: ProxyRequest) -> Call:
    resource = Resource("", "v1", target.kind.value, "")
    root = resource.path(target.namespace, f"{target.name}:{target.port}", "proxy").replace("%3A", ":")
    return Call(
        "get",
        f"{target.kind.value}/proxy",
        root + quote(request.path),
        target.namespace,
        params=request.params,
        headers=request.headers,
        is_proxied=True,
    )
