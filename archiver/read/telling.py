"""What a page, a bundle and the command line tell of one attempt beyond its brief. Pure: views in, values out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from archiver.core.model import ArtifactKind, LogKind
from archiver.index.verdicts import artifact_of
from archiver.read.documents import entries, word
from archiver.read.views import ArtifactView, AttemptView, Citation

_TELLING = (LogKind.DRIVER, LogKind.SUBMITTER, LogKind.HEAD, LogKind.WORKER)


@dataclass(frozen=True, slots=True)
class Advice:
    """A setting of the RayJob that made the failure likely or its evidence scarce."""

    setting: str
    change: str
    why: str


@dataclass(frozen=True, slots=True)
class Idle:
    """GPUs that were held before the first task: how many, how long (seconds), and their product."""

    gpus: float
    seconds: float
    gpu_seconds: float


def telling_log(attempt: AttemptView) -> ArtifactView | None:
    """The log whose end says most: the driver's, else the submitter's, the head's, a worker's; one with text first."""
    logs = [each for each in attempt.artifacts if each.kind is ArtifactKind.LOG and each.source]
    for with_text in (True, False):
        for kind in _TELLING:
            for each in logs:
                if each.source and each.source.kind is kind and (each.lines > 0) is with_text:
                    return each
    return None


def symptoms(attempt: AttemptView) -> tuple[Citation, ...]:
    """What follows from the cause, each with its place where the verdict knows it."""
    raw = attempt.verdict.raw if attempt.verdict else {}
    placed = {word(each, "text"): _place(each, attempt) for each in entries(raw, "symptoms")}
    told = attempt.verdict.symptoms if attempt.verdict else ()
    return tuple(placed.get(text) or Citation("", None, None, text) for text in told)


def advice(attempt: AttemptView) -> tuple[Advice, ...]:
    """As the verdict gives it; nothing where it gives none."""
    return tuple(_advice(attempt.verdict.raw)) if attempt.verdict else ()


def fingerprint(attempt: AttemptView) -> str | None:
    """What groups this attempt's failure with others."""
    raw = attempt.verdict.raw if attempt.verdict else {}
    return word(raw, "fingerprint", "key") or word(raw, "fingerprint") or None


def idle(attempt: AttemptView) -> Idle | None:
    """None where no GPU waited, or where nobody knows when the first task began."""
    use = attempt.resources
    if not use.gpu_idle_seconds or not use.gpus:
        return None
    return Idle(use.gpus, use.gpu_idle_seconds / use.gpus, use.gpu_idle_seconds)


def _advice(raw: Mapping[str, object]) -> Iterator[Advice]:
    for each in entries(raw, "advice"):
        if word(each, "setting"):
            yield Advice(word(each, "setting"), word(each, "change"), word(each, "why"))


def _place(symptom: Mapping[str, object], attempt: AttemptView) -> Citation:
    source, line = word(symptom, "source"), symptom.get("line")
    is_line = isinstance(line, int) and not isinstance(line, bool) and line > 0
    artifact = artifact_of(source, attempt.artifacts)
    return Citation(source, artifact, line if is_line and isinstance(line, int) else None, word(symptom, "text"))
