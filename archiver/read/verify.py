"""Compares the bucket with the index, and every archived byte with its checksum. Changes nothing; reads all of it.

Memory is bounded: logs are read by frame, manifests a few at a time. Run beside a watcher it may name an attempt that is
being written at this moment; such a finding is gone at the next run.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core import keys
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import Artifact, Completeness
from archiver.errors import DataError
from archiver.index.engine import reading
from archiver.index.filters import Scope
from archiver.index.queries import StoredAttempt, list_places, load_attempts
from archiver.index.rows import as_indexed
from archiver.ports import ObjectStore
from archiver.read import logs
from archiver.read.bucket import Finding, for_each, load_manifest, manifest_keys
from archiver.read.text import TextOpener, TextPlace

FINDINGS_KEPT = 10_000
_AT_ONCE = 4
_PAGE = 500


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """So far; ``bytes_read`` of text."""

    attempts: int
    artifacts: int
    bytes_read: int
    findings: int


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was looked at, and every difference; the first FINDINGS_KEPT of them where there are more."""

    attempts: int
    artifacts: int
    bytes_read: int
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        return not self.findings


async def verify(
    store: ObjectStore,
    engine: AsyncEngine,
    *,
    prefix: str = "",
    progress: Callable[[VerifyProgress], None] = lambda _: None,
) -> VerifyReport:
    """Raises only where store or index cannot be reached."""
    work = _Verify(store, engine, progress)
    await for_each(manifest_keys(store, prefix), work.attempt, at_once=_AT_ONCE)
    await for_each(work.places(), work.row, at_once=_AT_ONCE)
    return VerifyReport(work.attempts, work.artifacts, work.bytes_read, tuple(work.findings))


class _Verify:
    def __init__(self, store: ObjectStore, engine: AsyncEngine, progress: Callable[[VerifyProgress], None]) -> None:
        self._store = store
        self._engine = engine
        self._progress = progress
        self._texts = TextOpener(store)
        self.attempts = self.artifacts = self.bytes_read = 0
        self.findings: list[Finding] = []

    async def attempt(self, key: str) -> None:
        """One manifest, its row and its objects."""
        found = await load_manifest(self._store, key)
        if isinstance(found, Finding):
            self._find(found.key, found.problem)
        elif found is not None:
            await self._compare(found, key)
            for artifact in found.artifacts:
                await self._artifact(found, artifact, key)
        self.attempts += 1
        self._report()

    async def row(self, place: tuple[str, int, str]) -> None:
        """One row of the index, whose manifest must be there."""
        if await self._store.head(place[2]) is None:
            self._find(place[2], f"the index has attempt {place[1]} of {place[0]}, whose manifest is gone")

    async def places(self) -> AsyncIterator[tuple[str, int, str]]:
        """Every row of the index."""
        after = ("", 0)
        while True:
            async with reading(self._engine) as connection:
                found = await list_places(connection, after=after, limit=_PAGE)
            if not found:
                return
            for place in found:
                yield place
            after = (found[-1][0], found[-1][1])

    async def _compare(self, manifest: Manifest, key: str) -> None:
        id_ = manifest.attempt
        async with reading(self._engine) as connection:
            stored = await load_attempts(connection, Scope.everything(), id_.rayjob.uid, number=id_.number)
        if not stored:
            self._find(key, "is not in the index")
        elif problem := _difference(stored[0], manifest, key):
            self._find(key, problem)

    async def _artifact(self, manifest: Manifest, artifact: Artifact, key: str) -> None:
        is_growing = manifest.state is ManifestState.OPEN and not artifact.sha256
        if not artifact.key or is_growing:
            if artifact.completeness is not Completeness.LOST and not is_growing:
                self._find(key, f"{artifact.name} is {artifact.completeness.value} but has no object")
            return
        self.artifacts += 1
        try:
            problem = await self._read(artifact, key.removesuffix(keys.manifest_key("")))
        except DataError as error:
            problem = str(error)
        if problem:
            self._find(artifact.key, problem)
        self._report()

    async def _read(self, artifact: Artifact, prefix: str) -> str | None:
        text = await self._texts.open(TextPlace(prefix, artifact.name, artifact))
        if text is None or text.is_live:
            return "the object is gone"
        digest = sha256()
        async for chunk in logs.read_span(self._store, text, logs.Span(0, text.total_bytes)):
            digest.update(chunk)
            self.bytes_read += len(chunk)
            await asyncio.sleep(0)
        has = (text.total_bytes, text.total_lines, digest.hexdigest())
        said = (artifact.raw_bytes, artifact.lines, artifact.sha256)
        wrong = [
            name for name, mine, theirs in zip(("bytes", "lines", "sha256"), has, said, strict=True) if mine != theirs
        ]
        return f"{' and '.join(wrong)} are not what the manifest says" if wrong else None

    def _find(self, key: str, problem: str) -> None:
        if len(self.findings) < FINDINGS_KEPT:
            self.findings.append(Finding(key, problem))

    def _report(self) -> None:
        self._progress(VerifyProgress(self.attempts, self.artifacts, self.bytes_read, len(self.findings)))


def _difference(stored: StoredAttempt, manifest: Manifest, key: str) -> str | None:
    if stored.manifest.revision != manifest.revision:
        return f"the index has revision {stored.manifest.revision}, the bucket {manifest.revision}"
    if stored.key != key:
        return f"the index says that it lies at {stored.key}"
    return "the index has something else" if stored.manifest != as_indexed(manifest) else None
