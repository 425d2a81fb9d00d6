"""Which of a node's news belong to an attempt: those of its own time. Pure.

A node outlives the RayJobs on it. What happened there before a pod of the attempt came, or well after the attempt's
end, happened to somebody else.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from archiver.core.objects import items, mapping, moment, text

# a node's trouble may show before the pod that it hits is bound to it; its loss is noticed 40 s and more after it
BEFORE = timedelta(seconds=60)
AFTER = timedelta(seconds=120)
_VERSIONS = 12


def is_about_node(event: Mapping[str, Any]) -> bool:
    """Whether a Kubernetes Event tells of a node rather than of an object of the attempt's own."""
    about = mapping(event, "involvedObject") or mapping(event, "regarding")
    return text(about, "kind") == "Node"


def event_time(event: Mapping[str, Any]) -> datetime | None:
    """When an Event last happened, in either shape of the API."""
    return (
        moment(event, "series", "lastObservedTime")
        or moment(event, "lastTimestamp")
        or moment(event, "eventTime")
        or moment(event, "metadata", "creationTimestamp")
    )


def is_of_its_time(event: Mapping[str, Any], since: Mapping[str, datetime], ended: datetime | None) -> bool:
    """Whether a node's Event lies within the attempt's time there. ``since``: when its first pod came to each node."""
    about = mapping(event, "involvedObject") or mapping(event, "regarding")
    came, happened = since.get(text(about, "name")), event_time(event)
    if came is None or happened is None:
        return False
    return came - BEFORE <= happened and (ended is None or happened <= ended + AFTER)


def node_state(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a node's version is news: not its heartbeats, nor the images that it has."""
    conditions = sorted(
        (text(each, "type"), text(each, "status"), text(each, "reason")) for each in items(node, "status", "conditions")
    )
    taints = sorted(
        (text(each, "key"), text(each, "value"), text(each, "effect")) for each in items(node, "spec", "taints")
    )
    return tuple(conditions), tuple(taints), mapping(node, "spec").get("unschedulable") is True


class NodeHistory:
    """The versions of the nodes that an attempt was on, as far as they differ. Bounded: the newest stay."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[datetime, Mapping[str, Any]]]] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._versions

    def add(self, node: str, version: Mapping[str, Any], seen_at: datetime) -> bool:
        """False where nothing has changed since the last version."""
        versions = self._versions.setdefault(node, [])
        if versions and node_state(versions[-1][1]) == node_state(version):
            return False
        versions.append((seen_at, version))
        del versions[:-_VERSIONS]
        return True

    def around(self, moment_of_end: datetime | None) -> list[Mapping[str, Any]]:
        """What held shortly before a moment, and what came after that."""
        found: list[Mapping[str, Any]] = []
        for versions in self._versions.values():
            start = moment_of_end - _LOOK_BACK if moment_of_end else versions[-1][0]
            held = max((number for number, (seen, _) in enumerate(versions) if seen <= start), default=0)
            found += [version for _, version in versions[held:]]
        return found


_LOOK_BACK = timedelta(minutes=5)
