"""From a sealed stream to an artifact with its verdict: complete, partial or lost, and the reason in words."""

from collections.abc import Sequence

from archiver.collect.streams import Sealed
from archiver.core.model import Artifact, ArtifactKind, Completeness, Gap, LogSource


def artifact_of(
    name: str, kind: ArtifactKind, sealed: Sealed, *, reason: str, source: LogSource | None = None
) -> Artifact:
    """``reason`` says how it was captured; gaps override it."""
    completeness = judge(sealed.gaps, sealed.raw_bytes)
    return Artifact(
        name=name,
        kind=kind,
        key=sealed.key,
        raw_bytes=sealed.raw_bytes,
        stored_bytes=sealed.stored_bytes,
        lines=sealed.lines,
        sha256=sealed.sha256,
        completeness=completeness,
        reason=reason if completeness is Completeness.COMPLETE else in_words(sealed.gaps),
        source=source,
        source_bytes=sealed.source_bytes,
        first_time=sealed.first_time,
        last_time=sealed.last_time,
        gaps=tuple(sealed.gaps),
        masked=sealed.masked,
    )


def lost(name: str, kind: ArtifactKind, reason: str, source: LogSource | None = None) -> Artifact:
    """The row that says that nothing of it could be saved."""
    return Artifact(
        name=name,
        kind=kind,
        key="",
        raw_bytes=0,
        stored_bytes=0,
        lines=0,
        sha256="",
        completeness=Completeness.LOST,
        reason=reason,
        source=source,
    )


def judge(gaps: Sequence[Gap], raw_bytes: int) -> Completeness:
    if not gaps:
        return Completeness.COMPLETE
    return Completeness.PARTIAL if raw_bytes else Completeness.LOST


def in_words(gaps: Sequence[Gap]) -> str:
    """The gaps in one sentence."""
    first = gaps[0]
    missing = f"{first.missing_bytes:,} bytes missing: " if first.missing_bytes else ""
    more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
    return f"{missing}{first.detail}{more}"
