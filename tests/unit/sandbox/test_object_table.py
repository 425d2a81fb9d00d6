"""The object table: versions, history, finalizers, merge patches."""

from collections.abc import Callable
from typing import Any

import pytest

from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.objects import ObjectTable, merge_patched
from archiver.sandbox.resources import RESOURCES
from archiver.sandbox.status import ApiRefusal

POD = next(resource for resource in RESOURCES if resource.plural == "pods")
KEY = ("n", "a")


def table(*, history_limit: int = 100, removed: Callable[[JsonObject], None] | None = None) -> ObjectTable:
    counter = iter(range(1, 10_000))
    return ObjectTable(POD, lambda: next(counter), history_limit=history_limit, removed=removed)


def pod(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "n", **metadata}, "spec": {"x": 1}}


def test_each_change_has_a_version_of_its_own() -> None:
    pods = table()
    pods.create(pod())
    pods.replace(KEY, pod(labels={"a": "b"}))
    pods.delete(KEY)
    changes = pods.changes_after(0)
    assert [(change.version, change.type) for change in changes] == [(1, "ADDED"), (2, "MODIFIED"), (3, "DELETED")]
    assert [change.now.object["metadata"]["resourceVersion"] for change in changes] == ["1", "2", "3"]
    assert [change.version for change in pods.changes_after(2)] == [3]


def test_an_unchanged_object_keeps_its_version() -> None:
    pods = table()
    pods.create(pod())
    assert pods.replace(KEY, pod()).version == 1
    assert len(pods.changes_after(0)) == 1


def test_identity_cannot_be_overwritten() -> None:
    pods = table()
    uid = pods.create(pod()).object["metadata"]["uid"]
    changed = pods.replace(KEY, pod(uid="other", labels={"a": "b"}))
    assert changed.object["metadata"]["uid"] == uid


def test_only_a_changed_spec_raises_the_generation() -> None:
    pods = table()
    pods.create(pod())
    assert pods.replace(KEY, pod(labels={"a": "b"})).object["metadata"]["generation"] == 1
    changed = pods.replace(KEY, {**pod(generation=1), "spec": {"x": 2}})
    assert changed.object["metadata"]["generation"] == 2


def test_a_stale_version_is_a_conflict() -> None:
    pods = table()
    pods.create(pod())
    pods.replace(KEY, pod(labels={"a": "b"}))
    with pytest.raises(ApiRefusal) as refused:
        pods.replace(KEY, pod(), expected_version="1")
    assert refused.value.code == 409


def test_a_finalizer_keeps_an_object_until_it_is_gone() -> None:
    pods = table()
    pods.create(pod(finalizers=["archiver/hold"]))
    marked = pods.delete(KEY)
    assert marked.object["metadata"]["deletionTimestamp"]
    assert pods.delete(KEY).version == marked.version, "a second deletion changes nothing"
    without = {**marked.object, "metadata": {**marked.object["metadata"], "finalizers": []}}
    pods.replace(KEY, without)
    assert pods.get(KEY) is None
    assert [change.type for change in pods.changes_after(0)] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_forgotten_version_can_not_be_watched_from() -> None:
    pods = table()
    pods.create(pod())
    pods.forget_history(5)
    with pytest.raises(ApiRefusal) as refused:
        pods.refuse_if_too_old(4)
    assert refused.value.document["code"] == 410
    assert refused.value.document["reason"] == "Expired"
    assert refused.value.document["message"] == "too old resource version: 4 (5)"
    assert len(pods.changes_after(0)) == 1, "a watch that runs is not disturbed"


def test_history_is_bounded() -> None:
    pods = table(history_limit=10)
    pods.create(pod())
    for number in range(30):
        pods.replace(KEY, pod(labels={"n": str(number)}))
    with pytest.raises(ApiRefusal):
        pods.changes_after(1)
    assert len(pods.changes_after(30)) == 1


def test_the_json_of_a_list_item_has_no_kind() -> None:
    stored = table().create(pod())
    assert not stored.tail().startswith(b"{")
    assert b'"kind"' not in stored.tail()


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merges_as_rfc_7386_shows(target: Any, patch: Any, merged: Any) -> None:
    assert merge_patched(target, patch) == merged


def test_every_way_to_go_is_told() -> None:
    gone: list[str] = []
    pods = table(removed=lambda last: gone.append(last["metadata"]["name"]))
    pods.create(pod())
    pods.delete(KEY, grace_seconds=0)
    assert gone == ["a"]
    pods.create(pod(name="held", finalizers=["batch.kubernetes.io/job-tracking"]))
    pods.delete(("n", "held"), grace_seconds=0)
    assert gone == ["a"]
    pods.replace(("n", "held"), pod(name="held"))
    assert gone == ["a", "held"]
