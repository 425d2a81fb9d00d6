"""What the tests of watches share: a recorder that checks the promises of every change, and polling with a deadline."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from archiver.kube.informer import Informers
from archiver.kube.listwatch import Timing
from archiver.kube.transport import Transport
from archiver.ports import Change, ChangeType, Kind

QUICK = Timing(
    silence_seconds=1.0, backoff_base_seconds=0.02, backoff_cap_seconds=0.2, absent_seconds=0.1, denied_seconds=0.1
)


class Recorder:
    """Takes every change, keeps a mirror by applying them, and fails where a promise is broken."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.mirror: dict[str, Mapping[str, Any]] = {}
        self._uid_of: dict[tuple[Any, ...], str] = {}
        self._versions: set[tuple[str, str, str]] = set()

    async def __call__(self, change: Change) -> None:
        metadata = change.object["metadata"]
        uid = metadata["uid"]
        delivery = (uid, metadata["resourceVersion"], "end" if change.type is ChangeType.DELETED else "here")
        assert delivery not in self._versions, f"delivered twice: {delivery}"
        self._versions.add(delivery)
        if change.type is ChangeType.ADDED:
            assert uid not in self.mirror, f"added twice: {metadata['name']}"
        else:
            assert uid in self.mirror, f"{change.type} of an unknown object: {metadata['name']}"
        if change.type is ChangeType.DELETED:
            del self.mirror[uid], self._uid_of[_name(change.object)]
        else:
            namesake = self._uid_of.setdefault(_name(change.object), uid)
            assert namesake == uid, "re-created without the old one's end"
            self.mirror[uid] = change.object
        self.changes.append(change)

    def told(self, kind: Kind) -> list[tuple[str, str]]:
        return [(c.type.value, c.object["metadata"]["name"]) for c in self.changes if c.kind is kind]

    def versions(self, kind: Kind) -> dict[str, str]:
        """Names and resource versions, as the changes tell them."""
        found = [o["metadata"] for o in self.mirror.values() if o.get("kind") == _KINDS[kind]]
        return {metadata["name"]: metadata["resourceVersion"] for metadata in found}


_KINDS = {Kind.RAYJOB: "RayJob", Kind.RAYCLUSTER: "RayCluster", Kind.JOB: "Job", Kind.POD: "Pod", Kind.EVENT: "Event"}


def _name(document: Mapping[str, Any]) -> tuple[Any, ...]:
    return document.get("kind"), document["metadata"].get("namespace"), document["metadata"]["name"]


@asynccontextmanager
async def watching(
    transport: Transport, *, namespaces: Sequence[str] = (), timing: Timing = QUICK, is_synced: bool = True
) -> AsyncIterator[tuple[Informers, Recorder]]:
    recorder = Recorder()
    informers = Informers(transport, recorder, namespaces=namespaces, timing=timing)
    task = asyncio.create_task(informers.run(), name="informers under test")
    try:
        if is_synced:
            await informers.wait_synced(timeout_seconds=30)
        yield informers, recorder
        errors = sum(stats.callback_errors for stats in informers.stats().values())
        assert errors == 0, "a promise of the changes was broken: see the log"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(condition: Callable[[], object], *, seconds: float = 15.0) -> None:
    """Polls until the condition holds; fails with its last value."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := condition()):
        assert asyncio.get_running_loop().time() < deadline, f"still {value!r} after {seconds} s"
        await asyncio.sleep(0.01)
