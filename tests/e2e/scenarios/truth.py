"""What the drivers really wrote: a pod on the node serves the folder outside the RayJobs' pods."""

from __future__ import annotations

import re
from typing import Any

from tests.e2e.scenarios.kube import Document, Kube, until
from tests.e2e.scenarios.rayjob import TRUTH_FOLDER

PORT = 8000
LINK = re.compile(r'href="([^"/]+)"')
SETTING_UP = re.compile(rb"\A[^\n]*Runtime env is setting up[^\n]*\n")
# written once the shell runs: what a quick driver has printed by then stands before it, even in its line
RUNNING = re.compile(rb"Running entrypoint for job [^\n]*\n")


class Truth:
    """Files of all RayJobs of the run, by namespace and head pod."""

    def __init__(self, kube: Kube, namespace: str, image: str) -> None:
        self._kube, self._namespace, self._image = kube, namespace, image

    async def start(self) -> None:
        await self._kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}})
        await until("the namespace has no account yet", self._has_account, seconds=60)
        await self._kube.apply(self._pod())
        await until("the truth is not served", self._is_running, seconds=120)

    async def of_cluster(self, namespace: str, ray_cluster: str) -> bytes | None:
        """What the driver of this RayCluster wrote; None where none ever ran."""
        try:
            names = LINK.findall((await self._read(f"/{namespace}/")).decode())
        except LookupError:
            return None
        own = [name for name in names if name.startswith(f"{ray_cluster}-head")]
        return await self._read(f"/{namespace}/{own[0]}") if own else None

    async def has_printed(self, namespace: str, text: str) -> bool:
        """Whether any driver of this namespace has printed `text` so far."""
        try:
            names = LINK.findall((await self._read(f"/{namespace}/")).decode())
        except LookupError:
            return False
        return any([text.encode() in await self._read(f"/{namespace}/{name}") for name in names])

    async def _read(self, path: str) -> bytes:
        return await self._kube.proxied(f"pods/truth:{PORT}", self._namespace, path)

    async def _has_account(self) -> Any:
        return await self._kube.get("ServiceAccount", self._namespace, "default")

    async def _is_running(self) -> bool:
        return bool(await self._read("/") or True)

    def _pod(self) -> Document:
        container = {
            "name": "truth",
            "image": self._image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-m", "http.server", str(PORT), "--directory", "/truth"],
            "volumeMounts": [{"name": "truth", "mountPath": "/truth", "readOnly": True}],
        }
        volume = {"name": "truth", "hostPath": {"path": TRUTH_FOLDER, "type": "DirectoryOrCreate"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "truth", "namespace": self._namespace},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], "volumes": [volume]},
        }


def without_rays_lines(archived: bytes) -> bytes:
    """Ray writes two lines of its own among the first that the driver prints; the file outside has only the driver's."""
    return RUNNING.sub(b"", SETTING_UP.sub(b"", archived, count=1), count=1)
