"""Keeps every version of every Kubernetes object of an attempt, one JSON document a line, in the order they were seen.

``kube/rayjobs.ndjson``, ``kube/pods.ndjson`` … and ``events/kubernetes.ndjson``. Secrets in env values and runtime_env are
masked before a byte leaves memory. The same version of an object is written once, also after a restart.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from archiver.collect.streams import StreamWriter
from archiver.core.lines import arrived, to_ns
from archiver.core.model import ArtifactKind, Kind
from archiver.core.objects import at, moment, text, uid
from archiver.core.redact import redact_json
from archiver.ports import Change, ChangeType

OpenStream = Callable[[str, ArtifactKind], Awaitable[StreamWriter]]
ReadBack = Callable[[str], Awaitable[list[bytes]]]


class Journal:
    """The object streams of one attempt. ``open_stream`` opens one by artifact name, ``read_back`` gives its lines."""

    def __init__(self, open_stream: OpenStream, read_back: ReadBack) -> None:
        self._open_stream = open_stream
        self._read_back = read_back
        self.writers: dict[str, StreamWriter] = {}
        self._seen: set[tuple[str, str]] = set()

    async def write(
        self, kind: Kind, obj: Mapping[str, Any], *, how: str, seen_at: datetime, relisted: bool = False
    ) -> bool:
        """Appends one version; False where it is there already."""
        name = artifact_name(kind)
        writer = await self._open(name, kind)
        version = _version(obj, how)
        if version in self._seen:
            return False
        self._seen.add(version)
        line = encode_version(obj, how=how, seen_at=seen_at, relisted=relisted)
        await writer.write_lines(arrived(line, to_ns(seen_at)))
        return True

    async def recall(self, kind: Kind) -> list[Change]:
        """The changes that an earlier process wrote, in their order."""
        lines = await self._read_back(artifact_name(kind))
        return [change for change in (_change_of(kind, line) for line in lines) if change]

    async def _open(self, name: str, kind: Kind) -> StreamWriter:
        artifact = ArtifactKind.KUBE_EVENTS if kind is Kind.EVENT else ArtifactKind.KUBE_OBJECTS
        writer = await self._open_stream(name, artifact)
        is_new = name not in self.writers
        self.writers[name] = writer
        if is_new and writer.lines:
            for line in await self._read_back(name):
                self._seen |= _version_of(kind, line)
        return writer


def artifact_name(kind: Kind) -> str:
    return "events/kubernetes.ndjson" if kind is Kind.EVENT else f"kube/{kind}.ndjson"


def encode_version(obj: Mapping[str, Any], *, how: str, seen_at: datetime, relisted: bool) -> bytes:
    """One line. ``relisted``: found by a list, so the moment it happened is unknown."""
    document = {"seen_at": seen_at.isoformat(), "type": how, "relisted": relisted, "object": redact_json(obj)}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def is_journal(name: str) -> bool:
    return name.endswith(".ndjson") and name.startswith(("kube/", "events/", "ray/"))


def _change_of(kind: Kind, line: bytes) -> Change | None:
    """A line as the change it was; None for one that is broken."""
    try:
        document = json.loads(line)
    except ValueError:
        return None
    seen_at, obj = moment(document, "seen_at"), at(document, "object")
    if seen_at is None or not isinstance(obj, dict):
        return None
    how = text(document, "type")
    change_type = ChangeType(how) if how in set(ChangeType) else ChangeType.ADDED
    return Change(kind, change_type, obj, seen_at, relisted=True)


def _version_of(kind: Kind, line: bytes) -> set[tuple[str, str]]:
    change = _change_of(kind, line)
    return {_version(change.object, str(change.type))} if change else set()


def _version(obj: Mapping[str, Any], how: str) -> tuple[str, str]:
    # a deletion comes with the version before or with one of its own
    return uid(obj), "deleted" if how == ChangeType.DELETED else text(obj, "metadata", "resourceVersion")
