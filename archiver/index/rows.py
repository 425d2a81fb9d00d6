"""A manifest as rows, and back. Pure: no connection here.

Text is cleaned on the way (Postgres takes neither NUL nor half a surrogate pair), and what is indexed is cut, because a
B-tree entry must fit a third of a page; the document keeps it whole.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from archiver.core import records
from archiver.core.manifest import Manifest, Times
from archiver.core.model import Artifact, Attribution
from archiver.index.verdicts import StoredVerdict, decisive, read_verdict

Row = dict[str, Any]

INDEXED_CHARS = 300
DECISIVE_CHARS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REPLACEMENTS = {0: "", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


def id_of(manifest: Manifest) -> tuple[str, int]:
    """The primary key of an attempt."""
    return _clean(manifest.attempt.rayjob.uid), manifest.attempt.number


def attempt_row(manifest: Manifest, key: str) -> Row:
    """The row of ``attempts`` for a manifest that lies at ``key``."""
    job, outcome, times = manifest.attempt.rayjob, manifest.outcome, manifest.times
    verdict = read_verdict(manifest.verdict, manifest.artifacts)
    document = records.to_value(replace(manifest, artifacts=()))
    del document["artifacts"]
    return {
        "rayjob_uid": _clean(job.uid),
        "number": manifest.attempt.number,
        "manifest_key": _clean(key),
        "revision": manifest.revision,
        "state": manifest.state.value,
        "cluster": indexed(job.cluster),
        "namespace": indexed(job.namespace),
        "name": indexed(job.name),
        "ended_as": indexed(outcome.ended_as),
        "job_status": indexed(outcome.job_status),
        "deployment_status": indexed(outcome.deployment_status),
        "reason": indexed(outcome.reason),
        "created_at": times.created,
        "started_at": times.started,
        "ended_at": times.ended,
        "captured_at": times.captured,
        "lag_seconds": _seconds_between(times.ended, times.captured),
        "margin_seconds": finite(manifest.margin_seconds),
        "completeness": manifest.completeness.value,
        "completeness_reason": _clean(manifest.completeness_reason),
        "retention_class": indexed(manifest.retention_class),
        "gpus": finite(manifest.resources.gpus) or 0.0,
        "gpu_seconds": finite(manifest.resources.gpu_seconds) or 0.0,
        "cpu_seconds": finite(manifest.resources.cpu_seconds) or 0.0,
        **_verdict_columns(verdict),
        "document": clean(document),
        "at": moment_of(times),
        "team": indexed(manifest.team.value) if manifest.team else None,
        "queue": indexed(manifest.queue.value) if manifest.queue else None,
        "nodes": _distinct(manifest.nodes),
        "images": _distinct(manifest.images.values()),
    }


def artifact_rows(manifest: Manifest) -> list[Row]:
    """The rows of ``artifacts``; of two with one name the later one counts."""
    uid, number = id_of(manifest)
    rows = (_artifact_row(artifact, position) for position, artifact in enumerate(manifest.artifacts))
    return list({row["name"]: {"rayjob_uid": uid, "number": number, **row} for row in rows}.values())


def manifest_of(document: Mapping[str, Any], artifacts: Iterable[Mapping[str, Any]]) -> Manifest:
    """The inverse: an attempt's document and those of its artifacts, in their order."""
    manifest: Manifest = records.from_value(Manifest, {**document, "artifacts": list(artifacts)})
    return manifest


def rayjob_row(manifests: Iterable[Manifest]) -> Row:
    """What a list shows of a RayJob, summed over its attempts (their artifacts are needed for the newest only)."""
    attempts = sorted(manifests, key=lambda manifest: manifest.attempt.number)
    newest = attempts[-1]
    job, outcome, times = newest.attempt.rayjob, newest.outcome, newest.times
    verdict = read_verdict(newest.verdict, newest.artifacts)
    worst = min(attempts, key=lambda manifest: _WORST_FIRST.index(manifest.completeness.value))
    return {
        "uid": _clean(job.uid),
        "cluster": indexed(job.cluster),
        "namespace": indexed(job.namespace),
        "name": indexed(job.name),
        "at": moment_of(times),
        "created_at": min((a.times.created for a in attempts if a.times.created), default=None),
        "started_at": times.started,
        "ended_at": times.ended,
        "status": indexed(outcome.ended_as),
        "job_status": indexed(outcome.job_status),
        "deployment_status": indexed(outcome.deployment_status),
        "reason": indexed(outcome.reason),
        **_who("team", newest.team),
        **_who("queue", newest.queue),
        **_who("submitter", newest.submitter),
        **_cause_columns(verdict),
        "attempts": clean([_cell(manifest) for manifest in attempts]),
        "gpus": finite(newest.resources.gpus) or 0.0,
        "gpu_seconds": sum(finite(a.resources.gpu_seconds) or 0.0 for a in attempts),
        "completeness": worst.completeness.value,
        "completeness_reason": _clean(_reason_of(worst, newest)),
        "ray_version": _clean(newest.versions["ray"]) if "ray" in newest.versions else None,
        "nodes": _distinct(node for manifest in attempts for node in manifest.nodes),
        "fingerprint": indexed(verdict.fingerprint) if verdict and verdict.fingerprint else None,
        "images": _distinct(image for manifest in attempts for image in manifest.images.values()),
        "name_grams": grams(indexed(job.name)),
    }


