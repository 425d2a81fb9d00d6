"""What a recorder has seen in a namespace, and which of it belongs to one RayJob. It talks to nobody."""

from collections.abc import Iterator, Mapping
from typing import Any

from archiver.core.lifecycle import RayJobFacts, ended_as, read_rayjob
from archiver.core.objects import items, label, name, text, uid
from archiver.ports import Change, ChangeType, Kind
from archiver.sandbox.masking import masked_document
from archiver.sandbox.recording import WatchEntry

_OVER = frozenset({"succeeded", "failed", "stopped", "invalid", "suspended"})


class Tape:
    """Takes every change and sorts out at the end: an owner may be seen after what it owns."""

    def __init__(self, namespace: str, rayjob: str) -> None:
        self._namespace = namespace
        self._rayjob = rayjob
        self._changes: list[tuple[float, Change]] = []
        self._uids: set[str] = set()
        self._clusters: set[str] = set()
        self._nodes: set[str] = set()
        self._latest: dict[str, Mapping[str, Any]] = {}
        self.facts: RayJobFacts | None = None
        self.is_deleted = False
        self.attempts: list[tuple[str, str]] = []  # RayCluster and submission id

    def take(self, at: float, change: Change) -> None:
        self._changes.append((at, change))
        document = change.object
        if change.kind is Kind.RAYJOB and name(document) == self._rayjob:
            self._take_rayjob(change)
        self._learn(change)
        if change.type is ChangeType.DELETED:
            self._latest.pop(uid(document), None)
        else:
            self._latest[uid(document)] = document

    def _take_rayjob(self, change: Change) -> None:
        self._uids.add(uid(change.object))
        self.facts = read_rayjob(change.object)
        self.is_deleted = change.type is ChangeType.DELETED
        attempt = (self.facts.ray_cluster, self.facts.job_id)
        if self.facts.ray_cluster and self.facts.ray_cluster not in {cluster for cluster, _ in self.attempts}:
            self.attempts.append(attempt)
        elif self.facts.job_id and self.attempts and self.attempts[-1][0] == self.facts.ray_cluster:
            self.attempts[-1] = attempt

    def _learn(self, change: Change) -> bool:
        """True where the object belongs to the RayJob, as far as is known now."""
        document = change.object
        if change.kind in (Kind.EVENT, Kind.NODE):
            return self._concerns_us(change)
        owners = {text(owner, "uid") for owner in items(document, "metadata", "ownerReferences")}
        is_ours = (
            uid(document) in self._uids
            or bool(owners & self._uids)
            or (label(document, "ray.io/cluster") in self._clusters and change.kind is Kind.POD)
        )
        if is_ours:
            self._uids.add(uid(document))
        if is_ours and change.kind is Kind.RAYCLUSTER:
            self._clusters.add(name(document))
        if is_ours and change.kind is Kind.POD and text(document, "spec", "nodeName"):
            self._nodes.add(text(document, "spec", "nodeName"))
        return is_ours

    def _concerns_us(self, change: Change) -> bool:
        if change.kind is Kind.NODE:
            return name(change.object) in self._nodes
        about = change.object.get("involvedObject") or {}
        return text(about, "uid") in self._uids or (about.get("kind") == "Node" and about.get("name") in self._nodes)

    def pods(self) -> list[Mapping[str, Any]]:
        """The RayJob's pods that are there now."""
        return [doc for doc in self._latest.values() if doc.get("kind") == "Pod" and uid(doc) in self._uids]

    def heads(self) -> list[Mapping[str, Any]]:
        return [pod for pod in self.pods() if label(pod, "ray.io/node-type") == "head"]

    @property
    def is_over(self) -> bool:
        """The RayJob is gone or has reached a state that it does not leave by itself."""
        return self.is_deleted or (self.facts is not None and ended_as(self.facts) in _OVER)

    @property
    def is_gone(self) -> bool:
        """No pod of Ray is left."""
        return not any(label(pod, "ray.io/cluster") for pod in self.pods())

    def entries(self) -> Iterator[WatchEntry]:
        """The RayJob's own history, masked. What existed before the recording begins with ADDED."""
        known = -1
        while known != (known := sum(self._learn(change) for _, change in self._changes)):
            continue
        seen: set[str] = set()
        for at, change in self._changes:
            if self._learn(change) and (kind := _entry_type(change, seen)):
                yield WatchEntry(at, kind, masked_document(dict(change.object)))


def _entry_type(change: Change, seen: set[str]) -> str:
    """A relist tells of old objects as new ones, and of deletions that nobody saw an addition of."""
    is_known = uid(change.object) in seen
    seen.add(uid(change.object))
    if change.type is ChangeType.DELETED:
        seen.discard(uid(change.object))
        return "DELETED" if is_known else ""
    return "MODIFIED" if is_known else "ADDED"
