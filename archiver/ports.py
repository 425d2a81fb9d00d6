"""The few Protocols through which the services reach the outside. Implemented by the adapters; no code of its own."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from archiver.core.model import ContainerRun, Kind

__all__ = [
    "Change",
    "ChangeType",
    "FileRange",
    "HttpAnswer",
    "Kind",
    "KubeObjects",
    "KubeProxy",
    "LogRequest",
    "ObjectInfo",
    "ObjectStore",
    "PodLogs",
    "RayHead",
    "RayNodes",
]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What the store says of one object."""

    key: str
    size_bytes: int
    etag: str
    modified: datetime | None = None


class ObjectStore(Protocol):
    """A flat, strongly consistent key space of immutable-by-habit objects. Errors are the StoreError tree."""

    async def put(self, key: str, body: bytes, *, if_absent: bool = False) -> ObjectInfo:
        """Writes one object whole; with ``if_absent`` raises StoreConflict where there is one already."""

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Bytes of one object or of a range; a negative ``start`` counts from the end. None: there is no object."""

    async def head(self, key: str) -> ObjectInfo | None: ...

    def list(self, prefix: str, *, after: str = "") -> AsyncIterator[ObjectInfo]:
        """Objects below a prefix in key order, those after ``after`` only."""

    async def compose(self, sources: Sequence[str], key: str, *, tail: bytes = b"") -> ObjectInfo:
        """Writes the concatenation of objects and ``tail`` as one object, with bounded memory. DataError where one of them
        is not there."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes objects; one that is not there is no error."""


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event, or one difference found by a relist (``relisted``: the moment it happened is then unknown)."""

    kind: Kind
    type: ChangeType
    object: Mapping[str, Any]
    seen_at: datetime
    relisted: bool = False


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What to ask the log endpoint for. Timestamps are always asked for."""

    run: ContainerRun
    follow: bool = True
    previous: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class PodLogs(Protocol):
    """The API server's log endpoint."""

    def stream(self, request: LogRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Chunks as they arrive. Opening raises KubeNotReady (not started), KubeDenied, KubeUnavailable;
        a pod or container that does not exist (any more) gives KubeGone. A stream that is cut raises KubeUnavailable
        while iterating."""


class KubeObjects(Protocol):
    """Single objects, for what a watch does not give."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None: ...

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """JSON merge patch; None where the object is gone."""

    async def secret_value(self, namespace: str, name: str, key: str) -> str | None:
        """One value of a Secret, only where the opt-in right exists (Ray token authentication)."""

    async def namespace_phase(self, name: str) -> str | None:
        """``Active`` or ``Terminating``; None where there is no such namespace. Raises KubeDenied without the right."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer, whole and bounded. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class KubeProxy(Protocol):
    """The API server's proxy to a pod or service, for where the pod network cannot be reached directly."""

    async def proxy_get(
        self, namespace: str, target: str, path: str, *, headers: Mapping[str, str], timeout_seconds: float
    ) -> HttpAnswer:
        """``target`` is ``pods/<name>:<port>`` or ``services/<name>:<port>``; ``path`` begins with a slash and has
        its query. Any status the far end gives is an answer; only the way there raises (the KubeError tree)."""


@dataclass(frozen=True, slots=True)
class RayHead:
    """How a RayCluster's head can be reached. ``token`` only where token authentication is on; ``workers`` are pods by
    their IP, where they are known: for the API server's proxy, which goes by name."""

    namespace: str
    ray_cluster: str
    pod: str
    pod_uid: str
    pod_ip: str | None
    service: str | None
    token: str | None = field(default=None, repr=False)
    workers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FileRange:
    """A piece of a file on a Ray node. ``size_bytes`` is the whole file's size at that moment."""

    start: int
    data: bytes
    size_bytes: int


class RayNodes(Protocol):
    """Ray's dashboard (8265) and node agents (52365). Errors are the RayError tree; not found is None."""

    async def job(self, head: RayHead, submission_id: str) -> Mapping[str, Any] | None: ...

    async def read_log(
        self, head: RayHead, path: str, *, start: int, length: int, node_ip: str | None = None
    ) -> FileRange | None:
        """Bytes of ``/tmp/ray/session_latest/logs/<path>`` of the head, or of the node with ``node_ip``."""

    async def list_logs(self, head: RayHead, *, node_ip: str | None = None) -> Mapping[str, int | None] | None:
        """Names below the session's log folder with sizes, where the source tells them."""

    async def state(
        self, head: RayHead, what: str, *, job_id: str | None = None, only_failed: bool = False
    ) -> Mapping[str, Any] | None:
        """One answer of the state API, unwrapped and bounded. ``what``: tasks, actors, workers, nodes,
        placement_groups, jobs, events, version."""
