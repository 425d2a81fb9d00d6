"""A recording in the making: a timeline to which objects, events, logs and Ray's answers are added in any order."""

import copy
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from archiver.sandbox.manifests import EventText, RayJobSpec, core_event, new_event, node, rayjob, steady_uid
from archiver.sandbox.recording import (
    AttemptTruth,
    Content,
    DriverTruth,
    Entry,
    Header,
    LogEndEntry,
    LogEntry,
    Made,
    RayAnswerEntry,
    RayFileEntry,
    RayGoneEntry,
    RayJobEntry,
    RayUpEntry,
    Recording,
    Truth,
    WatchEntry,
)

Json = dict[str, Any]
NODES = {
    "cpu-a-01": {"cpus": 32, "memory": "128Gi", "instance": "c7i.8xlarge"},
    "cpu-a-02": {"cpus": 32, "memory": "128Gi", "instance": "c7i.8xlarge"},
    "gpu-a-01": {"cpus": 96, "memory": "1024Gi", "gpus": 8, "instance": "p4d.24xlarge"},
    "gpu-a-02": {"cpus": 96, "memory": "1024Gi", "gpus": 8, "instance": "p4d.24xlarge"},
}


class Story:
    """``spec``: the RayJob as its user wrote it. Times are seconds since ``origin``."""

    def __init__(self, name: str, title: str, spec: RayJobSpec, *, origin: datetime, kuberay: str = "1.6.2") -> None:
        self.name = name
        self.title = title
        self.spec = spec
        self.origin = origin
        self.kuberay = kuberay
        self.sources: list[str] = []
        self.attempts: list[AttemptTruth] = []
        self.rayjob = rayjob(spec, uid=steady_uid(name, "rayjob"), created=self.iso(0))
        self.rows: list[tuple[float, int, Entry]] = []
        self._version = 100
        # a machine that falls ill gets a name of its own, or every story played beside this one would have it too
        self.own_machines: dict[str, str] = {}

    # --- time and names

    def moment(self, at: float) -> datetime:
        return self.origin + timedelta(seconds=at)

    def iso(self, at: float) -> str:
        return self.moment(at).strftime("%Y-%m-%dT%H:%M:%SZ")

    def micro(self, at: float) -> str:
        return self.moment(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def uid(self, *parts: str) -> str:
        return steady_uid(self.name, *parts)

    def letters(self, *parts: str) -> str:
        """Five letters as generateName gives them."""
        digest = hashlib.sha256("/".join((self.name, *parts)).encode()).digest()
        return "".join("bcdfghjklmnpqrstvwxz2456789"[byte % 27] for byte in digest[:5])

    # --- entries

    def _add(self, entry: Entry) -> None:
        self.rows.append((entry.at, len(self.rows), entry))

    def watch(self, at: float, change: str, document: Json) -> None:
        """Records the object as it is now; it may be changed and recorded again."""
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._add(WatchEntry(at, change, copy.deepcopy(document)))

    def add_nodes(self, *names: str) -> None:
        for name in names:
            self.watch(0.0, "ADDED", node(name, created=self.iso(-86_400), **NODES[name]))

    def event(self, at: float, about: Json, text: EventText, *, is_new: bool | None = None, until: float = 0.0) -> None:
        """An Event; ``is_new`` by default for the scheduler and for KubeRay from 1.7 on."""
        if is_new is None:
            is_new = text.component == "default-scheduler" or (
                self.kuberay >= "1.7" and text.component.endswith("-controller") and "ray" in text.component
            )
        uid = self.uid("event", about["metadata"]["name"], text.reason, text.message)
        if is_new:
            document = new_event(about, text, at=self.micro(at), uid=uid, series_at=self.micro(until) if until else "")
        else:
            document = core_event(about, text, first=self.iso(at), last=self.iso(until) if until else "", uid=uid)
        self.watch(at, "ADDED", document)

    def log(self, at: float, pod: str, container: str, data: bytes, *, restart: int = 0) -> None:
        self._add(LogEntry(at, pod, container, restart, Content(data)))

    def log_content(self, at: float, pod: str, container: str, content: Content) -> None:
        self._add(LogEntry(at, pod, container, 0, content))

    def log_end(self, at: float, pod: str, container: str, *, restart: int = 0) -> None:
        self._add(LogEndEntry(at, pod, container, restart))

    def ray_up(self, at: float, pod: str, node_id: str, *, role: str = "head") -> None:
        self._add(RayUpEntry(at, pod, role, node_id))

    def ray_file(self, at: float, pod: str, path: str, content: bytes | Content) -> None:
        self._add(RayFileEntry(at, pod, path, content if isinstance(content, Content) else Content(content)))

    def ray_job(self, at: float, pod: str, record: Json) -> None:
        self._add(RayJobEntry(at, pod, copy.deepcopy(record)))

    def ray_answer(self, at: float, pod: str, path: str, body: Any, *, status: int = 200) -> None:
        self._add(RayAnswerEntry(at, pod, path, status, copy.deepcopy(body)))

    def ray_gone(self, at: float, pod: str, how: str = "refused") -> None:
        self._add(RayGoneEntry(at, pod, how))

    # --- the RayJob

    def rayjob_created(self) -> None:
        self.watch(0.0, "ADDED", self.rayjob)
        self.rayjob["metadata"]["finalizers"] = ["ray.io/rayjob-finalizer"]
        self.watch(0.04, "MODIFIED", self.rayjob)

    def status(self, at: float, **fields: Any) -> None:
        """A status write of the operator; None takes a field away."""
        status = {**self.rayjob.get("status", {}), **fields, "observedGeneration": 1}
        self.rayjob["status"] = {key: value for key, value in status.items() if value is not None}
        self.watch(at, "MODIFIED", self.rayjob)

    # --- the end

    def recording(self, outcome: str) -> Recording:
        entries = tuple(self._renamed(entry) for _, _, entry in sorted(self.rows, key=lambda row: row[:2]))
        parts = ", ".join(self.sources)
        how = (
            f"Ray's records, files and answers: a real Ray ({parts}), times, names and addresses replaced by a script. "
            if parts
            else ""
        )
        header = Header(
            name=self.name,
            title=self.title,
            made=Made.COMPOSED,
            how=how
            + "Kubernetes objects: written from manifests along the timelines of KubeRay's source; "
            + "the seconds around retries and TTL 0 were measured on a real cluster.",
            origin=self.origin.astimezone(UTC),
            namespace=self.spec.namespace,
            rayjob=self.spec.name,
            mode=self.spec.mode,
            versions={"kubernetes": "1.34.4", "kuberay": self.kuberay, "ray": self.spec.ray_version},
            sources=tuple(self.sources),
        )
        truth = Truth(outcome, tuple(self._with_driver(entries, attempt) for attempt in self.attempts))
        return Recording(header, entries, truth)

    def _renamed(self, entry: Entry) -> Entry:
        if not self.own_machines or not isinstance(entry, WatchEntry):
            return entry
        text = json.dumps(entry.object)
        for name, own in self.own_machines.items():
            text = text.replace(name, own).replace(steady_uid("node", name), steady_uid("node", own))
        return replace(entry, object=json.loads(text))

    def _with_driver(self, entries: tuple[Entry, ...], attempt: AttemptTruth) -> AttemptTruth:
        path = f"job-driver-{attempt.submission_id}.log"
        data = b"".join(e.content.to_bytes() for e in entries if isinstance(e, RayFileEntry) and e.path == path)
        driver = DriverTruth.of(data) if data else None
        return AttemptTruth(
            attempt.number,
            attempt.ray_cluster,
            attempt.submission_id,
            attempt.cause,
            attempt.why,
            attempt.shows,
            driver,
            attempt.acceptable,
        )
