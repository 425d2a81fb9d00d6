"""Which attempt an object belongs to. A graph of references that is remembered after the objects are gone.

Ray pods carry no label of their RayJob, only ``ray.io/cluster``; a RayCluster disappears before its pods do; a Kubernetes
Event names its object by uid only. So every object *refers* to something known, and once attributed *provides* references
for others. Nothing is looked up twice and nothing is forgotten before its attempt is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from archiver.core.model import AttemptId, Kind
from archiver.core.objects import controller_owner, label, mapping, name, namespace, text, uid

CLUSTER_LABEL = "ray.io/cluster"


class Ref(NamedTuple):
    """A thing that can be referred to: ``("uid", uid)``, ``("cluster", "ns/name")``, ``("node", name)``."""

    what: str
    value: str


def refers_to(kind: Kind, obj: Mapping[str, Any]) -> tuple[Ref, ...]:
    """The references by which an object's attempt is found, the first known one decides."""
    if kind is Kind.RAYCLUSTER:
        # by name only: its owner's current attempt may still be the one before
        return (_cluster(namespace(obj), name(obj)),)
    if kind in (Kind.JOB, Kind.WORKLOAD):
        owner = controller_owner(obj, "RayJob")
        return (Ref("uid", text(owner, "uid")),) if owner else ()
    if kind is Kind.POD:
        return _pod_refers_to(obj)
    if kind is Kind.EVENT:
        return _event_refers_to(obj)
    return (Ref("node", name(obj)),) if kind is Kind.NODE else ()


def provides(kind: Kind, obj: Mapping[str, Any]) -> tuple[Ref, ...]:
    """The references that lead to this object's attempt once it is known."""
    refs = [Ref("uid", uid(obj))] if kind is not Kind.EVENT and uid(obj) else []
    if kind is Kind.RAYCLUSTER:
        refs.append(_cluster(namespace(obj), name(obj)))
    if kind is Kind.POD and text(obj, "spec", "nodeName"):
        refs.append(Ref("node", text(obj, "spec", "nodeName")))
    return tuple(refs)


class Ownership:
    """References to attempts. A shared cluster or a node leads to several attempts."""

    def __init__(self) -> None:
        self._attempts: dict[Ref, frozenset[AttemptId]] = {}
        self._refs: defaultdict[AttemptId, set[Ref]] = defaultdict(set)

    def learn_rayjob(self, rayjob_uid: str, attempt: AttemptId, *, cluster_namespace: str, ray_cluster: str) -> None:
        """The RayJob's current attempt, and its RayCluster as soon as the status names it. The last call holds."""
        self._replace(Ref("uid", rayjob_uid), attempt)
        if ray_cluster:
            self._add(_cluster(cluster_namespace, ray_cluster), attempt)

    def learn_earlier(self, attempt: AttemptId, *, cluster_namespace: str, ray_cluster: str) -> None:
        """The RayCluster of an attempt that its RayJob's status does not name any more."""
        self._add(_cluster(cluster_namespace, ray_cluster), attempt)

    def attempts_of(self, kind: Kind, obj: Mapping[str, Any]) -> frozenset[AttemptId]:
        """Attempts an object belongs to; empty where it is not ours, or not known to be yet."""
        found = self._attempts.get(Ref("uid", uid(obj)), frozenset()) if kind is not Kind.NODE else frozenset()
        for ref in refers_to(kind, obj):
            # a RayCluster that is shared may have got another RayJob since its objects were attributed
            if not found or ref.what == "cluster":
                found |= self._attempts.get(ref, frozenset())
        return found

    def learn(self, kind: Kind, obj: Mapping[str, Any]) -> frozenset[AttemptId]:
        """Attributes an object and remembers what it provides. Returns its attempts."""
        attempts = self.attempts_of(kind, obj)
        if kind is not Kind.NODE:
            for ref in provides(kind, obj):
                for attempt in attempts:
                    self._add(ref, attempt)
        return attempts

    def forget(self, attempt: AttemptId) -> None:
        """Drops what led to an attempt that is archived for good."""
        for ref in self._refs.pop(attempt, set()):
            rest = self._attempts.get(ref, frozenset()) - {attempt}
            if rest:
                self._attempts[ref] = rest
            else:
                self._attempts.pop(ref, None)

    def _add(self, ref: Ref, attempt: AttemptId) -> None:
        self._attempts[ref] = self._attempts.get(ref, frozenset()) | {attempt}
        self._refs[attempt].add(ref)

    def _replace(self, ref: Ref, attempt: AttemptId) -> None:
        for former in self._attempts.get(ref, frozenset()):
            self._refs[former].discard(ref)
        self._attempts[ref] = frozenset({attempt})
        self._refs[attempt].add(ref)


def waiting_refs(kind: Kind, obj: Mapping[str, Any]) -> Iterable[Ref]:
    """The references an object that nobody owns yet may wait for: those that a RayJob can still provide."""
    return () if kind is Kind.NODE else refers_to(kind, obj)


def _cluster(ns: str, cluster_name: str) -> Ref:
    return Ref("cluster", f"{ns}/{cluster_name}")


def _pod_refers_to(pod: Mapping[str, Any]) -> tuple[Ref, ...]:
    refs = []
    if label(pod, CLUSTER_LABEL):
        refs.append(_cluster(namespace(pod), label(pod, CLUSTER_LABEL)))
    owner = controller_owner(pod, "Job")
    if owner:
        refs.append(Ref("uid", text(owner, "uid")))
    return tuple(refs)


def _event_refers_to(event: Mapping[str, Any]) -> tuple[Ref, ...]:
    about = mapping(event, "involvedObject") or mapping(event, "regarding")
    refs = [Ref("uid", text(about, "uid"))] if text(about, "uid") else []
    if text(about, "kind") == "Node":
        refs.append(Ref("node", text(about, "name")))
    if text(about, "kind") == "RayCluster":
        refs.append(_cluster(text(about, "namespace"), text(about, "name")))
    return tuple(refs)
