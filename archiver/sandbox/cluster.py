"""The sandbox's state and its Python side: objects, container logs, Ray nodes, faults. No HTTP here.

Everything happens on one event loop: methods are plain functions, and what they did is visible when they return.
"""

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime

from archiver.core.model import ContainerRun
from archiver.sandbox.containerlogs import ContainerLog
from archiver.sandbox.faults import Denial, Faults
from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.objects import Key, ObjectTable, Stored, merge_patched
from archiver.sandbox.podstates import ContainerEnd, container_status, with_finished, with_started
from archiver.sandbox.raynode import RayNode
from archiver.sandbox.resources import EVENTS_GROUP, RAY_GROUP, Catalogue, Resource
from archiver.sandbox.status import ApiRefusal, not_found

ROTATE_AT_BYTES = 10 * 1024 * 1024  # the kubelet's containerLogMaxSize
_COLLECT_AFTER_SECONDS = 0.2


class ListSnapshots:
    """What paged lists remember, so that their later pages show the same moment."""

    def __init__(self, limit: int = 64) -> None:
        self._kept: dict[tuple[int, str, str], list[Stored]] = {}
        self._limit = limit

    def keep(self, version: int, resource: Resource, items: list[Stored]) -> None:
        self._kept.setdefault((version, resource.group, resource.plural), items)
        while len(self._kept) > self._limit:
            self._kept.pop(next(iter(self._kept)))

    def find(self, version: int, resource: Resource) -> list[Stored] | None:
        return self._kept.get((version, resource.group, resource.plural))

    def clear(self) -> None:
        self._kept.clear()


