"""One axis for everything that happened to an attempt. Pure: values to entries, in time order; reading them is not here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from archiver.core.lines import to_ns
from archiver.core.manifest import Manifest
from archiver.core.model import Completeness


class Lane(StrEnum):
    """The row of the timeline that an entry stands in."""

    RAYJOB = "rayjob"
    RAYCLUSTER = "raycluster"
    POD = "pod"
    KUBE_EVENT = "kube-event"
    RAY = "ray"
    LOG = "log"
    CAPTURE = "capture"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A moment, or a span where ``until`` is set. ``subject`` is what it happened to (a pod, an artifact, a node).

    ``artifact`` and ``line`` point at the evidence where there is some; ``line`` counts from 1.
    """

    at: datetime
    lane: Lane
    severity: Severity
    subject: str
    title: str
    detail: str = ""
    until: datetime | None = None
    artifact: str | None = None
    line: int | None = None


def assemble(*sources: Iterable[TimelineEntry]) -> tuple[TimelineEntry, ...]:
    """All entries in time order; entries of the same moment keep the order of lanes, then of their source."""
    order = {lane: place for place, lane in enumerate(Lane)}
    entries = [entry for source in sources for entry in source]
    return tuple(sorted(entries, key=lambda entry: (to_ns(entry.at), order[entry.lane])))


def from_manifest(manifest: Manifest) -> Iterator[TimelineEntry]:
    """The moments of the attempt itself and of its capture, and each log as a bar."""
    times, outcome = manifest.times, manifest.outcome
    name, cluster = manifest.attempt.rayjob.name, manifest.ray_cluster or ""
    is_bad = outcome.ended_as in ("failed", "retried", "invalid", "deleted")
    told = " ".join(part for part in (outcome.deployment_status, outcome.reason, outcome.message) if part)
    moments = (
        (times.created, Lane.RAYJOB, Severity.INFO, name, "created", ""),
        (times.started, Lane.RAYJOB, Severity.INFO, name, "started", ""),
        (times.first_signal, Lane.RAYJOB, Severity.INFO, name, "first sign of the end", ""),
        (times.ended, Lane.RAYJOB, Severity.ERROR if is_bad else Severity.INFO, name, outcome.ended_as, told),
        (times.cluster_deleted, Lane.RAYCLUSTER, Severity.INFO, cluster, "deleted", ""),
        (times.captured, Lane.CAPTURE, _worth(manifest.completeness), name, "evidence is safe", _margin(manifest)),
    )
    for at, lane, severity, subject, title, detail in moments:
        if at is not None:
            yield TimelineEntry(at, lane, severity, subject, title, detail)
    yield from _logs(manifest)


def _logs(manifest: Manifest) -> Iterator[TimelineEntry]:
    for artifact in manifest.artifacts:
        if artifact.first_time is None or artifact.source is None:
            continue
        yield TimelineEntry(
            artifact.first_time,
            Lane.LOG,
            _worth(artifact.completeness),
            artifact.name,
            f"{artifact.source.kind.value} log, {artifact.completeness.value}",
            artifact.reason,
            until=artifact.last_time,
            artifact=artifact.name,
            line=1,
        )


def _worth(completeness: Completeness) -> Severity:
    return {Completeness.COMPLETE: Severity.INFO, Completeness.PARTIAL: Severity.WARNING}.get(
        completeness, Severity.ERROR
    )


def _margin(manifest: Manifest) -> str:
    margin = manifest.margin_seconds
    if margin is None:
        return manifest.completeness_reason
    when = "before" if margin >= 0 else "after"
    return f"{abs(margin):.3f} s {when} the cluster was deleted; {manifest.completeness_reason}"
