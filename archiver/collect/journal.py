"""Keeps every version of every Kubernetes object of an attempt, one JSON document a line, in the order they were seen.

``kube/rayjobs.ndjson``, ``kube/pods.ndjson`` … and ``events/kubernetes.ndjson``. Secrets in env values and runtime_env are
masked before a byte leaves memory. The same version of an object is written once, also after a restart.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
        self._seen: dict[tuple[str, str], int] = {}

    async def write(
        self, kind: Kind, obj: Mapping[str, Any], *, how: str, seen_at: datetime, relisted: bool = False
    ) -> bool:
        """Appends one version; False where it is there already."""
        writer = await self._open(artifact_name(kind), kind)
        what, version = _version(obj, how)
        if self._seen.get(what, -1) >= version:
            return False
        line = encode_version(obj, how=how, seen_at=seen_at, relisted=relisted)
        await writer.write_lines(arrived(line, to_ns(seen_at)))
        self._seen[what] = version
        return True

    async def recall(self, kind: Kind) -> list[Change]:
        """The changes that an earlier process wrote, in their order."""
        return changes(kind, await self._read_back(artifact_name(kind)))

    async def _open(self, name: str, kind: Kind) -> StreamWriter:
        artifact = ArtifactKind.KUBE_EVENTS if kind is Kind.EVENT else ArtifactKind.KUBE_OBJECTS
        writer = await self._open_stream(name, artifact)
        # another writer than before: another process wrote in between
        if self.writers.get(name) is not writer:
            if writer.lines:
                for line in await self._read_back(name):
                    self._learn(kind, line)
            self.writers[name] = writer
        return writer

    def _learn(self, kind: Kind, line: bytes) -> None:
        change = _change_of(kind, line)
        if change is not None:
            what, version = _version(change.object, str(change.type))
            self._seen[what] = max(version, self._seen.get(what, -1))


def artifact_name(kind: Kind) -> str:
    return "events/kubernetes.ndjson" if kind is Kind.EVENT else f"kube/{kind}.ndjson"


def encode_version(obj: Mapping[str, Any], *, how: str, seen_at: datetime, relisted: bool) -> bytes:
    """One line. ``relisted``: found by a list, so the moment it happened is unknown."""
    document = {"seen_at": seen_at.isoformat(), "type": how, "relisted": relisted, "object": redact_json(obj)}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def is_journal(name: str) -> bool:
    return name.endswith(".ndjson") and name.startswith(("kube/", "events/", "ray/"))


def changes(kind: Kind, lines: Iterable[bytes]) -> list[Change]:
    """The lines of a kind's stream as the changes that they were. Broken ones are left out."""
    return [change for change in (_change_of(kind, line) for line in lines) if change]


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


def _version(obj: Mapping[str, Any], how: str) -> tuple[tuple[str, str], int]:
    """What a version is a version of, and which. Versions of one object rise; a deletion comes once.

    A deletion has the version before or one of its own, so it counts apart.
    """
    number = text(obj, "metadata", "resourceVersion")
    if how == ChangeType.DELETED:
        return (uid(obj), "deleted"), 0
    return (uid(obj), ""), int(number) if number.isdecimal() and number.isascii() else 0
