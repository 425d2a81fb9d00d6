"""Which attempts the archive already knows: manifests below a RayJob's prefix, and the marks of those still open.

A mark has the RayCluster of its attempt: whoever comes next must not take the next attempt for the one before it. The same
marks lie on the local disk, for a process that is killed while the store is away.

An open mark is put before the first byte of an attempt and taken away when its final manifest is in the index. After a
crash the marks say what to finish, without Postgres and without listing the bucket.
"""

import asyncio
import json
from collections.abc import Collection, Sequence
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
from archiver.store.notes import Notes

_MARKS = "_open"
_DOCUMENT_BYTES = 128 << 20
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt whose capture is not finished."""

    attempt: AttemptId
    created: datetime
    ray_cluster: str = ""


class Catalog:
    """Manifests and marks of one Kubernetes cluster in one bucket. Raises the StoreError tree.

    ``notes`` is where the marks are kept locally; ``start`` reads them.
    """

    def __init__(self, store: ObjectStore, notes: Notes, *, prefix: str, cluster: str) -> None:
        self._store = store
        self._notes = notes
        self._noted: dict[AttemptId, OpenAttempt] = {}
        self._left: dict[str, list[str]] | None = None
        self._listing = asyncio.Lock()
        self._prefix = prefix
        self._marks = f"{prefix.strip('/')}/{keys.LAYOUT}/{_MARKS}/{keys.encode_name(cluster)}/".lstrip("/")

    async def start(self) -> None:
        """Reads what an earlier process has noted. Raises UserError."""
        await asyncio.to_thread(self._notes.open)
        found = [_read_mark(body) for body in await asyncio.to_thread(self._notes.read_all)]
        self._noted = {mark.attempt: mark for mark in found if mark is not None}

    def noted(self, rayjob_uid: str) -> list[OpenAttempt]:
        """What is noted locally of the attempts of a RayJob, by number."""
        marks = [mark for mark in self._noted.values() if mark.attempt.rayjob.uid == rayjob_uid]
        return sorted(marks, key=lambda mark: mark.attempt.number)

    async def known(self, rayjob: RayJobId, created: datetime) -> tuple[list[Manifest], list[OpenAttempt]]:
        """The manifests of a RayJob, and what is noted here or marked in the store of its attempts, by number."""
        marks = [*await self._marked(rayjob.uid), *self.noted(rayjob.uid)]
        return await self.manifests(rayjob, created, {mark.attempt.number for mark in marks}), marks

    async def _marked(self, rayjob_uid: str) -> list[OpenAttempt]:
        """The marks that earlier processes left. They are listed once: those that come later are our own."""
        async with self._listing:
            if self._left is None:
                left: dict[str, list[str]] = {}
                async for entry in self._store.list(self._marks):
                    left.setdefault(entry.key.removeprefix(self._marks).rpartition("-")[0], []).append(entry.key)
                self._left = left
        found = [
            _read_mark(await self._store.get(key) or b"") for key in self._left.get(keys.encode_name(rayjob_uid), ())
        ]
        return [mark for mark in found if mark is not None]

    async def note(self, attempt: AttemptId, created: datetime, ray_cluster: str) -> None:
        """Notes an attempt on the local disk, before its first byte. Raises SpoolFull."""
        mark = OpenAttempt(attempt, created, ray_cluster)
        if self._noted.get(attempt) != mark:
            await asyncio.to_thread(self._notes.write, self._mark(attempt), _mark_body(mark))
            self._noted[attempt] = mark

    def attempt_prefix(self, attempt: AttemptId, created: datetime) -> str:
        return keys.attempt_prefix(keys.place_of(self._prefix, attempt.rayjob, created), attempt.number)

    async def manifests(self, rayjob: RayJobId, created: datetime, marked: Collection[int] = ()) -> list[Manifest]:
        """Every attempt of a RayJob that has a manifest, by number. One that was only marked may have none yet."""
        found: list[Manifest] = []
        number = 1
        while (manifest := await self.manifest(AttemptId(rayjob, number), created)) or number in marked:
            found += [manifest] if manifest else []
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

    async def mark_open(self, attempt: AttemptId, created: datetime, ray_cluster: str) -> None:
        await self._store.put(self._mark(attempt), _mark_body(OpenAttempt(attempt, created, ray_cluster)))

    async def unmark(self, attempts: Sequence[AttemptId]) -> None:
        await self._store.delete([self._mark(attempt) for attempt in attempts])
        for attempt in attempts:
            self._noted.pop(attempt, None)
            await asyncio.to_thread(self._notes.drop, self._mark(attempt))

    async def open_attempts(self) -> list[OpenAttempt]:
        """What earlier processes left unfinished."""
        found = list(self._noted.values())
        async for entry in self._store.list(self._marks):
            body = await self._store.get(entry.key)
            attempt = _read_mark(body or b"")
            if attempt is None:
                _log.error("open mark unreadable", key=entry.key)
            elif attempt.attempt not in self._noted:
                found.append(attempt)
        return found

    def _mark(self, attempt: AttemptId) -> str:
        return f"{self._marks}{keys.encode_name(attempt.rayjob.uid)}-{attempt.number:03d}.json"


def _mark_body(mark: OpenAttempt) -> bytes:
    job = mark.attempt.rayjob
    body = {
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "cluster": job.cluster,
        "attempt": mark.attempt.number,
        "created": mark.created.isoformat(),
        "ray_cluster": mark.ray_cluster,
    }
    return json.dumps(body).encode()


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
    return OpenAttempt(AttemptId(rayjob, number), created, text(mark, "ray_cluster"))
