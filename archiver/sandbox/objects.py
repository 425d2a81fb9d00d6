"""The object table: what etcd and the watch cache are for an API server. It knows no HTTP.

One counter of resource versions for everything, as in etcd. Objects are never changed in place once stored.
"""

import copy
import json
import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.resources import Resource
from archiver.sandbox.signals import Signal
from archiver.sandbox.status import already_exists, conflict, invalid, not_found, too_old

Key = tuple[str, str]  # namespace ("" for cluster-wide resources) and name


class Stored:
    """One version of one object, with its JSON kept for the many who will be sent it."""

    __slots__ = ("_tail", "key", "object", "version")

    def __init__(self, key: Key, version: int, document: JsonObject) -> None:
        self.key = key
        self.version = version
        self.object = document
        self._tail: bytes | None = None

    def tail(self) -> bytes:
        """The JSON without apiVersion and kind, from behind its opening brace."""
        if self._tail is None:
            rest = {key: value for key, value in self.object.items() if key not in ("apiVersion", "kind")}
            self._tail = json.dumps(rest, separators=(",", ":"), ensure_ascii=False).encode()[1:]
        return self._tail


@dataclass(frozen=True, slots=True)
class TableChange:
    """One step of a resource's history. ``before`` is what was stored until then."""

    version: int
    type: str
    now: Stored
    before: Stored | None


class ObjectTable:
    """The objects of one storage resource, and their history. ``removed`` is told of every object that goes."""

    def __init__(
        self,
        resource: Resource,
        next_version: Callable[[], int],
        *,
        history_limit: int,
        removed: Callable[[JsonObject], None] | None = None,
    ) -> None:
        self.resource = resource
        self._removed = removed
        self.signal = Signal()
        self._next_version = next_version
        self._objects: dict[Key, Stored] = {}
        self._history: list[TableChange] = []
        self._trimmed_version = 0
        self._refused_below = 0
        self._history_limit = history_limit

    def get(self, key: Key) -> Stored | None:
        return self._objects.get(key)

    def items(self, namespace: str = "") -> list[Stored]:
        """In the order of etcd's keys."""
        keys = sorted(key for key in self._objects if not namespace or key[0] == namespace)
        return [self._objects[key] for key in keys]

    def create(self, document: JsonView, *, now: datetime | None = None) -> Stored:
        fresh = self._prepared(document, now or datetime.now(UTC))
        key = _key(fresh)
        if key in self._objects:
            raise already_exists(self.resource, key[1])
        return self._commit("ADDED", key, fresh)

    def _prepared(self, document: JsonView, now: datetime) -> JsonObject:
        fresh: JsonObject = copy.deepcopy(dict(document))
        metadata = fresh.setdefault("metadata", {})
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise invalid(
                    self.resource.kind, "", [("metadata.name", "Required value: name or generateName is required")]
                )
            metadata["name"] = f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        if not self.resource.namespaced:
            metadata.pop("namespace", None)
        elif not metadata.get("namespace"):
            metadata["namespace"] = "default"
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", kube_time(now))
        if "spec" in fresh:
            metadata.setdefault("generation", 1)
        fresh.setdefault("apiVersion", self.resource.api_version)
        fresh.setdefault("kind", self.resource.kind)
        return fresh

    def replace(self, key: Key, document: JsonView, *, expected_version: str | None = None) -> Stored:
        """Writes a whole object over the stored one. An unchanged object keeps its version, as in etcd.

        The removal of the last finalizer of an object that is being deleted removes it.
        """
        before = self._objects.get(key)
        if before is None:
            raise not_found(self.resource, key[1])
        if expected_version not in (None, "", str(before.version)):
            raise conflict(self.resource, key[1])
        fresh = copy.deepcopy(dict(document))
        self._keep_identity(fresh, before.object)
        if fresh == before.object:
            return before
        metadata = fresh["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers") and _waited_for_finalizers(before):
            return self._remove(key, fresh)
        return self._commit("MODIFIED", key, fresh)

    def _keep_identity(self, fresh: JsonObject, before: JsonObject) -> None:
        metadata, old = fresh.setdefault("metadata", {}), before["metadata"]
        for name in ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"):
            if name in old:
                metadata[name] = old[name]
        if "generation" in old:
            is_changed = fresh.get("spec") != before.get("spec")
            given = metadata.get("generation", 0)
            metadata["generation"] = max(old["generation"] + 1, given) if is_changed else old["generation"]
        fresh["apiVersion"], fresh["kind"] = before["apiVersion"], before["kind"]

    def delete(self, key: Key, *, grace_seconds: int | None = None, now: datetime | None = None) -> Stored:
        """Removes an object, or marks it where finalizers (or a grace period) keep it for a while."""
        before = self._objects.get(key)
        if before is None:
            raise not_found(self.resource, key[1])
        if not before.object["metadata"].get("finalizers") and not grace_seconds:
            return self._remove(key, before.object)
        if before.object["metadata"].get("deletionTimestamp"):
            return before
        fresh = copy.deepcopy(before.object)
        fresh["metadata"]["deletionTimestamp"] = kube_time(now or datetime.now(UTC))
        fresh["metadata"]["deletionGracePeriodSeconds"] = grace_seconds or 0
        return self._commit("MODIFIED", key, fresh)

    def _remove(self, key: Key, last: JsonObject) -> Stored:
        before = self._objects.pop(key)
        fresh = copy.deepcopy(last)
        gone = self._stamped(key, fresh)
        self._record(TableChange(gone.version, "DELETED", gone, before))
        if self._removed is not None:
            self._removed(fresh)
        return gone

    def _commit(self, change: str, key: Key, fresh: JsonObject) -> Stored:
        before = self._objects.get(key)
        stored = self._stamped(key, fresh)
        self._objects[key] = stored
        self._record(TableChange(stored.version, change, stored, before))
        return stored

    def _stamped(self, key: Key, fresh: JsonObject) -> Stored:
        version = self._next_version()
        fresh["metadata"]["resourceVersion"] = str(version)
        return Stored(key, version, fresh)

    def _record(self, change: TableChange) -> None:
        self._history.append(change)
        if len(self._history) > self._history_limit:
            dropped = self._history[: len(self._history) // 2]
            self._history = self._history[len(dropped) :]
            self._trimmed_version = dropped[-1].version
        self.signal.fire()

    def refuse_if_too_old(self, version: int) -> None:
        """For a watch that begins: raises the 410 where the steps after a version are forgotten."""
        oldest = max(self._trimmed_version, self._refused_below)
        if version < oldest:
            raise too_old(version, oldest)

    def changes_after(self, version: int) -> list[TableChange]:
        """The steps after a version. Raises the 410 where a watcher was too slow for the history that is kept."""
        if version < self._trimmed_version:
            raise too_old(version, self._trimmed_version)
        start = bisect_right(self._history, version, key=lambda change: change.version)
        return self._history[start:]

    def forget_history(self, up_to_version: int) -> None:
        """What compaction does: nobody can begin to watch below this version. Watches that run are not disturbed."""
        self._refused_below = up_to_version


def _key(document: JsonObject) -> Key:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _waited_for_finalizers(before: Stored) -> bool:
    return bool(before.object["metadata"].get("finalizers"))


def kube_time(moment: datetime) -> str:
    """Kubernetes' own form: whole seconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge_patched(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patched(merged.get(name), value)
    return merged
