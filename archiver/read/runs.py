"""An attempt beside others: the last good run of the same job, failures of the same kind, and what differs in full."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.difference import Change, changes, cluster_changes
from archiver.core.divergence import Divergence, diverge
from archiver.core.manifest import Manifest
from archiver.core.model import ArtifactKind, LogKind
from archiver.errors import DataError
from archiver.index import runs as queries
from archiver.index.engine import reading
from archiver.index.queries import StoredAttempt, load_attempts
from archiver.read.documents import dig, versions
from archiver.read.evidence import Evidence
from archiver.read.views import JobRow, LogWindow, Scope
from archiver.read.windows import Lines

SAME_DAYS = 30
LOG_LINES = 5_000
MAX_ATTEMPT = 2**31 - 1
_CLUSTERS = "kube/rayclusters.ndjson"


@dataclass(frozen=True, slots=True)
class Place:
    """One attempt."""

    uid: str
    number: int


@dataclass(frozen=True, slots=True)
class OtherRun:
    """The attempt that is compared with. ``is_last_good`` where it is the last success before."""

    uid: str
    number: int
    name: str
    status: str
    at: datetime | None
    is_last_good: bool = False


@dataclass(frozen=True, slots=True)
class SameFailures:
    """Of the last SAME_DAYS: ``count`` attempts of ``jobs`` RayJobs, since ``first_at``; capped at the count looked at."""

    count: int
    jobs: int
    first_at: datetime
    is_capped: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """``changes`` from the other run to this one. ``log`` is where the driver logs part, None where they do not.

    ``log_reason`` says why no logs were compared, or how far; ``is_bounded`` where only their beginnings were.
    """

    other: OtherRun
    changes: tuple[Change, ...]
    log: Divergence | None = None
    log_artifact: str | None = None
    other_log_artifact: str | None = None
    log_reason: str = ""
    is_bounded: bool = False


@dataclass(frozen=True, slots=True)
class _Driver:
    artifact: str = ""
    lines: tuple[bytes, ...] = field(default=(), repr=False)
    is_whole: bool = True


class Runs:
    """Scope first: what a viewer may not see is no last good run, counts for nothing and is not compared with."""

    def __init__(self, engine: AsyncEngine, evidence: Evidence) -> None:
        self._engine = engine
        self._evidence = evidence

    async def last_good(self, scope: Scope, row: JobRow) -> OtherRun | None:
        """The newest success of the same job before this RayJob."""
        team = row.team.value if row.team else None
        run = queries.Run(row.cluster, row.namespace, row.name, team, row.at)
        async with reading(self._engine) as connection:
            found = await queries.last_good(connection, scope, run)
        if found is None:
            return None
        number = max((cell["number"] for cell in found["attempts"]), default=1)
        return OtherRun(found["uid"], number, found["name"], found["status"], found["at"], is_last_good=True)

    async def same_failures(self, scope: Scope, fingerprint: str, *, now: datetime) -> SameFailures | None:
        """None where nothing else failed so; the attempt that is looked at counts too."""
        since = now - timedelta(days=SAME_DAYS)
        async with reading(self._engine) as connection:
            found = await queries.same_failures(connection, scope, fingerprint, since=since)
        if found["count"] < 2:
            return None
        return SameFailures(found["count"], found["jobs"], found["first_at"], found["count"] >= queries.SAMPLE)

    async def changes(self, scope: Scope, place: Place, other: OtherRun) -> Difference | None:
        """What differs, from the index alone: for the line on a job page. None where one is not archived."""
        pair = await self._pair(scope, place, other)
        return Difference(other, changes(pair[1].manifest, pair[0].manifest)) if pair else None

    async def difference(self, scope: Scope, place: Place, other: OtherRun) -> Difference | None:
        """What differs, RayClusters and driver logs included."""
        pair = await self._pair(scope, place, other)
        if pair is None:
            return None
        after, before = pair
        told = changes(before.manifest, after.manifest)
        clusters = cluster_changes(await self._cluster(before), await self._cluster(after), told)
        left, right = await self._driver(before), await self._driver(after)
        if left is None or right is None:
            whose = "the other run" if left is None else "this attempt"
            return Difference(other, (*told, *clusters), log_reason=f"{whose} has no driver log to compare")
        is_bounded = not (left.is_whole and right.is_whole)
        parted = diverge(left.lines, right.lines)
        return Difference(
            other,
            (*told, *clusters),
            log=parted,
            log_artifact=right.artifact,
            other_log_artifact=left.artifact,
            log_reason="" if parted else _alike(is_bounded),
            is_bounded=is_bounded,
        )

    async def describe(self, scope: Scope, place: Place) -> OtherRun | None:
        """An attempt as the other side of a comparison."""
        stored = await self._stored(scope, place)
        return _other(stored.manifest) if stored else None

    async def _pair(self, scope: Scope, place: Place, other: OtherRun) -> tuple[StoredAttempt, StoredAttempt] | None:
        after = await self._stored(scope, place)
        before = await self._stored(scope, Place(other.uid, other.number))
        return (after, before) if after and before else None

    async def _stored(self, scope: Scope, place: Place) -> StoredAttempt | None:
        if not 0 < place.number <= MAX_ATTEMPT:
            return None
        async with reading(self._engine) as connection:
            found = await load_attempts(connection, scope, place.uid, number=place.number)
        return found[0] if found else None

    async def _cluster(self, stored: StoredAttempt) -> Mapping[str, Any] | None:
        """The RayCluster's spec as it was seen first: later ones have what the autoscaler asked for."""
        try:
            found = await self._evidence.document(stored, _CLUSTERS)
        except DataError:
            return None
        specs: Iterator[Any] = (dig(version.object, "spec") for version in versions(found[0])) if found else iter(())
        return next((spec for spec in specs if isinstance(spec, Mapping)), None)

    async def _driver(self, stored: StoredAttempt) -> _Driver | None:
        """The driver's log, or what the submitter repeated of it."""
        for kind in (LogKind.DRIVER, LogKind.SUBMITTER):
            for each in stored.manifest.artifacts:
                is_it = each.kind is ArtifactKind.LOG and each.source is not None and each.source.kind is kind
                if is_it and each.key and each.lines:
                    window = await self._window(stored, each.name)
                    if window is not None:
                        lines = tuple(line.data for line in window.lines)
                        return _Driver(each.name, lines, len(lines) >= window.total_lines)
        return None

    async def _window(self, stored: StoredAttempt, name: str) -> LogWindow | None:
        """The beginning of a log; a damaged one is none."""
        try:
            return await self._evidence.window(stored, name, Lines(1, LOG_LINES))
        except DataError:
            return None


def _other(manifest: Manifest) -> OtherRun:
    job, times = manifest.attempt.rayjob, manifest.times
    return OtherRun(job.uid, manifest.attempt.number, job.name, manifest.outcome.ended_as, times.ended or times.started)


def _alike(is_bounded: bool) -> str:
    if is_bounded:
        return f"the first {LOG_LINES:,} lines say the same, but for times, ids and numbers"
    return "both logs say the same, but for times, ids and numbers"
