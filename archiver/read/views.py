"""What every page, the REST API and the command line render: frozen values, complete in themselves.

Not the archive's own records (those are ``core.manifest``), and no markup: words, numbers with units in their names,
UTC times. A list row is ``JobRow``, a RayJob in full is ``JobView``, one try of it ``AttemptView``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from archiver.core.manifest import ManifestState, Outcome, Times
from archiver.core.model import Artifact, Attribution, Completeness, Gap, ResourceUse
from archiver.index.filters import FAILURES, JobFilter, JobOrder, PageRequest, Scope

__all__ = [
    "FAILURES",
    "ArtifactView",
    "AttemptCell",
    "AttemptView",
    "Candidate",
    "CauseBrief",
    "Certainty",
    "Check",
    "Citation",
    "DecisiveLine",
    "EventPage",
    "EventView",
    "Facet",
    "FacetValue",
    "FacetsView",
    "HealthView",
    "JobFilter",
    "JobOrder",
    "JobPage",
    "JobRow",
    "JobView",
    "LogLine",
    "LogWindow",
    "PageRequest",
    "SameName",
    "Scope",
    "VerdictView",
]


class Certainty(StrEnum):
    """Confidence as the word that stands beside its number."""

    SURE = "sure"
    LIKELY = "likely"
    GUESS = "a guess"
    UNKNOWN = "unknown"

    @staticmethod
    def of(cause: str, confidence: float) -> "Certainty":
        if cause in ("", "unknown"):
            return Certainty.UNKNOWN
        if confidence >= 0.9:
            return Certainty.SURE
        return Certainty.LIKELY if confidence >= 0.7 else Certainty.GUESS


@dataclass(frozen=True, slots=True)
class CauseBrief:
    """A verdict in one line. ``cause`` is the leaf id, ``title`` its words, ``category`` the branch it hangs on."""

    cause: str
    category: str
    title: str
    owner: str
    confidence: float
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class DecisiveLine:
    """The one line that says most. ``artifact`` is None where the source is no log of ours; ``line`` counts from 1."""

    source: str
    artifact: str | None
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class AttemptCell:
    """One attempt in the strip of a list row. ``status`` is the word of ``Outcome.ended_as``."""

    number: int
    status: str
    cause: str | None
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """One RayJob in a list. What is said of the end (status, cause, line) is its newest attempt's.

    ``at`` is what lists sort by: the end, or the start of one that runs. ``gpus`` are asked for at once by the newest
    attempt; ``gpu_seconds`` were spent by all attempts; ``completeness`` is the worst of all attempts. ``fingerprint``
    names the group of the newest attempt's failure.
    """

    uid: str
    cluster: str
    namespace: str
    name: str
    status: str
    job_status: str
    deployment_status: str
    reason: str
    team: Attribution | None
    queue: Attribution | None
    submitter: Attribution | None
    attempts: tuple[AttemptCell, ...]
    cause: CauseBrief | None
    decisive: DecisiveLine | None
    at: datetime
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    duration_seconds: float | None
    gpus: float
    gpu_seconds: float
    completeness: Completeness
    completeness_reason: str
    ray_version: str | None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of a list, newest first. Tokens are opaque and fit only the filter they were made for."""

    rows: tuple[JobRow, ...]
    next_token: str | None
    prev_token: str | None


@dataclass(frozen=True, slots=True)
class FacetValue:
    """``count`` RayJobs of the filter have this value; ``capped`` where there are that many or more."""

    value: str
    count: int
    capped: bool = False


@dataclass(frozen=True, slots=True)
class Facet:
    """``name`` is the field of ``JobFilter`` that a choice sets (``teams``, ``causes`` …)."""

    name: str
    values: tuple[FacetValue, ...]