def moment_of(times: Times) -> datetime:
    """What lists sort by and days count: the end, or the start of an attempt that runs."""
    return times.ended or times.started or times.created or times.first_signal or times.captured or _EPOCH


def grams(name: str) -> list[str]:
    """Every three characters in a row, for looking into names by an index. Only ASCII has a lower case here."""
    lower = name.translate(_ASCII_LOWER)
    return sorted({lower[place : place + 3] for place in range(len(lower) - 2)})


def as_indexed(manifest: Manifest) -> Manifest:
    """The manifest as the index gives it back: Postgres takes no NUL and no half of a surrogate pair."""
    cleaned: Manifest = records.from_value(Manifest, clean(records.to_value(manifest)))
    return cleaned


def clean(value: Any) -> Any:
    """A JSON value that Postgres takes as JSONB."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        return {_clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def indexed(text: str) -> str:
    return _clean(text)[:INDEXED_CHARS]


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_WORST_FIRST = ("lost", "partial", "complete")


def _clean(text: str) -> str:
    return text if text.isascii() and "\0" not in text else text.translate(_REPLACEMENTS)


def _distinct(words: Iterable[str]) -> list[str]:
    return sorted({indexed(word) for word in words})


def _artifact_row(artifact: Artifact, position: int) -> Row:
    return {
        "name": _clean(artifact.name),
        "position": position,
        "kind": artifact.kind.value,
        "key": _clean(artifact.key),
        "raw_bytes": artifact.raw_bytes,
        "stored_bytes": artifact.stored_bytes,
        "lines": artifact.lines,
        "sha256": _clean(artifact.sha256),
        "completeness": artifact.completeness.value,
        "document": clean(records.to_value(artifact)),
    }


def _verdict_columns(verdict: StoredVerdict | None) -> Row:
    return {
        "cause": indexed(verdict.cause) if verdict else None,
        "category": indexed(verdict.category) if verdict else None,
        "confidence": verdict.confidence if verdict else None,
        "ruleset": indexed(verdict.ruleset) if verdict else None,
        "fingerprint": indexed(verdict.fingerprint) if verdict and verdict.fingerprint else None,
    }


def _cause_columns(verdict: StoredVerdict | None) -> Row:
    place = decisive(verdict) if verdict else None
    return {
        "cause": indexed(verdict.cause) if verdict else None,
        "category": indexed(verdict.category) if verdict else None,
        "cause_title": _clean(verdict.title) if verdict else None,
        "owner": _clean(verdict.owner) if verdict else None,
        "confidence": verdict.confidence if verdict else None,
        "decisive": clean(
            {
                "source": place.source,
                "artifact": place.artifact,
                "line": place.line,
                "text": place.text.strip()[:DECISIVE_CHARS],
            }
        )
        if place
        else None,
    }


def _who(name: str, who: Attribution | None) -> Row:
    return {name: indexed(who.value) if who else None, f"{name}_source": _clean(who.source) if who else None}


def _cell(manifest: Manifest) -> Row:
    verdict = read_verdict(manifest.verdict)
    return {
        "number": manifest.attempt.number,
        "status": manifest.outcome.ended_as,
        "cause": verdict.cause if verdict else None,
        "started": records.to_value(manifest.times.started),
        "ended": records.to_value(manifest.times.ended),
    }


def _reason_of(worst: Manifest, newest: Manifest) -> str:
    is_other = worst.attempt.number != newest.attempt.number and worst.completeness != newest.completeness
    return f"attempt {worst.attempt.number}: {worst.completeness_reason}" if is_other else newest.completeness_reason


def _seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
