"""The dashboard of the head (8265): the Job API, the log API, and a state API that knows of one node and no tasks."""

from __future__ import annotations

import json
import time
from typing import Any

from ray_standin import websocket
from ray_standin.jobs import Job, Jobs
from ray_standin.session import VERSION, Session
from ray_standin.wire import NOT_FOUND, Answer, Request, document, text

KINDS = ("tasks", "actors", "workers", "nodes", "placement_groups", "objects", "runtime_envs")
MOST_ROWS = 10_000
MESSAGE_LINES, MESSAGE_CHARS, POLL_SECONDS = 10, 20_000, 0.3
TRACEBACK = "Traceback (most recent call last):\n"


class Dashboard:
    def __init__(self, session: Session, jobs: Jobs) -> None:
        self._session, self._jobs = session, jobs

    def answer(self, asked: Request) -> Answer | None:
        path = asked.path
        plain = self._plain(path)
        if plain is not None:
            return plain
        if path.rstrip("/") == "/api/jobs":
            return self._submit(asked) if asked.method == "POST" else document(self._jobs.records()[::-1])
        if path.startswith("/api/jobs/"):
            return self._of_job(asked, *path.removeprefix("/api/jobs/").partition("/")[::2])
        if path == "/api/v0/logs/file":
            return self._log_file(asked)
        if path.removeprefix("/api/v0/") in KINDS:
            return self._rows(path.removeprefix("/api/v0/"), int(asked.query.get("limit", 100)))
        return NOT_FOUND

    def _plain(self, path: str) -> Answer | None:
        if path == "/api/gcs_healthz":
            return text("success", 200, "application/text; charset=utf-8")
        if path == "/api/version":
            name = self._session.folder.name
            return document({"version": "4", "ray_version": VERSION, "ray_commit": "standin", "session_name": name})
        if path == "/api/authentication_mode":
            return document({"authentication_mode": "disabled"})
        if path == "/events":
            return document({"result": True, "msg": "All events fetched.", "data": {"events": {"global": []}}})
        if path == "/api/v0/logs":
            return _refused("Both node id and node ip are not provided. Please provide at least one of them.")
        return None

    def _submit(self, asked: Request) -> Answer:
        try:
            name = self._jobs.submit(json.loads(asked.body))
        except ValueError as error:
            return text(f"{TRACEBACK}ValueError: {error}\n.", 500)
        return document({"job_id": name, "submission_id": name})

    def _of_job(self, asked: Request, name: str, what: str) -> Answer | None:
        job = self._jobs.find(name)
        if job is None:
            return text(f"Job {name} does not exist", 404)
        if what == "logs":
            return self._log_text(name)
        if what == "logs/tail":
            self._tail(asked, job, name)
            return None
        if what == "stop":
            return document({"stopped": self._jobs.stop(job)})
        if asked.method == "DELETE":
            return self._delete(job, name)
        return document(dict(job.record))

    def _delete(self, job: Job, name: str) -> Answer:
        if not job.is_terminal:
            wrong = f"Attempted to delete job '{name}', but it is in a non-terminal state {job.record['status']}."
            return text(f"{TRACEBACK}RuntimeError: {wrong}\n.", 500)
        self._jobs.delete(name)
        return document({"deleted": True})

    def _log_text(self, name: str) -> Answer:
        try:
            return document({"logs": self._session.driver_log(name).read_bytes().decode()})
        except UnicodeDecodeError as error:
            return text(f"{TRACEBACK}UnicodeDecodeError: {error}\n.", 500)

    def _log_file(self, asked: Request) -> Answer:
        path = (self._session.logs / asked.query.get("filename", "")).resolve()
        if not path.is_relative_to(self._session.logs.resolve()) or not path.is_file():
            return text(f"A file is not found at: {path}", 500)
        lines = path.read_bytes().splitlines(keepends=True)
        most = int(asked.query.get("lines", 1000))
        return Answer(200, b"".join(lines if most < 0 else lines[-most:]), "text/plain")

    def _rows(self, kind: str, limit: int) -> Answer:
        if limit > MOST_ROWS:
            return _refused(
                f"Given limit {limit} exceeds the supported limit {MOST_ROWS}. Use a lower limit, or set the "
                "`RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger value."
            )
        rows = [self._node()] if kind == "nodes" else []
        counts = dict.fromkeys(("total", "num_after_truncation", "num_filtered"), len(rows))
        found = counts | {"result": rows, "partial_failure_warning": "", "warnings": None}
        return document({"result": True, "msg": "", "data": {"result": found}})

    def _node(self) -> dict[str, Any]:
        session = self._session
        return {
            "node_id": session.node_id,
            "node_ip": session.node_ip,
            "is_head_node": True,
            "state": "ALIVE",
            "state_message": None,
            "node_name": session.node_ip,
            "resources_total": {"CPU": 2.0, "node:__internal_head__": 1.0},
            "labels": {"ray.io/node-id": session.node_id},
            "start_time_ms": session.started_ms,
            "end_time_ms": 0,
        }

    def _tail(self, asked: Request, job: Job, name: str) -> None:
        """From the first byte; ten lines a message; a byte that is not UTF-8 ends it as if all were well, as in Ray."""
        websocket.accept(asked.connection, asked.headers.get("Sec-WebSocket-Key", ""))
        path, offset = self._session.driver_log(name), 0
        while True:
            was_over = job.is_terminal
            lines = _lines_from(path, offset)
            for first in range(0, len(lines), MESSAGE_LINES):
                data = b"".join(lines[first : first + MESSAGE_LINES])
                offset += len(data)
                try:
                    message = data.decode()
                except UnicodeDecodeError:
                    return websocket.send_close(asked.connection, websocket.NORMAL)
                for start in range(0, len(message), MESSAGE_CHARS):
                    websocket.send_text(asked.connection, message[start : start + MESSAGE_CHARS])
            if was_over and not lines:
                return websocket.send_close(asked.connection, websocket.NORMAL)
            time.sleep(0 if lines else POLL_SECONDS)


def _lines_from(path: Any, offset: int) -> list[bytes]:
    """What stands behind `offset`, at most a megabyte of it."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(offset)
        found: list[bytes] = file.read(1 << 20).splitlines(keepends=True)
    return found


def _refused(message: str) -> Answer:
    return document({"result": False, "msg": message, "data": {"result": None}}, 400)
