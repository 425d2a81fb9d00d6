"""Plays a recording into a sandbox cluster, at any speed and under any name. It invents nothing.

A RayCluster that somebody holds with a finalizer stops the playback at its deletion, as it stops the operator on a
real cluster: the head stays up and the retry waits until the finalizer is gone (measured: 13 ms later it goes on).
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from archiver.core.model import ContainerRun
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.manifests import operator
from archiver.sandbox.raynode import Canned, NodeState, RayNode
from archiver.sandbox.recording import (
    AttemptTruth,
    Entry,
    LogEndEntry,
    LogEntry,
    RayAnswerEntry,
    RayFileEntry,
    RayGoneEntry,
    RayJobEntry,
    RayUpEntry,
    Recording,
    Truth,
    WatchEntry,
)
from archiver.sandbox.rewriting import Clock, Rewriter
from archiver.sandbox.signals import wait_for

_HOLD_LIMIT_SECONDS = 3600.0


class Playback:
    """One play of one recording. ``listen`` is awaited with every Ray node that comes up."""

    def __init__(
        self,
        recording: Recording,
        cluster: SandboxCluster,
        *,
        speed: float,
        name_suffix: str,
        listen: Callable[[RayNode], Awaitable[bool]],
    ) -> None:
        self.recording = recording
        self.name_suffix = name_suffix
        self.namespace = recording.header.namespace
        self.rayjob = recording.header.rayjob + name_suffix
        self._cluster = cluster
        self._speed = speed
        self._listen = listen
        self._words = _words(recording, cluster, name_suffix)
        self._recorded_finalizers: dict[str, list[str]] = {}
        self._seen_uids: set[str] = set()
        self._pod_uids: dict[str, str] = {}
        self._rewriter = Rewriter(Clock(recording.header.origin, datetime.now(UTC), speed), self._words)
        self._clock = Clock(recording.header.origin, datetime.now(UTC), speed)
        self._done = asyncio.Event()
        self.was_cut_short = False

    async def wait(self) -> None:
        """Until the last entry was played, or the RayJob was deleted by somebody else."""
        await self._done.wait()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    @property
    def truth(self) -> Truth:
        """The truth under the names of this playback."""
        truth = self.recording.truth
        return Truth(truth.outcome, tuple(self._renamed(attempt) for attempt in truth.attempts))

    def _renamed(self, attempt: AttemptTruth) -> AttemptTruth:
        return replace(
            attempt,
            ray_cluster=self._rewriter.text(attempt.ray_cluster),
            submission_id=self._rewriter.text(attempt.submission_id),
        )

    @property
    def uid(self) -> str:
        """The RayJob's uid in this playback."""
        for entry in self.recording.entries:
            if isinstance(entry, WatchEntry) and entry.object["kind"] == "RayJob":
                return self._rewriter.text(entry.object["metadata"]["uid"])
        return ""

    async def run(self, *, start_in_seconds: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time() + start_in_seconds
        self._cluster.put(operator(self.recording.header.versions.get("kuberay", "")))
        self._clock = replace(self._clock, start=datetime.now(UTC) + timedelta(seconds=start_in_seconds))
        self._rewriter = Rewriter(self._clock, self._words)
        try:
            for entry in self.recording.entries:
                await asyncio.sleep(max(0.0, start + entry.at / self._speed - loop.time()))
                if self._is_deleted_by_user():
                    self.was_cut_short = True
                    return
                held_seconds = await self._play(entry)
                if held_seconds:
                    start += held_seconds
                    self._shift(held_seconds)
        finally:
            self._done.set()

    def _shift(self, seconds: float) -> None:
        self._clock = replace(self._clock, start=self._clock.start + timedelta(seconds=seconds))
        self._rewriter = Rewriter(self._clock, self._words)

    def _is_deleted_by_user(self) -> bool:
        return self.uid in self._seen_uids and self._cluster.get("rayjobs", self.namespace, self.rayjob) is None

    async def _play(self, entry: Entry) -> float:
        """Plays one entry; gives the seconds that somebody held it up."""
        match entry:
            case WatchEntry(type="DELETED"):
                return await self._delete(self._rewriter.document(entry.object))
            case WatchEntry():
                self._put(self._rewriter.document(entry.object), is_new=entry.type == "ADDED")
            case LogEntry():
                self._write_log(entry)
            case LogEndEntry():
                run = self._run(entry)
                if run is not None:
                    self._cluster.end_log(run, stamp_ns=self._clock.at_ns(entry.at))
            case RayUpEntry():
                await self._ray_up(entry)
            case _:
                self._ray(entry)
        return 0.0

    # --- objects

    def _put(self, document: JsonObject, *, is_new: bool) -> None:
        metadata = document["metadata"]
        self._serve(document)
        stored = self._find(document)
        if stored is None and not is_new and metadata["uid"] in self._seen_uids:
            return  # a user deleted it meanwhile
        self._seen_uids.add(metadata["uid"])
        if document["kind"] == "Pod":
            self._pod_uids[metadata["name"]] = metadata["uid"]
        finalizers = list(metadata.get("finalizers") or [])
        if stored is not None:
            ours = self._recorded_finalizers.get(metadata["uid"], [])
            foreign = [name for name in stored["metadata"].get("finalizers") or [] if name not in ours]
            metadata["finalizers"] = finalizers + [name for name in foreign if name not in finalizers]
            if not metadata["finalizers"]:
                del metadata["finalizers"]
            _keep_annotations(document, stored)
        self._recorded_finalizers[metadata["uid"]] = finalizers
        self._cluster.put(document)

    def _serve(self, document: JsonView) -> None:
        """Groups that are not there from the start (Kueue's) come with their first object."""
        group, _, version = str(document["apiVersion"]).rpartition("/")
        if self._cluster.catalogue.by_kind(document["apiVersion"], document["kind"]) is None:
            self._cluster.catalogue.install(group, version)

    def _find(self, document: JsonView) -> JsonObject | None:
        resource = self._cluster.catalogue.by_kind(document["apiVersion"], document["kind"])
        metadata = document["metadata"]
        if resource is None:
            return None
        stored = self._cluster.table(resource).get((metadata.get("namespace", ""), metadata["name"]))
        return stored.object if stored else None

    async def _delete(self, document: JsonObject) -> float:
        """Removes the object; waits where a finalizer of somebody else holds it."""
        resource = self._cluster.catalogue.by_kind(document["apiVersion"], document["kind"])
        stored = self._find(document)
        if resource is None or stored is None or stored["metadata"]["uid"] != document["metadata"]["uid"]:
            return 0.0
        self._seen_uids.discard(document["metadata"]["uid"])
        ours = self._recorded_finalizers.get(document["metadata"]["uid"], [])
        foreign = [name for name in stored["metadata"].get("finalizers") or [] if name not in ours]
        key = (document["metadata"].get("namespace", ""), document["metadata"]["name"])
        table = self._cluster.table(resource)
        if stored["metadata"].get("finalizers"):
            self._cluster.patch(resource.plural, *key, {"metadata": {"finalizers": foreign or None}})
        if table.get(key) is None:
            return 0.0
        self._cluster.delete(resource.plural, *key)
        return await self._until_gone(resource.plural, key)

    async def _until_gone(self, plural: str, key: tuple[str, str]) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        resource = self._cluster.catalogue.by_plural(plural)
        while resource is not None and loop.time() - began < _HOLD_LIMIT_SECONDS:
            table = self._cluster.table(resource)
            ticket = table.signal.ticket()
            if table.get(key) is None:
                break
            await wait_for(ticket, _HOLD_LIMIT_SECONDS)
        return loop.time() - began

    # --- container logs

    def _run(self, entry: LogEntry | LogEndEntry) -> ContainerRun | None:
        """None where the pod is not there (any more)."""
        name = self._rewriter.text(entry.pod)
        uid = self._pod_uids.get(name)
        if uid is None or self._cluster.get("pods", self.namespace, name) is None:
            return None
        return ContainerRun(self.namespace, name, uid, entry.container, entry.restart)

    def _write_log(self, entry: LogEntry) -> None:
        run = self._run(entry)
        if run is None:
            return
        data = entry.content.to_bytes()
        if not entry.line_times:
            self._cluster.write_log(run, data, stamp_ns=self._clock.at_ns(entry.at))
            return
        moments = [*entry.line_times, *[entry.at] * data.count(b"\n")]
        for line, moment in zip(_lines(data), moments, strict=False):
            self._cluster.write_log(run, line, stamp_ns=self._clock.at_ns(moment))

    # --- Ray

    async def _ray_up(self, entry: RayUpEntry) -> None:
        name = self._rewriter.text(entry.pod)
        pod = self._cluster.get("pods", self.namespace, name)
        if pod is None:
            return
        address = (pod.get("status") or {}).get("podIP") or self._cluster.next_address()
        node = RayNode(address, node_id=entry.node_id, is_head=entry.role == "head", token=entry.token)
        self._cluster.add_ray_node(self.namespace, name, node)
        await self._listen(node)

    def _ray(self, entry: RayFileEntry | RayJobEntry | RayAnswerEntry | RayGoneEntry | Entry) -> None:
        node = self._cluster.ray_node(self.namespace, self._rewriter.text(getattr(entry, "pod", "")))
        if node is None:
            return
        match entry:
            case RayFileEntry():
                node.append(self._rewriter.text(entry.path), entry.content.to_bytes())
            case RayJobEntry():
                node.set_job(self._rewriter.document(entry.record))
            case RayAnswerEntry():
                body = self._rewriter.document(entry.body)
                node.set_answer(entry.path, Canned(entry.status, body, entry.content_type))
            case RayGoneEntry():
                node.die(NodeState(entry.how))


def _lines(data: bytes) -> list[bytes]:
    """With their newlines; the last may have none. Only newlines end a line."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _words(recording: Recording, cluster: SandboxCluster, name_suffix: str) -> dict[str, str]:
    """Every uid gets a fresh one, every pod address one of this machine; the name only where a suffix is wanted."""
    words: dict[str, str] = {}
    for entry in recording.entries:
        if not isinstance(entry, WatchEntry) or entry.object["kind"] == "Node":
            continue
        words.setdefault(entry.object["metadata"]["uid"], str(uuid.uuid4()))
        address = (entry.object.get("status") or {}).get("podIP") if entry.object["kind"] == "Pod" else None
        if address and address not in words:
            words[address] = cluster.next_address()
    if name_suffix:
        words[recording.header.rayjob] = recording.header.rayjob + name_suffix
    return words


def _keep_annotations(document: JsonObject, stored: JsonObject) -> None:
    """Annotations that somebody else put on an object stay there."""
    theirs = stored["metadata"].get("annotations") or {}
    if theirs:
        document["metadata"]["annotations"] = {**theirs, **(document["metadata"].get("annotations") or {})}
