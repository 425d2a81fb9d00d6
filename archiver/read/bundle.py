"""An attempt as one offline zip, streamed: memory is bounded by one frame of a log, whatever its size.

Layout (format 1), the same bytes for the same evidence; times in the zip are 1980-01-01 throughout:

- ``manifest.json``: the commit record as it lies in the bucket; always the first file.
- ``report.html``: the page of the attempt, which needs no server and loads nothing.
- ``verdict.json``: the verdict that counts, as the diagnosis wrote it; left out where there is none.
- one file an artifact, at its name in the manifest (``logs/driver.log``, ``events/kubernetes.ndjson``,
  ``kube/pods.ndjson``, ``ray/job.json``) as plain text, not compressed a second time. A name that Windows cannot hold is
  changed, and ``bundle.json`` says into what.
- ``bundle.json``: always the last file, so that a zip without it was cut: ``{"format": 1, "cluster", "namespace",
  "name", "uid", "attempt", "files": {artifact name: {"path", "sha256", "bytes", "completeness", "reason"}}}``. ``path``
  is null where nothing was saved or could be read, and ``reason`` says why; ``sha256`` is of what is in the zip.
"""

import asyncio
import json
import zipfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from archiver.core.filenames import safe_path, safe_paths
from archiver.core.manifest import ManifestState
from archiver.core.model import Artifact
from archiver.errors import DataError
from archiver.index.queries import StoredAttempt
from archiver.read.evidence import Evidence

FORMAT = 1
REPORT = "report.html"
_OWN = ("manifest.json", REPORT, "verdict.json", "bundle.json")
_LEVEL = 1  # logs shrink to a third at the speed of the disk
_LARGE = 1 << 31


@dataclass(frozen=True, slots=True)
class Bundle:
    """``chunks`` must be iterated once. ``version`` is the same for the same evidence, empty while it still grows."""

    file_name: str
    version: str
    chunks: AsyncGenerator[bytes, None]


def paths_of(names: tuple[str, ...]) -> dict[str, str]:
    """Artifact name → path in the zip."""
    return safe_paths(names, taken=_OWN)


def open_bundle(evidence: Evidence, stored: StoredAttempt, record: bytes, report: bytes) -> Bundle:
    """The zip of one attempt; ``record`` is its manifest as it lies in the bucket. Iterating raises StoreError."""
    manifest = stored.manifest
    name = safe_path(manifest.attempt.rayjob.name.replace("/", "_"))
    is_final = manifest.state is ManifestState.FINAL
    version = sha256(record + report + str(FORMAT).encode()).hexdigest() if is_final else ""
    chunks = _Zip(evidence, stored).chunks(record, report)
    return Bundle(f"{name}-attempt-{manifest.attempt.number}.zip", version, chunks)


class _Sink:
    """What zipfile writes to: it cannot seek, and is emptied after each piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Nothing is kept back."""

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


class _Zip:
    def __init__(self, evidence: Evidence, stored: StoredAttempt) -> None:
        self._evidence = evidence
        self._stored = stored
        self._sink = _Sink()
        self._files: dict[str, Mapping[str, object]] = {}

    async def chunks(self, record: bytes, report: bytes) -> AsyncGenerator[bytes, None]:
        manifest = self._stored.manifest
        archive = zipfile.ZipFile(self._sink, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)  # type: ignore[call-overload]
        yield self._small(archive, "manifest.json", record)
        yield self._small(archive, REPORT, report)
        if manifest.verdict:
            yield self._small(archive, "verdict.json", _json(manifest.verdict))
        paths = paths_of(tuple(artifact.name for artifact in manifest.artifacts))
        for artifact in manifest.artifacts:
            async for chunk in self._artifact(archive, artifact, paths[artifact.name]):
                yield chunk
        yield self._small(archive, "bundle.json", _json(self._table()))
        archive.close()
        yield self._sink.take()

    async def _artifact(self, archive: zipfile.ZipFile, artifact: Artifact, path: str) -> AsyncGenerator[bytes, None]:
        try:
            raw = await self._evidence.raw(self._stored, artifact.name, None)
        except DataError as error:
            self._note(artifact, None, reason=str(error))
            return
        if raw is None or (not raw.artifact.key and not raw.total_bytes):
            self._note(artifact, None, reason=artifact.reason or "nothing was saved")
            return
        digest, size, damage = sha256(), 0, ""
        with archive.open(_entry(path), "w", force_zip64=raw.total_bytes >= _LARGE) as file:
            try:
                async for piece in raw.chunks:
                    digest.update(piece)
                    size += len(piece)
                    await asyncio.to_thread(file.write, piece)
                    yield self._sink.take()
            except DataError as error:
                damage = f"damaged after {size} bytes: {error}"
        self._note(artifact, path, reason=damage, digest=digest.hexdigest(), size=size)
        yield self._sink.take()

    def _note(self, artifact: Artifact, path: str | None, *, reason: str = "", digest: str = "", size: int = 0) -> None:
        self._files[artifact.name] = {
            "path": path,
            "sha256": digest,
            "bytes": size,
            "completeness": artifact.completeness.value,
            "reason": reason or artifact.reason,
        }

    def _table(self) -> Mapping[str, object]:
        attempt = self._stored.manifest.attempt
        job = attempt.rayjob
        place = {"cluster": job.cluster, "namespace": job.namespace, "name": job.name, "uid": job.uid}
        return {"format": FORMAT, **place, "attempt": attempt.number, "files": self._files}

    def _small(self, archive: zipfile.ZipFile, path: str, body: bytes) -> bytes:
        with archive.open(_entry(path), "w") as file:
            file.write(body)
        return self._sink.take()


def _entry(path: str) -> zipfile.ZipInfo:
    """Without a time and without an owner of its own."""
    entry = zipfile.ZipInfo(path)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    entry.create_system = 3
    return entry


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
