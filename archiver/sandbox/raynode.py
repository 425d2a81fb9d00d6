"""One replayed Ray node: its session's log files, and on a head the dashboard's answers. It runs no Ray.

A node answers over its own loopback address (as a pod IP does) and through the API server's proxies; both end in
``archiver.sandbox.rayhttp``. Shapes and texts are those measured on Ray 2.46 to 2.60.
"""

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.signals import Signal

DASHBOARD_PORT = 8265
AGENT_PORT = 52365


class NodeState(StrEnum):
    UP = "up"
    REFUSED = "refused"  # the process is gone: connections are refused
    SILENT = "silent"  # the machine is gone: connections hang


@dataclass(frozen=True, slots=True)
class Canned:
    """An answer of the dashboard for one path, without its query."""

    status: int
    body: Any  # a JSON document, or text
    content_type: str = "application/json"


class LogFileOnNode:
    __slots__ = ("changed_at", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self.changed_at = time.time()


class RayNode:
    """``address``: the pod's IP. ``token``: set where Ray's token authentication is on."""

    def __init__(self, address: str, *, node_id: str = "", is_head: bool = True, token: str = "") -> None:
        self.address = address
        self.node_id = node_id
        self.is_head = is_head
        self.token = token
        self.state = NodeState.UP
        self.files: dict[str, LogFileOnNode] = {}
        self.jobs: dict[str, JsonObject] = {}
        self.canned: dict[str, Canned] = {}
        self.signal = Signal()
        self.refused = asyncio.Event()
        self.busy: set[asyncio.Transport] = set()

    # --- what a test or a replay does

    def append(self, path: str, data: bytes) -> None:
        """A file of ``/tmp/ray/session_latest/logs`` grows."""
        file = self.files.setdefault(path, LogFileOnNode())
        file.data += data
        file.changed_at = time.time()

    def truncate(self, path: str) -> None:
        self.files[path] = LogFileOnNode()

    def set_job(self, record: JsonView) -> None:
        """The Job API's record of one submission, from now on."""
        self.jobs[str(record["submission_id"])] = dict(record)

    def set_answer(self, path: str, canned: Canned) -> None:
        self.canned[path] = canned

    def die(self, state: NodeState = NodeState.REFUSED) -> None:
        """The node's processes are gone; answers on their way break off."""
        self.state = state
        if state is NodeState.REFUSED:
            self.refused.set()
            self._abort()
        self.signal.fire()

    def close(self) -> None:
        self.die(NodeState.REFUSED)

    def _abort(self) -> None:
        for transport in list(self.busy):
            transport.abort()

    def ports(self) -> tuple[int, ...]:
        return (DASHBOARD_PORT, AGENT_PORT) if self.is_head else (AGENT_PORT,)
