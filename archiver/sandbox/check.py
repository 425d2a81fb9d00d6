"""Holds an archived playback to the truth of its recording: byte for byte what the driver wrote, masked as it must be.

A head that is killed in mid-write takes the last bytes of Ray's own file along. Then the archive must say so, and what the
submitter printed must hold every byte: it is the same text by the other way.
"""

import hashlib
from dataclasses import dataclass

from archiver.core.lines import arrived
from archiver.core.model import Completeness, LogKind
from archiver.core.redact import Redactor
from archiver.ports import ObjectStore
from archiver.read.views import ArtifactView, AttemptView
from archiver.sandbox.recording import AttemptTruth
from archiver.sandbox.server import PlayedTruth
from archiver.store.codec import ZstdCodec
from archiver.store.reader import LogReader


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one attempt; ``what`` says in words what is wrong."""

    uid: str
    run: str
    driver_bytes: int
    is_right: bool
    what: str
    is_cause_right: bool = False


async def check_playback(store: ObjectStore, played: PlayedTruth, attempt: AttemptView) -> Finding:
    """Reads the driver's log out of the store again and compares."""
    run = f"{played.namespace}/{played.rayjob} attempt {attempt.number}"
    truth = next((entry for entry in played.truth.attempts if entry.number == attempt.number), None)
    if truth is None:
        return Finding(played.uid, run, 0, False, "an attempt that never was")
    if truth.ray_cluster and attempt.ray_cluster != truth.ray_cluster:
        return Finding(played.uid, run, 0, False, f"RayCluster {attempt.ray_cluster} instead of {truth.ray_cluster}")
    cause = attempt.verdict.brief.cause if attempt.verdict else ""
    is_cause_right = cause in ({truth.cause, *truth.acceptable} if truth.cause else {"", "none", "unknown"})
    if truth.driver is None:
        return Finding(played.uid, run, 0, True, "", is_cause_right)
    what = await _compare(store, played, attempt, truth)
    return Finding(played.uid, run, truth.driver.size_bytes, not what, what, is_cause_right)


async def _compare(store: ObjectStore, played: PlayedTruth, attempt: AttemptView, truth: AttemptTruth) -> str:
    expected = masked(played.playback.recording.driver_log(_recorded_id(played, attempt.number)))
    artifact = next((entry for entry in attempt.artifacts if entry.name == "logs/driver.log"), None)
    text = await _text(store, artifact) if artifact is not None and artifact.key else b""
    if hashlib.sha256(text).digest() == hashlib.sha256(expected).digest():
        return ""
    if artifact is None or artifact.completeness is Completeness.COMPLETE:
        return f"the driver log has {len(text)} bytes, is not said to be incomplete, and {len(expected)} were written"
    if await _submitter_has(store, attempt, expected):
        return ""
    return f"the archived driver log has {len(text)} bytes and differs from the {len(expected)} that were written"


async def _submitter_has(store: ObjectStore, attempt: AttemptView, expected: bytes) -> bool:
    printed = [
        entry for entry in attempt.artifacts if entry.source and entry.source.kind is LogKind.SUBMITTER and entry.key
    ]
    return any([expected in await _text(store, entry) for entry in printed])


def masked(raw: bytes) -> bytes:
    """What is right to archive of some bytes."""
    redactor = Redactor()
    pieces = [redactor.feed(arrived(raw, 0)), redactor.flush()]
    return b"".join(piece.text for piece in pieces if piece)


def _recorded_id(played: PlayedTruth, number: int) -> str:
    attempts = played.playback.recording.truth.attempts
    return next(entry.submission_id for entry in attempts if entry.number == number)


async def _text(store: ObjectStore, artifact: ArtifactView) -> bytes:
    reader = LogReader(store, ZstdCodec())
    return b"".join([piece async for piece in reader.iter_raw(artifact.key)])
