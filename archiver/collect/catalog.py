"""Which attempts the archive already knows: manifests below a RayJob's prefix, and the marks of those still open.

An open mark is put before the first byte of an attempt and taken away when its final manifest is in the index. After a
crash the marks say what to finish, without Postgres and without listing the bucket.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from archiver.core import keys
from archiver.core.manifest import Manifest, from_json, to_json
from archiver.core.model import AttemptId, RayJobId
from archiver.core.objects import parse_moment, text
from archiver.errors import DataError
from archiver.ports import ObjectStore
from archiver.store.codec import decompress_all

_MARKS = "_open"
_DOCUMENT_BYTES = 128 << 20
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt whose capture is not finished."""

    attempt: AttemptId
    created: datetime


class Catalog:
    """Manifests and marks of one Kubernetes cluster in one bucket. Raises the StoreError tree."""

    def __init__(self, store: ObjectStore, *, prefix: str, cluster: str) -> None:
        self._store = store
        self._prefix = prefix
        self._marks = f"{prefix.strip('/')}/{keys.LAYOUT}/{_MARKS}/{keys.encode_name(cluster)}/".lstrip("/")

    def attempt_prefix(self, attempt: AttemptId, created: datetime) -> str:
        return keys.attempt_prefix(keys.place_of(self._prefix, attempt.rayjob, created), attempt.number)

    async def manifests(self, rayjob: RayJobId, created: datetime) -> list[Manifest]:
        """Every attempt of a RayJob that has a manifest, by number."""
        found: list[Manifest] = []
        number = 1
        while manifest := await self.manifest(AttemptId(rayjob, number), created):
            found.append(manifest)
            number += 1
        return found

    async def manifest(self, attempt: AttemptId, created: datetime) -> Manifest | None:
        """A manifest that cannot be read counts as none: what it described is read again from its objects."""
        key = keys.manifest_key(self.attempt_prefix(attempt, created))
        body = await self._store.get(key)
        if body is None:
            return None
        try:
            return from_json(body)
        except DataError as error:
            _log.error("manifest unreadable", key=key, error=str(error))
            return None

    async def document(self, key: str) -> bytes | None:
        """A small compressed object, whole; one that cannot be read counts as none."""
        body = await self._store.get(key)
        try:
            return None if body is None else decompress_all(body, _DOCUMENT_BYTES)
        except DataError as error:
            _log.error("document unreadable", key=key, error=str(error))
            return None

    async def save(self, manifest: Manifest, created: datetime) -> str:
        """Writes the commit record and returns its key."""
        key = keys.manifest_key(self.attempt_prefix(manifest.attempt, created))
        await self._store.put(key, to_json(manifest))
        return key

    async def mark_open(self, attempt: AttemptId, created: datetime) -> None:
        job = attempt.rayjob
        body = {
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
            "cluster": job.cluster,
            "attempt": attempt.number,
            "created": created.isoformat(),
        }
        await self._store.put(self._mark(attempt), json.dumps(body).encode())

    async def unmark(self, attempts: Sequence[AttemptId]) -> None:
        await self._store.delete([self._mark(attempt) for attempt in attempts])

    async def open_attempts(self) -> list[OpenAttempt]:
        """What earlier processes left unfinished."""
        found = []
        async for entry in self._store.list(self._marks):
            body = await self._store.get(entry.key)
            attempt = _read_mark(body or b"")
            if attempt is None:
                _log.error("open mark unreadable", key=entry.key)
            else:
                found.append(attempt)
        return found

    def _mark(self, attempt: AttemptId) -> str:
        return f"{self._marks}{keys.encode_name(attempt.rayjob.uid)}-{attempt.number:03d}.json"


def _read_mark(body: bytes) -> OpenAttempt | None:
    try:
        mark = json.loads(body)
    except ValueError:
        return None
    created = parse_moment(text(mark, "created"))
    number = mark.get("attempt") if isinstance(mark, dict) else None
    if created is None or not isinstance(number, int):
        return None
    rayjob = RayJobId(text(mark, "cluster"), text(mark, "namespace"), text(mark, "name"), text(mark, "uid"))
    return OpenAttempt(AttemptId(rayjob, number), created)
