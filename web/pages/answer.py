"""The answer at the top of a RayJob's page: the lines that decide, what follows from them, what it cost, what to do.

Plain values out of views; reading the lines is ``job_page``'s.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from archiver.core.difference import Aspect, Change
from archiver.read import telling
from archiver.read.runs import Difference, OtherRun, SameFailures
from archiver.read.views import ArtifactView, AttemptView, Citation, LogWindow
from web.pages import links, marks, words
from web.pages.job import clean, verdict

MAX_CITATIONS = 4
MAX_SYMPTOMS = 5
MAX_NAMED = 4
CONTEXT_LINES = 5
TAIL_LINES = 14
LINE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    number: int
    text: str
    href: str
    is_decisive: bool


@dataclass(frozen=True, slots=True)
class Cited:
    """A citation: where, what, and the lines around it where it is a line of an archived log.

    ``is_open`` where the lines themselves are the answer, as the end of a log is without a verdict.
    """

    place: str
    text: str
    href: str | None = None
    lines: tuple[ExcerptLine, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Linked:
    """A sentence that leads somewhere."""

    text: str
    href: str
    label: str
    at: datetime | None = None


def citations(attempt: AttemptView) -> tuple[Citation, ...]:
    """The places that the verdict points at, the decisive one first."""
    told = verdict(attempt)
    return told.evidence[:MAX_CITATIONS] if told else ()


def cited(uid: str, number: int, place: Citation, window: LogWindow | None) -> Cited:
    """``window`` has the lines around it, None where it is no line of an archived log: a field, an Event."""
    text = clean(place.text)
    if window is None or not window.lines or place.line is None:
        return Cited(words.place(place.source, place.line), text)
    name = window.artifact.name
    here = next((line for line in window.lines if line.number == place.line), None)
    return Cited(
        words.place(log_word(window.artifact), place.line),
        clean(here.text) if here else text,
        links.log(uid, number, name, line=place.line),
        _lines(uid, number, window, place.line),
    )


def tail(uid: str, number: int, window: LogWindow) -> Cited:
    """The last lines of a log."""
    href = links.log(uid, number, window.artifact.name)
    title = f"The end of the {log_word(window.artifact)} log"
    return Cited(title, "", href, _lines(uid, number, window, None), is_open=True)


def symptoms(uid: str, attempt: AttemptView) -> tuple[Cited, ...]:
    """What follows from the cause: the first few, each in a few words."""
    if verdict(attempt) is None:
        return ()
    return tuple(_symptom(uid, attempt, each) for each in telling.symptoms(attempt)[:MAX_SYMPTOMS])


def _symptom(uid: str, attempt: AttemptView, each: Citation) -> Cited:
    is_line = each.artifact is not None and each.line is not None
    href = links.log(uid, attempt.number, each.artifact or "", line=each.line) if is_line else None
    return Cited(words.place(each.source, each.line) if each.source else "", clean(each.text, 140), href)


def idle(attempt: AttemptView) -> str:
    """``8 GPUs were held for 3 m 40 s before the first task (0.5 GPU-hours).``; empty where none waited."""
    waited = telling.idle(attempt)
    if waited is None or attempt.status == "succeeded":
        return ""
    cost = words.gpu_hours(waited.gpu_seconds)
    is_all = waited.gpu_seconds >= attempt.resources.gpu_seconds * 0.999
    when = "and got no task" if is_all else "before the first task"
    were = "was" if waited.gpus == 1 else "were"
    return f"{words.plural(waited.gpus, 'GPU')} {were} held for {words.duration(waited.seconds)} {when} ({cost})."


def same_failures(found: SameFailures | None, fingerprint: str | None, now: datetime) -> Linked | None:
    """``Same failure 14 times in 3 days, in 4 jobs``, leading to the group."""
    if found is None or fingerprint is None:
        return None
    days = max(1, -(-int((now - found.first_at).total_seconds()) // 86_400))
    more = " or more" if found.is_capped else ""
    often = f"{words.number(found.count)}{more} times in {words.plural(days, 'day')}"
    jobs = f"in {words.plural(found.jobs, 'job')}"
    return Linked(f"Same failure {often}, {jobs}", links.group(fingerprint), "its group")


def last_good(run: OtherRun | None) -> Linked | None:
    """With its date, which the page tells as a time."""
    return Linked("Last good run", links.attempt(run.uid, run.number), run.name, run.at) if run else None


def changed(uid: str, number: int, found: Difference | None) -> Linked | None:
    """``Changed since the last good run: image digest · env MODEL_REV``, leading to all of it."""
    if found is None:
        return None
    names = named(found.changes)
    what = " · ".join(names) if names else "nothing in spec, image, nodes or versions"
    since = "Changed since the last good run" if found.other.is_last_good else "Changed since the attempt before"
    return Linked(f"{since}: {what}", links.difference(uid, number, found.other), "full difference")


def named(changes: Sequence[Change]) -> tuple[str, ...]:
    """What changed in a few words each, most telling first; how many more."""
    told = list(dict.fromkeys(_named(change) for change in changes))
    rest = [f"{len(told) - MAX_NAMED} more"] if len(told) > MAX_NAMED else []
    return (*told[:MAX_NAMED], *rest)


def _named(change: Change) -> str:
    if change.aspect is Aspect.IMAGE:
        return "image digest" if change.name.startswith("image digest") else "image"
    if "nodeSelector" in change.name or ".affinity" in change.name or ".tolerations" in change.name:
        return "node pool"
    if change.aspect is Aspect.VERSION:
        return words.PRODUCTS.get(change.name.lower(), change.name) + " version"
    return change.name.rpartition(".")[2] if change.aspect in (Aspect.SPEC, Aspect.CLUSTER) else change.name


def log_word(artifact: ArtifactView) -> str:
    return artifact.source.kind.value if artifact.source else artifact.name


def _lines(uid: str, number: int, window: LogWindow, decisive: int | None) -> tuple[ExcerptLine, ...]:
    return tuple(_excerpt(uid, number, window, decisive))


def _excerpt(uid: str, number: int, window: LogWindow, decisive: int | None) -> Iterable[ExcerptLine]:
    for line in window.lines:
        href = links.log(uid, number, window.artifact.name, line=line.number)
        yield ExcerptLine(line.number, marks.line_text(line.data)[:LINE_CHARS], href, line.number == decisive)
