"""Incremental decoder of a watch's lines: bytes in, watch events out, whatever the chunking. No I/O."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LINE_LIMIT_BYTES = 32 * 1024 * 1024  # etcd takes 1.5 MB an object; more than this is no watch event
_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


class MalformedWatch(ValueError):
    """The watch sent what is no watch event. Never leaves the adapter: the reflector counts it and connects again."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: dict[str, Any]


class WatchLines:
    """``feed`` yields each event as soon as its line is whole; a broken line raises after those before it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[WatchEvent]:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._pieces.append(line)
            text = b"".join(self._pieces)
            self._pieces, self._held_bytes = [], 0
            if text.strip():
                yield parse_line(text)
        if rest:
            self._pieces.append(rest)
            self._held_bytes += len(rest)
        if self._held_bytes > LINE_LIMIT_BYTES:
            raise MalformedWatch(f"a watch event is longer than {LINE_LIMIT_BYTES} bytes")

    def flush(self) -> None:
        """The stream's end: half a line means that it was cut."""
        rest = b"".join(self._pieces)
        self._pieces, self._held_bytes = [], 0
        if rest.strip():
            raise MalformedWatch(f"the watch ended in the middle of a line of {len(rest)} bytes")


def parse_line(text: bytes) -> WatchEvent:
    """One line's watch event."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise MalformedWatch(f"a line of the watch is not JSON: {error}") from error
    kind = document.get("type") if isinstance(document, dict) else None
    if kind not in _TYPES or not isinstance(document.get("object"), dict):
        raise MalformedWatch(f"a line of the watch is no watch event (type {kind!r})")
    event = WatchEvent(kind, document["object"])
    is_sound = {"ERROR": True, "BOOKMARK": _has_version(event.object)}.get(event.type, has_identity(event.object))
    if not is_sound:
        raise MalformedWatch(f"a watch event ({kind}) has no resource version or uid")
    return event


def has_identity(document: Any) -> bool:
    """Whether a document is an object that can be told from all others."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("namespace", ""), str):
        return False
    return all(isinstance(metadata.get(key), str) for key in ("uid", "name", "resourceVersion"))


def _has_version(document: dict[str, Any]) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("resourceVersion"), str)
