"""An API server as contract tests see it: plain HTTP, whichever it is. Tests work in namespaces of their own.

They run nothing there: their pods fit no node, their Jobs are suspended.
"""

from dataclasses import dataclass, field
from typing import Any

import aiohttp

from archiver.kube.access import Access
from archiver.sandbox.server import SandboxServer


@dataclass
class ApiServer:
    """Base URL, headers and plain HTTP writes: what a contract test needs of an API server, whichever it is."""

    access: Access
    namespace: str
    bookmark_seconds: float
    sandbox: SandboxServer | None = None
    _session: aiohttp.ClientSession = field(init=False, repr=False)

    async def open(self) -> None:
        self._session = aiohttp.ClientSession()
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    async def close(self) -> None:
        if self.sandbox is None:
            await self.send("DELETE", f"/api/v1/namespaces/{self.namespace}")
        await self._session.close()

    async def create(self, document: dict[str, Any]) -> dict[str, Any]:
        return await self.send("POST", self._path(document), document)

    async def patch(self, document: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
        return await self.send("PATCH", f"{self._path(document)}/{document['metadata']['name']}", change)

    async def delete(self, document: dict[str, Any]) -> None:
        path = f"{self._path(document)}/{document['metadata']['name']}"
        await self.send("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    async def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        who = await self.access.credentials()
        headers = {"Authorization": who.authorization} if who.authorization else {}
        headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(
            method, who.base_url + path, json=body, headers=headers, ssl=who.tls or True
        ) as response:
            document: dict[str, Any] = await response.json()
            assert response.status < 300, document
            return document

    def _path(self, document: dict[str, Any]) -> str:
        group, _, version = document["apiVersion"].rpartition("/")
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{prefix}/namespaces/{self.namespace}/{document['kind'].lower()}s"
