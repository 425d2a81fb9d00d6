"""Reads what only a living Ray head knows: the job's record, log bytes by range, state rows. Writes nothing.

Facts (measured on Ray 2.46, 2.52, 2.60): the agent's ``/logs/<file>`` answers ``Range: bytes=N-`` with 206 and 416 when
N is at or beyond the end; the dashboard's ``/api/v0/logs/file`` needs ``lines=-1`` or it cuts; the state API serves one
big request at a time, so requests to one head are made one after another; values in runtime_env come in clear text.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode
from weakref import WeakValueDictionary

from archiver.errors import RayDenied, RayError, RayUnavailable
from archiver.ports import FileRange, HttpAnswer, RayHead
from archiver.ray.listing import parse_listing
from archiver.ray.routes import Routes

DASHBOARD_PORT = 8265
AGENT_PORT = 52365

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)")
_MAX_ROWS = 10_000  # the state API refuses more
_PLAIN_PATHS = {"jobs": "/api/jobs/", "events": "/events", "version": "/api/version"}
_ROW_KINDS = frozenset({"tasks", "actors", "workers", "nodes", "placement_groups"})
_BY_JOB = frozenset({"tasks", "actors"})


class RayClient:
    """Implements ``ports.RayNodes``. Timeouts are seconds for a whole answer."""

    def __init__(
        self,
        routes: Routes,
        *,
        timeout_seconds: float = 5.0,
        state_timeout_seconds: float = 20.0,
        dashboard_port: int = DASHBOARD_PORT,
        agent_port: int = AGENT_PORT,
    ) -> None:
        self._routes = routes
        self._timeout_seconds = timeout_seconds
        self._state_timeout_seconds = state_timeout_seconds
        self._dashboard_port = dashboard_port
        self._agent_port = agent_port
        self._state_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def job(self, head: RayHead, submission_id: str) -> Mapping[str, Any] | None:
        answer = await self._dashboard(head, f"/api/jobs/{quote(submission_id, safe='')}", self._timeout_seconds)
        return None if answer.status == 404 else _json_object(answer)

    async def read_log(
        self, head: RayHead, path: str, *, start: int, length: int, node_ip: str | None = None
    ) -> FileRange | None:
        try:
            return await self._read_from_agent(head, path, start, length, node_ip)
        except RayUnavailable:
            return await self._read_from_dashboard(head, path, start, length, node_ip)

    async def list_logs(self, head: RayHead, *, node_ip: str | None = None) -> Mapping[str, int | None] | None:
        try:
            return await self._list_from_agent(head, node_ip)
        except RayUnavailable:
            return await self._list_from_dashboard(head, node_ip)

    async def _list_from_agent(self, head: RayHead, node_ip: str | None) -> Mapping[str, int | None] | None:
        names: dict[str, int | None] = {}
        folders = [""]
        while folders:
            page = await self._agent(head, f"/logs/{quote(folders.pop())}", node_ip)
            if page.status == 404:
                return names or None
            _raise_for_status(page)
            listing = parse_listing(page.body)
            names |= dict.fromkeys(listing.files)
            folders += [folder for folder in listing.folders if folder.count("/") == 1]
        return names

    async def state(
        self, head: RayHead, what: str, *, job_id: str | None = None, only_failed: bool = False
    ) -> Mapping[str, Any] | None:
        lock = self._state_locks.setdefault(head.pod_uid, asyncio.Lock())
        async with lock:
            answer = await self._dashboard(head, _state_path(what, job_id, only_failed), self._state_timeout_seconds)
        if answer.status in (404, 501):
            return None
        body = _json_object(answer)
        return _unwrapped(body) if what in _ROW_KINDS else body

    async def _dashboard(self, head: RayHead, path: str, timeout_seconds: float) -> HttpAnswer:
        return await self._routes.get(head, self._dashboard_port, path, timeout_seconds=timeout_seconds)

    async def _agent(
        self, head: RayHead, path: str, node_ip: str | None, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        return await self._routes.get(
            head, self._agent_port, path, timeout_seconds=self._timeout_seconds, headers=headers, node_ip=node_ip
        )

    async def _read_from_agent(
        self, head: RayHead, path: str, start: int, length: int, node_ip: str | None
    ) -> FileRange | None:
        headers = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        answer = await self._agent(head, f"/logs/{quote(path)}", node_ip, headers)
        if answer.status == 404:
            return None
        if answer.status == 200:  # an empty file, or a proxy that drops Range
            return FileRange(start, answer.body[start : start + length], len(answer.body))
        ranged = _CONTENT_RANGE.match(answer.headers.get("content-range", ""))
        if answer.status in (206, 416) and ranged:
            return FileRange(start, answer.body if answer.status == 206 else b"", int(ranged.group(2)))
        _raise_for_status(answer)
        raise RayError(f"the agent answered {answer.status} without a range to {path}")

    async def _list_from_dashboard(self, head: RayHead, node_ip: str | None) -> Mapping[str, int | None] | None:
        """The head asks the node's agent in its own network. By class; the classes are of no matter here."""
        query = urlencode({**await self._node_of(head, node_ip), "glob": "**/*"})
        answer = _json_object(await self._dashboard(head, f"/api/v0/logs?{query}", self._state_timeout_seconds))
        classes = _unwrapped(answer)
        names = [name for files in classes.values() if isinstance(files, list) for name in files]
        return {str(name): None for name in names if str(name).count("/") <= 1} or None

    async def _node_of(self, head: RayHead, node_ip: str | None) -> dict[str, str]:
        """How the dashboard is told which node is meant."""
        return {"node_ip": node_ip} if node_ip else {"node_id": await self._head_node_id(head)}

    async def _read_from_dashboard(
        self, head: RayHead, path: str, start: int, length: int, node_ip: str | None
    ) -> FileRange | None:
        node = await self._node_of(head, node_ip)
        query = urlencode({**node, "filename": path, "lines": -1, "timeout": 30})
        answer = await self._dashboard(head, f"/api/v0/logs/file?{query}", self._state_timeout_seconds)
        if answer.status == 500 and b"not found" in answer.body:
            return None
        _raise_for_status(answer)
        if start and not answer.body:
            # Ray 2.60 in a head's first seconds (seen once): what had bytes before is not empty now
            raise RayUnavailable(f"the dashboard gave nothing of {path}")
        return FileRange(start, answer.body[start : start + length], len(answer.body))

    async def _head_node_id(self, head: RayHead) -> str:
        nodes = await self.state(head, "nodes") or {}
        for node in nodes.get("result", []):
            if isinstance(node, dict) and node.get("is_head_node") and node.get("state") == "ALIVE":
                return str(node.get("node_id"))
        raise RayUnavailable(f"the dashboard of {head.ray_cluster} names no living head node")


