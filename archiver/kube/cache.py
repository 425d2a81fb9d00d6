"""What one watch knows: trimmed objects by name, uid and owner, and the difference that news makes. Pure.

Objects are held as compact JSON: a third of the memory of dictionaries, and nobody can change them by accident.
"""

import json
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from archiver.kube.trim import Document, owner_uids, trim
from archiver.ports import ChangeType, Kind

_BURIED_LIMIT = 10_000

Difference = tuple[ChangeType, Document]


@dataclass(slots=True)
class Entry:
    """One cached object. ``packed`` is empty where only its identity is kept."""

    uid: str
    version: str
    namespace: str
    name: str
    owners: tuple[str, ...]
    packed: bytes

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def unpacked(self) -> dict[str, Any]:
        if self.packed:
            document: dict[str, Any] = json.loads(self.packed)
            return document
        metadata = {"name": self.name, "uid": self.uid, "resourceVersion": self.version}
        return {"metadata": metadata | ({"namespace": self.namespace} if self.namespace else {})}


def is_newer(version: str, known: str) -> bool:
    """Whether a resource version is later than one of the same object; where they are no numbers, any other is."""
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version != known


class Cache:
    """The objects of one watch. ``body_limit`` bounds how many are kept whole: of older ones the uid and version stay,
    so that none is told twice, but they are found neither by name nor by owner."""

    def __init__(self, kind: Kind, *, body_limit: int | None = None) -> None:
        self._kind = kind
        self._by_uid: dict[str, Entry] = {}
        self._uid_of: dict[tuple[str, str], str] = {}
        self._children: dict[str, set[str]] = {}
        self._buried: OrderedDict[str, str] = OrderedDict()
        self._body_limit = body_limit
        self._with_body: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        uid = self._uid_of.get((namespace, name))
        return self._by_uid[uid].unpacked() if uid else None

    def by_uid(self, uid: str) -> dict[str, Any] | None:
        entry = self._by_uid.get(uid)
        return entry.unpacked() if entry else None

    def children(self, owner_uid: str) -> list[dict[str, Any]]:
        return [self._by_uid[uid].unpacked() for uid in sorted(self._children.get(owner_uid, ()))]

    def objects(self) -> Iterator[dict[str, Any]]:
        for entry in list(self._by_uid.values()):
            yield entry.unpacked()

    def apply(self, type_: ChangeType, document: Document) -> list[Difference]:
        """The differences that one watch event makes: none where it is known already."""
        uid, version = identity(document)
        if type_ is ChangeType.DELETED:
            if uid not in self._by_uid:
                return []
            self._bury(uid, version)
            return [(type_, document)]
        if uid in self._buried and not is_newer(version, self._buried[uid]):
            return []
        known = self._by_uid.get(uid)
        if known is not None and not is_newer(version, known.version):
            return []
        return self._store(document)

    def relist(self, documents: Iterable[Document], seen: set[str]) -> Iterator[Difference]:
        """The differences of one page of a list. ``seen`` collects uids for ``forget_unseen``."""
        for document in documents:
            uid, version = identity(document)
            seen.add(uid)
            known = self._by_uid.get(uid)
            if known is None or known.version != version:
                yield from self._store(document)

    def forget_unseen(self, seen: set[str], version: str) -> Iterator[Difference]:
        """The deletions that a whole list of a version proves. The object is the last one known, trimmed."""
        for uid in [uid for uid in self._by_uid if uid not in seen]:
            yield ChangeType.DELETED, self._bury(uid, version).unpacked()

    def _bury(self, uid: str, version: str) -> Entry:
        """Removes an object and remembers for a while that what is not newer than its end is no news."""
        self._buried[uid] = version
        if len(self._buried) > _BURIED_LIMIT:
            self._buried.popitem(last=False)
        entry = self._by_uid.pop(uid)
        self._unlink(entry)
        return entry

    def _store(self, document: Document) -> list[Difference]:
        entry = self._entry(document)
        differences: list[Difference] = []
        namesake = self._uid_of.get(entry.key)
        if namesake is not None and namesake != entry.uid:
            differences.append((ChangeType.DELETED, self._bury(namesake, entry.version).unpacked()))
        is_known = entry.uid in self._by_uid
        if is_known:
            self._unlink(self._by_uid[entry.uid])
        self._link(entry)
        differences.append((ChangeType.MODIFIED if is_known else ChangeType.ADDED, document))
        return differences

    def _entry(self, document: Document) -> Entry:
        trimmed = trim(self._kind, document)
        metadata = trimmed["metadata"]
        return Entry(
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            namespace=sys.intern(metadata.get("namespace") or ""),
            name=metadata["name"],
            owners=owner_uids(self._kind, document),
            packed=json.dumps(trimmed, separators=(",", ":")).encode(),
        )

    def _link(self, entry: Entry) -> None:
        self._by_uid[entry.uid] = entry
        self._uid_of[entry.key] = entry.uid
        for owner in entry.owners:
            self._children.setdefault(owner, set()).add(entry.uid)
        if self._body_limit is not None:
            self._with_body[entry.uid] = None
            self._with_body.move_to_end(entry.uid)
            self._drop_old_bodies(self._body_limit)

    def _unlink(self, entry: Entry) -> None:
        if self._uid_of.get(entry.key) == entry.uid:
            del self._uid_of[entry.key]
        for owner in entry.owners:
            siblings = self._children[owner]
            siblings.discard(entry.uid)
            if not siblings:
                del self._children[owner]

    def _drop_old_bodies(self, limit: int) -> None:
        while len(self._with_body) > limit:
            uid, _ = self._with_body.popitem(last=False)
            old = self._by_uid.get(uid)
            if old is not None:
                self._unlink(old)
                old.owners, old.packed = (), b""


def identity(document: Document) -> tuple[str, str]:
    """An object's uid and resource version."""
    metadata = document["metadata"]
    return metadata["uid"], metadata["resourceVersion"]
