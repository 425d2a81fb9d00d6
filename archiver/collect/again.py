"""Judges an archived attempt once more: its evidence as the watcher gave it to the diagnosis, made again from the bucket.

The journal is folded as after a restart of the watcher; what the manifest has written down (how it ended, and when the end
was first seen) goes before what the fold finds. Reads only what the manifest lists, and of each object stream its newest
STREAM_BYTES, so that memory is bounded.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from archiver.collect.closing import evidence_of
from archiver.collect.excerpt import read_excerpt
from archiver.collect.explaining import Explainer
from archiver.collect.fold import RECALLED, Fold
from archiver.collect.journal import artifact_name, changes
from archiver.collect.raycapture import RECORD_NAME
from archiver.collect.snapshot import STATE_STEPS
from archiver.collect.state import AttemptState
from archiver.collect.tools import Explained
from archiver.core import keys
from archiver.core.manifest import Manifest
from archiver.diagnosis import Ruleset
from archiver.errors import DataError
from archiver.ports import ObjectStore
from archiver.store.codec import ZstdCodec, decompress_all
from archiver.store.reader import LogReader

STREAM_BYTES = 64 << 20
DOCUMENT_BYTES = 128 << 20


class Again:
    """One for all attempts. ``judge`` raises the StoreError tree and DataError for evidence that is gone or damaged."""

    def __init__(self, ruleset: Ruleset, store: ObjectStore) -> None:
        self._store = store
        self._reader = LogReader(store, ZstdCodec())
        self._explainer = Explainer(ruleset, store, self._log)

    @property
    def ruleset(self) -> str:
        return self._explainer.ruleset

    async def judge(self, manifest: Manifest, prefix: str) -> Mapping[str, Any]:
        """The verdict document by the ruleset of now. Writes nothing."""
        return await self._explainer.judge(await self._evidence(manifest, prefix))

    async def keep(self, prefix: str, document: Mapping[str, Any]) -> None:
        """Writes a verdict beside the evidence."""
        await self._explainer.keep(prefix, document)

    async def _evidence(self, manifest: Manifest, prefix: str) -> Explained:
        listed = {artifact.name for artifact in manifest.artifacts if artifact.key}
        state = AttemptState(manifest.attempt)
        fold = Fold(state, lambda _: None)
        for kind in RECALLED:
            name = artifact_name(kind)
            lines = (await self._text(prefix, name)).split(b"\n") if name in listed else []
            for change in changes(kind, lines):
                fold.add(change)
        state.rayjob = state.rayjob or _rayjob_of(manifest)
        state.ended, state.first_signal_seen = manifest.outcome.ended_as, manifest.times.first_signal
        return evidence_of(
            state,
            prefix=prefix,
            artifacts=manifest.artifacts,
            events=list(fold.events.values()),
            nodes=fold.nodes_of_the_end(),
            ray=await self._ray(prefix, listed),
        )

    async def _ray(self, prefix: str, listed: set[str]) -> dict[str, Mapping[str, Any]]:
        """The state as it was read last, and the newest version of the job's record."""
        found: dict[str, Mapping[str, Any]] = {}
        for name in (step.document for step in STATE_STEPS if step.document in listed):
            _note(found, name, await self._document(prefix, name))
        if RECORD_NAME in listed:
            _note(found, "ray/job.json", (await self._text(prefix, RECORD_NAME)).rstrip(b"\n").rpartition(b"\n")[2])
        return found

    async def _document(self, prefix: str, name: str) -> bytes:
        body = await self._store.get(keys.artifact_key(prefix, name))
        if body is None:
            raise DataError(f"{name} is listed, and is gone")
        return decompress_all(body, DOCUMENT_BYTES)

    async def _text(self, prefix: str, name: str) -> bytes:
        key = keys.artifact_key(prefix, name)
        index = await self._reader.read_index(key)
        text = (
            await self._reader.read_bytes(key, max(0, index.raw_bytes - STREAM_BYTES), STREAM_BYTES) if index else None
        )
        if text is None:
            raise DataError(f"{name} is listed, and is gone")
        return text

    async def _log(self, prefix: str, name: str) -> AsyncIterator[bytes]:
        key = keys.artifact_key(prefix, name)
        # a verdict that a log is missing from would replace one that had seen it
        if await self._reader.read_index(key) is None:
            raise DataError(f"{name} is listed, and is gone")
        async for piece in read_excerpt(self._reader, key):
            yield piece


def _note(found: dict[str, Mapping[str, Any]], name: str, body: bytes) -> None:
    """Keeps a document; one that is no JSON object counts as not there, as it did for the watcher."""
    try:
        document = json.loads(body or b"null")
    except ValueError:
        return
    if isinstance(document, dict):
        found[name] = document


def _rayjob_of(manifest: Manifest) -> Mapping[str, Any]:
    """What the manifest says of a RayJob whose own versions were lost."""
    outcome = manifest.outcome
    status = {
        "jobStatus": outcome.job_status,
        "jobDeploymentStatus": outcome.deployment_status,
        "reason": outcome.reason,
        "message": outcome.message,
    }
    return {"metadata": {"name": manifest.attempt.rayjob.name}, "spec": manifest.spec, "status": status}
