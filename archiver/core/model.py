"""The words of the product as types: RayJob, attempt, log source, gap, artifact. Not their storage.

Times are timezone-aware UTC datetimes; the time of a log line is an integer of nanoseconds since the epoch, because
the kubelet's timestamps have nanoseconds and resuming a log needs all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class RayJobId:
    """One RayJob object for ever: a re-created RayJob of the same name has another uid."""

    cluster: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One try of a RayJob, on a RayCluster of its own. ``number`` counts from 1."""

    rayjob: RayJobId
    number: int


class Kind(StrEnum):
    """The kinds that are watched. The value is the resource's plural name."""

    RAYJOB = "rayjobs"
    RAYCLUSTER = "rayclusters"
    JOB = "jobs"
    POD = "pods"
    EVENT = "events"
    NODE = "nodes"
    WORKLOAD = "workloads"


class Completeness(StrEnum):
    """What an artifact is worth, said of each one."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    LOST = "lost"


class GapReason(StrEnum):
    """Why a part of a source is not in the archive."""

    ROTATED = "rotated"  # the kubelet serves only the newest file, and the older one had not been read yet
    STREAM_CUT = "stream-cut"  # the stream ended before the container did, and what it had left could not be read again
    ARCHIVER_DOWN = "archiver-down"  # written while no archiver was running, and gone when it came back
    DEADLINE = "deadline"  # more was left than could be read before the source vanished
    SOURCE_GONE = "source-gone"  # the pod or head was deleted before the rest was read
    UNREADABLE = "unreadable"  # the source answered with an error that did not go away
    DENIED = "denied"  # the archiver has no right to read it


@dataclass(frozen=True, slots=True)
class Gap:
    """A hole in an artifact. ``at_line`` is the number of archived lines before it.

    ``from_time`` and ``to_time`` bound when the missing text was written, as far as known;
    ``missing_bytes`` is known for byte-addressed sources only.
    """

    reason: GapReason
    detail: str
    at_line: int
    from_time: datetime | None = None
    to_time: datetime | None = None
    missing_bytes: int | None = None


class LogKind(StrEnum):
    """Which log it is."""

    DRIVER = "driver"  # Ray's own job-driver-<submission id>.log, byte for byte
    SUBMITTER = "submitter"  # stdout of the submitter container (a pod of the Job, or the sidecar)
    HEAD = "head"
    WORKER = "worker"
    AUTOSCALER = "autoscaler"
    INIT = "init"
    RAY = "ray"  # any other file of a node's Ray session


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One run of one container: what a log stream of the API server belongs to."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    restart: int = 0


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where a log came from. Either a container run or a file of a Ray node."""

    kind: LogKind
    run: ContainerRun | None = None
    path: str | None = None
    node: str | None = None


class ArtifactKind(StrEnum):
    LOG = "log"
    KUBE_EVENTS = "kube-events"
    KUBE_OBJECTS = "kube-objects"  # every version of some Kubernetes objects, one JSON document a line
    RAY_RECORD = "ray-record"  # the Ray job's own record
    RAY_STATE = "ray-state"  # tasks, actors, nodes, placement groups, events


@dataclass(frozen=True, slots=True)
class Artifact:
    """One archived piece of evidence, with its verdict.

    ``name`` is the key below the attempt's prefix without compression suffix (``logs/submitter-abc.log``);
    ``key`` the whole object key; ``raw_bytes``, ``lines`` and ``sha256`` are of the archived text, that is after
    masking; ``source_bytes`` counts the bytes read from the source, before masking; ``masked`` counts masked secrets
    by rule.     ``key`` is empty and ``completeness`` LOST where nothing could be saved.
    """

    name: str
    kind: ArtifactKind
    key: str
    raw_bytes: int
    stored_bytes: int
    lines: int
    sha256: str
    completeness: Completeness
    reason: str
    source: LogSource | None = None
    source_bytes: int | None = None
    first_time: datetime | None = None
    last_time: datetime | None = None
    gaps: tuple[Gap, ...] = ()
    masked: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who a RayJob belonged to, and the place that said so (``label:team``, ``annotation:…``, ``namespace``)."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What an attempt asked for: requested amounts times pod lifetimes, in seconds.

    ``gpu_idle_seconds`` is the part before the first Ray task, None where that moment is unknown.
    """

    gpu_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_idle_seconds: float | None = None
    gpus: float = 0.0
    cpus: float = 0.0
