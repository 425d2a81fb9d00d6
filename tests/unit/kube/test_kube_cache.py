"""The cache and its differences, held to a model: whatever is applied and relisted, the changes tell the same story."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.kube.cache import Cache, is_newer
from archiver.ports import ChangeType, Kind
from tests.fakes.kube.documents import kube_event, ray_pod

ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED


def document(name: str, uid: str, version: int, owner: str = "") -> dict[str, Any]:
    found = ray_pod(name)
    found["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    if owner:
        found["metadata"]["ownerReferences"] = [{"uid": owner, "kind": "RayCluster", "name": "c"}]
    return found


def types(differences: Any) -> list[tuple[ChangeType, str]]:
    return [(type_, found["metadata"]["uid"]) for type_, found in differences]


def relist(cache: Cache, *documents: dict[str, Any], version: int = 100) -> list[tuple[ChangeType, str]]:
    seen: set[str] = set()
    found = types(cache.relist(documents, seen))
    return found + types(cache.forget_unseen(seen, str(version)))


def test_tells_each_version_once() -> None:
    cache = Cache(Kind.POD)
    assert types(cache.apply(ADDED, document("a", "u1", 5))) == [(ADDED, "u1")]
    assert cache.apply(ADDED, document("a", "u1", 5)) == []
    assert cache.apply(MODIFIED, document("a", "u1", 4)) == [], "an older version is no news"
    assert types(cache.apply(MODIFIED, document("a", "u1", 6))) == [(MODIFIED, "u1")]


def test_calls_an_unknown_modified_object_added() -> None:
    assert types(Cache(Kind.POD).apply(MODIFIED, document("a", "u1", 5))) == [(ADDED, "u1")]


def test_a_deleted_object_does_not_come_back_by_a_repeated_event() -> None:
    cache = Cache(Kind.POD)
    cache.apply(ADDED, document("a", "u1", 5))
    assert types(cache.apply(DELETED, document("a", "u1", 7))) == [(DELETED, "u1")]
    assert cache.apply(DELETED, document("a", "u1", 7)) == []
    assert cache.apply(MODIFIED, document("a", "u1", 6)) == []


def test_an_object_that_returns_into_the_selector_is_added_again() -> None:
    cache = Cache(Kind.POD)
    cache.apply(ADDED, document("a", "u1", 5))
    cache.apply(DELETED, document("a", "u1", 7))
    assert types(cache.apply(ADDED, document("a", "u1", 9))) == [(ADDED, "u1")]


def test_a_relist_finds_what_a_gap_hid() -> None:
    cache = Cache(Kind.POD)
    relist(cache, document("kept", "u1", 1), document("changed", "u2", 2), document("deleted", "u3", 3))
    found = relist(cache, document("kept", "u1", 1), document("changed", "u2", 8), document("new", "u4", 9))
    assert found == [(MODIFIED, "u2"), (ADDED, "u4"), (DELETED, "u3")]


def test_a_namesake_with_another_uid_is_deleted_then_added() -> None:
    cache = Cache(Kind.POD)
    relist(cache, document("a", "old", 1))
    assert relist(cache, document("a", "new", 9)) == [(DELETED, "old"), (ADDED, "new")]
    assert types(cache.apply(ADDED, document("a", "newest", 12))) == [(DELETED, "new"), (ADDED, "newest")]


def test_finds_objects_by_name_uid_and_owner() -> None:
    cache = Cache(Kind.POD)
    cache.apply(ADDED, document("a", "u1", 1, owner="cluster-1"))
    cache.apply(ADDED, document("b", "u2", 2, owner="cluster-1"))
    assert [found["metadata"]["name"] for found in cache.children("cluster-1")] == ["a", "b"]
    cache.apply(MODIFIED, document("a", "u1", 3, owner="cluster-2"))
    assert [found["metadata"]["name"] for found in cache.children("cluster-1")] == ["b"]
    cache.apply(DELETED, document("b", "u2", 4))
    assert cache.children("cluster-1") == []
    assert cache.get("team-a", "b") is None
    found = cache.by_uid("u1")
    assert found is not None
    assert found == cache.get("team-a", "a")


def test_what_is_read_is_the_readers_own_copy() -> None:
    cache = Cache(Kind.POD)
    cache.apply(ADDED, document("a", "u1", 1))
    first = cache.get("team-a", "a")
    assert first is not None
    first["metadata"]["name"] = "broken"
    second = cache.get("team-a", "a")
    assert second is not None
    assert second["metadata"]["name"] == "a"


def test_keeps_bodies_of_the_newest_events_only() -> None:
    cache = Cache(Kind.EVENT, body_limit=2)
    for number in range(4):
        event = kube_event(f"e{number}", uid="pod-1")
        event["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(number + 1)}
        cache.apply(ADDED, event)
    assert [found["metadata"]["name"] for found in cache.children("pod-1")] == ["e2", "e3"]
    assert cache.get("team-a", "e0") is None
    again = kube_event("e0", uid="pod-1")
    again["metadata"] |= {"uid": "u0", "resourceVersion": "1"}
    assert cache.apply(ADDED, again) == [], "the identity stays known"
    assert sorted(types(cache.forget_unseen({"u3"}, "9"))) == [(DELETED, "u0"), (DELETED, "u1"), (DELETED, "u2")]
    assert len(cache) == 1


def test_versions_that_are_no_numbers_are_compared_for_equality() -> None:
    assert is_newer("abc", "abd")
    assert not is_newer("abc", "abc")
    assert is_newer("10", "9")
    assert not is_newer("9", "10")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_changes_lead_to_the_servers_state(data: st.DataObject) -> None:
    """A server's history with watches that break off anywhere and lists at any moment."""
    server: dict[str, dict[str, Any]] = {}
    history: list[tuple[ChangeType, dict[str, Any]]] = []
    cache, mirror, told = Cache(Kind.POD), dict[str, str](), set[tuple[str, str, bool]]()

    def take(differences: Any) -> None:
        for type_, found in list(differences):
            uid, version = found["metadata"]["uid"], found["metadata"]["resourceVersion"]
            delivery = (uid, version, type_ is DELETED)
            assert delivery not in told
            told.add(delivery)
            assert (uid in mirror) is (type_ is not ADDED)
            if type_ is DELETED:
                del mirror[uid]
            else:
                mirror[uid] = version

    for version in range(1, data.draw(st.integers(1, 40))):
        name = data.draw(st.sampled_from("abc"))
        if name in server and data.draw(st.booleans()):
            gone = {**server.pop(name)}
            gone["metadata"] = gone["metadata"] | {"resourceVersion": str(version)}
            history.append((DELETED, gone))
        else:
            is_new = name not in server
            uid = f"u{version}" if is_new else server[name]["metadata"]["uid"]
            server[name] = document(name, uid, version)
            history.append((ADDED if is_new else MODIFIED, server[name]))
        match data.draw(st.sampled_from(["watch", "replay", "miss", "relist"])):
            case "watch":
                take(cache.apply(*history[-1]))
            case "replay":
                for event in history[-3:]:
                    take(cache.apply(*event))
            case "relist":
                seen: set[str] = set()
                take(cache.relist(list(server.values()), seen))
                take(cache.forget_unseen(seen, str(version)))
    seen = set()
    take(cache.relist(list(server.values()), seen))
    take(cache.forget_unseen(seen, "999"))
    assert mirror == {o["metadata"]["uid"]: o["metadata"]["resourceVersion"] for o in server.values()}
    assert len(cache) == len(server)
