"""Timeline entries out of archived objects, Events and the verdict. Pure; the axis itself is ``core.timeline``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from archiver.core.timeline import Lane, Severity, TimelineEntry
from archiver.read.documents import Version, dig, entries, moment, word
from archiver.read.views import EventView

RAY_EVENTS = "ray/events.json"
_BAD_STATUSES = ("Failed", "FAILED", "Retrying", "ValidationFailed")
_BAD_STATES = ("failed", "unhealthy", "suspended")
_RAY_SEVERITIES = {"WARNING": Severity.WARNING, "ERROR": Severity.ERROR, "FATAL": Severity.ERROR}
_RAY_DEPTH = 6


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


def from_clusters(found: Iterable[Version]) -> Iterator[TimelineEntry]:
    """Each change of a RayCluster's state, at the moment it was seen, and the moment somebody asked for its deletion."""
    before: dict[str, str] = {}
    for version in found:
        name, state = word(version.object, "metadata", "name"), word(version.object, "status", "state")
        asked = word(version.object, "metadata", "deletionTimestamp")
        now = f"{state} {asked}"
        at = moment(asked) or version.seen_at
        if at is None or before.get(name) == now or not (state or asked):
            continue
        before[name] = now
        severity = Severity.WARNING if state in _BAD_STATES else Severity.INFO
        said = word(version.object, "status", "reason")
        yield TimelineEntry(at, Lane.RAYCLUSTER, severity, name, "deletion begins" if asked else state, said)


def from_pods(found: Iterable[Version]) -> Iterator[TimelineEntry]:
    """Each pod as bars, one a phase, from its creation to its end; its restarts and each container that ended badly."""
    seen: dict[str, list[Version]] = {}
    gone: dict[str, datetime | None] = {}
    for version in found:
        uid = word(version.object, "metadata", "uid")
        seen.setdefault(uid, []).append(version)
        if version.how == "DELETED":
            gone[uid] = version.seen_at
    for uid, told in seen.items():
        yield from _phases(told, gone.get(uid))
        yield from _bad_ends(told[-1].object)


def _phases(told: Sequence[Version], gone_at: datetime | None) -> Iterator[TimelineEntry]:
    """A phase begins where it was seen first; a clock that goes backwards makes no bar of negative length."""
    changes: list[tuple[datetime, Version]] = []
    for version in told:
        at = version.seen_at if changes else moment(dig(version.object, "metadata", "creationTimestamp"))
        if at is not None and (not changes or _phase(version) != _phase(changes[-1][1])):
            changes.append((max(at, changes[-1][0]) if changes else at, version))
    for place, (began, version) in enumerate(changes):
        is_last = place == len(changes) - 1
        pod = (told[-1] if is_last else version).object
        until = _end(pod, gone_at) if is_last else changes[place + 1][0]
        yield _bar(pod, began, until)


def _phase(version: Version) -> tuple[str, int]:
    restarts = (each.get("restartCount") for each in entries(version.object, "status", "containerStatuses"))
    return word(version.object, "status", "phase"), sum(each for each in restarts if isinstance(each, int))


def _bar(pod: Mapping[str, Any], began: datetime, until: datetime | None) -> TimelineEntry:
    name, phase = word(pod, "metadata", "name"), word(pod, "status", "phase")
    restarts = _phase(Version(None, "", pod))[1]
    again = f"after {restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""
    where = word(pod, "spec", "nodeName")
    parts = (again, word(pod, "status", "reason"), word(pod, "status", "message"), where and f"on {where}")
    said = " ".join(part for part in parts if part)
    severity = Severity.ERROR if phase == "Failed" else Severity.WARNING if restarts else Severity.INFO
    return TimelineEntry(began, Lane.POD, severity, name, phase or "pod", said, until=until)


def _end(pod: Mapping[str, Any], gone_at: datetime | None) -> datetime | None:
    ends = [end for _, state in _ended_containers(pod) if (end := moment(state.get("finishedAt")))]
    return max(ends) if ends and word(pod, "status", "phase") in ("Succeeded", "Failed") else gone_at


def _bad_ends(pod: Mapping[str, Any]) -> Iterator[TimelineEntry]:
    for container, state in _ended_containers(pod):
        at = moment(state.get("finishedAt"))
        if at is not None and state.get("exitCode") != 0:
            told = f"exit code {state.get('exitCode')} {word(state, 'message')}".strip()
            title = f"{container}: {word(state, 'reason') or 'ended'}"
            yield TimelineEntry(at, Lane.POD, Severity.ERROR, word(pod, "metadata", "name"), title, told)


def from_ray_events(document: Any) -> Iterator[TimelineEntry]:
    """Ray's own cluster events (``/events``): lists by job, each event with its time, severity and message."""
    for event in _ray_events(document, 0):
        at = _epoch(event.get("timestamp")) or moment(event.get("timestamp")) or moment(event.get("time"))
        severity = _RAY_SEVERITIES.get(word(event, "severity").upper(), Severity.INFO)
        source = word(event, "sourceType") or word(event, "source_type")
        if at is not None:
            title = word(event, "label") or word(event, "eventType") or "event"
            yield TimelineEntry(at, Lane.RAY, severity, source, title, word(event, "message"), artifact=RAY_EVENTS)


def _ray_events(document: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, Mapping) and "message" in document and ("timestamp" in document or "time" in document):
        yield document
    elif depth < _RAY_DEPTH and isinstance(document, Mapping | list):
        for each in document.values() if isinstance(document, Mapping) else document:
            yield from _ray_events(each, depth + 1)


def _epoch(value: Any) -> datetime | None:
    """Seconds since 1970, as a number or written as one."""
    try:
        return datetime.fromtimestamp(float(value), UTC) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


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
