"""The archived objects and Events of an attempt, one JSON document a line, as mappings. Odd lines are passed over."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from archiver.core import records
from archiver.errors import DataError
from archiver.read.views import EventView

_FAR = "9999"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a Kubernetes object. ``how`` is ADDED, MODIFIED or DELETED."""

    seen_at: datetime | None
    how: str
    object: Mapping[str, Any]


def versions(text: bytes) -> Iterator[Version]:
    """In the order in which they were seen. A line that is no such document is left out."""
    for line in text.split(b"\n"):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        found = document.get("object") if isinstance(document, dict) else None
        if isinstance(found, dict):
            yield Version(moment(document.get("seen_at")), str(document.get("type") or ""), found)


def fold_events(found: Iterable[Version]) -> tuple[EventView, ...]:
    """One entry for each Event object, as its newest version says, in the order of their first time."""
    newest: dict[str, Version] = {}
    for version in found:
        uid = word(version.object, "metadata", "uid") or f"unnamed-{len(newest)}"
        if version.how != "DELETED" or uid not in newest:
            newest[uid] = version
    views = [_event_view(uid, version) for uid, version in newest.items()]
    return tuple(sorted(views, key=lambda view: (str(view.first_time or view.last_time or _FAR), view.uid)))


def word(document: Any, *path: str) -> str:
    """A text below a path, empty where it is not there or no text."""
    found = dig(document, *path)
    return found if isinstance(found, str) else ""


def dig(document: Any, *path: str) -> Any:
    """What lies below a path of names; None where it ends early."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def moment(text: Any) -> datetime | None:
    try:
        return records.parse_time(text)
    except (DataError, OverflowError):
        return None


def entries(document: Any, *path: str) -> Sequence[Mapping[str, Any]]:
    """A list of mappings below a path; anything else in it is left out."""
    found = dig(document, *path)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _event_view(uid: str, version: Version) -> EventView:
    """Both generations: core/v1 has firstTimestamp and source, events.k8s.io has eventTime, series and a reporter."""
    event = version.object
    about = dig(event, "involvedObject") or dig(event, "regarding") or {}
    first = _first_time(event, ("firstTimestamp",), ("deprecatedFirstTimestamp",), ("eventTime",))
    last = _first_time(
        event, ("series", "lastObservedTime"), ("lastTimestamp",), ("deprecatedLastTimestamp",), ("eventTime",)
    )
    made = moment(dig(event, "metadata", "creationTimestamp"))
    return EventView(
        uid=uid,
        type=word(event, "type"),
        reason=word(event, "reason"),
        message=word(event, "message") or word(event, "note"),
        object_kind=word(about, "kind"),
        object_name=word(about, "name"),
        object_namespace=word(about, "namespace"),
        component=_component(event),
        count=_count(event),
        first_time=first or made,
        last_time=last or first or made,
    )


def _first_time(event: Mapping[str, Any], *paths: tuple[str, ...]) -> datetime | None:
    return next((found for path in paths if (found := moment(dig(event, *path)))), None)


def _component(event: Mapping[str, Any]) -> str:
    places = (
        ("source", "component"),
        ("deprecatedSource", "component"),
        ("reportingComponent",),
        ("reportingController",),
    )
    return next((found for path in places if (found := word(event, *path))), "")


def _count(event: Mapping[str, Any]) -> int:
    counts = (dig(event, "series", "count"), event.get("count"), event.get("deprecatedCount"))
    return max((count for count in counts if isinstance(count, int) and not isinstance(count, bool)), default=1) or 1
