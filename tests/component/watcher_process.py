"""The watcher as the process that runs in a cluster, for tests: started, killed, told to stop. Not a test."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from archiver.sandbox import SandboxServer

STOP_SECONDS = 25.0


@dataclass(slots=True)
class WatcherProcess:
    """``python -m archiver.cli watcher`` with settings from the environment."""

    server: SandboxServer
    folder: Path
    database_url: str
    settings: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(self.server.kubeconfig_text(), encoding="utf-8")
        known = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIVER_")}
        ours = {
            "home": str(self.folder),
            "kubeconfig": str(kubeconfig),
            "database_url": self.database_url,
            "cluster": "sandbox",
            "health_port": "0",
            "probe_host": "127.0.0.1",
            "settle_seconds": "0.5",
            "log_format": "json",
            **self.settings,
        }
        values = {f"ARCHIVER_{name.upper()}": value for name, value in ours.items()}
        with (self.folder / "watcher.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "archiver.cli", "watcher", env={**known, **values}, stdout=log, stderr=log
            )

    def said(self) -> str:
        return (self.folder / "watcher.log").read_text(encoding="utf-8", errors="replace")

    async def kill(self) -> None:
        """SIGKILL: nothing is flushed and nobody is told."""
        process, self.process = self.process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def terminate(self) -> int:
        """SIGTERM; the exit code, or TimeoutError where it takes longer than a kubelet would wait."""
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            return await process.wait()
