"""The real watcher on a sandbox cluster, for tests: started, stopped and killed; and what it has archived."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from archiver.core import keys
from archiver.core.lines import arrived
from archiver.core.manifest import Manifest, ManifestState, from_json
from archiver.core.model import Artifact
from archiver.core.redact import Redactor
from archiver.kube.access import PlainAccess
from archiver.ports import ObjectStore
from archiver.runtime import Archive, WatcherStatus, open_archive, watch
from archiver.sandbox import SandboxServer
from archiver.settings import Settings
from archiver.store.codec import ZstdCodec
from archiver.store.reader import LogReader
from archiver.telemetry import Metrics

CLUSTER = "sandbox"
DEADLINE_SECONDS = 100.0
T = TypeVar("T")


async def until(look: Callable[[], Awaitable[T | None]], *, seconds: float = DEADLINE_SECONDS) -> T:
    """Looks again and again until there is something."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):  # noqa: ASYNC110 - what it waits for is files and servers
            await asyncio.sleep(0.2)
    return found


async def until_true(claim: Callable[[], object], *, seconds: float = DEADLINE_SECONDS) -> None:
    """The same for a plain condition."""
    async with asyncio.timeout(seconds):
        while not claim():  # noqa: ASYNC110 - what it waits for is files and servers
            await asyncio.sleep(0.02)


@dataclass(slots=True)
class Rig:
    """A sandbox, an archive, and a watcher that may be started and stopped."""

    server: SandboxServer
    settings: Settings
    archive: Archive
    status: WatcherStatus = field(default_factory=lambda: WatcherStatus(Metrics()))
    task: asyncio.Task[None] | None = None

    @property
    def store(self) -> ObjectStore:
        return self.archive.store

    async def start(self) -> None:
        """A watcher; returns when the RayJobs are listed."""
        self.begin()
        await until_true(lambda: self.status.is_watching.is_set() or (self.task and self.task.done()))
        if self.task and self.task.done():
            await self.task

    def begin(self) -> None:
        """A watcher, without waiting for it."""
        self.status = WatcherStatus(Metrics())
        access = PlainAccess(self.server.url, self.server.token, where="the sandbox")
        self.task = asyncio.create_task(watch(self.settings, self.archive, self.status, access=access), name="watcher")

    async def stop(self) -> None:
        """As by SIGTERM."""
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def manifests(self, uid: str) -> list[Manifest]:
        """Of a RayJob, as the store has them, by number."""
        found = [manifest async for manifest in self.every_manifest(f"/{uid}/")]
        return sorted(found, key=lambda manifest: manifest.attempt.number)

    async def every_manifest(self, part: str = "") -> AsyncIterator[Manifest]:
        """Those in the store whose keys have a part."""
        async for entry in self.store.list(f"{self.archive.prefix}/{keys.LAYOUT}/".lstrip("/")):
            if part in entry.key and entry.key.endswith("/manifest.json"):
                body = await self.store.get(entry.key)
                if body:
                    yield from_json(body)

    async def archived(self, uid: str, number: int = 1, *, seconds: float = DEADLINE_SECONDS) -> Manifest:
        """Waits for an attempt's final manifest."""

        async def look() -> Manifest | None:
            with suppress(Exception):
                for manifest in await self.manifests(uid):
                    if manifest.attempt.number == number and manifest.state is ManifestState.FINAL:
                        return manifest
            return None

        return await until(look, seconds=seconds)

    async def text(self, artifact: Artifact) -> bytes:
        reader = LogReader(self.store, ZstdCodec())
        return b"".join([piece async for piece in reader.iter_raw(artifact.key)])

    async def keys(self, part: str) -> list[str]:
        """Keys in the store that have a part."""
        root = f"{self.archive.prefix}/{keys.LAYOUT}/".lstrip("/")
        return [entry.key async for entry in self.store.list(root) if part in entry.key]

    async def until_stored(self, uid: str, *parts: str) -> None:
        """Waits until there is something in the store of each of some logs of a RayJob."""

        async def look() -> bool:
            found = await self.keys(f"/{uid}/")
            return all(any(part in key for key in found) for part in parts)

        await until(look)

    async def until_read(self, uid: str, name: str, size: int) -> None:
        """Waits until so many bytes of a log are in the store, sealed or not."""

        async def look() -> bool:
            with suppress(Exception):
                for key in await self.keys(f"/{uid}/"):
                    if name in key:
                        artifact = key.replace("/.parts/", "/").partition(".zst")[0] + ".zst"
                        index = await LogReader(self.store, ZstdCodec()).read_index(artifact)
                        return index is not None and index.raw_bytes >= size
            return False

        await until(look)


@asynccontextmanager
async def rig(
    folder: Path, database_url: str, server: SandboxServer | None = None, *, is_started: bool = True, **changed: Any
) -> AsyncIterator[Rig]:
    """One watcher with quick settings."""
    settings = quick_settings(folder, **changed)
    async with AsyncExitStack() as stack:
        served = server or await stack.enter_async_context(SandboxServer())
        archive = await stack.enter_async_context(open_archive(settings, database_url))
        made = Rig(served, settings, archive)
        stack.push_async_callback(made.stop)
        if is_started:
            await made.start()
        yield made


def quick_settings(folder: Path, **changed: Any) -> Settings:
    values: dict[str, Any] = {"home": folder, "cluster": CLUSTER, "settle_seconds": 0.5, "snapshot_seconds": 10.0}
    return Settings(**{**values, **changed})


def named(manifest: Manifest, name: str) -> Artifact:
    """An artifact by the beginning of its name; there must be one only."""
    found = [artifact for artifact in manifest.artifacts if artifact.name.startswith(name)]
    assert len(found) == 1, (name, [(a.name, a.completeness, a.reason) for a in manifest.artifacts])
    return found[0]


def said(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Name, completeness and reason of everything, for an assertion's message."""
    return {artifact.name: (str(artifact.completeness), artifact.reason) for artifact in manifest.artifacts}


def masked(raw: bytes) -> bytes:
    redactor = Redactor()
    pieces = [redactor.feed(arrived(raw, 0)), redactor.flush()]
    return b"".join(piece.text for piece in pieces if piece)
