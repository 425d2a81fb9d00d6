"""All watches together: their tasks, one view of their caches, and how fresh each is. Decides nothing about capture."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from archiver.kube.listwatch import Target, Timing
from archiver.kube.reflector import Listener, OnChange, Reflector
from archiver.kube.resources import OPTIONAL_KINDS
from archiver.kube.stats import WatchState, WatchStats
from archiver.kube.transport import Transport
from archiver.ports import Kind

# Ray's pods by Ray's label; submitters by the Job controller's, because KubeRay labels them only since 1.7. Two
# narrow watches instead of one of all pods: the pods of Deployments, DaemonSets and StatefulSets never reach us.
RAY_PODS = "ray.io/cluster"
JOB_PODS = "batch.kubernetes.io/job-name,!ray.io/cluster"
# KubeRay gives its submitter Jobs this label in all versions that we support (v1.3 and later).
RAY_JOBS = "ray.io/originated-from-crd"
# Events are filtered by kind again on our side; these are the frequent ones that the server need not send at all.
_FOREIGN_EVENTS = ("ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "HorizontalPodAutoscaler", "CronJob")
EVENT_FIELDS = ",".join(f"involvedObject.kind!={kind}" for kind in _FOREIGN_EVENTS)


@dataclass(frozen=True, slots=True)
class Freshness:
    """One kind's health: the worst state of its watches and the oldest of their last signs of life."""

    state: WatchState
    reason: str
    last_seen_at: datetime | None
    objects: int


def targets(kinds: Iterable[Kind], namespaces: Sequence[str]) -> list[Target]:
    """The watches for some kinds: one a namespace, or cluster-wide where none is named."""
    found: list[Target] = []
    for kind in kinds:
        for namespace in (namespaces if kind is not Kind.NODE else ()) or (None,):
            found += [Target(kind, namespace, *selectors) for selectors in _selectors(kind)]
    return found


def _selectors(kind: Kind) -> tuple[tuple[str, str], ...]:
    """Label and field selectors of each watch of a kind."""
    if kind is Kind.POD:
        return (RAY_PODS, ""), (JOB_PODS, "")
    if kind is Kind.JOB:
        return ((RAY_JOBS, ""),)
    return (("", EVENT_FIELDS if kind is Kind.EVENT else ""),)


class Informers:
    """``run`` in a task, ``await wait_synced()``, then read.

    ``on_change`` is awaited for each change before the next of the same watch, so changes of one object come in order,
    and a slow consumer slows the watch instead of filling memory. Change.object is the whole object without
    managedFields, except for deletions found by a relist: there it is the last known one, trimmed. What ``get``,
    ``by_uid``, ``list`` and ``children`` return is trimmed (``archiver.kube.trim``) and the caller's own copy.
    """

    def __init__(
        self,
        transport: Transport,
        on_change: OnChange,
        *,
        namespaces: Sequence[str] = (),
        timing: Timing | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        listener = Listener(on_change, now)
        self._reflectors = [
            Reflector(transport, target, listener, timing or Timing()) for target in targets(Kind, namespaces)
        ]

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                run = self._run_late(reflector) if reflector.target.kind is Kind.EVENT else reflector.run()
                group.create_task(run, name=reflector.target.name)

    async def _run_late(self, reflector: Reflector) -> None:
        """Kubernetes Events come last, so that at start the objects which they tell about are known before them."""
        await self._settled(other for other in self._reflectors if other.target.kind is not Kind.EVENT)
        await reflector.run()

    async def wait_synced(self, *, timeout_seconds: float | None = None) -> None:
        """Until each kind was listed once or is known to be absent or denied; ``missing`` then says which.

        Raises TimeoutError.
        """
        async with asyncio.timeout(timeout_seconds):
            await self._settled(self._reflectors)

    async def _settled(self, reflectors: Iterable[Reflector]) -> None:
        for reflector in list(reflectors):
            await reflector.settled.wait()

    async def wait_listed(self, kind: Kind) -> None:
        """Until one kind was listed once, or is known to be absent or denied."""
        await self._settled(self._of(kind))

    def is_settled(self, kind: Kind) -> bool:
        """Whether a kind was listed once, or is known to be absent or denied."""
        return all(reflector.settled.is_set() for reflector in self._of(kind))

    def is_listed(self, kind: Kind) -> bool:
        """Whether a kind is known completely: what is not in the cache is not there."""
        known = (WatchState.SYNCED, WatchState.FAILING)
        return all(each.settled.is_set() and each.stats.state in known for each in self._of(kind))

    def get(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        for reflector in self._of(kind):
            found = reflector.cache.get("" if kind is Kind.NODE else namespace, name)
            if found is not None:
                return found
        return None

    def by_uid(self, uid: str) -> Mapping[str, Any] | None:
        """An object of any kind; its ``kind`` field says which."""
        for reflector in self._reflectors:
            found = reflector.cache.by_uid(uid)
            if found is not None:
                return found
        return None

    def list(self, kind: Kind, *, namespace: str | None = None) -> list[Mapping[str, Any]]:
        """All objects of a kind. Costs a JSON decoding each: prefer ``children`` in anything that runs often."""
        found = (item for reflector in self._of(kind) for item in reflector.cache.objects())
        return [item for item in found if namespace is None or item["metadata"].get("namespace") == namespace]

    def children(self, kind: Kind, owner_uid: str) -> Sequence[Mapping[str, Any]]:
        """Objects of a kind that an object owns, or the Kubernetes Events about it."""
        return [item for reflector in self._of(kind) for item in reflector.cache.children(owner_uid)]

    def count(self, kind: Kind) -> int:
        return sum(len(reflector.cache) for reflector in self._of(kind))

    def freshness(self) -> Mapping[Kind, Freshness]:
        """Per kind, for /readyz and metrics."""
        return {kind: self._freshness(kind) for kind in Kind}

    def missing(self) -> Sequence[str]:
        """Sentences about required kinds that cannot be watched now; empty where all is well."""
        bad = (WatchState.ABSENT, WatchState.DENIED, WatchState.FAILING)
        required = (item for item in self._reflectors if item.target.kind not in OPTIONAL_KINDS)
        return [item.stats.reason or item.target.name for item in required if item.stats.state in bad]

    def stats(self) -> Mapping[str, WatchStats]:
        """Counters of each watch by its name."""
        return {reflector.target.name: reflector.stats for reflector in self._reflectors}

    def _of(self, kind: Kind) -> Iterable[Reflector]:
        return [reflector for reflector in self._reflectors if reflector.target.kind is kind]

    def _freshness(self, kind: Kind) -> Freshness:
        stats = [reflector.stats for reflector in self._of(kind)]
        order = list(WatchState)
        worst = max(stats, key=lambda item: (item.state is not WatchState.SYNCED, order.index(item.state)))
        seen = [item.last_seen_at for item in stats]
        oldest = None if None in seen else min(at for at in seen if at is not None)
        return Freshness(worst.state, worst.reason, oldest, self.count(kind))
