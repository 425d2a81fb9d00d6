"""What is known of one attempt, folded from the changes that were seen. Plain state: no tasks, no I/O, no clock.

``apply`` takes changes in any order across objects and tolerates missing ones; everything else is read from the fold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from archiver.core.lifecycle import (
    JOB_TERMINAL,
    RayJobFacts,
    ended_as,
    read_rayjob,
    shows_end,
    waits_for_admission,
    will_be_deleted,
)
from archiver.core.model import AttemptId, ContainerRun, Kind, LogKind
from archiver.core.objects import flag, integer, items, label, mapping, moment, name, text, uid
from archiver.core.pods import WantedLog, container_ended_at, container_started_at, pod_kind, wanted_logs
from archiver.ports import Change, ChangeType, RayHead


@dataclass(slots=True)
class PodSeen:
    """The last version of a pod, and when its deletion was seen."""

    object: Mapping[str, Any]
    gone_at: datetime | None = None


@dataclass(slots=True)
class AttemptState:
    """The fold. Times named ``…_seen`` are when we saw a thing, not when it happened."""

    attempt: AttemptId
    rayjob: Mapping[str, Any] = field(default_factory=dict)
    cluster: Mapping[str, Any] = field(default_factory=dict)
    pods: dict[str, PodSeen] = field(default_factory=dict)
    facts: RayJobFacts | None = None
    # kept when a retry or a suspend blanks them in the object
    ray_cluster: str = ""
    job_id: str = ""
    first_signal_seen: datetime | None = None
    ended: str | None = None
    ended_seen: datetime | None = None
    cluster_deleted_seen: datetime | None = None
    rayjob_deleted_seen: datetime | None = None
    ray_record: Mapping[str, Any] | None = None
    # whether a head's container has run, and whether Ray is known to have had the job
    had_head: bool = False
    had_job: bool = False

    def apply(self, change: Change) -> None:
        """Folds one change in."""
        if change.kind is Kind.RAYJOB:
            self._apply_rayjob(change)
        elif change.kind is Kind.RAYCLUSTER:
            self._apply_cluster(change)
        elif change.kind is Kind.POD:
            self._apply_pod(change)

    def note_record(self, record: Mapping[str, Any], seen: datetime) -> None:
        """A version of the Ray job's own record."""
        self.ray_record, self.had_job = record, True
        if text(record, "status") in JOB_TERMINAL:
            self.signal(seen)

    def signal(self, seen: datetime) -> None:
        """Notes a sign of the end; the first one counts."""
        self.first_signal_seen = self.first_signal_seen or seen

    def end(self, how: str, seen: datetime) -> None:
        """Notes how the attempt ended; the first word counts, because a later one may be the wipe."""
        self.signal(seen)
        if self.ended is None:
            self.ended, self.ended_seen = how, seen

    @property
    def is_shared_cluster(self) -> bool:
        return bool(self.facts and self.facts.shared_cluster)

    @property
    def is_cluster_going(self) -> bool:
        """Whether the cluster is being deleted, has been, or is about to be by the RayJob's own settings."""
        if self.is_shared_cluster:
            return False
        if self.cluster_deleted_seen or moment(self.cluster, "metadata", "deletionTimestamp"):
            return True
        return self.ended is not None and self.facts is not None and will_be_deleted(self.facts)

    def has_living_nodes(self) -> bool:
        """Whether a head or worker pod is left; the submitter's pod is kept by KubeRay and dies with the RayJob."""
        return any(pod_kind(pod) is not LogKind.SUBMITTER for pod in self.living_pods())

    def living_pods(self) -> list[Mapping[str, Any]]:
        return [pod.object for pod in self.pods.values() if pod.gone_at is None]

    def wanted(self) -> Iterator[WantedLog]:
        """Container runs whose log is to be kept. Of a shared cluster only the submitter is this attempt's own."""
        for seen in self.pods.values():
            if self.is_shared_cluster and pod_kind(seen.object) is not LogKind.SUBMITTER:
                continue
            yield from wanted_logs(seen.object)

    def is_pod_gone(self, run: ContainerRun) -> bool:
        seen = self.pods.get(run.pod_uid)
        return seen is None or seen.gone_at is not None

    def is_finished(self, run: ContainerRun) -> bool:
        """Whether this run of the container is over, as far as the pod's status says."""
        seen = self.pods.get(run.pod_uid)
        if seen is None or seen.gone_at is not None:
            return True
        return any(
            log.is_finished or log.run.restart > run.restart for log in wanted_logs(seen.object) if _same(log.run, run)
        )

    def has_restarted(self, run: ContainerRun) -> bool:
        """Whether the container has gone on to another instance: only ``previous`` still serves this one."""
        seen = self.pods.get(run.pod_uid)
        logs = wanted_logs(seen.object) if seen else []
        return any(_same(log.run, run) and log.run.restart > run.restart for log in logs)

    def is_node_lost(self, run: ContainerRun) -> bool:
        """Whether the pod went because its node was lost: then a clean end of its log proves nothing."""
        pod = self.pods[run.pod_uid].object if run.pod_uid in self.pods else {}
        conditions = items(pod, "status", "conditions")
        return text(pod, "status", "reason") == "NodeLost" or any(
            condition.get("reason") in _NODE_LOST and condition.get("status") == "True" for condition in conditions
        )

    def started_at(self, run: ContainerRun) -> datetime | None:
        seen = self.pods.get(run.pod_uid)
        return container_started_at(seen.object, run) if seen else None

    def ended_at(self, run: ContainerRun) -> datetime | None:
        seen = self.pods.get(run.pod_uid)
        return container_ended_at(seen.object, run) if seen else None

    def head(self) -> RayHead | None:
        """How the head is reached, as soon as its pod has an address. A head that is gone is none."""
        for pod in self.living_pods():
            if pod_kind(pod) is LogKind.HEAD and text(pod, "status", "podIP"):
                return RayHead(
                    namespace=text(pod, "metadata", "namespace"),
                    ray_cluster=self.ray_cluster or label(pod, "ray.io/cluster"),
                    pod=name(pod),
                    pod_uid=uid(pod),
                    pod_ip=text(pod, "status", "podIP"),
                    service=text(self.cluster, "status", "head", "serviceName") or None,
                )
        return None

    def is_head_running(self) -> bool:
        head = self.head()
        return head is not None and _has_run(self.pods[head.pod_uid].object, "running")

    def is_head_going(self) -> bool:
        """Whether the head that lives is being deleted."""
        head = self.head()
        return head is not None and moment(self.pods[head.pod_uid].object, "metadata", "deletionTimestamp") is not None

    def head_run(self) -> tuple[str, int] | None:
        """Which run of which head it is: a restart begins another Ray session, in the same pod too."""
        head = self.head()
        if head is None:
            return None
        statuses = items(self.pods[head.pod_uid].object, "status", "containerStatuses")
        first = text(next(items(self.pods[head.pod_uid].object, "spec", "containers"), {}), "name")
        restarts = [integer(status, "restartCount") or 0 for status in statuses if text(status, "name") == first]
        return head.pod_uid, max(restarts, default=0)

    def nodes_since(self) -> dict[str, datetime]:
        """Nodes that pods of the attempt came to, with the moment of the first."""
        since: dict[str, datetime] = {}
        for seen in self.pods.values():
            node, came = text(seen.object, "spec", "nodeName"), _scheduled_at(seen.object)
            if node and came and (node not in since or came < since[node]):
                since[node] = came
        return since

    def worker_ips(self) -> dict[str, str]:
        """Pod name to address of the workers that live."""
        return {
            name(pod): text(pod, "status", "podIP")
            for pod in self.living_pods()
            if pod_kind(pod) is LogKind.WORKER and text(pod, "status", "podIP")
        }

    def uses_token(self) -> bool:
        return text(self.cluster, "spec", "authOptions", "mode") == "token" and not flag(
            self.cluster, "spec", "authOptions", "enableK8sTokenAuth"
        )

    def _apply_rayjob(self, change: Change) -> None:
        facts = read_rayjob(change.object)
        if self._is_next_attempts(facts):
            return
        self.rayjob, self.facts = change.object, facts
        has_begun = self.ray_cluster or self.cluster or self.pods
        if not has_begun and change.type is not ChangeType.DELETED and waits_for_admission(facts):
            return
        self.ray_cluster = self.ray_cluster or facts.ray_cluster
        self.job_id = facts.job_id or self.job_id
        self.had_job = self.had_job or facts.job_status in _HAS_BEGUN
        if shows_end(facts):
            self.signal(change.seen_at)
        how = ended_as(facts)
        if how and (has_begun or how != "suspended"):
            self.end(how, change.seen_at)
        if change.type is ChangeType.DELETED:
            self.rayjob_deleted_seen = change.seen_at
            self.end("deleted", change.seen_at)

    def _is_next_attempts(self, facts: RayJobFacts) -> bool:
        """A status that was wiped, or already names the next RayCluster, says nothing of this attempt any more."""
        if not self.ray_cluster or facts.deleted:
            return False
        return facts.ray_cluster != self.ray_cluster and (bool(facts.ray_cluster) or self.ended is not None)

    def _apply_cluster(self, change: Change) -> None:
        if self.cluster_deleted_seen and uid(change.object) != uid(self.cluster) and self.ended is None:
            # deleted in the middle of the run: KubeRay makes another one of the same name, and the attempt goes on
            self.cluster_deleted_seen = None
        self.cluster = change.object
        self.ray_cluster = self.ray_cluster or name(change.object)
        if change.type is ChangeType.DELETED:
            self.signal(change.seen_at)
            self.cluster_deleted_seen = self.cluster_deleted_seen or change.seen_at
        elif moment(change.object, "metadata", "deletionTimestamp"):
            self.signal(change.seen_at)

    def _apply_pod(self, change: Change) -> None:
        seen = self.pods.setdefault(uid(change.object), PodSeen(change.object))
        seen.object = change.object
        seen.gone_at = (seen.gone_at or change.seen_at) if change.type is ChangeType.DELETED else None
        if pod_kind(change.object) is LogKind.HEAD:
            self.had_head = self.had_head or _has_run(change.object, "running", "terminated")


_HAS_BEGUN = JOB_TERMINAL | {"RUNNING"}
_NODE_LOST = frozenset({"DeletionByTaintManager", "NodeStatusUnknown"})


def _has_run(pod: Mapping[str, Any], *states: str) -> bool:
    statuses = items(pod, "status", "containerStatuses")
    return any(state in mapping(status, "state") for status in statuses for state in states)


def _scheduled_at(pod: Mapping[str, Any]) -> datetime | None:
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return moment(condition, "lastTransitionTime")
    return moment(pod, "status", "startTime") or moment(pod, "metadata", "creationTimestamp")


def _same(one: ContainerRun, other: ContainerRun) -> bool:
    return one.pod_uid == other.pod_uid and one.container == other.container
