"""Watches: the stream of changes with its bookmarks, its silence and its 410."""

import asyncio
import json
from dataclasses import dataclass

from aiohttp import web

from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.faults import OpenStream
from archiver.sandbox.objects import ObjectTable, Stored, TableChange
from archiver.sandbox.resources import Resource
from archiver.sandbox.selectors import Predicate
from archiver.sandbox.signals import wait_for
from archiver.sandbox.status import ApiRefusal, bad_request
from archiver.sandbox.verbs import object_bytes, selector

_DEFAULT_TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class WatchOptions:
    resource: Resource
    namespace: str
    name: str
    matches: Predicate | None
    from_version: int | None  # None: begin with what exists
    bookmarks: bool
    initial_events: bool
    timeout_seconds: float

    def covers(self, stored: Stored) -> bool:
        return (
            (not self.namespace or stored.key[0] == self.namespace)
            and (not self.name or stored.key[1] == self.name)
            and (self.matches is None or self.matches(stored.object))
        )


async def answer(
    cluster: SandboxCluster, request: web.BaseRequest, resource: Resource, *, namespace: str, name: str
) -> web.StreamResponse:
    options = _options(request, resource, namespace, name)
    if cluster.refuses_old_watches and options.from_version is not None:
        cluster.table(resource).refuse_if_too_old(options.from_version)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    await response.prepare(request)
    stream = cluster.faults.open_stream("watch", request)
    try:
        await _Watch(cluster, options, response, stream).run()
        await response.write_eof()
    except ConnectionResetError:
        pass  # the client left or the stream was cut: there is nobody to tell
    finally:
        cluster.faults.streams.discard(stream)
    return response


def _options(request: web.BaseRequest, resource: Resource, namespace: str, name: str) -> WatchOptions:
    query = request.query
    version = query.get("resourceVersion", "")
    if version and not version.isdigit():
        raise bad_request(f'invalid resource version "{version}"')
    timeout = query.get("timeoutSeconds", "")
    return WatchOptions(
        resource=resource,
        namespace=namespace,
        name=name,
        matches=selector(request, resource),
        from_version=int(version) if version not in ("", "0") else None,
        bookmarks=query.get("allowWatchBookmarks") in ("1", "true", "True"),
        initial_events=query.get("sendInitialEvents") in ("1", "true", "True"),
        timeout_seconds=float(timeout) if timeout.isdigit() and timeout != "0" else _DEFAULT_TIMEOUT_SECONDS,
    )


class _Watch:
    """One open watch. ``_version`` is how far it has come in the history of its table."""

    def __init__(
        self, cluster: SandboxCluster, options: WatchOptions, response: web.StreamResponse, stream: OpenStream
    ) -> None:
        self._cluster = cluster
        self._table: ObjectTable = cluster.table(options.resource)
        self._options = options
        self._response = response
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._version = options.from_version or 0
        self._next_bookmark = self._loop.time() + cluster.bookmark_seconds

    async def run(self) -> None:
        deadline = self._loop.time() + self._options.timeout_seconds
        if not await self._begin():
            return
        while not self._stream.is_cut:
            ticket = self._table.signal.ticket()
            await self._cluster.faults.hold_while_paused()
            if not await self._send_changes() or self._loop.time() >= deadline:
                return
            await self._send_due_bookmark()
            until = min(deadline, self._next_bookmark if self._options.bookmarks else deadline)
            await wait_for(ticket, max(0.0, until - self._loop.time()))

    async def _begin(self) -> bool:
        """False where the version is too old to begin with: the API server says so inside the stream, after its 200."""
        if self._options.from_version is None or self._options.initial_events:
            await self._send_existing()
            return True
        try:
            self._table.refuse_if_too_old(self._options.from_version)
        except ApiRefusal as refusal:
            await self._write([_line("ERROR", json.dumps(refusal.document).encode())])
            return False
        return True

    async def _send_existing(self) -> None:
        self._version = self._cluster.version
        existing = [item for item in self._table.items() if self._options.covers(item)]
        await self._write([_line("ADDED", object_bytes(self._options.resource, item)) for item in existing])
        if self._options.initial_events:
            await self._write([self._bookmark({"k8s.io/initial-events-end": "true"})])

    async def _send_changes(self) -> bool:
        """False after the 410, which ends a watch."""
        seen_version = self._cluster.version
        try:
            changes = self._table.changes_after(self._version)
        except ApiRefusal as refusal:
            await self._write([_line("ERROR", json.dumps(refusal.document).encode())])
            return False
        lines = [line for change in changes if (line := self._line_of(change)) is not None]
        self._version = max(self._version, seen_version)
        await self._write(lines)
        return True

    def _line_of(self, change: TableChange) -> bytes | None:
        """An object that begins or ceases to match a selector looks created or deleted to its watcher."""
        is_in = self._options.covers(change.now) and change.type != "DELETED"
        was_in = change.before is not None and self._options.covers(change.before)
        if not is_in and not was_in:
            return None
        kind = ("MODIFIED" if was_in else "ADDED") if is_in else "DELETED"
        return _line(kind, object_bytes(self._options.resource, change.now))

    async def _send_due_bookmark(self) -> None:
        if self._options.bookmarks and self._loop.time() >= self._next_bookmark:
            self._next_bookmark = self._loop.time() + self._cluster.bookmark_seconds
            await self._write([self._bookmark({})])

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        resource = self._options.resource
        metadata = {"resourceVersion": str(self._version), "creationTimestamp": None}
        document = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if annotations:
            document["metadata"] = {**metadata, "annotations": annotations}
        return _line("BOOKMARK", json.dumps(document).encode())

    async def _write(self, lines: list[bytes]) -> None:
        for start in range(0, len(lines), 200):
            await self._response.write(b"".join(lines[start : start + 200]))


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"
