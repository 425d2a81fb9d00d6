"""Changes that came before their owner: found again in order, bounded, forgotten in time."""

from datetime import UTC, datetime

from archiver.collect.orphans import Orphans
from archiver.core.model import Kind
from archiver.core.ownership import Ref
from archiver.ports import Change, ChangeType

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CLUSTER = Ref("cluster", "n/c")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pod(uid: str, version: int) -> Change:
    metadata = {"uid": uid, "resourceVersion": str(version)}
    return Change(Kind.POD, ChangeType.MODIFIED, {"metadata": metadata}, NOW)


def test_every_version_of_a_few_comes_back_once() -> None:
    orphans = Orphans(Clock())
    changes = [pod("a", 1), pod("b", 2), pod("a", 3)]
    for change in changes:
        orphans.keep(change, [CLUSTER])
    assert orphans.claim([CLUSTER], 0.0) == [changes[0], changes[2], changes[1]]
    assert orphans.claim([CLUSTER], 0.0) == []


def test_an_object_that_changes_for_ever_takes_no_room_for_ever() -> None:
    orphans = Orphans(Clock())
    for version in range(1000):
        orphans.keep(pod("a", version), [CLUSTER])
    claimed = orphans.claim([CLUSTER], 0.0)
    assert len(claimed) < 50
    assert claimed[-1] == pod("a", 999)


def test_a_stranger_is_forgotten_after_minutes() -> None:
    clock = Clock()
    orphans = Orphans(clock)
    orphans.keep(pod("a", 1), [CLUSTER])
    clock.now = 300.0
    assert orphans.claim([CLUSTER], clock.now) == []
    assert len(orphans) == 0
