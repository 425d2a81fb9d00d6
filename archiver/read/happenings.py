"""Timeline entries out of archived objects, Events and the verdict. Pure; the axis itself is ``core.timeline``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from archiver.core.timeline import Lane, Severity, TimelineEntry
from archiver.read.documents import Version, dig, entries, moment, word
from archiver.read.views import EventView

_BAD_STATUSES = ("Failed", "FAILED", "Retrying", "ValidationFailed")


def from_events(events: Iterable[EventView], artifact: str) -> Iterator[TimelineEntry]:
    """Each Event where it was seen first, as a bar to its last repetition."""
    for event in events:
        if event.first_time is None:
            continue
        repeated = f" (×{event.count})" if event.count > 1 else ""
        yield TimelineEntry(
            event.first_time,
            Lane.KUBE_EVENT,
            Severity.WARNING if event.type == "Warning" else Severity.INFO,
            f"{event.object_kind} {event.object_name}".strip(),
            event.reason + repeated,
            event.message,
            until=event.last_time if event.last_time != event.first_time else None,
            artifact=artifact,
        )


def from_statuses(found: Iterable[Version]) -> Iterator[TimelineEntry]:
    """Each change of a RayJob's two statuses, at the moment it was seen."""
    before: dict[str, tuple[str, str]] = {}
    for version in found:
        name, status = word(version.object, "metadata", "name"), dig(version.object, "status")
        now = (word(status, "jobDeploymentStatus"), word(status, "jobStatus"))
        at = version.seen_at
        if at is None or now == before.get(name) or not any(now):
            continue
        before[name] = now
        is_bad = any(each in _BAD_STATUSES for each in now)
        yield TimelineEntry(
            at,
            Lane.RAYJOB,
            Severity.ERROR if is_bad else Severity.INFO,
            name,
            " / ".join(each for each in now if each),
            " ".join(part for part in (word(status, "reason"), word(status, "message")) if part),
        )


def from_pods(found: Iterable[Version]) -> Iterator[TimelineEntry]:
    """Each pod as a bar from its creation to its end, and each container that ended badly."""
    newest: dict[str, Version] = {}
    gone: dict[str, datetime | None] = {}
    for version in found:
        uid = word(version.object, "metadata", "uid")
        newest[uid] = version
        if version.how == "DELETED":
            gone[uid] = version.seen_at
    for uid, version in newest.items():
        yield from _pod(version.object, gone.get(uid))


def _pod(pod: Mapping[str, Any], gone_at: datetime | None) -> Iterator[TimelineEntry]:
    name, phase = word(pod, "metadata", "name"), word(pod, "status", "phase")
    began = moment(dig(pod, "metadata", "creationTimestamp"))
    states = list(_ended_containers(pod))
    ends = [end for _, state in states if (end := moment(state.get("finishedAt")))]
    until = max(ends) if ends and phase in ("Succeeded", "Failed") else gone_at
    where = word(pod, "spec", "nodeName")
    if began is not None:
        severity = Severity.ERROR if phase == "Failed" else Severity.INFO
        said = " ".join(
            part
            for part in (word(pod, "status", "reason"), word(pod, "status", "message"), where and f"on {where}")
            if part
        )
        yield TimelineEntry(began, Lane.POD, severity, name, phase or "pod", said, until=until)
    for container, state in states:
        at = moment(state.get("finishedAt"))
        if at is not None and state.get("exitCode") != 0:
            told = f"exit code {state.get('exitCode')} {word(state, 'message')}".strip()
            title = f"{container}: {word(state, 'reason') or 'ended'}"
            yield TimelineEntry(at, Lane.POD, Severity.ERROR, name, title, told)


def _ended_containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for group in ("initContainerStatuses", "containerStatuses"):
        for status in entries(pod, "status", group):
            for when in ("lastState", "state"):
                state = dig(status, when, "terminated")
                if isinstance(state, Mapping):
                    yield word(status, "name"), state


def from_citations(
    places: Sequence[Mapping[str, Any]], artifact_of: Mapping[str, str | None]
) -> Iterator[TimelineEntry]:
    """The lines that a verdict cites, where it says when they were written."""
    for place in places:
        at = moment(place.get("time"))
        source, line = word(place, "source"), place.get("line")
        if at is not None:
            is_line = isinstance(line, int) and line > 0
            yield TimelineEntry(
                at,
                Lane.LOG,
                Severity.ERROR,
                source,
                word(place, "text")[:200],
                "cited by the verdict",
                artifact=artifact_of.get(source),
                line=line if is_line else None,
            )
