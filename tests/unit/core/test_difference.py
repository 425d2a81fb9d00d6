"""What sets one attempt apart from another, and where two logs part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.difference import Aspect, changes, cluster_changes
from archiver.core.divergence import diverge, masked
from archiver.core.filenames import safe_path, safe_paths
from archiver.core.stems import stem
from tests.fakes.manifests import manifest


def spec(
    *, image: str = "img:1", env: dict[str, str] | None = None, pool: str = "a100", **rest: object
) -> dict[str, object]:
    container = {
        "name": "ray-worker",
        "image": image,
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
    }
    template = {"spec": {"containers": [container], "nodeSelector": {"pool": pool}}}
    return {
        "entrypoint": "python a.py",
        "rayClusterSpec": {"workerGroupSpecs": [{"groupName": "gpu", "template": template}]},
        **rest,
    }


def test_each_change_is_told_once_with_its_aspect_most_telling_first() -> None:
    before = manifest(spec=spec(env={"REV": "1"}), images={"head": "sha256:a"}, nodes=("n1",))
    after = manifest(
        spec=spec(env={"REV": "2", "NEW": "x"}, pool="h100", entrypoint="python b.py", runtimeEnvYAML="pip: [a]"),
        images={"head": "sha256:b", "late": "sha256:c"},
        nodes=("n2",),
        versions={"ray": "2.53.0", "kuberay": "1.6.0", "archiver": "9"},
    )
    told = [
        (change.aspect, change.name.rpartition(".")[2], change.before, change.after)
        for change in changes(before, after)
    ]
    assert told == [
        (Aspect.ENTRYPOINT, "entrypoint", "python a.py", "python b.py"),
        (Aspect.IMAGE, "image digest of head", "sha256:a", "sha256:b"),
        (Aspect.ENV, "env NEW", None, "x"),
        (Aspect.ENV, "env REV", "1", "2"),
        (Aspect.RUNTIME_ENV, "runtime_env", None, "pip: [a]"),
        (Aspect.VERSION, "ray", "2.52.0", "2.53.0"),
        (Aspect.NODES, "nodes", "n1", "n2"),
        (Aspect.SPEC, "pool", "a100", "h100"),
    ]


def test_the_order_of_named_items_is_no_change() -> None:
    one = manifest(spec=spec(env={"A": "1", "B": "2"}))
    other = manifest(spec=spec(env={"B": "2", "A": "1"}))
    assert changes(one, other) == ()


def test_a_secret_is_never_shown() -> None:
    found = changes(manifest(spec=spec(env={"DB_PASSWORD": "hunter2"})), manifest(spec=spec()))
    assert [change.name for change in found] == ["env DB_PASSWORD"]
    assert "hunter2" not in repr(found)


def test_of_the_ray_cluster_only_what_the_ray_job_does_not_say() -> None:
    known = changes(manifest(spec={"suspend": True}), manifest(spec={"suspend": False}))
    found = cluster_changes({"suspend": True, "rayVersion": "2"}, {"suspend": False, "rayVersion": "3"}, known)
    assert [(change.aspect, change.name) for change in found] == [(Aspect.CLUSTER, "rayVersion")]
    assert cluster_changes(None, {"a": 1}, ()) == ()


def test_logs_part_where_they_say_something_else() -> None:
    old = [b"2026-03-01 12:00:00,1 start 7", b"", b"step=1 loss=0.5", b"done"]
    new = [b"2026-03-02 13:10:09,9 start 12", b"step=1 loss=0.7", b"\x1b[31mValueError: x\x1b[0m"]
    found = diverge(old, new)
    assert found is not None
    assert [line.text for line in found.shared] == ["2026-03-02 13:10:09,9 start 12", "step=1 loss=0.7"]
    assert (found.before and found.before.number, found.after and found.after.text) == (4, "ValueError: x")
    assert diverge(old, old) is None
    shorter = diverge(old, old[:3])
    assert shorter is not None
    assert (shorter.before is not None, shorter.after) == (True, None)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_can_be_compared(one: bytes, other: bytes) -> None:
    left, right = one.split(b"\n"), other.split(b"\n")
    assert diverge(left, left) is None
    assert (diverge(left, right) is None) == (diverge(right, left) is None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pod llama-head-x7k2p is up", "pod llama-head-q9w4z is up"),
        ("id 0123456789abcdef", "id fedcba9876543210"),
        ("10.0.0.1:6379", "10.0.13.7:6380"),
        ("took 1.5e-3 s", "took 12 s"),
    ],
)
def test_ids_times_and_numbers_are_the_runs_own(one: str, other: str) -> None:
    assert masked(one) == masked(other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nightly-etl-29012345-x7k2p", "nightly-etl"),
        ("nightly-etl", "nightly-etl"),
        ("llama-ft-7b", "llama-ft-7b"),
        ("sweep-20260301-14", "sweep"),
        ("job-abcde", "job-abcde"),
        ("-1", "-1"),
    ],
)
def test_a_generated_name_has_a_stem(name: str, expected: str) -> None:
    assert stem(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("logs/driver.log", "logs/driver.log"),
        ("../../etc/passwd", "etc/passwd"),
        ("/C:\\x\\y.", "C__x_y"),
        ("logs/NUL.log", "logs/_NUL.log"),
        ("a\u202egnp.exe", "a_gnp.exe"),
        ("", "unnamed"),
    ],
)
def test_a_name_becomes_a_path_that_windows_can_hold(name: str, expected: str) -> None:
    assert safe_path(name) == expected


@given(st.lists(st.text(max_size=150), max_size=8, unique=True))
def test_no_two_paths_are_the_same_but_for_case(names: list[str]) -> None:
    paths = safe_paths(names, taken=("manifest.json",))
    assert list(paths) == names
    folded = [path.casefold() for path in paths.values()]
    assert len({*folded, "manifest.json"}) == len(names) + 1
    for path in paths.values():
        assert all(part not in ("", ".", "..") and len(part) <= 120 for part in path.split("/"))
