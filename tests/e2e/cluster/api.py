"""A few calls to a Kubernetes API server over the standard library: enough to install and to wait."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from tests.e2e.cluster.errors import ClusterError

MANAGER = "rayjob-archiver-cluster"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
Document = dict[str, Any]


class Api:
    """One API server and one token. A connection a call: the server may be restarted at any time."""

    def __init__(self, server: str, token: str, *, authority: str | None = None) -> None:
        self._address = urlsplit(server)
        self._token = token
        self._context = ssl.create_default_context(cadata=authority)
        if authority is None:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> tuple[int, Any]:
        """Status and parsed answer; a string is sent as it is. OSError or HTTPException: the server cannot be reached."""
        port = self._address.port or 443
        connection = http.client.HTTPSConnection(str(self._address.hostname), port, timeout=30, context=self._context)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, path, text and text.encode(), headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(content) if content else None
        except json.JSONDecodeError:
            return answer.status, content.decode(errors="replace")

    def get(self, path: str) -> Document | None:
        """The object at `path`; None if there is none."""
        status, answer = self.call("GET", path)
        if status == 404:
            return None
        return self._good("GET", path, status, answer)

    def patch(self, path: str, body: object, *, kind: str = MERGE) -> Document:
        return self._good("PATCH", path, *self.call("PATCH", path, body, kind=kind))

    def delete(self, path: str) -> None:
        """Delete in the background; what is not there is deleted."""
        status, answer = self.call("DELETE", path, {"propagationPolicy": "Background"})
        if status != 404:
            self._good("DELETE", path, status, answer)

    def create(self, path: str, text: str) -> Document:
        """One object from its YAML: far cheaper than apply for a large one that is not there yet."""
        return self._good("POST", path, *self.call("POST", path, text, kind="application/yaml"))

    def apply(self, document: Document) -> Document:
        """Server-side apply, taking over fields of others."""
        path = self.path(document) + "?" + urlencode({"fieldManager": MANAGER, "force": "true"})
        return self.patch(path, document, kind=APPLY)

    def apply_file(self, path: Path) -> list[Document]:
        return [self.apply(document) for document in yaml.safe_load_all(path.read_text()) if document]

    def path(self, document: Document) -> str:
        """The URL path of an object by its kind, as the server's discovery has it."""
        version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
        plural, is_namespaced = self._resource(version, kind)
        base = ("/api/" if "/" not in version else "/apis/") + version
        middle = f"/namespaces/{metadata.get('namespace', 'default')}" if is_namespaced else ""
        return f"{base}{middle}/{plural}/{metadata['name']}"

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._resources:
            found = self.get(("/api/" if "/" not in version else "/apis/") + version) or {}
            for resource in found.get("resources", []):
                if "/" not in resource["name"]:
                    self._resources[version, resource["kind"]] = (resource["name"], resource["namespaced"])
        if (version, kind) not in self._resources:
            raise ClusterError(f"the API server knows no {kind} in {version}")
        return self._resources[version, kind]

    @staticmethod
    def _good(method: str, path: str, status: int, answer: Any) -> Document:
        if status >= 300:
            message = answer.get("message", answer) if isinstance(answer, dict) else answer
            raise ClusterError(f"{method} {path} was answered with {status}: {message}")
        good: Document = answer
        return good


def until(what: str, holds: Callable[[], object], *, seconds: float, poll_seconds: float = 0.1) -> None:
    """Wait until `holds` is true; a server that does not answer yet is a no. ClusterError names `what` when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
            reason = ""
        except (OSError, http.client.HTTPException, ClusterError) as error:
            reason = f" ({error})"
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:.0f} s{reason}")
        time.sleep(poll_seconds)
