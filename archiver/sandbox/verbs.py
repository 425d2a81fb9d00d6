"""get, list, create, update, patch and delete over HTTP. Watching has a file of its own."""

import base64
import binascii
import json
from bisect import bisect_right
from dataclasses import dataclass

from aiohttp import web

from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.eventviews import from_view, to_view
from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.objects import Key, ObjectTable, Stored, merge_patched
from archiver.sandbox.resources import Resource
from archiver.sandbox.selectors import Predicate, parse_field_selector, parse_label_selector
from archiver.sandbox.status import (
    ApiRefusal,
    bad_request,
    expired,
    method_not_allowed,
    not_found,
    unsupported_media,
)

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a request is about."""

    resource: Resource
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def json_response(document: JsonView, *, status: int = 200) -> web.Response:
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    return web.Response(status=status, body=body, content_type="application/json")


def object_bytes(resource: Resource, stored: Stored) -> bytes:
    """One whole object as this resource shows it."""
    if resource.group == "events.k8s.io":
        return json.dumps(to_view(stored.object), separators=(",", ":"), ensure_ascii=False).encode()
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + stored.tail()


def selector(request: web.BaseRequest, resource: Resource) -> Predicate | None:
    """None where everything is asked for."""
    label_text, field_text = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    if not label_text and not field_text:
        return None
    labels, fields = parse_label_selector(label_text), parse_field_selector(field_text, resource)
    return lambda item: labels(item) and fields(item)


async def get(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> web.Response:
    stored = _existing(cluster.table(scope.resource), scope)
    return _object_response(scope.resource, stored)


def _existing(table: ObjectTable, scope: Scope) -> Stored:
    stored = table.get(scope.key)
    if stored is None:
        raise not_found(scope.resource, scope.name)
    return stored


def _object_response(resource: Resource, stored: Stored, *, status: int = 200) -> web.Response:
    body = object_bytes(resource, stored) + b"\n"
    return web.Response(status=status, body=body, content_type="application/json")


async def list_objects(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> web.Response:
    matches = selector(request, scope.resource)
    version, items = _list_source(cluster, request, scope)
    if matches is not None:
        items = [item for item in items if matches(item.object)]
    limit = _whole_number(request, "limit")
    metadata: JsonObject = {"resourceVersion": str(version)}
    if limit and len(items) > limit:
        cluster.list_snapshots.keep(version, scope.resource, items)
        metadata["continue"] = _continue_token(version, items[limit - 1].key)
        if matches is None:
            metadata["remainingItemCount"] = len(items) - limit
        items = items[:limit]
    return web.Response(body=_list_bytes(scope.resource, metadata, items), content_type="application/json")


def _list_source(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> tuple[int, list[Stored]]:
    """Version and objects: of now, or the rest of those of the moment that a continue token remembers."""
    token = request.query.get("continue", "")
    if not token:
        _refuse_future(cluster, request)
        return cluster.version, cluster.table(scope.resource).items(scope.namespace)
    version, key = _parsed_continue(token)
    items = cluster.list_snapshots.find(version, scope.resource)
    if items is None:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new "
            "list without the continue parameter, or use the continue token in this response to retrieve the "
            "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
            "that were created, modified, or deleted between the time the first chunk was returned and now may show "
            "up in the list."
        )
    return version, items[bisect_right(items, key, key=lambda item: item.key) :]


def _refuse_future(cluster: SandboxCluster, request: web.BaseRequest) -> None:
    text = request.query.get("resourceVersion", "")
    if text and not text.isdigit():
        raise bad_request(f'invalid resource version "{text}"')
    if text and int(text) > cluster.version:
        details = {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }
        message = f"Too large resource version: {text}, current: {cluster.version}"
        raise ApiRefusal(504, "Timeout", message, details=details)


def _continue_token(version: int, key: Key) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": version, "start": f"{key[0]}/{key[1]}\u0000"}
    return base64.urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode().rstrip("=")


def _parsed_continue(token: str) -> tuple[int, Key]:
    try:
        document = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = str(document["start"]).rstrip("\u0000").partition("/")
        return int(document["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise bad_request(f"continue key is not valid: {error}") from error


def _whole_number(request: web.BaseRequest, name: str) -> int:
    text = request.query.get(name, "0")
    if not text.isdigit():
        raise bad_request(f'{name}: invalid value "{text}": must be a whole number')
    return int(text)


def _list_bytes(resource: Resource, metadata: JsonObject, items: list[Stored]) -> bytes:
    """Typed lists leave apiVersion and kind out of their items; lists of custom objects do not."""
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
    if resource.typed and resource.group != "events.k8s.io":
        bodies = [b"{" + item.tail() for item in items]
    else:
        bodies = [object_bytes(resource, item) for item in items]
    return json.dumps(head)[:-1].encode() + b',"items":[' + b",".join(bodies) + b"]}\n"


async def create(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> web.Response:
    document = from_view(await _body_object(request), scope.resource)
    metadata = document.setdefault("metadata", {})
    if scope.resource.namespaced:
        if metadata.setdefault("namespace", scope.namespace) != scope.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        cluster.require_namespace(scope.namespace)
    metadata.pop("resourceVersion", None)
    metadata.pop("uid", None)
    return _object_response(scope.resource, cluster.table(scope.resource).create(document), status=201)


async def _body_object(request: web.BaseRequest) -> JsonObject:
    try:
        document = json.loads(await request.read())
    except ValueError as error:
        raise bad_request(f"json parse error: {error}") from error
    if not isinstance(document, dict):
        raise bad_request("couldn't get version/kind; json parse error: the body is not an object")
    return document


async def update(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> web.Response:
    document = from_view(await _body_object(request), scope.resource)
    table = cluster.table(scope.resource)
    before = _existing(table, scope)
    expected = document.get("metadata", {}).get("resourceVersion")
    stored = table.replace(scope.key, _written_part(scope, before, document), expected_version=expected)
    return _object_response(scope.resource, stored)


def _written_part(scope: Scope, before: Stored, document: JsonObject) -> JsonObject:
    """A status write changes only the status; any other write leaves it alone, where there is a subresource."""
    if scope.subresource == "status":
        return {**before.object, "status": document.get("status")}
    if scope.resource.has_status and "status" in before.object:
        return {**document, "status": before.object["status"]}
    return document


async def patch(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> web.Response:
    accepted = [_MERGE_PATCH, _STRATEGIC_PATCH] if scope.resource.typed else [_MERGE_PATCH]
    if request.content_type not in accepted:
        raise unsupported_media(accepted)
    change = await _body_object(request)
    table = cluster.table(scope.resource)
    before = _existing(table, scope)
    document = _written_part(scope, before, merge_patched(before.object, change))
    expected = change.get("metadata", {}).get("resourceVersion")
    return _object_response(scope.resource, table.replace(scope.key, document, expected_version=expected))


async def delete(cluster: SandboxCluster, request: web.BaseRequest, scope: Scope) -> web.Response:
    if not scope.name:
        raise method_not_allowed()
    options = await _body_object(request) if request.can_read_body else {}
    asked = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
    before = _existing(cluster.table(scope.resource), scope)
    grace = None if asked is None else int(asked)
    stored = cluster.delete_as_user(scope.resource, scope.key, grace_seconds=grace)
    if cluster.table(scope.resource).get(scope.key) is not None or scope.resource.plural == "pods":
        return _object_response(scope.resource, stored)
    details = {"name": scope.name, "kind": scope.resource.plural, "uid": before.object["metadata"]["uid"]}
    if scope.resource.group:
        details["group"] = scope.resource.group
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return json_response(success)
