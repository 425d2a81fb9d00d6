"""The fold of an attempt: what any object may look like, and what is said of pods, heads and clusters."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archiver.collect.state import AttemptState
from archiver.core.model import AttemptId, ContainerRun, Kind, RayJobId
from archiver.ports import Change, ChangeType

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
WORDS = ("FAILED", "Failed", "EXPLODED", "Retrying", 7, None, [], "2999-01-01T00:00:00Z", "yesterday")


def state() -> AttemptState:
    return AttemptState(AttemptId(RayJobId("c", "n", "job", "uid"), 1))


def change(kind: Kind, obj: Mapping[str, Any], how: ChangeType = ChangeType.MODIFIED, seconds: float = 0) -> Change:
    return Change(kind, how, obj, NOW + timedelta(seconds=seconds))


def pod(uid: str = "p1", *, restarts: int = 0, running: bool = True, name: str = "head") -> dict[str, Any]:
    container = {"name": "ray-head", "restartCount": restarts, "state": {"running" if running else "terminated": {}}}
    if restarts:
        container["lastState"] = {"terminated": {"finishedAt": "2026-03-01T11:59:58Z"}}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": uid, "labels": {"ray.io/node-type": "head"}},
        "spec": {"containers": [{"name": "ray-head"}], "nodeName": "node-1"},
        "status": {"podIP": "10.0.0.1", "containerStatuses": [container]},
    }


@given(
    status=st.fixed_dictionaries(
        {},
        optional={
            key: st.sampled_from(WORDS) | JSON for key in ("jobStatus", "jobDeploymentStatus", "failed", "endTime")
        },
    ),
    metadata=st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "uid", "labels", "deletionTimestamp"), JSON)),
    kind=st.sampled_from([Kind.RAYJOB, Kind.RAYCLUSTER, Kind.POD]),
    spec=JSON,
    how=st.sampled_from(list(ChangeType)),
)
def test_takes_any_object(status: Any, metadata: Any, kind: Kind, spec: Any, how: ChangeType) -> None:
    fold = state()
    fold.apply(change(kind, {"metadata": metadata, "spec": spec, "status": status}, how))
    fold.apply(change(kind, {"metadata": spec, "spec": status, "status": spec}, how))
    assert list(fold.wanted()) is not None
    assert fold.head() is None or fold.head_run() is not None
    assert isinstance(fold.is_cluster_going, bool)
    assert fold.nodes_since() is not None


def test_a_pod_that_is_seen_again_was_not_gone() -> None:
    """After a restart the journal's pods may be thought gone before the first list is complete."""
    fold = state()
    fold.apply(change(Kind.POD, pod()))
    fold.pods["p1"].gone_at = NOW
    fold.apply(change(Kind.POD, pod(), ChangeType.ADDED))
    assert fold.head() is not None
    assert not fold.is_pod_gone(ContainerRun("n", "head", "p1", "ray-head"))


def test_a_cluster_that_comes_again_in_the_middle_of_the_run_is_not_deleted() -> None:
    fold = state()
    fold.apply(change(Kind.RAYCLUSTER, {"metadata": {"name": "c", "uid": "c1"}}, ChangeType.ADDED))
    fold.apply(change(Kind.RAYCLUSTER, {"metadata": {"name": "c", "uid": "c1"}}, ChangeType.DELETED))
    assert fold.is_cluster_going
    fold.apply(change(Kind.RAYCLUSTER, {"metadata": {"name": "c", "uid": "c2"}}, ChangeType.ADDED))
    assert not fold.is_cluster_going


def test_a_restarted_container_is_told_from_its_next_run() -> None:
    fold = state()
    fold.apply(change(Kind.POD, pod()))
    first = ContainerRun("n", "head", "p1", "ray-head", 0)
    assert (fold.has_restarted(first), fold.head_run()) == (False, ("p1", 0))
    fold.apply(change(Kind.POD, pod(restarts=1)))
    assert (fold.has_restarted(first), fold.head_run()) == (True, ("p1", 1))
    assert fold.is_finished(first)
    assert fold.ended_at(first) == datetime(2026, 3, 1, 11, 59, 58, tzinfo=UTC)
