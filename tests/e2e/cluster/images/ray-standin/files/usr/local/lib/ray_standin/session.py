"""One life of a node: its folder of logs as Ray lays it out, its id, its address."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

VERSION = "2.60.0"


@dataclass(frozen=True)
class Session:
    """`logs` is what the node's agent serves; `agent_port` is set once the agent listens."""

    folder: Path
    node_ip: str
    node_id: str
    is_head: bool
    started_ms: int

    @classmethod
    def begin(cls, temp_folder: Path, node_ip: str, *, is_head: bool) -> Session:
        now = time.time()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.gmtime(now))
        folder = temp_folder / f"session_{stamp}_{int(now % 1 * 1e6):06}_{os.getpid()}"
        (folder / "logs/jobs").mkdir(parents=True)
        latest = temp_folder / "session_latest"
        latest.unlink(missing_ok=True)
        latest.symlink_to(folder)
        session = cls(folder, node_ip, secrets.token_hex(28), is_head, int(now * 1000))
        for name in ("raylet.out", "gcs_server.out") if is_head else ("raylet.out",):
            session.note(name, f"{name.partition('.')[0]}: the stand-in of {node_ip} has started")
        return session

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def note(self, name: str, text: str) -> None:
        """One more line, with its moment, in a log of Ray's own."""
        with (self.logs / name).open("a") as file:
            file.write(f"{stamp()}\tINFO standin.py:1 -- {text}\n")

    def driver_log(self, submission_id: str) -> Path:
        return self.logs / f"job-driver-{submission_id}.log"


def stamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f",{int(now % 1 * 1000):03}"
