"""A Ray head's dashboard (port 8265): Job API, log API and state API over what was recorded. Nothing is computed
but filters and limits."""

import fnmatch
import json
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.raynode import Canned, RayNode

_MAX_ROWS = 10_000
_STATE_PREFIX = "/api/v0/"
_STATE_KINDS = ("tasks", "actors", "workers", "nodes", "placement_groups", "objects", "runtime_envs", "jobs")


async def answer(node: RayNode, request: web.BaseRequest, path: str) -> web.StreamResponse:
    if path == "/api/gcs_healthz":
        return web.Response(text="success", content_type="application/text")
    if path == "/api/authentication_mode":
        return web.json_response({"authentication_mode": "token" if node.token else "disabled"})
    if path.rstrip("/") == "/api/jobs":
        return web.json_response(list(node.jobs.values()))
    if path.startswith("/api/jobs/"):
        return _job_answer(node, unquote(path.removeprefix("/api/jobs/")))
    if path == "/api/v0/logs":
        return _log_list(node, request)
    if path == "/api/v0/logs/file":
        return _log_file(node, request)
    if path.removeprefix(_STATE_PREFIX) in _STATE_KINDS:
        return _state_answer(node, request, path)
    canned = node.canned.get(path)
    return _canned_answer(canned) if canned else web.Response(status=404, text="404: Not Found")


def _canned_answer(canned: Canned) -> web.Response:
    text = canned.body if isinstance(canned.body, str) else json.dumps(canned.body)
    return web.Response(status=canned.status, text=text, content_type=canned.content_type)


def _job_answer(node: RayNode, rest: str) -> web.Response:
    name, _, what = rest.partition("/")
    record = node.jobs.get(name) or next((job for job in node.jobs.values() if job.get("job_id") == name), None)
    if record is None:
        return web.Response(status=404, text=f"Job {name} does not exist")
    if not what:
        return web.json_response(record)
    if what != "logs":
        return web.Response(status=404, text="404: Not Found")
    file = node.files.get(f"job-driver-{record['submission_id']}.log")
    try:
        text = bytes(file.data).decode() if file else ""
    except UnicodeDecodeError as error:
        # what Ray does for good once its file has one bad byte
        return web.Response(status=500, text=f"Traceback (most recent call last):\nUnicodeDecodeError: {error}\n")
    return web.json_response({"logs": text})


def _log_list(node: RayNode, request: web.BaseRequest) -> web.Response:
    """By class, as the state API's log listing; ``*`` does not descend into folders."""
    if "node_id" not in request.query and "node_ip" not in request.query:
        text = "Both node id and node ip are not provided. At least one of them is required."
        return web.json_response({"result": False, "msg": text, "data": {}}, status=400)
    glob = request.query.get("glob", "*")
    deep = "**/" in glob
    names = [
        name
        for name in sorted(node.files)
        if (deep or name.count("/") == glob.count("/")) and fnmatch.fnmatch(name, glob.replace("**/", ""))
    ]
    return web.json_response({"result": True, "msg": "", "data": {"result": _by_class(names)}})


def _by_class(names: list[str]) -> dict[str, list[str]]:
    classes: dict[str, list[str]] = {}
    for name in names:
        classes.setdefault(_class_of(name), []).append(name)
    return classes


def _class_of(name: str) -> str:
    for start, label in (
        ("job-driver-", "driver"),
        ("python-core-driver", "core_driver"),
        ("python-core-worker", "core_worker"),
        ("gcs_server", "gcs_server"),
        ("raylet", "raylet"),
        ("runtime_env", "runtime_env"),
        ("dashboard_agent", "agent"),
        ("dashboard", "dashboard"),
        ("monitor", "autoscaler"),
    ):
        if name.startswith(start):
            return label
    if name.startswith("worker-"):
        return "worker_err" if name.endswith(".err") else "worker_out"
    return "internal"


def _log_file(node: RayNode, request: web.BaseRequest) -> web.Response:
    query = request.query
    if not query.get("node_id") and not query.get("node_ip"):
        return web.Response(status=500, text="Both node id and node ip are not provided.")
    name = query.get("filename") or f"job-driver-{query.get('submission_id', '')}.log"
    file = node.files.get(name)
    if file is None:
        return web.Response(status=500, text=f"A file is not found at: {name}")
    lines = int(query.get("lines", "1000"))
    data = bytes(file.data)
    if lines >= 0:
        data = b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
    return web.Response(body=data, content_type="text/plain")


def _state_answer(node: RayNode, request: web.BaseRequest, path: str) -> web.Response:
    """Rows of one kind: filters first, then the limit, as Ray does."""
    limit = int(request.query.get("limit", "100"))
    if limit > _MAX_ROWS:
        msg = f"Given limit {limit} exceeds the supported limit {_MAX_ROWS}. Use a lower limit."
        return web.json_response({"result": False, "msg": msg, "data": None}, status=400)
    canned = node.canned.get(path)
    if canned is not None and canned.status != 200:
        return _canned_answer(canned)
    recorded: JsonObject = canned.body["data"]["result"] if canned else {"total": 0, "result": []}
    rows = [row for row in recorded["result"] if _passes(row, request)]
    result: JsonObject = {
        **recorded,
        "total": max(int(recorded.get("total", 0)), len(recorded["result"])),
        "num_after_truncation": min(limit, len(rows)),
        "num_filtered": len(rows),
        "result": rows[:limit],
    }
    return web.json_response({"result": True, "msg": "", "data": {"result": result}})


def _passes(row: dict[str, Any], request: web.BaseRequest) -> bool:
    keys = request.query.getall("filter_keys", [])
    predicates = request.query.getall("filter_predicates", [])
    values = request.query.getall("filter_values", [])
    return all(
        (str(row.get(key)).lower() == value.lower()) == (predicate == "=")
        for key, predicate, value in zip(keys, predicates, values, strict=False)
    )
