"""Rows and manifests into views. Pure; no connection and no store here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from archiver.core import records
from archiver.core.manifest import Manifest
from archiver.core.model import Artifact, Attribution, Completeness
from archiver.index.facets import FACETS, Counts
from archiver.index.queries import Found, StoredAttempt
from archiver.index.verdicts import StoredVerdict, read_verdict
from archiver.read.views import (
    ArtifactView,
    AttemptCell,
    AttemptView,
    Candidate,
    CauseBrief,
    Certainty,
    Citation,
    DecisiveLine,
    Facet,
    FacetsView,
    FacetValue,
    JobRow,
    JobView,
    SameName,
    VerdictView,
)

FACET_VALUES = 50


def job_row(row: Found) -> JobRow:
    """A list row from a row of ``rayjobs``."""
    return JobRow(
        uid=row["uid"],
        cluster=row["cluster"],
        namespace=row["namespace"],
        name=row["name"],
        status=row["status"],
        job_status=row["job_status"],
        deployment_status=row["deployment_status"],
        reason=row["reason"],
        team=_who(row["team"], row["team_source"]),
        queue=_who(row["queue"], row["queue_source"]),
        submitter=_who(row["submitter"], row["submitter_source"]),
        attempts=tuple(_cell(cell) for cell in row["attempts"]),
        cause=_row_cause(row),
        decisive=DecisiveLine(**row["decisive"]) if row["decisive"] else None,
        at=row["at"],
        created=row["created_at"],
        started=row["started_at"],
        ended=row["ended_at"],
        duration_seconds=_duration(row["started_at"] or row["created_at"], row["ended_at"]),
        gpus=row["gpus"],
        gpu_seconds=row["gpu_seconds"],
        completeness=Completeness(row["completeness"]),
        completeness_reason=row["completeness_reason"],
        ray_version=row["ray_version"],
        fingerprint=row["fingerprint"],
    )


def job_view(row: Found, attempts: Sequence[StoredAttempt], named: Iterable[Found]) -> JobView:
    """A RayJob in full; ``named`` are all RayJobs of its name."""
    others = (SameName(each["uid"], each["status"], each["at"]) for each in named if each["uid"] != row["uid"])
    return JobView(job_row(row), tuple(attempt_view(attempt) for attempt in attempts), tuple(others))


def attempt_view(stored: StoredAttempt) -> AttemptView:
    """One attempt in full, from its manifest."""
    manifest = stored.manifest
    verdict = read_verdict(manifest.verdict, manifest.artifacts)
    times = manifest.times
    return AttemptView(
        number=manifest.attempt.number,
        state=manifest.state,
        revision=manifest.revision,
        status=manifest.outcome.ended_as,
        ray_cluster=manifest.ray_cluster,
        job_id=manifest.job_id,
        submission_mode=manifest.submission_mode,
        outcome=manifest.outcome,
        times=times,
        duration_seconds=_duration(times.started or times.created, times.ended),
        margin_seconds=manifest.margin_seconds,
        team=manifest.team,
        queue=manifest.queue,
        cost_centre=manifest.cost_centre,
        submitter=manifest.submitter,
        versions=manifest.versions,
        images=manifest.images,
        nodes=manifest.nodes,
        resources=manifest.resources,
        completeness=manifest.completeness,
        completeness_reason=manifest.completeness_reason,
        missing=tuple(missing(manifest)),
        artifacts=tuple(artifact_view(artifact) for artifact in manifest.artifacts),
        verdict=verdict_view(verdict, manifest.verdict or {}) if verdict else None,
        retention_class=manifest.retention_class,
        spec=manifest.spec,
        manifest_key=stored.key,
    )


def artifact_view(artifact: Artifact, *, live: bool = False) -> ArtifactView:
    recorded = {field.name: getattr(artifact, field.name) for field in fields(Artifact)}
    return ArtifactView(**recorded, live=live)


def missing(manifest: Manifest) -> Iterable[str]:
    """A sentence for each piece of evidence that is not all there."""
    for artifact in manifest.artifacts:
        if artifact.completeness is not Completeness.COMPLETE:
            yield f"{artifact.name}: {artifact.completeness.value}. {artifact.reason}".rstrip(". ")


def verdict_view(verdict: StoredVerdict, raw: Mapping[str, Any]) -> VerdictView:
    return VerdictView(
        brief=_brief(verdict.cause, verdict.category, verdict.title, verdict.owner, verdict.confidence),
        summary=verdict.summary,
        evidence=tuple(Citation(each.source, each.artifact, each.line, each.text) for each in verdict.evidence),
        candidates=tuple(Candidate(cause, confidence) for cause, confidence in verdict.candidates),
        symptoms=verdict.symptoms,
        missing=verdict.missing,
        next_steps=verdict.next_steps,
        rule=verdict.rule,
        ruleset=verdict.ruleset,
        raw=raw,
    )


def facets_view(counts: Counts, *, limit: int) -> FacetsView:
    """Values by count, most first; a value that says nothing is the empty word."""
    is_capped = counts.total >= limit
    facets = []
    for name, _ in FACETS:
        values = [FacetValue(each.value or "", each.count, is_capped) for each in counts.counts if each.facet == name]
        facets.append(Facet(name, tuple(sorted(values, key=lambda value: (-value.count, value.value))[:FACET_VALUES])))
    return FacetsView(tuple(facets), counts.total, is_capped, counts.failed, counts.gpu_seconds_lost, limit)


def _cell(cell: Mapping[str, Any]) -> AttemptCell:
    return AttemptCell(cell["number"], cell["status"], cell["cause"], _time(cell["started"]), _time(cell["ended"]))


def _row_cause(row: Found) -> CauseBrief | None:
    if row["cause"] is None:
        return None
    return _brief(row["cause"], row["category"], row["cause_title"], row["owner"], row["confidence"])


def _brief(cause: str, category: str, title: str, owner: str, confidence: float) -> CauseBrief:
    return CauseBrief(cause, category, title, owner, confidence, Certainty.of(cause, confidence))


def _who(value: str | None, source: str | None) -> Attribution | None:
    return Attribution(value, source or "") if value is not None else None


def _duration(start: datetime | None, end: datetime | None) -> float | None:
    return max(0.0, (end - start).total_seconds()) if start and end else None


def _time(text: str | None) -> datetime | None:
    return records.parse_time(text) if text else None
