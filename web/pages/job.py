"""What the page of a RayJob shows: the answer first, then the course of things and the evidence. Plain values."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from shlex import quote

from archiver.core.model import ArtifactKind, Completeness, LogKind
from archiver.core.timeline import Lane, Severity, TimelineEntry
from archiver.read.views import ArtifactView, AttemptView, JobView, VerdictView
from web.pages import links, marks, status, words
from web.pages.reasons import ray_error, reason

_MAIN_LANES = (Lane.RAYJOB, Lane.RAYCLUSTER, Lane.CAPTURE)
# where Ray's message goes over into the driver log's tail
_TAIL_FOLLOWS = ", last available logs"
MAX_ENTRIES = 500
MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Tab:
    number: int
    status: str
    note: str
    differs: str
    href: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    is_mono: bool = False


@dataclass(frozen=True, slots=True)
class Course:
    """The entries of the timeline that are shown, and how many there are."""

    entries: tuple[TimelineEntry, ...]
    total: int
    is_whole: bool


def headline_parts(attempt: AttemptView) -> tuple[str, ...]:
    """The line under the name: whose it was, what it had, what it ran on."""
    gpus = words.plural(attempt.resources.gpus, "GPU") if attempt.resources.gpus else None
    parts = (
        words.attribution("team", attempt.team),
        words.attribution("queue", attempt.queue),
        gpus,
        words.attribution("submitted by", attempt.submitter),
        words.versions(attempt.versions),
        attempt.submission_mode,
    )
    return tuple(part for part in parts if part)


def tabs(job: JobView, current: AttemptView) -> tuple[Tab, ...]:
    """One tab an attempt, with what sets it apart."""
    return tuple(
        Tab(
            number=attempt.number,
            status=attempt.status,
            note=_why_short(attempt),
            differs=_differs(earlier, attempt),
            href=links.attempt(job.row.uid, attempt.number),
            is_current=attempt.number == current.number,
        )
        for earlier, attempt in zip((None, *job.attempts), job.attempts, strict=False)
    )


def _differs(earlier: AttemptView | None, attempt: AttemptView) -> str:
    """What the attempt had that the one before had not, as far as it is told in a word."""
    if earlier is None:
        return ""
    # a container that never started has no digest, and a pod that was never placed no node
    shared = earlier.images.keys() & attempt.images.keys()
    pairs = (
        ("other image", any(earlier.images[name] != attempt.images[name] for name in shared)),
        ("other spec", earlier.spec != attempt.spec),
        ("other nodes", bool(earlier.nodes and attempt.nodes) and set(earlier.nodes) != set(attempt.nodes)),
        ("other versions", earlier.versions != attempt.versions),
    )
    return ", ".join(name for name, is_so in pairs if is_so)


def verdict(attempt: AttemptView) -> VerdictView | None:
    """Why it failed; what went well needs no cause, whatever was seen on its way."""
    return None if attempt.status == "succeeded" else attempt.verdict


def _why_short(attempt: AttemptView) -> str:
    told = verdict(attempt)
    if told:
        return told.brief.title
    return reason(attempt.outcome.reason)


def sentence(attempt: AttemptView) -> str:
    """Why it ended, in one sentence; without a verdict, what KubeRay and Ray said themselves."""
    told = verdict(attempt)
    if told:
        return told.summary or told.brief.title
    if attempt.status == "succeeded":
        return "The driver ended well, and Ray called the job a success."
    if attempt.status == "running":
        return "It is running, and nothing has failed so far."
    return _said(attempt)


def _said(attempt: AttemptView) -> str:
    outcome = attempt.outcome
    because = reason(outcome.reason) or ray_error(outcome.ray_error_type)
    code = "" if outcome.driver_exit_code is None else f" with exit code {outcome.driver_exit_code}"
    if because:
        ended = f"; the driver ended{code}" if code else ""
        return f"{because[:1].upper()}{because[1:]}{ended}."
    return f"The attempt {status.mark(attempt.status).sentence}{code}; KubeRay gave no reason."


def message_head(attempt: AttemptView) -> str:
    """The first line of KubeRay's message; the rest of it is the driver log's tail, which stands below."""
    lines = [line for line in attempt.outcome.message.splitlines() if line.strip()]
    head = marks.line_text(lines[0].encode("utf-8", "surrogateescape")) if lines else ""
    return head.partition(_TAIL_FOLLOWS)[0][:400]


def facts(attempt: AttemptView) -> tuple[Fact, ...]:
    """KubeRay's and Ray's own words, beside the sentence."""
    outcome, times = attempt.outcome, attempt.times
    pairs = (
        Fact("Ray's job status", outcome.job_status, is_mono=True),
        Fact("KubeRay's deployment status", outcome.deployment_status, is_mono=True),
        Fact("KubeRay's reason", outcome.reason, is_mono=True),
        Fact("Ray's error type", outcome.ray_error_type or "", is_mono=True),
        Fact("Driver's exit code", "" if outcome.driver_exit_code is None else str(outcome.driver_exit_code)),
        Fact("RayCluster", attempt.ray_cluster or "", is_mono=True),
        Fact("Submission id", attempt.job_id or "", is_mono=True),
        Fact("Started", words.utc(times.started) if times.started else ""),
        Fact("Ended", words.utc(times.ended) if times.ended else ""),
        Fact("Cluster deleted", words.utc(times.cluster_deleted) if times.cluster_deleted else ""),
        Fact("GPU time", words.gpu_hours(attempt.resources.gpu_seconds) if attempt.resources.gpu_seconds else ""),
        Fact("Nodes", ", ".join(attempt.nodes), is_mono=True),
        *(Fact(f"Image of {name}", image, is_mono=True) for name, image in sorted(attempt.images.items())),
    )
    return tuple(fact for fact in pairs if fact.value)


def course(entries: Iterable[TimelineEntry], *, whole: bool) -> Course:
    """Without ``whole`` only status changes, capture, warnings and errors."""
    everything = tuple(replace(entry, title=clean(entry.title), detail=clean(entry.detail)) for entry in entries)
    shown = everything if whole else tuple(entry for entry in everything if _matters(entry))
    kept = shown[-MAX_ENTRIES:]
    return Course(kept, len(everything), len(kept) == len(everything))


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """One bounded line of text that nothing in it can make act."""
    line = marks.line_text(" ".join(text[: limit * 8].split()).encode("utf-8", "surrogateescape"))
    return words.short(line, limit)


def _matters(entry: TimelineEntry) -> bool:
    return entry.severity is not Severity.INFO or entry.lane in _MAIN_LANES


def evidence_summary(attempt: AttemptView) -> tuple[str, ...]:
    """What the list of evidence amounts to, and how close it was."""
    whole = sum(entry.completeness is Completeness.COMPLETE for entry in attempt.artifacts)
    total = len(attempt.artifacts)
    bytes_words = words.size(sum(entry.raw_bytes for entry in attempt.artifacts))
    count = f"all {total} complete" if whole == total else f"{whole} of {total} complete"
    safe = f"safe {words.margin(attempt.margin_seconds)}" if attempt.times.captured else "still being captured"
    return (count, bytes_words, safe) if total else ()


def sorted_evidence(attempt: AttemptView) -> tuple[ArtifactView, ...]:
    """Most telling first: the driver, then logs by kind, then events, objects and Ray's state."""
    return tuple(sorted(attempt.artifacts, key=_evidence_order))


def _evidence_order(artifact: ArtifactView) -> tuple[int, int, str]:
    kinds = list(ArtifactKind)
    logs = list(LogKind)
    return kinds.index(artifact.kind), logs.index(artifact.source.kind) if artifact.source else 0, artifact.name


def commands(job: JobView, attempt: AttemptView) -> tuple[str, ...]:
    row = job.row
    return (
        f"archiver show {quote(row.uid)} --attempt {attempt.number}",
        f"archiver logs {quote(row.uid)} --attempt {attempt.number}",
        f"archiver events {quote(row.uid)} --attempt {attempt.number}",
        f"archiver download {quote(row.uid)} --attempt {attempt.number} --bundle",
        f"kubectl -n {quote(row.namespace)} get rayjob {quote(row.name)} -o yaml",
    )