def _state_path(what: str, job_id: str | None, only_failed: bool) -> str:
    if what in _PLAIN_PATHS:
        return _PLAIN_PATHS[what]
    if what not in _ROW_KINDS:
        raise RayError(f"there is no state called {what}")
    filters = [("job_id", job_id)] if job_id and what in _BY_JOB else []
    filters += [("state", "FAILED" if what == "tasks" else "DEAD")] if only_failed else []
    query: list[tuple[str, str]] = [("detail", "1"), ("limit", str(_MAX_ROWS))]
    for key, value in filters:
        query += [("filter_keys", key), ("filter_predicates", "="), ("filter_values", str(value))]
    return f"/api/v0/{what}?{urlencode(query)}"


# Ray's own answers are nested less than ten deep
_DEPTH = 100


def _json_object(answer: HttpAnswer) -> Mapping[str, Any]:
    _raise_for_status(answer)
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise RayError(f"not JSON: {answer.body[:80]!r}") from error
    if _is_too_deep(body):
        raise RayError(f"JSON nested more than {_DEPTH} deep: {answer.body[:80]!r}")
    return body if isinstance(body, dict) else {"result": body}


def _is_too_deep(body: object) -> bool:
    """Level by level: what a hostile head nests must not end in a RecursionError of those that read it."""
    level = [body] if isinstance(body, (dict, list)) else []
    for _ in range(_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _unwrapped(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state API's inner ``{"result": rows, "total": n, …}`` out of its two wrappers."""
    if body.get("result") is False:
        raise RayError(f"the state API refused: {body.get('msg')}")
    data = body.get("data")
    inner = data.get("result") if isinstance(data, dict) else None
    return inner if isinstance(inner, dict) else {"result": inner or []}


def _raise_for_status(answer: HttpAnswer) -> None:
    if answer.status in (401, 403):
        raise RayDenied(f"Ray refuses ({answer.status}): {answer.body[:120].decode('utf-8', 'replace')}")
    if answer.status >= 500:
        raise RayUnavailable(f"Ray answered {answer.status}: {answer.body[:120].decode('utf-8', 'replace')}")
    if answer.status >= 400:
        raise RayError(f"Ray answered {answer.status}: {answer.body[:120].decode('utf-8', 'replace')}")
