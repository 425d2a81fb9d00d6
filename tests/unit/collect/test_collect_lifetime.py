"""Which news of a node belong to an attempt: those of its own time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from archiver.collect.lifetime import NodeHistory, is_about_node, is_of_its_time

CAME = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ENDED = CAME + timedelta(hours=1)


def event(at: datetime, **changed: Any) -> dict[str, Any]:
    return {"involvedObject": {"kind": "Node", "name": "node-1"}, "lastTimestamp": at.isoformat(), **changed}


def node(ready: str, *, heartbeat: str = "", taint: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": "Kubelet", "lastHeartbeatTime": heartbeat}
    taints = [{"key": taint, "effect": "NoExecute"}] if taint else []
    return {"metadata": {"name": "node-1"}, "spec": {"taints": taints}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("at", "belongs"),
    [
        (CAME - timedelta(hours=3), False),
        (CAME - timedelta(seconds=30), True),
        (CAME + timedelta(minutes=30), True),
        (ENDED + timedelta(seconds=60), True),
        (ENDED + timedelta(hours=2), False),
    ],
)
def test_a_nodes_event_belongs_to_who_was_there(at: datetime, belongs: bool) -> None:
    assert is_of_its_time(event(at), {"node-1": CAME}, ENDED) is belongs


def test_a_node_that_no_pod_came_to_is_none_of_ours() -> None:
    assert not is_of_its_time(event(CAME), {"node-2": CAME}, None)


def test_reads_the_time_of_the_newer_events_too() -> None:
    newer = event(CAME, lastTimestamp=None, eventTime=(CAME - timedelta(days=1)).isoformat())
    assert is_about_node(newer)
    assert not is_of_its_time(newer, {"node-1": CAME}, None)


def test_a_heartbeat_is_no_news() -> None:
    history = NodeHistory()
    assert history.add("node-1", node("True", heartbeat="1"), CAME)
    assert not history.add("node-1", node("True", heartbeat="2"), CAME)
    assert history.add("node-1", node("True", taint="gpu-broken"), CAME)


def test_a_trouble_that_was_over_long_before_the_end_is_not_of_the_end() -> None:
    history = NodeHistory()
    history.add("node-1", node("True"), CAME)
    history.add("node-1", node("False"), CAME + timedelta(minutes=5))
    history.add("node-1", node("True"), CAME + timedelta(minutes=10))
    assert history.around(ENDED) == [node("True")]
    history.add("node-1", node("Unknown"), ENDED - timedelta(minutes=1))
    assert history.around(ENDED) == [node("True"), node("Unknown")]