class SandboxCluster:
    """A cluster to be filled by a test or a replay.

    ``bookmark_seconds``: pace of bookmarks. ``rotation_check_seconds``: how often logs are looked at for rotation (a
    kubelet: 10; here less, because replays are short; 0 rotates exactly at ``rotate_at_bytes``).
    ``refuses_old_watches``: a watch from a forgotten version gets the 410 as its HTTP status, as some servers and
    proxies do, rather than as an ERROR event in the stream.
    ``pod_termination_seconds``: how long a pod that a user deletes takes to die.
    """

    def __init__(
        self,
        *,
        bookmark_seconds: float = 60.0,
        rotate_at_bytes: int = ROTATE_AT_BYTES,
        rotation_check_seconds: float = 1.0,
        history_limit: int = 20_000,
        pod_termination_seconds: float = 1.0,
    ) -> None:
        self.catalogue = Catalogue()
        self.faults = Faults()
        self.list_snapshots = ListSnapshots()
        self.bookmark_seconds = bookmark_seconds
        self.refuses_old_watches = False
        self.version = 1000
        self._history_limit = history_limit
        self._rotate_at_bytes = rotate_at_bytes
        self._rotation_check_seconds = rotation_check_seconds
        self._pod_termination_seconds = pod_termination_seconds
        self._tables: dict[tuple[str, str], ObjectTable] = {}
        self._logs: dict[ContainerRun, ContainerLog] = {}
        self._ray_nodes: dict[Key, RayNode] = {}
        self._address_base = (random.randint(64, 250), random.randint(1, 250))
        self._address_count = 0
        for name in ("default", "kube-system"):
            self.ensure_namespace(name)

    # --- objects

    def table(self, resource: Resource) -> ObjectTable:
        """The objects behind a resource: one table whatever group or version they are looked at through."""
        group = "" if resource.group == EVENTS_GROUP else resource.group
        key = (group, resource.plural)
        if key not in self._tables:
            stored_as = self.catalogue.by_plural(resource.plural, group=group) or resource
            self._tables[key] = ObjectTable(
                stored_as,
                self._next_version,
                history_limit=self._history_limit,
                removed=self._forget_pod if key == ("", "pods") else None,
            )
        return self._tables[key]

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    def _resource(self, plural: str) -> Resource:
        resource = self.catalogue.by_plural(plural)
        if resource is None:
            raise LookupError(f"the sandbox serves no resource {plural!r}")
        return resource

    def _table(self, plural: str) -> ObjectTable:
        return self.table(self._resource(plural))

    def create(self, document: JsonView) -> JsonObject:
        """Stores an object by its apiVersion and kind, in its namespace, which is made where it is missing."""
        resource = self.catalogue.by_kind(str(document.get("apiVersion")), str(document.get("kind")))
        if resource is None:
            raise LookupError(f"the sandbox serves no {document.get('apiVersion')} {document.get('kind')}")
        stored = self.table(resource).create(document)
        if resource.namespaced:
            self.ensure_namespace(stored.key[0])
        return stored.object

    def ensure_namespace(self, name: str) -> None:
        table = self._table("namespaces")
        if table.get(("", name)) is None:
            table.create({"metadata": {"name": name}, "spec": {}, "status": {"phase": "Active"}})

    def require_namespace(self, name: str) -> None:
        table = self._table("namespaces")
        if table.get(("", name)) is None:
            raise not_found(table.resource, name)

    def get(self, plural: str, namespace: str, name: str) -> JsonObject | None:
        stored = self._table(plural).get((namespace, name))
        return stored.object if stored else None

    def items(self, plural: str, namespace: str = "") -> Iterator[JsonObject]:
        for stored in self._table(plural).items(namespace):
            yield stored.object

    def patch(self, plural: str, namespace: str, name: str, change: JsonView) -> JsonObject:
        """A JSON merge patch of the whole object, status included. The last finalizer's removal removes it."""
        table = self._table(plural)
        before = table.get((namespace, name))
        if before is None:
            raise not_found(table.resource, name)
        return table.replace(before.key, merge_patched(before.object, change)).object

    def put(self, document: JsonView) -> JsonObject:
        """Creates or replaces."""
        metadata = document["metadata"]
        resource = self.catalogue.by_kind(str(document.get("apiVersion")), str(document.get("kind")))
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        if resource is None or self.table(resource).get(key) is None:
            return self.create(document)
        return self.table(resource).replace(key, document).object

    def delete(self, plural: str, namespace: str, name: str) -> JsonObject:
        """Removes an object at once, or marks it where it has finalizers. What it owns stays: delete that too."""
        return self._delete(self._resource(plural), (namespace, name), grace_seconds=0).object

    def _delete(self, resource: Resource, key: Key, *, grace_seconds: int) -> Stored:
        return self.table(resource).delete(key, grace_seconds=grace_seconds)

    def delete_as_user(self, resource: Resource, key: Key, *, grace_seconds: int | None) -> Stored:
        """What DELETE over HTTP does: pods take their time to die, and what an object owns follows it."""
        is_pod = resource.plural == "pods"
        grace = (30 if grace_seconds is None else grace_seconds) if is_pod else 0
        stored = self._delete(resource, key, grace_seconds=grace)
        loop = asyncio.get_running_loop()
        if self.table(resource).get(key) is None:
            loop.call_later(_COLLECT_AFTER_SECONDS, self._collect_dependents, stored.object["metadata"]["uid"])
        elif is_pod:
            loop.call_later(self._pod_termination_seconds, self._kill_pod, key, stored.object["metadata"]["uid"])
        return stored

    def _kill_pod(self, key: Key, uid: str) -> None:
        pod = self._table("pods").get(key)
        if pod is not None and pod.object["metadata"]["uid"] == uid and not pod.object["metadata"].get("finalizers"):
            self._delete(self._resource("pods"), key, grace_seconds=0)

    def _collect_dependents(self, owner_uid: str) -> None:
        for table in list(self._tables.values()):
            for item in table.items():
                owners = item.object["metadata"].get("ownerReferences") or []
                if any(owner.get("uid") == owner_uid for owner in owners):
                    self.delete_as_user(table.resource, item.key, grace_seconds=None)

    # --- containers and their logs

    def start_container(self, namespace: str, pod: str, container: str) -> ContainerRun:
        """The container runs from now on; gives the run to write to."""
        document = self._pod(namespace, pod)
        table = self._table("pods")
        table.replace((namespace, pod), with_started(document, container, now=datetime.now(UTC)))
        run = self.current_run(namespace, pod, container)
        self._log(run)
        return run

    def _pod(self, namespace: str, name: str) -> JsonObject:
        document = self.get("pods", namespace, name)
        if document is None:
            raise LookupError(f"there is no pod {namespace}/{name} in the sandbox")
        return document

    def current_run(self, namespace: str, pod: str, container: str) -> ContainerRun:
        """The newest run of a container, from the pod's status."""
        document = self._pod(namespace, pod)
        row = container_status(document, container) or {}
        return ContainerRun(namespace, pod, document["metadata"]["uid"], container, int(row.get("restartCount", 0)))

    def write_log(self, run: ContainerRun, data: bytes, *, stamp_ns: int | None = None) -> None:
        """The container prints. The pod's status is not touched: ``start_container`` does that."""
        self._log(run).write(data, stamp_ns=stamp_ns)

    def finish_container(self, run: ContainerRun, end: ContainerEnd | None = None) -> None:
        """The container ends: its followers read the rest and are done; the status says how it ended."""
        self._log(run).finish()
        document = self._pod(run.namespace, run.pod)
        fresh = with_finished(document, run.container, end or ContainerEnd(), now=datetime.now(UTC))
        self._table("pods").replace((run.namespace, run.pod), fresh)
        self._drop_old_runs(run)

    def _drop_old_runs(self, run: ContainerRun) -> None:
        """A kubelet keeps the log of one dead instance of a container, the newest."""
        for other in list(self._logs):
            same = (other.pod_uid, other.container) == (run.pod_uid, run.container)
            if same and other.restart < run.restart:
                self._logs.pop(other).remove()

    def end_log(self, run: ContainerRun, *, stamp_ns: int | None = None) -> None:
        """The container's output is over; the pod's status is somebody else's to write."""
        self._log(run).finish(stamp_ns=stamp_ns)

    def rotate_log(self, run: ContainerRun) -> None:
        self._log(run).rotate()

    def remove_log(self, run: ContainerRun) -> None:
        """The file is gone while the pod is still there."""
        self._log(run).remove()

    def _log(self, run: ContainerRun) -> ContainerLog:
        if run not in self._logs:
            self._logs[run] = ContainerLog(
                rotate_at_bytes=self._rotate_at_bytes, check_seconds=self._rotation_check_seconds
            )
        return self._logs[run]

    def find_log(self, run: ContainerRun) -> ContainerLog | None:
        return self._logs.get(run)

    def current_log(self, run: ContainerRun, *, is_running: bool) -> ContainerLog:
        """The log of a container's newest run, which is there from its start on, be it empty."""
        log = self._log(run)
        if not is_running and not log.is_finished:
            log.finish()
        return log

    def _forget_pod(self, pod: JsonObject) -> None:
        """However it went: its logs end for whoever follows them, and what ran in it answers no more."""
        uid, key = pod["metadata"]["uid"], (pod["metadata"]["namespace"], pod["metadata"]["name"])
        for run in [run for run in self._logs if run.pod_uid == uid]:
            self._logs.pop(run).remove()
        node = self._ray_nodes.pop(key, None)
        if node is not None:
            node.close()

    # --- Ray

    def add_ray_node(self, namespace: str, pod: str, node: RayNode) -> None:
        """What answers at that pod, through the proxies and at the node's own address once it listens."""
        old = self._ray_nodes.get((namespace, pod))
        if old is not None and old is not node:
            old.close()
        self._ray_nodes[(namespace, pod)] = node

    def ray_node(self, namespace: str, pod: str) -> RayNode | None:
        return self._ray_nodes.get((namespace, pod))

    def next_address(self) -> str:
        """A loopback address of its own for a pod: all of 127.0.0.0/8 answers on Linux."""
        self._address_count += 1
        second, third = self._address_base
        return f"127.{second}.{(third + self._address_count // 250) % 250 + 1}.{self._address_count % 250 + 2}"

    def close(self) -> None:
        for node in self._ray_nodes.values():
            node.close()
        self.faults.resume()
        self.cut_streams()

    # --- faults

    def cut_streams(self, *kinds: str) -> int:
        """Cuts open streams in the middle (``watch``, ``log``; both by default). Tells how many there were."""
        count = self.faults.cut(*(kinds or ("watch", "log")))
        self._wake_streams()
        return count

    def _wake_streams(self) -> None:
        for table in self._tables.values():
            table.signal.fire()
        for log in self._logs.values():
            log.signal.fire()

    def forget_history(self) -> None:
        """Compaction: from now on a watch from an older version, and a list's next page, get 410."""
        for table in self._tables.values():
            table.forget_history(self._next_version())
        self.list_snapshots.clear()

    def pause(self) -> None:
        """Silence: connections stay open, nothing is sent, nothing is answered."""
        self.faults.pause()

    def resume(self) -> None:
        self.faults.resume()
        self._wake_streams()

    def fail_next(self, count: int, status: int, *, path: str = "") -> None:
        """The next requests whose path and query contain ``path`` are answered with an error status."""
        self.faults.fail_next(count, status, path=path)

    def deny(self, verb: str, resource: str, *, namespace: str = "") -> None:
        """Takes a right away: ``deny("get", "pods/log")``. ``*`` stands for all."""
        self.faults.denials.append(Denial(verb, resource, namespace))

    def allow_all(self) -> None:
        self.faults.denials.clear()

    def uninstall_kuberay(self) -> None:
        """As before KubeRay is installed: its group is not served. Its objects are not deleted."""
        self.catalogue.uninstall(RAY_GROUP)

    def install_kuberay(self, *versions: str) -> None:
        self.catalogue.install(RAY_GROUP, *(versions or ("v1",)))


__all__ = ["ApiRefusal", "ContainerEnd", "SandboxCluster"]
