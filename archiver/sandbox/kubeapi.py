"""The Kubernetes API over HTTP: who may ask, what the path means, which verb answers. The verbs live elsewhere."""

import hmac
from dataclasses import dataclass

from aiohttp import web

from archiver.sandbox import discovery, podlogs, proxy, review, verbs, watching
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.resources import Resource
from archiver.sandbox.status import (
    ApiRefusal,
    forbidden,
    injected,
    method_not_allowed,
    no_such_resource,
    unauthorized,
)

USER = "system:serviceaccount:rayjob-archiver:sandbox"
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")


@dataclass(frozen=True, slots=True)
class Target:
    """A request's path, understood."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    rest: str


class KubeApi:
    """Answers the requests of one sandbox cluster."""

    def __init__(self, cluster: SandboxCluster, *, token: str) -> None:
        self._cluster = cluster
        self._token = token

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiRefusal as refusal:
            return verbs.json_response(refusal.document, status=refusal.code)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        await self._cluster.faults.hold_while_paused()
        failure = self._cluster.faults.due_failure(request.path_qs)
        if failure is not None:
            raise injected(failure)
        if request.path in _OPEN_PATHS:
            return discovery.open_path(request.path)
        self._authenticate(request)
        document = discovery.document(self._cluster.catalogue, request.path)
        if document is not None:
            return verbs.json_response(document)
        if request.path.rstrip("/") == review.PATH:
            return await review.answer(self._cluster, request)
        target = self._target(request.raw_path.partition("?")[0])
        if target is None:
            return web.Response(status=404, text="404 page not found\n")
        return await self._dispatch(request, target)

    def _authenticate(self, request: web.BaseRequest) -> None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise unauthorized()

    def _target(self, path: str) -> Target | None:
        """None where no such group version is served at all, which is not even a Status document."""
        parts = [part for part in path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        resource = self._cluster.catalogue.find(group, version, rest[0])
        if resource is None:
            if group and not self._is_built_in(group, version):
                return None
            raise no_such_resource()
        rest = [*rest, "", ""]
        return Target(resource, namespace, rest[1], rest[2], "/".join(part for part in rest[3:] if part))

    def _is_built_in(self, group: str, version: str) -> bool:
        return "." not in group and self._cluster.catalogue.has_version(group, version)

    async def _dispatch(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        verb = _verb(request, target)
        if self._cluster.faults.is_denied(verb, target.resource, target.subresource, target.namespace):
            raise forbidden(
                USER,
                verb,
                target.resource,
                subresource=target.subresource,
                namespace=target.namespace,
                name=target.name,
            )
        if target.subresource == "proxy":
            return await proxy.answer(self._cluster, request, target.resource, target.namespace, target.name)
        if target.subresource == "log" and target.resource.plural == "pods" and verb == "get":
            return await podlogs.answer(self._cluster, request, target.namespace, target.name)
        if target.subresource not in ("", "status"):
            raise no_such_resource()
        if verb == "watch":
            return await watching.answer(
                self._cluster, request, target.resource, namespace=target.namespace, name=target.name
            )
        scope = verbs.Scope(target.resource, target.namespace, target.name, target.subresource)
        return await _VERBS[verb](self._cluster, request, scope)


def _verb(request: web.BaseRequest, target: Target) -> str:
    if request.method == "GET":
        if request.query.get("watch") in ("1", "true", "True"):
            return "watch"
        return "get" if target.name else "list"
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(request.method)
    if target.subresource == "proxy":
        return "get" if request.method in ("GET", "HEAD") else (verb or "get")
    if verb is None or (verb == "create") == bool(target.name):
        raise method_not_allowed()
    return verb


_VERBS = {
    "get": verbs.get,
    "list": verbs.list_objects,
    "create": verbs.create,
    "update": verbs.update,
    "patch": verbs.patch,
    "delete": verbs.delete,
}
