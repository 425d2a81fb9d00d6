"""HTTP as aiohttp speaks it, from the standard library: a request in, an answer out, one thread a connection."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

TEXT = "text/plain; charset=utf-8"


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # decoded
    query: dict[str, str]
    headers: Any  # case-insensitive
    body: bytes
    connection: socket.socket


Answerer = Callable[[Request], "Answer | None"]  # None: it has spoken on the connection itself
NOT_FOUND = Answer(404, b"404: Not Found")


def text(value: str, status: int = 200, content_type: str = TEXT) -> Answer:
    return Answer(status, value.encode(), content_type)


def document(value: Any, status: int = 200) -> Answer:
    return text(json.dumps(value), status, "application/json; charset=utf-8")


def serve(host: str, port: int, answerer: Answerer) -> ThreadingHTTPServer:
    """A listening server; its `serve_forever` is still to be called."""

    class Handler(_Handler):
        answer_of = staticmethod(answerer)

    return _Server((host, port), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is nobody's business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "Python/3.11 aiohttp/3.13", ""
    disable_nagle_algorithm = True
    answer_of: Answerer

    def _respond(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = dict(parse_qsl(parts.query))
        asked = Request(self.command, unquote(parts.path), query, self.headers, body, self.connection)
        answer = self.answer_of(asked)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_DELETE = _respond  # the names that http.server looks for

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: the container's output is what `ray start` says."""