@dataclass(frozen=True, slots=True)
class FacetsView:
    """Counts beside a list. ``total`` and all counts look at no more than ``limit`` newest RayJobs of the filter."""

    facets: tuple[Facet, ...]
    total: int
    capped: bool
    failed: int
    gpu_seconds_lost: float
    limit: int


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in the evidence that a verdict points at. ``artifact`` is the archived one, where it is one of ours."""

    source: str
    artifact: str | None
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    cause: str
    confidence: float


@dataclass(frozen=True, slots=True)
class VerdictView:
    """Why the attempt ended. ``raw`` is the stored document, with whatever a newer ruleset put there."""

    brief: CauseBrief
    summary: str
    evidence: tuple[Citation, ...]
    candidates: tuple[Candidate, ...]
    symptoms: tuple[str, ...]
    missing: tuple[str, ...]
    next_steps: tuple[str, ...]
    rule: str
    ruleset: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ArtifactView(Artifact):
    """One piece of evidence. ``name`` identifies it within its attempt; ``live`` while it still grows.

    Of a live one bytes and lines are what has been flushed so far, and there is no ``sha256`` yet.
    """

    live: bool = False


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt in full. ``missing`` says in sentences what could not be saved; empty when all is complete."""

    number: int
    state: ManifestState
    revision: int
    status: str
    ray_cluster: str | None
    job_id: str | None
    submission_mode: str
    outcome: Outcome
    times: Times
    duration_seconds: float | None
    margin_seconds: float | None
    team: Attribution | None
    queue: Attribution | None
    cost_centre: Attribution | None
    submitter: Attribution | None
    versions: Mapping[str, str]
    images: Mapping[str, str]
    nodes: tuple[str, ...]
    resources: ResourceUse
    completeness: Completeness
    completeness_reason: str
    missing: tuple[str, ...]
    artifacts: tuple[ArtifactView, ...]
    verdict: VerdictView | None
    retention_class: str
    spec: Mapping[str, Any]
    manifest_key: str


@dataclass(frozen=True, slots=True)
class SameName:
    """Another RayJob object that bore this name in this namespace."""

    uid: str
    status: str
    at: datetime


@dataclass(frozen=True, slots=True)
class JobView:
    """One RayJob with all its attempts, oldest first. ``same_name`` are the other uids of its name, newest first."""

    row: JobRow
    attempts: tuple[AttemptView, ...]
    same_name: tuple[SameName, ...]

    @property
    def newest(self) -> AttemptView:
        """The attempt that a job page opens on."""
        return self.attempts[-1]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without its line end. ``number`` counts from 1, ``offset_bytes`` is where it starts in the whole text.

    ``time_ns`` (nanoseconds since the epoch, UTC) is when the source wrote it, where that is known. ``cut`` where the
    line is longer than a window may be and only its beginning is here.
    """

    number: int
    offset_bytes: int
    data: bytes
    time_ns: int | None = None
    cut: bool = False

    @property
    def text(self) -> str:
        """For people; bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Some lines of a log, and where they stand in the whole.

    ``gaps`` are the holes inside this window: each stands after line ``Gap.at_line``. ``previous_line`` and
    ``next_line`` are where the neighbouring windows start, None at either end. ``focus_line`` is the line that was
    asked for by number, byte or time. ``is_bounded`` where the asked range was larger than a window may be.
    """

    artifact: ArtifactView
    lines: tuple[LogLine, ...]
    gaps: tuple[Gap, ...]
    total_lines: int
    total_bytes: int
    previous_line: int | None
    next_line: int | None
    focus_line: int | None = None
    is_bounded: bool = False


@dataclass(frozen=True, slots=True)
class EventView:
    """One Kubernetes Event with its repetitions folded. Times may be None: the newer API leaves some empty."""

    uid: str
    type: str
    reason: str
    message: str
    object_kind: str
    object_name: str
    object_namespace: str
    component: str
    count: int
    first_time: datetime | None
    last_time: datetime | None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in time order. ``completeness`` is the artifact's; LOST with a reason where none were archived."""

    events: tuple[EventView, ...]
    completeness: Completeness
    reason: str
    is_bounded: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must work for reading, in words."""

    name: str
    is_ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class HealthView:
    """What a tired person can read aloud. Counts are of attempts captured in the last ``window_seconds``.

    ``capture_lag`` is from the end to safe, ``margin`` from safe to the deletion of the cluster (negative: too late).
    """

    is_ready: bool
    checks: tuple[Check, ...]
    window_seconds: float
    attempts: int
    open_attempts: int
    complete: int
    partial: int
    lost: int
    capture_lag_p50_seconds: float | None
    capture_lag_p99_seconds: float | None
    margin_min_seconds: float | None
    newest_capture: datetime | None
    versions: Mapping[str, str]
