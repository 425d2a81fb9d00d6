"""What a manifest says: nothing secret, GPU time idle before the first task, and completeness in true words."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from archiver.collect.raytimes import first_task_ms, has_no_tasks
from archiver.collect.record import RecordParts, Sources, build_manifest
from archiver.collect.snapshot import summarise
from archiver.collect.state import AttemptState
from archiver.core.manifest import ManifestState, to_json
from archiver.core.model import AttemptId, Completeness, Kind, RayJobId
from archiver.ports import Change, ChangeType

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PARTS = RecordParts(
    artifacts=(),
    sources=Sources((), (), (), ()),
    versions={},
    now=START + timedelta(seconds=100),
    safe_at=None,
    verdict=None,
)
SECRET = "AKIAIOSFODNN7EXAMPLE"


def state(message: str = "") -> AttemptState:
    fold = AttemptState(AttemptId(RayJobId("c", "n", "job", "uid"), 1))
    env = [{"name": "AWS_SECRET_ACCESS_KEY", "value": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}]
    container = {"name": "ray-worker", "env": env, "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    spec = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}}}
    job = {
        "metadata": {"name": "job", "namespace": "n", "uid": "uid"},
        "spec": spec,
        "status": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": message},
    }
    fold.apply(Change(Kind.RAYJOB, ChangeType.MODIFIED, job, START))
    pod: dict[str, Any] = {
        "metadata": {"name": "w", "namespace": "n", "uid": "p1"},
        "spec": {"containers": [container], "nodeName": "node-1"},
        "status": {"startTime": "2026-03-01T12:00:00Z"},
    }
    fold.apply(Change(Kind.POD, ChangeType.ADDED, pod, START))
    return fold


def test_no_secret_of_the_message_is_written() -> None:
    made = build_manifest(state(f"key {SECRET} refused"), PARTS, revision=1, manifest_state=ManifestState.FINAL)
    body = to_json(made)
    assert SECRET.encode() not in body
    assert made.outcome.message.startswith("key ")


def test_gpus_idle_until_the_first_task_and_for_ever_without_one() -> None:
    started_ms = (START + timedelta(seconds=30)).timestamp() * 1000

    def idle(**changed: Any) -> float | None:
        parts = replace(PARTS, **changed)
        return build_manifest(state(), parts, revision=1, manifest_state=ManifestState.FINAL).resources.gpu_idle_seconds

    assert idle() is None
    assert idle(first_task_ms=started_ms) == 8 * 30
    assert idle(has_no_tasks=True) == 8 * 100


def test_the_first_task_is_found_beyond_the_rows_that_are_kept() -> None:
    rows = [{"name": "t", "state": "FINISHED", "start_time_ms": 5000 - number} for number in range(900)]
    kept = summarise({"result": [*rows, {"start_time_ms": None}, {"start_time_ms": "soon"}]})
    assert first_task_ms({"ray/tasks.json": kept}) == 5000 - 899


def test_a_driver_that_never_reached_ray_had_no_task() -> None:
    assert has_no_tasks({"status": "FAILED", "job_id": None}, {})
    assert not has_no_tasks({"status": "RUNNING", "job_id": None}, {})
    assert not has_no_tasks({"status": "FAILED", "job_id": "02"}, {})
    assert has_no_tasks({"status": "FAILED", "job_id": "02"}, {"ray/tasks.json": {"result": []}})
    assert not has_no_tasks(None, {})


def test_the_margin_is_said_in_words() -> None:
    fold = state()
    fold.cluster_deleted_seen = START + timedelta(seconds=10)
    parts = replace(PARTS, safe_at=START + timedelta(seconds=8.2))
    made = build_manifest(fold, parts, revision=1, manifest_state=ManifestState.FINAL)
    assert made.completeness is Completeness.COMPLETE
    assert made.margin_seconds == 1.8
