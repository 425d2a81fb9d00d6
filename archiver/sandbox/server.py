"""The sandbox as a server: one loopback port for the Kubernetes API, one address for each Ray pod.

``async with SandboxServer() as server:`` serves ``server.cluster``; recordings are played into it with ``play``.
"""

import asyncio
import secrets
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import yaml
from aiohttp import web

from archiver.sandbox import rayhttp
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.kubeapi import KubeApi
from archiver.sandbox.raynode import RayNode
from archiver.sandbox.recording import Recording, Truth
from archiver.sandbox.replay import Playback

_SHUTDOWN_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PlayedTruth:
    """What an archive of one playback has to hold."""

    recording: str
    namespace: str
    rayjob: str
    uid: str
    truth: Truth
    playback: Playback


class SandboxServer:
    """``speed``: how much faster than recorded, for every playback that does not say otherwise."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        speed: float = 1.0,
        cluster: SandboxCluster | None = None,
    ) -> None:
        self.cluster = cluster or SandboxCluster()
        self.host = host
        self.port = port
        self.token = secrets.token_hex(16)
        self._speed = speed
        self._runner: web.ServerRunner | None = None
        self._listeners: list[tuple[RayNode, list[web.ServerRunner]]] = []
        self._playbacks: list[Playback] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cluster.close()
        for _, runners in self._listeners:
            await _stop(runners)
        await self.stop()

    async def start(self) -> None:
        """Listens; after ``stop`` again on the same port, as an API server that was restarted."""
        api = KubeApi(self.cluster, token=self.token)
        server = web.Server(api.answer, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stops listening and cuts every connection; objects and logs stay."""
        self.cluster.cut_streams()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def kubeconfig(self) -> JsonObject:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": self.url}}],
            "users": [{"name": "sandbox", "user": {"token": self.token}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
            "current-context": "sandbox",
            "preferences": {},
        }

    def kubeconfig_text(self) -> str:
        return str(yaml.safe_dump(self.kubeconfig(), sort_keys=False))

    def play(
        self, recording: Recording, *, at: float = 0.0, name_suffix: str = "", speed: float | None = None
    ) -> Playback:
        """Begins to play a recording in ``at`` seconds."""
        playback = Playback(
            recording, self.cluster, speed=speed or self._speed, name_suffix=name_suffix, listen=self.listen
        )
        self._playbacks.append(playback)
        task = asyncio.create_task(playback.run(start_in_seconds=at), name=f"play {playback.rayjob}")
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return playback

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": f"{task.get_name()} failed", "exception": task.exception()})

    def truths(self) -> list[PlayedTruth]:
        """What was played so far and what is right to find of it."""
        return [PlayedTruth(p.recording.header.name, p.namespace, p.rayjob, p.uid, p.truth, p) for p in self._playbacks]

    async def listen(self, node: RayNode) -> bool:
        """Lets a Ray node answer at its own address until it dies.

        False where the machine has no such address (only Linux answers on all of 127.0.0.0/8): then only the API
        server's proxy leads to it.
        """
        runners: list[web.ServerRunner] = []
        try:
            for port in node.ports():
                runners.append(await _node_runner(node, port))
        except OSError:
            await _stop(runners)
            return False
        self._listeners.append((node, runners))
        task = asyncio.create_task(self._stop_when_dead(node, runners), name=f"listen {node.address}")
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return True

    async def _stop_when_dead(self, node: RayNode, runners: list[web.ServerRunner]) -> None:
        await node.refused.wait()
        await _stop(runners)


async def _node_runner(node: RayNode, port: int) -> web.ServerRunner:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await rayhttp.answer(node, request, port=port, path=request.rel_url.raw_path)
        except ConnectionRefusedError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)

    server = web.Server(handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, node.address, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


async def _stop(runners: list[web.ServerRunner]) -> None:
    while runners:
        await runners.pop().cleanup()
