"""An archived attempt's evidence as the watcher gave it to the diagnosis, made again from what was kept of it.

The journal is folded as after a restart of the watcher; what the manifest has written down (how it ended, and when the end
was first seen) goes before what the fold finds.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from archiver.collect.closing import evidence_of
from archiver.collect.fold import RECALLED, Fold
from archiver.collect.journal import artifact_name, changes
from archiver.collect.raycapture import RECORD_NAME
from archiver.collect.snapshot import STATE_STEPS
from archiver.collect.state import AttemptState
from archiver.collect.tools import Explained
from archiver.core.manifest import Manifest

STREAM_BYTES = 64 << 20
DOCUMENT_BYTES = 128 << 20


class Kept(Protocol):
    """The artifacts of one attempt. Both raise DataError for one that is listed and gone, or damaged."""

    async def document(self, name: str) -> bytes:
        """A small artifact, whole; DataError above DOCUMENT_BYTES."""
        ...

    async def newest(self, name: str) -> bytes:
        """Of an object stream the last STREAM_BYTES at most, so that memory is bounded."""
        ...


async def recall(manifest: Manifest, kept: Kept, *, prefix: str = "") -> Explained:
    """What the diagnosis may see. Reads only what the manifest lists."""
    listed = {artifact.name for artifact in manifest.artifacts if artifact.key}
    state = AttemptState(manifest.attempt)
    fold = Fold(state, lambda _: None)
    for kind in RECALLED:
        name = artifact_name(kind)
        lines = (await kept.newest(name)).split(b"\n") if name in listed else []
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
        ray=await _ray(kept, listed),
    )


async def _ray(kept: Kept, listed: set[str]) -> dict[str, Mapping[str, Any]]:
    """The state as it was read last, and the newest version of the job's record."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in (step.document for step in STATE_STEPS if step.document in listed):
        _note(found, name, await kept.document(name))
    if RECORD_NAME in listed:
        _note(found, "ray/job.json", (await kept.newest(RECORD_NAME)).rstrip(b"\n").rpartition(b"\n")[2])
    return found


def _note(found: dict[str, Mapping[str, Any]], name: str, body: bytes) -> None:
    """Keeps a document; one that is no JSON object counts as not there, as it did for the watcher."""
    try:
        document = json.loads(body or b"null")
    except (ValueError, RecursionError):
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
