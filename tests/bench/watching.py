"""A watcher process on a sandbox cluster of this process, for the figures of a whole watcher. Measures nothing itself."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.core.manifest import Manifest, from_json
from archiver.errors import DataError
from archiver.index.migrate import upgrade
from archiver.sandbox import SandboxServer
from archiver.sandbox.postgres import EmbeddedPostgres
from tests.component.watcher_process import WatcherProcess

_POLL_SECONDS = 0.02


@asynccontextmanager
async def bench_watcher() -> AsyncIterator[WatcherProcess]:
    """Not started yet. Store and spool are folders, the index a real Postgres."""
    with TemporaryDirectory(prefix="archiver-bench-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres", throwaway=True)
        await asyncio.to_thread(postgres.start)
        try:
            url = await asyncio.to_thread(postgres.create_database, "bench")
            await asyncio.to_thread(upgrade, url)
            async with SandboxServer() as server:
                process = WatcherProcess(server, Path(folder) / "home", url)
                try:
                    yield process
                finally:
                    await process.kill()
        finally:
            await asyncio.to_thread(postgres.stop)


def manifest_files(process: WatcherProcess) -> dict[str, Path]:
    """By RayJob uid: its first attempt's manifest."""
    found = (process.folder / "store").glob("v1/*/*/*/*/*/attempt-001/manifest.json")
    return {path.parent.parent.name: path for path in found}


def read_manifest(path: Path) -> Manifest | None:
    """None while it is being replaced."""
    try:
        return from_json(path.read_bytes())
    except (OSError, DataError):
        return None


async def wait_for(process: WatcherProcess, pattern: str, count: int, *, seconds: float = 300.0) -> float:
    """Until so many files match in the store; the moment when they did."""
    deadline = time.monotonic() + seconds
    while sum(1 for _ in (process.folder / "store").glob(pattern)) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{pattern}: fewer than {count} after {seconds:g} s\n{process.said()[-2000:]}")
        await asyncio.sleep(_POLL_SECONDS * 5)
    return time.time()
